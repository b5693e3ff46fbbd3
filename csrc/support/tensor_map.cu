// The one way by which compiled kernels make tensor maps: CUTLASS calls the driver's function by this name (see the flags
// in build/compile.rs), so the program itself links without the driver's library and starts on machines without it.
#include <cuda.h>
#include <cuda_runtime.h>

extern "C" CUresult moebius_tensor_map_encode_tiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                                    void *address, const cuuint64_t *extents, const cuuint64_t *strides,
                                                    const cuuint32_t *box, const cuuint32_t *element_strides,
                                                    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                                    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  void *function = nullptr;
  cudaDriverEntryPointQueryResult found;
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  if (status != cudaSuccess || found != cudaDriverEntryPointSuccess) return CUDA_ERROR_NOT_SUPPORTED;
  return reinterpret_cast<decltype(&moebius_tensor_map_encode_tiled)>(function)(
      map, type, rank, address, extents, strides, box, element_strides, interleave, swizzle, promotion, fill);
}

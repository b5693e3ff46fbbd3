// The one way by which compiled kernels make tensor maps: CUTLASS calls the driver's function by this name (see the flags
// in build/compile.rs), so the program itself links without the driver's library and starts on machines without it.
//
// Hopper has no maps of packed FP4. A retargeted kernel (src/retarget) gets a map of bytes there instead, marked by its L2
// promotion, which nothing else asks for: the kernel halves its coordinates and extents where it uses a marked map.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstring>

namespace {

constexpr int kMostDimensions = 5;

// Where a map keeps what the rewritten instructions read of it: MARK of src/retarget/mod.rs, to which a test holds these.
constexpr unsigned kMarkOffset = 8, kMarkMask = 0x60000, kMarkPacked = 0x60000, kMarkSpread = 0x20000;
constexpr unsigned kBoxOffset = 56, kBoxShift = 0;

unsigned word_of(const CUtensorMap *map, unsigned offset) {
  unsigned word;
  std::memcpy(&word, reinterpret_cast<const char *>(map) + offset, sizeof word);
  return word;
}

// Hopper itself: the retargeted images run there alone.
bool on_hopper() {
  int device = 0, major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major == 9;
}

}  // namespace

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

  cuuint64_t bytes[kMostDimensions];
  cuuint32_t boxes[kMostDimensions];
  // Packed in shared memory, and with every 8 bytes in a line of 16.
  const bool packed = type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B;
  const bool spread = type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B;
  if ((packed || spread) && rank >= 1 && rank <= kMostDimensions && on_hopper()) {
    for (cuuint32_t d = 0; d < rank; ++d) {
      bytes[d] = extents[d];
      boxes[d] = box[d];
    }
    bytes[0] = (extents[0] + 1) / 2;
    if (packed) {
      boxes[0] = box[0] / 2;
    } else if (rank != 2 || box[0] != 128 || swizzle != CU_TENSOR_MAP_SWIZZLE_128B) {
      // src/retarget/ldmatrix.rs knows how rows of 128 bytes lie, and no others.
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    promotion = packed ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
    extents = bytes;
    box = boxes;
  }
  const CUresult result = reinterpret_cast<decltype(&moebius_tensor_map_encode_tiled)>(function)(
      map, type, rank, address, extents, strides, box, element_strides, interleave, swizzle, promotion, fill);
  if (result == CUDA_SUCCESS && box == boxes) {
    // A driver that lays maps out in another way must not lead to a wrong answer.
    const bool marked = (word_of(map, kMarkOffset) & kMarkMask) == (packed ? kMarkPacked : kMarkSpread);
    const bool rows = packed || ((word_of(map, kBoxOffset) >> kBoxShift) & 0xff) + 1 == boxes[1];
    if (!marked || !rows) return CUDA_ERROR_NOT_SUPPORTED;
  }
  return result;
}

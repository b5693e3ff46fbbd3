// The rate of the matrix units, with operands that never leave the multiprocessor: the arithmetic ceiling. Operands are
// pseudo-random, since constant ones draw less power and clock higher than any real product would.
#include "support/support.h"
#include "common/unit.cuh"

namespace {

constexpr uint32_t kThreads = 256;

__device__ inline uint32_t hash(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// Two bf16 of magnitude between 0.5 and 2, of random sign.
__device__ inline uint32_t random_bf16x2(uint32_t seed) { return (hash(seed) & 0x80ff80ffu) | 0x3f003f00u; }

// Four e4m3 of magnitude between 0.5 and 2, of random sign.
__device__ inline uint32_t random_e4m3x4(uint32_t seed) { return (hash(seed) & 0x8f8f8f8fu) | 0x30303030u; }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Two warpgroups a block, each multiplying a 64 x 64-byte by a 128 x 64-byte tile in shared memory (128-byte swizzle) over
// and over: wgmma.m64n128, whose accumulators are 64 registers a thread.
constexpr int kTileA = 64 * 128, kTileB = 128 * 128;

__device__ inline uint64_t descriptor(const void *tile) {
  const uint64_t address = __cvta_generic_to_shared(tile);
  return (address & 0x3ffff) >> 4 | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

#define MOEBIUS_F8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define MOEBIUS_WGMMA(INSTRUCTION, TAIL)                                                                               \
  asm volatile(INSTRUCTION                                                                                             \
               " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
               "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}," \
               " %64, %65, " TAIL ";"                                                                                  \
               : MOEBIUS_F8(0), MOEBIUS_F8(8), MOEBIUS_F8(16), MOEBIUS_F8(24), MOEBIUS_F8(32), MOEBIUS_F8(40),         \
                 MOEBIUS_F8(48), MOEBIUS_F8(56)                                                                        \
               : "l"(a), "l"(b))

template <uint32_t Kind>
__device__ void multiply(uint32_t iterations, float *sink) {
  extern __shared__ __align__(1024) uint32_t tiles[];
  for (uint32_t i = threadIdx.x; i < (kTileA + kTileB) / 4; i += blockDim.x) {
    tiles[i] = Kind == MOEBIUS_MMA_BF16 ? random_bf16x2(i) : random_e4m3x4(i);
  }
  asm volatile("fence.proxy.async.shared::cta;");
  __syncthreads();
  float d[64] = {};
  for (uint32_t i = 0; i < iterations; ++i) {
    asm volatile("wgmma.fence.sync.aligned;");
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const uint64_t a = descriptor(tiles) + k * 2, b = descriptor(tiles + kTileA / 4) + k * 2;
      if constexpr (Kind == MOEBIUS_MMA_BF16) {
        MOEBIUS_WGMMA("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", "1, 1, 1, 0, 0");
      } else {
        MOEBIUS_WGMMA("wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3", "1, 1, 1");
      }
    }
    asm volatile("wgmma.commit_group.sync.aligned;");
    asm volatile("wgmma.wait_group.sync.aligned 0;");
  }
  float sum = 0;
  for (float value : d) sum += value;
  if (sum == 1.2345f) *sink = sum;
}

#else

// Eight warps a block, each with eight independent accumulators.
constexpr int kChains = 8;

template <uint32_t Kind>
__device__ void multiply(uint32_t iterations, float *sink) {
  float d[kChains][4] = {};
  uint32_t a[4], b[2];
  for (int i = 0; i < 4; ++i) {
    const uint32_t seed = threadIdx.x * 8 + i;
    a[i] = Kind == MOEBIUS_MMA_BF16 ? random_bf16x2(seed) : Kind == MOEBIUS_MMA_FP8 ? random_e4m3x4(seed) : hash(seed);
  }
  for (int i = 0; i < 2; ++i) {
    const uint32_t seed = threadIdx.x * 8 + 4 + i;
    b[i] = Kind == MOEBIUS_MMA_BF16 ? random_bf16x2(seed) : Kind == MOEBIUS_MMA_FP8 ? random_e4m3x4(seed) : hash(seed);
  }
  for (uint32_t i = 0; i < iterations; ++i) {
#pragma unroll
    for (auto &c : d) {
      if constexpr (Kind == MOEBIUS_MMA_BF16) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
      }
#if __CUDA_ARCH__ >= 890
      if constexpr (Kind == MOEBIUS_MMA_FP8) {
        asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
      }
#endif
#if __CUDA_ARCH__ >= 1200
      if constexpr (Kind == MOEBIUS_MMA_NVFP4) {
        asm volatile(
            "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3 "
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, {%10}, {0, 0}, {%10}, {0, 0};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0x38383838u));
      }
#endif
    }
  }
  float sum = 0;
  for (auto &c : d) sum += c[0] + c[1] + c[2] + c[3];
  if (sum == 1.2345f) *sink = sum;
}
#endif

template <uint32_t Kind>
__global__ void __launch_bounds__(kThreads) mma_kernel(uint32_t iterations, float *sink) {
  multiply<Kind>(iterations, sink);
}

template <uint32_t Kind>
int32_t launch(uint32_t iterations, void *sink, uint32_t sm_count, bool warpgroup, double *operations, cudaStream_t stream,
               moebius_message *message) {
  constexpr double kDepth = Kind == MOEBIUS_MMA_BF16 ? 16 : Kind == MOEBIUS_MMA_FP8 ? 32 : 64;
  // wgmma: two warpgroups x four m64n128; mma.sync: eight warps x eight m16n8.
  const double products = warpgroup ? 2.0 * 4 * 64 * 128 * kDepth : 8.0 * 8 * 16 * 8 * kDepth;
  const uint32_t shared = warpgroup ? (64 + 128) * 128 : 0;
  const uint32_t blocks = 2 * sm_count;
  mma_kernel<Kind><<<blocks, kThreads, shared, stream>>>(iterations, static_cast<float *>(sink));
  MOEBIUS_TRY_CUDA(cudaGetLastError(), message);
  *operations = 2.0 * products * iterations * blocks;
  return MOEBIUS_OK;
}

}  // namespace

extern "C" int32_t moebius_support_mma(uint32_t kind, uint32_t iterations, void *sink, uint32_t sm_count,
                                       double *operations, moebius_stream stream, moebius_message *message) {
  int device = 0, major = 0, minor = 0;
  MOEBIUS_TRY_CUDA(cudaGetDevice(&device), message);
  MOEBIUS_TRY_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), message);
  MOEBIUS_TRY_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), message);
  const auto s = reinterpret_cast<cudaStream_t>(stream);
  const bool warpgroup = major == 9;
  switch (kind) {
    case MOEBIUS_MMA_BF16: return launch<MOEBIUS_MMA_BF16>(iterations, sink, sm_count, warpgroup, operations, s, message);
    case MOEBIUS_MMA_FP8:
      if (major * 10 + minor < 89) return moebius::unsupported(message, "sm_%d%d has no FP8 matrix instruction", major, minor);
      return launch<MOEBIUS_MMA_FP8>(iterations, sink, sm_count, warpgroup, operations, s, message);
    case MOEBIUS_MMA_NVFP4:
      if (major < 12) return moebius::unsupported(message, "sm_%d%d has no warp-level NVFP4 matrix instruction", major, minor);
      return launch<MOEBIUS_MMA_NVFP4>(iterations, sink, sm_count, false, operations, s, message);
    default: return moebius::failed(message, "unknown matrix instruction %u", kind);
  }
}

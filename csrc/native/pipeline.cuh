// A ring of shared-memory stages between one producer warp and many consumer warps: the bulk copy engine from sm_90 on,
// cp.async before it, both completing on an mbarrier.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace moebius_native {

__device__ inline uint32_t shared_address(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void barrier_init(uint64_t *barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count));
}

// Makes initialised barriers visible to the copy engine.
__device__ inline void barrier_init_fence() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

__device__ inline void barrier_arrive(uint64_t *barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(barrier)) : "memory");
}

__device__ inline void barrier_wait(uint64_t *barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .pred done;\n"
      "wait: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra wait; }" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
#else
  asm volatile(
      "{ .reg .pred done;\n"
      "wait: mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra wait; }" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
#endif
}

// Arrivals that complete a full barrier: that of announce(), and without the copy engine one of each producer lane.
#if __CUDA_ARCH__ >= 900
constexpr uint32_t kProducerArrivals = 1;
#else
constexpr uint32_t kProducerArrivals = 33;
#endif

// Announces the bytes of a stage, and releases what the lane wrote before. Called by one lane before any copy of the
// stage is issued.
__device__ inline void announce(uint64_t *barrier, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
#else
  barrier_arrive(barrier);
#endif
}

// For data that is read once: it is the first to leave L2.
__device__ inline uint64_t evict_first_policy() {
  uint64_t policy = 0;
#if __CUDA_ARCH__ >= 900
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

// Copies `bytes` (a multiple of 16, both ends 16-byte aligned) into shared memory. From sm_90 on the calling lane alone
// issues one bulk copy; before, it issues them in 16-byte pieces.
__device__ inline void copy_async(void *target, const void *source, uint32_t bytes, uint64_t *barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(target)),
               "l"(source), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
#else
  for (uint32_t at = 0; at < bytes; at += 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(target) + at),
                 "l"(static_cast<const char *>(source) + at)
                 : "memory");
  }
#endif
}

// The same with a policy for L2.
__device__ inline void copy_async(void *target, const void *source, uint32_t bytes, uint64_t *barrier, uint64_t policy) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
                   shared_address(target)),
               "l"(source), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
               : "memory");
#else
  copy_async(target, source, bytes, barrier);
#endif
}

// Ends a producer lane's copies of a stage.
__device__ inline void copies_issued(uint64_t *barrier) {
#if __CUDA_ARCH__ < 900
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}

// Orders this thread's writes to shared memory before later copies of the copy engine into the same place.
__device__ inline void writes_before_copies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Waits for `threads` threads of the block on barrier 1; the producer warp is not among them.
__device__ inline void consumers_sync(uint32_t threads) { asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory"); }

// Words that other blocks of the launch write or read; no order between them is promised.
__device__ inline uint4 load_relaxed(const uint4 *source) {
  uint4 v;
  asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(source) : "memory");
  return v;
}

__device__ inline void store_relaxed(uint4 *target, uint4 v) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(target), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

}  // namespace moebius_native

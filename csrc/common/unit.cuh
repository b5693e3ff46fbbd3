// Defines the moebius_unit of a translation unit, and turns every status into a message.
#pragma once

#include <cuda_runtime.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "abi.h"

// What the main kernel of a unit takes of a multiprocessor, as far as it is known without a GPU.
typedef struct moebius_footprint {
  uint32_t dynamic_shared;  // bytes per block
  uint32_t threads;         // per block
  uint32_t stages;          // pipeline depth, 0 when it has none
} moebius_footprint;

namespace moebius {

// Shared memory that one block can have on a chip: 99 KiB on 8.6 and 12.0, 227 KiB on 9.0 and 10.0. A kernel for every chip
// must fit the smallest.
constexpr uint32_t shared_limit(int chip) { return chip == 90 || chip == 100 ? 232448 : 101376; }

// One sentence of 255 bytes at most.
inline void write_message(moebius_message *message, const char *format, va_list arguments) {
  if (message != nullptr) {
    vsnprintf(message->text, sizeof(message->text), format, arguments);
  }
}

// The shape is outside this kernel by design: says which limit is missed, with its numbers.
__attribute__((format(printf, 2, 3))) inline int32_t unsupported(moebius_message *message, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_message(message, format, arguments);
  va_end(arguments);
  return MOEBIUS_UNSUPPORTED;
}

// A status that should not have come: names the call and the status.
__attribute__((format(printf, 2, 3))) inline int32_t failed(moebius_message *message, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_message(message, format, arguments);
  va_end(arguments);
  return MOEBIUS_FAILED;
}

// What a CUDA runtime call said, as a moebius code.
inline int32_t check(cudaError_t status, const char *call, moebius_message *message) {
  if (status == cudaSuccess) {
    return MOEBIUS_OK;
  }
  // The runtime remembers its last error: forget it, or the next kernel is blamed.
  (void)cudaGetLastError();
  return failed(message, "%s said %s: %s", call, cudaGetErrorName(status), cudaGetErrorString(status));
}

// Lays out a buffer: the same calls in sizes() (base null) and in plan() give the same offsets.
class Carver {
 public:
  explicit Carver(void *base) : base_(static_cast<char *>(base)) {}

  // `count` values of T at the next multiple of `alignment` bytes.
  template <class T>
  T *take(uint64_t count, uint64_t alignment = 256) {
    used_ = (used_ + alignment - 1) / alignment * alignment;
    T *start = base_ == nullptr ? nullptr : reinterpret_cast<T *>(base_ + used_);
    used_ += count * sizeof(T);
    return start;
  }

  // Bytes up to the end of what was taken.
  uint64_t used() const { return used_; }

 private:
  char *base_;
  uint64_t used_ = 0;
};

}  // namespace moebius

// Returns what a moebius call returned unless it went well.
#define MOEBIUS_TRY(expression)                 \
  do {                                          \
    const int32_t moebius_code_ = (expression); \
    if (moebius_code_ != MOEBIUS_OK) {          \
      return moebius_code_;                     \
    }                                           \
  } while (0)

// The same for a call of the CUDA runtime; the text of the call is part of the message.
#define MOEBIUS_TRY_CUDA(call, message) MOEBIUS_TRY(::moebius::check((call), #call, (message)))

// Defines the unit that kernels.toml named, from the static members of KERNEL (which may hold commas).
#define MOEBIUS_DEFINE_UNIT(...)                                                                                     \
  namespace {                                                                                                        \
  using MoebiusKernel = __VA_ARGS__;                                                                                 \
  }                                                                                                                  \
  static_assert(MoebiusKernel::kSharedBytes <= ::moebius::shared_limit(MOEBIUS_UNIT_CHIP),                           \
                "the tile and its stages do not fit the shared memory of the chip");                                 \
  extern "C" {                                                                                                       \
  extern const moebius_footprint MOEBIUS_UNIT_FOOTPRINT;                                                             \
  const moebius_footprint MOEBIUS_UNIT_FOOTPRINT = {MoebiusKernel::kSharedBytes, MoebiusKernel::kThreads,            \
                                                    MoebiusKernel::kStages};                                         \
  extern const moebius_unit MOEBIUS_UNIT_SYMBOL;                                                                     \
  const moebius_unit MOEBIUS_UNIT_SYMBOL = {                                                                         \
      MOEBIUS_ABI_VERSION,          MOEBIUS_UNIT_SCHEME,                MOEBIUS_UNIT_ID,                             \
      MoebiusKernel::weights_layout, MoebiusKernel::activations_layout, MOEBIUS_UNIT_VERSION,                        \
      MoebiusKernel::supports,      MoebiusKernel::sizes,               MoebiusKernel::pack_weights,                 \
      MoebiusKernel::pack_activations, MoebiusKernel::plan,             MoebiusKernel::run,                          \
      MoebiusKernel::destroy,       MoebiusKernel::resources};                                                       \
  }

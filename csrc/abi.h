/* The C ABI between the Rust harness and every compiled CUDA kernel.
 *
 * Each translation unit named in kernels.toml defines one `moebius_unit`. The harness never looks inside a plan; it
 * calls, in this order and for each slot: sizes, pack_weights (once a layer copy), pack_activations, plan, and then run
 * as often as it likes, inside a stream capture or outside. All pointers are device pointers unless named host.
 *
 * Canonical layouts (see src/operands/host.rs): weights [experts][n][k], activations [rows][k] sorted by expert, scales
 * beside them with k divided by the group, FP4 two values a byte with the lower k in the low nibble, output bf16
 * [rows][n]. A global always multiplies.
 */
#ifndef MOEBIUS_ABI_H
#define MOEBIUS_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOEBIUS_ABI_VERSION 1u

/* Returned by every call. */
#define MOEBIUS_OK 0
/* This kernel cannot compute this shape by design; the message says which limit is missed, with numbers. */
#define MOEBIUS_UNSUPPORTED 1
/* A status of CUDA or of the kernel library that should not have come; the message names it. */
#define MOEBIUS_FAILED 2

/* Parts of run(). */
#define MOEBIUS_RUN_PREPARE 1u /* what the kernel derives from the routing on the device */
#define MOEBIUS_RUN_GEMM 2u    /* the grouped GEMM */
#define MOEBIUS_RUN_ALL 3u

/* Number formats; the order of Scheme::ALL in src/kernel/id.rs. */
#define MOEBIUS_NVFP4_W4A4 0u
#define MOEBIUS_NVFP4_W4A16 1u
#define MOEBIUS_MXFP4_W4A8 2u
#define MOEBIUS_FP8_BLOCK 3u
#define MOEBIUS_FP8 4u
#define MOEBIUS_BF16 5u

typedef struct moebius_stream_s *moebius_stream; /* a CUstream, which is a cudaStream_t */

/* A message for a person: one sentence without a full stop, empty when the call returned MOEBIUS_OK. */
typedef struct moebius_message {
  char text[256];
} moebius_message;

/* What is known on the host before capture. The rows of each expert are not: they are on the device, in offsets. */
typedef struct moebius_shape {
  uint32_t experts;
  uint32_t n;
  uint32_t k;
  uint32_t rows;        /* rows of all experts together */
  uint32_t sm_count;    /* of the device */
  uint32_t act_globals; /* 1: one per layer; experts: one per expert (NVFP4 activations only) */
} moebius_shape;

/* Bytes of the buffers that the harness allocates (256-byte aligned) for this kernel and shape. */
typedef struct moebius_sizes {
  uint64_t packed_weights;     /* 0: reads the canonical weights */
  uint64_t packed_activations; /* 0: reads the canonical activations */
  uint64_t workspace;          /* one per slot */
} moebius_sizes;

typedef struct moebius_operands {
  const void *weights;
  const void *weight_scales;    /* null for bf16 */
  const float *weight_globals;  /* [experts], NVFP4 only */
  const void *activations;
  const void *activation_scales;
  const float *activation_globals; /* NVFP4 activations: [1] or [experts] */
  const int32_t *offsets;          /* [experts + 1], first row of each expert; rewritten between replays */
  void *out;                       /* bf16 [rows][n] */
  const void *packed_weights;
  const void *packed_activations;
  void *workspace;
} moebius_operands;

/* What the compiled kernel takes of a multiprocessor. */
typedef struct moebius_resources {
  uint32_t registers;      /* per thread */
  uint32_t static_shared;  /* bytes per block */
  uint32_t dynamic_shared; /* bytes per block */
  uint32_t local_bytes;    /* per thread: spills and stack */
  uint32_t threads;        /* per block */
  uint32_t stages;         /* pipeline depth, 0 when it has none */
} moebius_resources;

typedef struct moebius_unit {
  uint32_t abi_version;
  uint32_t scheme;
  const char *id;                 /* the whole kernel id */
  const char *weights_layout;     /* kernels with the same word share packed weights */
  const char *activations_layout; /* likewise */
  const char *version;            /* source version, such as "CUTLASS 4.5.0" */

  int32_t (*supports)(const moebius_shape *, moebius_message *);
  int32_t (*sizes)(const moebius_shape *, moebius_sizes *, moebius_message *);
  /* Canonical weights -> packed_weights of the same operands. Asynchronous on the stream. */
  int32_t (*pack_weights)(const moebius_shape *, const moebius_operands *, moebius_stream, moebius_message *);
  /* Canonical activations and offsets -> packed_activations. Asynchronous on the stream. */
  int32_t (*pack_activations)(const moebius_shape *, const moebius_operands *, moebius_stream, moebius_message *);
  /* Everything that may not be captured: arguments, descriptors, function attributes, workspace initialisation.
   * `plan` is host memory owned by the unit until destroy(). */
  int32_t (*plan)(const moebius_shape *, const moebius_operands *, moebius_stream, void **plan, moebius_message *);
  /* Only kernel launches, memsets and copies on the stream. `parts` is a set of MOEBIUS_RUN_*; pdl asks for programmatic
   * dependent launch where the kernel has it. */
  int32_t (*run)(void *plan, uint32_t parts, uint32_t pdl, moebius_stream, moebius_message *);
  void (*destroy)(void *plan);
  /* Loads the kernel on the current device and asks what it takes. */
  int32_t (*resources)(moebius_resources *, moebius_message *);
} moebius_unit;

#ifdef __cplusplus
}
#endif

#endif

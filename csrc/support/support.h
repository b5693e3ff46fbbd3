/* What the harness itself runs on a device: the reference, and what measures the device's limits. Compiled once for all
 * architectures of a build. A header of its own, so that a change here compiles no kernel again.
 */
#ifndef MOEBIUS_SUPPORT_H
#define MOEBIUS_SUPPORT_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A plain grouped GEMM with exact decode and f64 accumulation, to judge the others by. `rows` of the shape and the
 * operands are as for a unit (out, workspace and packed buffers unused). When `columns` is not null it holds
 * [experts][column_count] column numbers and only those are computed. Writes values and sums of |a*b|, both
 * [rows][column_count or n]. max_rows: the most rows of one expert. */
typedef struct moebius_reference {
  uint32_t scheme;
  uint32_t max_rows;
  uint32_t column_count;
  const int32_t *columns;
  double *values;
  float *abs_sums;
} moebius_reference;
int32_t moebius_support_reference(const moebius_shape *, const moebius_operands *, const moebius_reference *,
                                  moebius_stream, moebius_message *);

/* An empty kernel: one node of the launch floor. */
int32_t moebius_support_empty(moebius_stream, moebius_message *);

/* Streaming read, write and copy of `bytes` (a multiple of 16) with a grid that fills the device; `sink` keeps the reads
 * alive and takes 4 bytes. */
int32_t moebius_support_read(const void *source, uint64_t bytes, void *sink, uint32_t sm_count, moebius_stream,
                             moebius_message *);
int32_t moebius_support_write(void *target, uint64_t bytes, uint32_t sm_count, moebius_stream, moebius_message *);
int32_t moebius_support_copy(const void *source, void *target, uint64_t bytes, uint32_t sm_count, moebius_stream,
                             moebius_message *);

/* Keeps the matrix units of every multiprocessor busy with operands in registers; *operations (host) is what one launch
 * does. Unsupported where the chip lacks the instruction. */
#define MOEBIUS_MMA_BF16 0u
#define MOEBIUS_MMA_FP8 1u
#define MOEBIUS_MMA_NVFP4 2u
int32_t moebius_support_mma(uint32_t kind, uint32_t iterations, void *sink, uint32_t sm_count, double *operations,
                            moebius_stream, moebius_message *);

#ifdef __cplusplus
}
#endif

#endif

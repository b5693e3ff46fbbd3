// Kernel launches with the attributes that a graph can hold, and what a kernel takes of a multiprocessor.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/unit.cuh"

namespace moebius {

// Launches `kernel`; with `pdl` it may begin before the launch in front of it has ended, so it must wait by itself
// (griddepcontrol.wait) before it touches what that launch wrote or read. A cluster of 1x1x1 is no cluster.
template <class... Parameters, class... Values>
cudaError_t launch_cluster(void (*kernel)(Parameters...), dim3 grid, uint32_t threads, dim3 cluster,
                           size_t shared_bytes, cudaStream_t stream, bool pdl, Values &&...values) {
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  if (cluster.x * cluster.y * cluster.z > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs].val.clusterDim.x = cluster.x;
    attributes[config.numAttrs].val.clusterDim.y = cluster.y;
    attributes[config.numAttrs].val.clusterDim.z = cluster.z;
    ++config.numAttrs;
  }
  if (pdl) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs].val.programmaticStreamSerializationAllowed = 1;
    ++config.numAttrs;
  }
  return cudaLaunchKernelEx(&config, kernel, static_cast<Values &&>(values)...);
}

// The same without a cluster.
template <class... Parameters, class... Values>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, uint32_t threads, size_t shared_bytes,
                   cudaStream_t stream, bool pdl, Values &&...values) {
  return launch_cluster(kernel, grid, threads, dim3(1, 1, 1), shared_bytes, stream, pdl,
                        static_cast<Values &&>(values)...);
}

// Fills `resources` from the kernel image that the current device runs.
template <class... Parameters>
int32_t describe(void (*kernel)(Parameters...), uint32_t dynamic_shared, uint32_t threads, uint32_t stages,
                 moebius_resources *resources, moebius_message *message) {
  cudaFuncAttributes attributes;
  MOEBIUS_TRY_CUDA(cudaFuncGetAttributes(&attributes, kernel), message);
  resources->registers = uint32_t(attributes.numRegs);
  resources->static_shared = uint32_t(attributes.sharedSizeBytes);
  resources->dynamic_shared = dynamic_shared;
  resources->local_bytes = uint32_t(attributes.localSizeBytes);
  resources->threads = threads;
  resources->stages = stages;
  return MOEBIUS_OK;
}

}  // namespace moebius

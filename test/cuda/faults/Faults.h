//===- Faults.h - what planted faults share ----------------------*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_CUDA_FAULTS_FAULTS_H
#define DT_TEST_CUDA_FAULTS_FAULTS_H

#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <string>

/// Does a thing rightly, or with its fault. False: the numbers are wrong.
using Case = bool (*)(bool fault);
std::map<std::string, Case> &cases();

struct Register {
  Register(const char *name, Case run) { cases()[name] = run; }
};

void check(cudaError_t status);

/// Floats on the device, `value` each.
float *onDevice(size_t n, float value);
/// The first of them, when the stream is done.
float first(const float *data, cudaStream_t stream);
cudaStream_t makeStream();

/// A kernel that is started as the runtime starts them, but for the check.
template <typename... Parameters, typename... Arguments>
cudaError_t start(void (*kernel)(Parameters...), unsigned blocks,
                  unsigned threads, size_t shared, cudaStream_t stream,
                  Arguments... arguments) {
  cudaLaunchConfig_t configuration{};
  configuration.gridDim = dim3(blocks);
  configuration.blockDim = dim3(threads);
  configuration.dynamicSmemBytes = shared;
  configuration.stream = stream;
  return cudaLaunchKernelEx(&configuration, kernel,
                            static_cast<Parameters>(arguments)...);
}

/// data[i] += value.
__global__ void addKernel(float *data, size_t n, float value);

#endif // DT_TEST_CUDA_FAULTS_FAULTS_H

//===- Main.cu - one planted fault a run ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// faults NAME right|wrong: exit code 0, or 3 where the numbers are wrong.
//
//===----------------------------------------------------------------------===//

#include "test/cuda/faults/Faults.h"

#include <cstdio>
#include <cstdlib>

std::map<std::string, Case> &cases() {
  static std::map<std::string, Case> all;
  return all;
}

void check(cudaError_t status) {
  if (status == cudaSuccess)
    return;
  std::fprintf(stderr, "error: CUDA: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

__global__ void addKernel(float *data, size_t n, float value) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n)
    data[i] += value;
}

float *onDevice(size_t n, float value) {
  float *data = nullptr;
  check(cudaMalloc(&data, n * sizeof(float)));
  check(cudaMemsetAsync(data, 0, n * sizeof(float)));
  check(start(addKernel, unsigned((n + 255) / 256), 256, 0, nullptr, data, n,
              value));
  check(cudaStreamSynchronize(nullptr));
  return data;
}

float first(const float *data, cudaStream_t stream) {
  float value = 0;
  check(cudaMemcpyAsync(&value, data, sizeof value, cudaMemcpyDeviceToHost,
                        stream));
  return value;
}

cudaStream_t makeStream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
  return stream;
}

int main(int argc, char **argv) {
  if (argc != 3 || !cases().count(argv[1])) {
    for (auto &[name, run] : cases())
      std::printf("%s\n", name.c_str());
    return argc == 1 ? 0 : 2;
  }
  return cases()[argv[1]](argv[2] == std::string("wrong")) ? 0 : 3;
}

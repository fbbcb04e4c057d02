//===- Device.cu - memory, norm and optimizer on the GPU ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// runtime/device/Device.h for CUDA. One stream for everything: order on it is
// the order of the calls. The optimizer computes with the lines of
// runtime/Optimizers.h, as on the CPU.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Error.h"
#include "runtime/device/Device.h"
#include "runtime/device/cuda/Launch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <vector>

namespace dt::rt {

namespace {

cudaStream_t theStream = nullptr;
std::string description = "cuda";

struct Block {
  void *data = nullptr;
  size_t bytes = 0;
};
Block scratchBlocks[5];

/// Pinned memory that bytes for the device are copied to first. CUDA need not
/// do that for pageable memory (a GPU may read it when the copy runs), and the
/// caller uses its own again at once.
constexpr size_t kStaging = size_t(8) << 20;
char *staging = nullptr;
size_t staged = 0; ///< bytes that queued copies may still read

constexpr int kThreads = 256;
/// At most; how many, and so the order of additions, follows from n alone.
constexpr unsigned kSumBlocks = 1024;

/// Adds `value` over the block in a fixed tree; thread 0 has the sum.
__device__ double blockSum(double value) {
  __shared__ double part[kThreads];
  part[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (int(threadIdx.x) < half)
      part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  return part[0];
}

__global__ void accumulateKernel(float *sum, const float *values, size_t n) {
  for (size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * kThreads)
    sum[i] += values[i];
}

template <typename To, typename From>
__global__ void convertKernel(To *to, const From *from, size_t n) {
  for (size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * kThreads)
    to[i] = To(from[i]);
}

__global__ void squaresKernel(const float *values, size_t n, double *sums) {
  double sum = 0;
  for (size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * kThreads)
    sum += double(values[i]) * double(values[i]);
  sum = blockSum(sum);
  if (threadIdx.x == 0)
    sums[blockIdx.x] = sum;
}

template <size_t kept, typename Rule>
__global__ void updateKernel(Rule rule, float *p, const float *g,
                             Moments<float *> moments, size_t n) {
  for (size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * kThreads)
    updateElement<kept>(rule, p, g, moments, i);
}

} // namespace

void cuda::fail(const char *call, const char *reason) {
  std::fprintf(stderr, "error: CUDA: %s: %s\n", call, reason);
  // Handlers would use the device again.
  std::_Exit(1);
}

void cuda::failLaunch(const char *kernel, cudaError_t status) {
  fail((std::string("kernel ") + kernel).c_str(), cudaGetErrorString(status));
}

void *cuda::scratch(int purpose, size_t bytes) {
  Block &block = scratchBlocks[purpose];
  if (block.bytes < bytes) {
    // What is queued may still read the old block; cudaFree waits for it.
    check(cudaFree(block.data), "cudaFree");
    check(cudaMalloc(&block.data, bytes), "cudaMalloc of scratch");
    block.bytes = bytes;
  }
  return block.data;
}

const void *cuda::constantBytes(const void *host, size_t bytes) {
  if (bytes == 0)
    return nullptr;
  static std::map<const void *, void *> copies;
  void *&copy = copies[host];
  if (!copy) {
    check(cudaMalloc(&copy, bytes), "cudaMalloc of a table");
    // On the stream of its readers, which does not wait for the default stream:
    // cudaMemcpy may return before its copy from pageable memory is on the
    // device.
    check(cudaMemcpyAsync(copy, host, bytes, cudaMemcpyHostToDevice, theStream),
          "cudaMemcpy of a table");
    check(cudaStreamSynchronize(theStream), "cudaMemcpy of a table");
  }
  return copy;
}

namespace device {

bool isHost() { return false; }

std::string address() {
  char text[32];
  int device;
  cuda::check(cudaGetDevice(&device), "cudaGetDevice");
  cuda::check(cudaDeviceGetPCIBusId(text, sizeof text, device),
              "cudaDeviceGetPCIBusId");
  return text;
}

void initialize(int, int number) {
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0)
    throw Error(
        std::string("no usable GPU: ") +
        cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status));
  cudaDeviceProp properties;
  number %= count;
  cuda::check(cudaGetDeviceProperties(&properties, number),
              "cudaGetDeviceProperties");
  cuda::check(cudaSetDevice(number), "cudaSetDevice");
  cuda::check(cudaStreamCreateWithFlags(&theStream, cudaStreamNonBlocking),
              "cudaStreamCreate");
  description = std::string("cuda, ") + properties.name;
}

const char *describe() { return description.c_str(); }
void *stream() { return theStream; }
Fault *faultRecord() {
  static Fault *record = [] {
    void *memory = nullptr;
    cuda::check(cudaHostAlloc(&memory, sizeof(Fault), cudaHostAllocMapped),
                "cudaHostAlloc");
    return new (memory) Fault{};
  }();
  return record;
}

void synchronize() {
  cuda::check(cudaStreamSynchronize(theStream), "cudaStreamSynchronize");
  staged = 0;
}

void *allocate(size_t bytes, const char *what) {
  void *memory = nullptr;
  cudaError_t status = cudaMalloc(&memory, bytes ? bytes : 1);
  if (status != cudaSuccess)
    throw Error("cannot allocate " + std::to_string(bytes) +
                " bytes on the GPU for " + what + ": " +
                cudaGetErrorString(status));
  zero(memory, bytes);
  return memory;
}

void release(void *memory) { cuda::check(cudaFree(memory), "cudaFree"); }

void *allocatePinned(size_t bytes, const char *what) {
  void *memory = nullptr;
  cudaError_t status =
      cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocDefault);
  if (status != cudaSuccess)
    throw Error("cannot allocate " + std::to_string(bytes) +
                " bytes of pinned memory for " + what + ": " +
                cudaGetErrorString(status));
  return memory;
}

void releasePinned(void *memory) {
  cuda::check(cudaFreeHost(memory), "cudaFreeHost");
}

void copyToDevice(void *to, const void *host, size_t bytes) {
  if (!staging)
    cuda::check(cudaHostAlloc(&staging, kStaging, cudaHostAllocDefault),
                "cudaHostAlloc");
  for (size_t done = 0; done < bytes;) {
    if (staged == kStaging)
      synchronize();
    size_t n = std::min(bytes - done, kStaging - staged);
    std::memcpy(staging + staged, static_cast<const char *>(host) + done, n);
    cuda::check(cudaMemcpyAsync(static_cast<char *>(to) + done,
                                staging + staged, n, cudaMemcpyHostToDevice,
                                theStream),
                "cudaMemcpy to the device");
    done += n;
    staged = std::min((staged + n + 63) / 64 * 64, kStaging);
  }
}

void copyToHost(void *host, const void *from, size_t bytes) {
  if (bytes)
    cuda::check(
        cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, theStream),
        "cudaMemcpy to the host");
  synchronize();
}

void copy(void *to, const void *from, size_t bytes) {
  if (bytes)
    cuda::check(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, theStream),
        "cudaMemcpy");
}

void copyRows(void *to, size_t toStep, const void *from, size_t fromStep,
              size_t bytes, size_t count) {
  if (bytes && count)
    cuda::check(cudaMemcpy2DAsync(to, toStep, from, fromStep, bytes, count,
                                  cudaMemcpyDeviceToDevice, theStream),
                "cudaMemcpy of rows");
}

void zero(void *memory, size_t bytes) {
  if (bytes)
    cuda::check(cudaMemsetAsync(memory, 0, bytes, theStream), "cudaMemset");
}

void accumulate(float *sum, const float *values, size_t n) {
  if (n)
    cuda::launch("sum", accumulateKernel, cuda::blocksFor(int64_t(n)), kThreads,
                 0, theStream, sum, values, n);
}

double sumOfSquares(const float *values, size_t n) {
  auto *sums =
      static_cast<double *>(cuda::scratch(3, kSumBlocks * sizeof(double)));
  unsigned blocks = std::min(cuda::blocksFor(int64_t(n)), kSumBlocks);
  cuda::launch("sum of squares", squaresKernel, blocks, kThreads, 0, theStream,
               values, n, sums);
  std::vector<double> host(blocks);
  copyToHost(host.data(), sums, blocks * sizeof(double));
  double sum = 0;
  for (double part : host)
    sum += part;
  return sum;
}

void narrow(bf16 *to, const float *from, size_t n) {
  if (n)
    cuda::launch("narrow", convertKernel<bf16, float>,
                 cuda::blocksFor(int64_t(n)), kThreads, 0, theStream, to, from,
                 n);
}

void widen(float *to, const bf16 *from, size_t n) {
  if (n)
    cuda::launch("widen", convertKernel<float, bf16>,
                 cuda::blocksFor(int64_t(n)), kThreads, 0, theStream, to, from,
                 n);
}

void update(OptimizerKind kind, const UpdateStep &step, float *p,
            const float *g, const Moments<float *> &moments, size_t n,
            bf16 *working) {
  if (n == 0)
    return;
  withOptimizer(kind, step, [&](const auto &rule, auto kept) {
    using Rule = std::decay_t<decltype(rule)>;
    cuda::launch(describe(kind).name, updateKernel<decltype(kept)::value, Rule>,
                 cuda::blocksFor(int64_t(n)), kThreads, 0, theStream, rule, p,
                 g, moments, n);
  });
  if (working)
    narrow(working, p, n);
}

} // namespace device
} // namespace dt::rt

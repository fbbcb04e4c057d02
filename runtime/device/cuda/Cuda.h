//===- Cuda.h - errors, scratch and launches on the GPU ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What the CUDA half of the runtime shares. A CUDA failure in the middle of a
// step cannot be undone, so it ends the program with one line that names the
// call.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_CUDA_H
#define DT_RUNTIME_DEVICE_CUDA_CUDA_H

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

/// In a kernel: the block's dynamic shared memory as an array NAME of TYPE.
/// Kernels of any type share the one declaration that nvcc wants. Headers that
/// stand in for CUDA's have a macro of their own.
#ifndef DT_DYNAMIC_SHARED
#define DT_DYNAMIC_SHARED(TYPE, NAME)                                          \
  extern __shared__ __align__(16) unsigned char dtDynamicShared[];             \
  TYPE *const NAME = reinterpret_cast<TYPE *>(dtDynamicShared)
#endif

namespace dt::rt::cuda {

/// Ends the program: "CUDA: <call>: <reason>". While a device::Recording is
/// made it ends no more than that: it throws Error.
[[noreturn]] void fail(const char *call, const char *reason);

inline void check(cudaError_t status, const char *call) {
  if (status != cudaSuccess)
    fail(call, cudaGetErrorString(status));
}

/// Ends the program: "CUDA: kernel <name>: <reason>".
[[noreturn]] void failLaunch(const char *kernel, cudaError_t status);

/// device::rehearse(): copies do nothing, launches load their kernels.
inline bool rehearsing = false;
/// That is over: scratch is what it will be.
inline bool rehearsed = false;

/// Of the device: each may be kept by a block that spins.
inline int multiprocessors = 0;

/// A device::Recording is being made.
inline bool recording = false;

/// Whether the environment does not say NAME=off.
inline bool isWanted(const char *name) {
  const char *choice = std::getenv(name);
  return !choice || std::strcmp(choice, "off") != 0;
}

/// A stream of its own order. `urgent`: where kernels of several streams wait
/// for room on the GPU, its are the first.
cudaStream_t makeStream(bool urgent = false);
/// One that knows no times.
cudaEvent_t makeEvent();

/// An argument of a launch: a buffer of n elements that the kernel writes, and
/// it writes nothing else of the memory that it is given. Headers that stand in
/// for CUDA's may watch that (DT_WATCH_WRITES).
template <typename T> struct Out {
  T *data;
  int64_t n;
  operator T *() const { return data; }
};
template <typename T> Out<T> out(T *data, int64_t n) { return {data, n}; }

template <typename T> void announce(const T &) {}
template <typename T> void announce([[maybe_unused]] const Out<T> &written) {
#ifdef DT_WATCH_WRITES
  DT_WATCH_WRITES(written.data, size_t(written.n) * sizeof(T));
#endif
}

/// What a step's first launch would do, and then wait for the device's queues:
/// kernels of NCCL may spin there, for a rank that waits for this one.
template <typename Kernel> void load(const char *name, Kernel *kernel) {
  cudaFuncAttributes attributes;
  if (cudaError_t status = cudaFuncGetAttributes(&attributes, kernel);
      status != cudaSuccess)
    failLaunch(name, status);
}

/// Every kernel starts here. What CUDA refuses (too many blocks or too much
/// shared memory, no code for this GPU, a fault of work before) ends the
/// program with the kernel's name: nothing runs on with results that were never
/// computed.
template <typename... Parameters, typename... Arguments>
void launch(const char *name, void (*kernel)(Parameters...), unsigned blocks,
            unsigned threads, size_t sharedBytes, void *stream,
            Arguments... arguments) {
  if (rehearsing)
    return load(name, kernel);
  cudaLaunchConfig_t configuration{};
  configuration.gridDim = dim3(blocks);
  configuration.blockDim = dim3(threads);
  configuration.dynamicSmemBytes = sharedBytes;
  configuration.stream = static_cast<cudaStream_t>(stream);
  (announce(arguments), ...);
  cudaError_t status = cudaSuccess;
  if (sharedBytes > 48 << 10) // more than this a kernel must ask for
    status = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(sharedBytes));
  if (status == cudaSuccess)
    status = cudaLaunchKernelEx(&configuration, kernel,
                                static_cast<Parameters>(arguments)...);
  if (status != cudaSuccess)
    failLaunch(name, status);
}

/// The stream waits until a device::Snapshot has its copies, if there is one.
void awaitSnapshot();

/// Scratch on the device that only grows. One block a purpose (0 cuBLASLt, 1
/// and 2 convolution and attention, 3 cuDNN's workspace, 4 biases); valid until
/// the next request for the same purpose on the stream.
void *scratch(int purpose, size_t bytes);
/// What there is of it.
size_t scratchBytes(int purpose);
/// How often a block of it was freed for a larger one.
inline unsigned scratchMoves = 0;

/// Blocks of `threads` for n elements, at least one and within the grid's
/// limit: kernels stride over what is left.
inline unsigned blocksFor(int64_t n, int threads = 256) {
  int64_t blocks = (n + threads - 1) / threads;
  return unsigned(blocks<1 ? 1 : blocks>(1 << 20) ? (1 << 20) : blocks);
}

} // namespace dt::rt::cuda

#endif // DT_RUNTIME_DEVICE_CUDA_CUDA_H

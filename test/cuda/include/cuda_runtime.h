//===- cuda_runtime.h - CUDA's names, without CUDA --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The part of CUDA that DistTrain's runtime and generated sources use, for the
// host's compiler: docs/cuda-double.md. Names, types and values are CUDA's;
// kernels run on the host (Blocks.cpp), calls queue work (Streams.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_CUDA_INCLUDE_CUDA_RUNTIME_H
#define DT_TEST_CUDA_INCLUDE_CUDA_RUNTIME_H

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

//===--- The language

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
/// Of the thread that runs kernels, a block at a time: what is thread-local
/// there is the block's.
#define __shared__ static thread_local
#define DT_DYNAMIC_SHARED(TYPE, NAME)                                          \
  TYPE *NAME = static_cast<TYPE *>(cuda_double::dynamicShared())
#define DT_WATCH_WRITES(DATA, BYTES) cuda_double::announce(DATA, BYTES)

/// Of one dimension, as all launches are.
struct dim3 {
  unsigned x = 1;
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

/// `line`: which barrier it is.
void __syncthreads(int line = __builtin_LINE());

namespace cuda_double {
/// A barrier of a warp: all of its 32 lanes must be named and come. What they
/// bring becomes what `lane` brought; if that is beyond the warp, it stays.
void exchange(unsigned lanes, void *value, size_t bytes, unsigned lane,
              int line);
template <typename T>
T shuffle(unsigned lanes, T value, unsigned lane, int line) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4);
  exchange(lanes, &value, sizeof value, lane, line);
  return value;
}
} // namespace cuda_double
inline void __syncwarp(unsigned lanes = ~0u, int line = __builtin_LINE()) {
  cuda_double::shuffle(lanes, 0, 0, line);
}
template <typename T>
T __shfl_sync(unsigned lanes, T value, int lane, int line = __builtin_LINE()) {
  return cuda_double::shuffle(lanes, value, unsigned(lane) % 32, line);
}
template <typename T>
T __shfl_down_sync(unsigned lanes, T value, unsigned by,
                   int line = __builtin_LINE()) {
  return cuda_double::shuffle(lanes, value, threadIdx.x % 32 + by, line);
}

inline int atomicCAS_system(int *at, int expected, int value) {
  return __sync_val_compare_and_swap(at, expected, value);
}

template <typename T> constexpr T min(T a, T b) { return b < a ? b : a; }
template <typename T> constexpr T max(T a, T b) { return a < b ? b : a; }

//===--- The host's calls

#define DT_CUDA_ERRORS(ERROR)                                                  \
  ERROR(cudaSuccess, 0, "no error")                                            \
  ERROR(cudaErrorInvalidValue, 1, "invalid argument")                          \
  ERROR(cudaErrorMemoryAllocation, 2, "out of memory")                         \
  ERROR(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")    \
  ERROR(cudaErrorInsufficientDriver, 35,                                       \
        "CUDA driver version is insufficient")                                 \
  ERROR(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")          \
  ERROR(cudaErrorNotReady, 600, "device not ready")
#define DT_CUDA_ERROR(name, number, text) name = number,
enum cudaError_t { DT_CUDA_ERRORS(DT_CUDA_ERROR) };
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
};
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDefault = 0,
                   cudaEventDisableTiming = 2, cudaHostAllocDefault = 0,
                   cudaHostAllocMapped = 2;

using cudaStream_t = struct CUstream_st *;
using cudaEvent_t = struct CUevent_st *;

struct cudaDeviceProp {
  char name[256];
  size_t memPitch;
  int multiProcessorCount;
};

const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();

/// Devices have nothing of their own here: a process has one memory.
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
inline cudaError_t cudaDeviceGetPCIBusId(char *name, int length, int device) {
  __builtin_snprintf(name, size_t(length), "0000:%02x:00.0", device);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void **result, size_t bytes);
template <typename T> cudaError_t cudaMalloc(T **result, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void **>(result), bytes);
}
cudaError_t cudaFree(void *memory);
cudaError_t cudaHostAlloc(void **result, size_t bytes, unsigned flags);
template <typename T>
cudaError_t cudaHostAlloc(T **result, size_t bytes, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void **>(result), bytes, flags);
}
cudaError_t cudaFreeHost(void *memory);

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream = nullptr);
cudaError_t cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from,
                              size_t fromPitch, size_t width, size_t height,
                              cudaMemcpyKind kind,
                              cudaStream_t stream = nullptr);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes,
                            cudaStream_t stream = nullptr);

inline cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0, *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin,
                                 cudaEvent_t end);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *),
                               void *data);

using cudaGraph_t = struct CUgraph_st *;
using cudaGraphExec_t = cudaGraph_t;
using cudaGraphNode_t = struct CUgraphNode_st *;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes,
                              size_t *count);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *instance, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t instance);

//===--- Launches

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

namespace cuda_double {

void *dynamicShared();
inline std::map<const void *, size_t> mostShared; ///< that kernels asked for
/// The first use of a kernel loads it.
void loadKernel(const void *kernel);
/// The next launch writes these bytes.
void announce(const void *data, size_t bytes);

/// A kernel with its arguments.
struct Call {
  const void *kernel;
  std::function<void()> thread;        ///< runs one
  std::vector<const void *> addresses; ///< an argument each; null: no pointer
  std::vector<std::pair<const void *, size_t>> writes = {}; ///< if announced
};

cudaError_t launch(const cudaLaunchConfig_t &configuration, Call call);

template <typename T> const void *addressIn(T *argument) { return argument; }
template <typename T> const void *addressIn(const T &) { return nullptr; }

} // namespace cuda_double

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
template <typename T>
cudaError_t cudaFuncSetAttribute(T *kernel, cudaFuncAttribute, int bytes) {
  cuda_double::mostShared[reinterpret_cast<const void *>(kernel)] = bytes;
  return cudaSuccess;
}
struct cudaFuncAttributes {
  int numRegs;
};
template <typename T>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, T *kernel) {
  cuda_double::loadKernel(reinterpret_cast<const void *>(kernel));
  return cudaSuccess;
}
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *configuration,
                               void (*kernel)(Parameters...),
                               Arguments... arguments) {
  return cuda_double::launch(
      *configuration, {reinterpret_cast<const void *>(kernel),
                       [=] { kernel(arguments...); },
                       {cuda_double::addressIn(Parameters(arguments))...}});
}

#endif // DT_TEST_CUDA_INCLUDE_CUDA_RUNTIME_H

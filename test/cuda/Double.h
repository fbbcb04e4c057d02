//===- Double.h - the parts of the double -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What the files of the double share: docs/cuda-double.md says what it is.
// Calls from host threads are taken one at a time; device work runs on threads
// of its own.
// What is global is never destroyed, as work may run until the process ends.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_CUDA_DOUBLE_H
#define DT_TEST_CUDA_DOUBLE_H

#include "cuda_runtime.h"
#include "runtime/device/BFloat16.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>

namespace cuda_double {

/// The parts one behind another, as streams print them.
template <typename... Parts> std::string text(const Parts &...parts) {
  return (std::ostringstream() << ... << parts).str();
}

/// Ends the program: "error: CUDA double: ...".
template <typename... Parts> [[noreturn]] void die(const Parts &...parts) {
  std::cerr << text("error: CUDA double: ", parts..., "\n") << std::flush;
  _exit(1);
}

/// What the program has called: "cudaMalloc".
inline std::string &currentCall = *new std::string;
/// Ends the program: "error: CUDA double: cudaMalloc: ...".
template <typename... Parts> [[noreturn]] void reject(const Parts &...parts) {
  die(currentCall, ": ", parts...);
}

/// A variable of the environment that is a number.
inline uint64_t setting(const char *name, uint64_t otherwise) {
  const char *value = std::getenv(name);
  return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

/// A number below n > 0, from the seed and how many were drawn before.
uint64_t draw(uint64_t n);
/// 0 to n - 1 in an order that is drawn.
std::vector<uint64_t> drawOrder(uint64_t n);

/// Of the device.
int multiprocessors();

/// What DT_CUDA_DOUBLE_STATS says, by its names there.
inline auto &counts = *new std::map<std::string_view, uint64_t>;

/// Held by an Entry.
inline std::mutex &entryMutex = *new std::mutex;
/// Every call begins with one: nobody else calls meanwhile, and an error that
/// an earlier call returned has been looked at.
struct Entry {
  explicit Entry(const char *call = __builtin_FUNCTION());
  std::lock_guard<std::mutex> lock{entryMutex};
};

/// What a call returns that is refused. `detail` is in cudaGetErrorString.
cudaError_t refuse(cudaError_t error, const std::string &detail);

/// "kernel NAME", by the program's symbols; of null: a copy or a library's.
std::string nameOf(const void *kernel);

//===--- Memory.cpp

constexpr size_t kPage = 4096;
constexpr int kPoison = 0xFF; ///< as a float: not a number

inline size_t roundUp(size_t n, size_t to) { return (n + to - 1) / to * to; }
/// Addresses that nobody may touch.
char *reserve(size_t bytes);
/// Ends the program unless [address, address + bytes) is in one allocation of
/// device memory, aligned as promised. `what`: what it is to the current call.
void requireDevice(const void *address, size_t bytes, const std::string &what,
                   int64_t alignment = 1);
/// ... where the first byte is device memory.
void requireHost(const void *address, const std::string &what);
/// An argument of a kernel: device memory, or host memory that it may read.
void requireReadable(const void *address, const void *kernel, size_t argument);
bool isPinned(const void *address);
/// Runs a kernel; ends the program where it writes other bytes than those it
/// announced, if it did, to the allocations that it is given.
void watch(const Call &call, const std::function<void()> &run);

/// Opens device memory, or closes it. Work that runs opens it once it needs it,
/// as what waits for other processes is tried often.
void openMemory(bool opens);
/// What runs has written nothing beside an allocation.
void checkBeside();

//===--- Streams.cpp

void queue(cudaStream_t stream, std::function<void()> work);
struct Work;
using WorkPtr = std::shared_ptr<Work>;
/// Queues work that waits for other processes, behind `before` (may be null):
/// it is tried, whoever may wait for it elsewhere, until it returns true, and
/// other streams' work goes on meanwhile.
WorkPtr queueAttempts(cudaStream_t stream, std::function<bool()> attempt,
                      const WorkPtr &before);
/// Runs what is in the stream, and what that waits for.
void finish(cudaStream_t stream);
void finishAll();
/// Ends the program where this thread captures a graph and it cannot have this.
void requireCapturable(std::string_view call);
/// Of the work that runs now; null: none, or a copy's.
inline const void *runningKernel = nullptr;
inline std::thread::id deviceThread; ///< while device work runs

//===--- Blocks.cpp

/// Bounds of one launch.
constexpr unsigned kMostThreads = 1024;
constexpr size_t kPlainShared = 48 << 10, kMostShared = 99 << 10; ///< if asked

/// All blocks of a kernel. On a device thread.
void runBlocks(const Call &call, const cudaLaunchConfig_t &launch);
/// Whether an address lies behind the block's dynamic shared memory.
bool isBehindShared(const void *address);

//===--- Tensor.cpp: what descriptors of libraries say, and what they compute

using dt::rt::bf16;
using Sizes = std::vector<int64_t>;
using Floats = std::vector<float>;

/// Element (i, j, ...) is number i * strides[0] + j * strides[1] + ...
struct Tensor {
  Sizes sizes = {}, strides = {};
  bool narrow = false; ///< bf16, else float
  void *data = nullptr;
  int64_t alignment = 1; ///< of data, promised
  int64_t id = 0;
  /// Of an operation's: it has data from where a graph begins to run, or has
  /// never any, or it is a number of the host's.
  enum { Memory, Inside, Host } place = Memory;

  int64_t count() const {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t(1),
                           std::multiplies<>());
  }
  /// Bytes from its first to its last element.
  size_t span() const {
    int64_t last = 0;
    for (size_t i = 0; i < sizes.size(); ++i)
      last += (sizes[i] - 1) * strides[i];
    return size_t(last + 1) * (narrow ? 2 : 4);
  }
  bool overlaps(const Tensor &other) const {
    auto *from = static_cast<const char *>(data),
         *its = static_cast<const char *>(other.data);
    return from && its && from < its + other.span() && its < from + span();
  }
  /// On the device, as was promised.
  void require(const std::string &what) const {
    requireDevice(data, span(), what, alignment);
  }
};

/// A tensor's elements, densely.
Floats read(const Tensor &t);
/// values + beta * c, which may be anything, and is not read, if beta is 0.
void write(const Tensor &to, const Floats &values, float beta = 0,
           const Tensor &c = {});
/// Queues what a library computes. The program ends where its workspace is no
/// device memory; what stands there is gone.
void queueCall(cudaStream_t stream, void *workspace, size_t bytes,
               std::function<void()> work);

/// An operation of cuDNN. Without data, a tensor is inside of the graph.
struct Step {
  /// Of a convolution one tensor is computed from the two others: w [o, c /
  /// groups, kernel...], x [n, c, in...] or y [n, o, out...].
  enum Kind { Pointwise, Reduction, Matmul, Reshape, ConvW, ConvX, ConvY } kind;
  int mode = 0;     ///< cuDNN's, of what is pointwise or a reduction
  int64_t axis = 0; ///< of an index
  struct {
    Sizes before, after, stride, dilation; ///< in each dim of x
  } window = {};
  bool tf32 = false; ///< operands are rounded to that first
  float alpha = 1, beta = 0;
  std::vector<Tensor> operands = {};
  Tensor result = {};

  bool convolves() const { return kind >= ConvW; }
  /// w, x or y.
  const Tensor &of(Kind which) const {
    size_t i = size_t(which - ConvW);
    return which == kind ? result : operands[which > kind ? i - 1 : i];
  }
  int64_t groups() const { return of(ConvX).sizes[1] / of(ConvW).sizes[1]; }
};
/// Ends the program where operands and sizes do not go together. Where one size
/// divides the other, neighbours share an element.
void check(const Step &step);
using Operands = std::vector<Floats *>; ///< their elements, densely
/// The result but for beta.
Floats compute(const Step &step, const Operands &operands);
/// `values`: of tensors that have no place on the device, by their ids.
void run(const std::vector<Step> &steps, std::map<int64_t, Floats> values);

} // namespace cuda_double

#endif // DT_TEST_CUDA_DOUBLE_H

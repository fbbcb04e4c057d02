//===- Runtime.cpp - errors, copies and launches ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <link.h>
#include <numeric>
#include <unistd.h>
#include <utility>

namespace cuda_double {

Counts counts;

namespace {

std::mutex &mutex = *new std::mutex;

/// Where the program was loaded, over what its file says.
uintptr_t loadedAt() {
  uintptr_t at = 0;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *result) {
        *static_cast<uintptr_t *>(result) = info->dlpi_addr;
        return 1; // the program is the first
      },
      &at);
  return at;
}

/// The newest error that a call returned.
struct Refusal {
  cudaError_t error = cudaSuccess;
  const char *call = "";
  std::string kernel, detail, text;
  bool seen = true;
};
Refusal &refusal = *new Refusal;
const char *currentCall = "";

const char *describe(cudaError_t error) {
  switch (error) {
  case cudaSuccess:
    return "no error";
  case cudaErrorInvalidValue:
    return "invalid argument";
  case cudaErrorMemoryAllocation:
    return "out of memory";
  case cudaErrorInvalidConfiguration:
    return "invalid configuration argument";
  case cudaErrorNoDevice:
    return "no CUDA-capable device is detected";
  case cudaErrorInvalidDevice:
    return "invalid device ordinal";
  case cudaErrorInvalidResourceHandle:
    return "invalid resource handle";
  case cudaErrorNotReady:
    return "device not ready";
  }
  return "unrecognized error code";
}

void requireSeen(const char *next) {
  if (!refusal.seen)
    die("%s%s returned an error (%s: %s), and the program went on without a "
        "look at it, to %s",
        refusal.call, refusal.kernel.c_str(), describe(refusal.error),
        refusal.detail.c_str(), next);
}

void atEnd() {
  std::fflush(nullptr);
  requireSeen("its end");
  if (std::getenv("DT_CUDA_DOUBLE_STATS"))
    std::fprintf(
        stderr,
        "CUDA double: kernels %" PRIu64 ", copies %" PRIu64
        ", products %" PRIu64 ", host waits %" PRIu64 ", allocations %" PRIu64
        ", uses of the default stream %" PRIu64 "\n",
        counts.kernels, counts.copies, counts.products, counts.hostWaits,
        counts.allocations, counts.defaultStreamUses);
}

uint64_t &state() {
  static uint64_t theState = [] {
    const char *seed = std::getenv("DT_CUDA_DOUBLE_SEED");
    return seed ? std::strtoull(seed, nullptr, 10) : 1;
  }();
  return theState;
}

} // namespace

void die(const char *format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  char line[1024];
  std::vsnprintf(line, sizeof line, format, arguments);
  std::fprintf(stderr, "error: CUDA double: %s\n", line);
  std::fflush(stderr);
  _exit(1);
}

uint64_t draw(uint64_t n) { // SplitMix64
  uint64_t z = state() += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (z ^ (z >> 31)) % n;
}

Order::Order(uint64_t n) : n(n), at(0), stride(n > 1 ? 1 : 0) {
  switch (draw(4)) { // up and down are likely
  case 0:
    return;
  case 1:
    at = stride = n - 1;
    return;
  }
  at = draw(n);
  do
    stride = draw(n);
  while (std::gcd(stride, n) != 1);
}

std::mutex &entryMutex() { return mutex; }

Entry::Entry(const char *call) : lock(mutex) {
  static bool first = true;
  if (first)
    std::atexit(atEnd);
  first = false;
  requireSeen(call);
  currentCall = call;
}

cudaError_t refuse(cudaError_t error, const char *detail, ...) {
  std::va_list arguments;
  va_start(arguments, detail);
  char text[256];
  std::vsnprintf(text, sizeof text, detail, arguments);
  va_end(arguments);
  refusal = {error, currentCall, "", text, "", false};
  return error;
}

/// By the symbols that the linker left in the program's file.
std::string nameOf(const void *kernel) {
  char text[512];
  auto address = reinterpret_cast<uintptr_t>(kernel) - loadedAt();
  std::snprintf(text, sizeof text,
                "nm -C /proc/%d/exe | grep -i '^%016zx [tw] '", int(getpid()),
                size_t(address));
  std::string name;
  if (FILE *symbols = popen(text, "r")) {
    if (std::fgets(text, sizeof text, symbols))
      name = text + 19; // behind the address and a letter
    pclose(symbols);
  }
  // "void k<float>(float*)" is "k<float>"; "(anonymous namespace)::k" stays.
  int depth = 0;
  for (size_t i = name.size(); i-- > 0;) {
    depth += (name[i] == ')') - (name[i] == '(');
    if (depth == 0 && name[i] == '(') {
      name.resize(i);
      break;
    }
  }
  if (name.empty())
    return "kernel at " + std::to_string(address);
  return "kernel " + (name.rfind("void ", 0) == 0 ? name.substr(5) : name);
}

cudaError_t launch(const cudaLaunchConfig_t &c, Call call) {
  Entry entry("cudaLaunchKernelEx");
  uint64_t threads = uint64_t(c.blockDim.x) * c.blockDim.y * c.blockDim.z;
  cudaError_t status = cudaSuccess;
  if (threads == 0 || threads > kMostThreads)
    status = refuse(cudaErrorInvalidConfiguration,
                    "%" PRIu64 " threads a block, 1 to %u are possible",
                    threads, kMostThreads);
  else if (c.gridDim.x == 0 || c.gridDim.y == 0 || c.gridDim.z == 0 ||
           c.gridDim.x > 0x7fffffffu || c.gridDim.y > 65535 ||
           c.gridDim.z > 65535)
    status = refuse(cudaErrorInvalidConfiguration, "%u x %u x %u blocks",
                    c.gridDim.x, c.gridDim.y, c.gridDim.z);
  else if (c.dynamicSmemBytes > kMostShared)
    status = refuse(cudaErrorInvalidValue,
                    "%zu bytes of dynamic shared memory, %zu are possible",
                    c.dynamicSmemBytes, kMostShared);
  if (status != cudaSuccess) {
    refusal.kernel = " of " + nameOf(call.kernel);
    return status;
  }
  for (size_t i = 0; i < call.addresses.size(); ++i)
    requireReadable(call.addresses[i], call.kernel, i + 1);
  counts.kernels++;
  const void *kernel = call.kernel;
  queue(
      c.stream,
      [call = std::move(call), c] {
        runBlocks(call, c.gridDim, c.blockDim, c.dynamicSmemBytes);
      },
      kernel);
  return cudaSuccess;
}

namespace {

bool readsPageableLate() {
  const char *how = std::getenv("DT_CUDA_DOUBLE_PAGEABLE");
  return how && std::strcmp(how, "late") == 0;
}

/// Queues a copy; true: the host may go on.
bool copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
          cudaStream_t stream) {
  std::string call = currentCall, target = call + ": the target",
              source = call + ": the source";
  counts.copies++;
  if (bytes == 0)
    return true;
  if (kind == cudaMemcpyDeviceToHost)
    requireHost(to, target);
  else
    requireDevice(to, bytes, target);
  if (kind == cudaMemcpyHostToDevice)
    requireHost(from, source);
  else
    requireDevice(from, bytes, source);
  if (kind == cudaMemcpyHostToDevice && !isPinned(from) &&
      !readsPageableLate()) {
    auto *bytesOf = static_cast<const char *>(from);
    queue(stream, [to, staged = std::vector<char>(bytesOf, bytesOf + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
    return true;
  }
  queue(stream, [=] { std::memmove(to, from, bytes); });
  return kind != cudaMemcpyDeviceToHost || isPinned(to);
}

} // namespace
} // namespace cuda_double

using namespace cuda_double;

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  Entry entry("cudaMemcpyAsync");
  if (!copy(to, from, bytes, kind, stream))
    finish(stream);
  return cudaSuccess;
}

/// On the default stream. Does not wait where CUDA says it may not: for the
/// end of a copy from pageable memory, and within the device.
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes,
                       cudaMemcpyKind kind) {
  Entry entry("cudaMemcpy");
  copy(to, from, bytes, kind, nullptr);
  if (kind == cudaMemcpyDeviceToHost ||
      (kind == cudaMemcpyHostToDevice && isPinned(from)))
    finish(nullptr);
  return cudaSuccess;
}

/// Within the device only.
cudaError_t cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from,
                              size_t fromPitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  Entry entry("cudaMemcpy2DAsync");
  counts.copies++;
  if (kind != cudaMemcpyDeviceToDevice || width > toPitch || width > fromPitch)
    return refuse(cudaErrorInvalidValue,
                  "rows of %zu bytes, %zu and %zu from one to the next", width,
                  toPitch, fromPitch);
  if (width == 0 || height == 0)
    return cudaSuccess;
  requireDevice(to, (height - 1) * toPitch + width,
                "cudaMemcpy2DAsync: the target");
  requireDevice(from, (height - 1) * fromPitch + width,
                "cudaMemcpy2DAsync: the source");
  queue(stream, [=] {
    for (size_t i = 0; i < height; ++i)
      std::memcpy(static_cast<char *>(to) + i * toPitch,
                  static_cast<const char *>(from) + i * fromPitch, width);
  });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
                            cudaStream_t stream) {
  Entry entry("cudaMemsetAsync");
  counts.copies++;
  if (bytes == 0)
    return cudaSuccess;
  requireDevice(to, bytes, "cudaMemsetAsync: the target");
  queue(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error) {
  std::lock_guard<std::mutex> lock(mutex);
  if (error != refusal.error || error == cudaSuccess)
    return describe(error);
  refusal.seen = true;
  refusal.text = std::string(describe(error)) + " (" + refusal.detail +
                 refusal.kernel + ")";
  return refusal.text.c_str();
}

cudaError_t cudaGetLastError() {
  std::lock_guard<std::mutex> lock(mutex);
  refusal.seen = true;
  return std::exchange(refusal.error, cudaSuccess);
}

/// Devices have nothing of their own here but a number: each process has one
/// memory.
static int deviceCount() {
  const char *text = std::getenv("DT_CUDA_DOUBLE_DEVICES");
  return text ? std::atoi(text) : 1;
}
static int currentDevice = 0;

cudaError_t cudaGetDeviceCount(int *count) {
  Entry entry("cudaGetDeviceCount");
  *count = deviceCount();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
  Entry entry("cudaGetDeviceProperties");
  *properties = {"the double of a GPU"};
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
  Entry entry("cudaGetDevice");
  *device = currentDevice;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  Entry entry("cudaSetDevice");
  if (device < 0 || device >= deviceCount())
    return refuse(cudaErrorInvalidDevice, "%d of %d", device, deviceCount());
  currentDevice = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device) {
  Entry entry("cudaDeviceGetPCIBusId");
  std::snprintf(text, size_t(length), "0000:%02x:00.0", device);
  return cudaSuccess;
}

//===- Runtime.cpp - errors, copies and launches ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <link.h>
#include <numeric>
#include <unistd.h>
#include <utility>

namespace cuda_double {

Counts counts;

namespace {

std::mutex &mutex = *new std::mutex;

/// Where the program, the first of all objects, was loaded over what its file
/// says.
int findProgram(dl_phdr_info *info, size_t, void *result) {
  *static_cast<uintptr_t *>(result) = info->dlpi_addr;
  return 1;
}

/// The newest error that a call returned.
struct Refusal {
  cudaError_t error = cudaSuccess;
  const char *call = "";
  std::string kernel, detail, whole;
  bool seen = true;
};
Refusal &refusal = *new Refusal;
const char *currentCall = "";

const char *describe(cudaError_t error) {
  constexpr std::pair<cudaError_t, const char *> kErrors[] = {
      {cudaSuccess, "no error"},
      {cudaErrorInvalidValue, "invalid argument"},
      {cudaErrorMemoryAllocation, "out of memory"},
      {cudaErrorInvalidConfiguration, "invalid configuration argument"},
      {cudaErrorNoDevice, "no CUDA-capable device is detected"},
      {cudaErrorInvalidDevice, "invalid device ordinal"},
      {cudaErrorInvalidResourceHandle, "invalid resource handle"},
      {cudaErrorNotReady, "device not ready"}};
  for (auto [known, name] : kErrors)
    if (known == error)
      return name;
  return "unrecognized error code";
}

void requireSeen(const char *next) {
  if (!refusal.seen)
    die(refusal.call, refusal.kernel, " returned an error (",
        describe(refusal.error), ": ", refusal.detail,
        "), and the program went on without a look at it, to ", next);
}

void atEnd() {
  std::fflush(nullptr);
  requireSeen("its end");
  if (setting("DT_CUDA_DOUBLE_STATS"))
    std::cerr << "CUDA double: kernels " << counts.kernels << ", copies "
              << counts.copies << ", products " << counts.products
              << ", host waits " << counts.hostWaits << ", allocations "
              << counts.allocations << ", uses of the default stream "
              << counts.defaultStreamUses << std::endl;
}

} // namespace

void end(const std::string &line) {
  std::cerr << "error: CUDA double: " + line + "\n" << std::flush;
  _exit(1);
}

const char *setting(const char *name, const char *otherwise) {
  const char *value = std::getenv(name);
  return value ? value : otherwise;
}

uint64_t draw(uint64_t n) { // SplitMix64
  static uint64_t state =
      std::strtoull(setting("DT_CUDA_DOUBLE_SEED", "1"), nullptr, 10);
  uint64_t z = state += 0x9e3779b97f4a7c15;
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

cudaError_t refuse(cudaError_t error, const std::string &detail) {
  refusal = {error, currentCall, "", detail, "", false};
  return error;
}

/// By the symbols that the linker left in the program's file.
std::string nameOf(const void *kernel) {
  uintptr_t program = 0;
  dl_iterate_phdr(findProgram, &program);
  char line[512];
  auto address = reinterpret_cast<uintptr_t>(kernel) - program;
  std::snprintf(line, sizeof line,
                "nm -C /proc/%d/exe | grep -i '^%016zx [tw] '", int(getpid()),
                size_t(address));
  std::string name;
  if (FILE *symbols = popen(line, "r")) {
    if (std::fgets(line, sizeof line, symbols))
      name = line + 19; // behind the address and a letter
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
    return text("kernel at ", address);
  return "kernel " + (name.rfind("void ", 0) == 0 ? name.substr(5) : name);
}

/// What is wrong with the bounds of a launch; none: nothing.
static std::string wrongBounds(const cudaLaunchConfig_t &c,
                               cudaError_t &error) {
  uint64_t threads = uint64_t(c.blockDim.x) * c.blockDim.y * c.blockDim.z;
  dim3 grid = c.gridDim;
  error = cudaErrorInvalidConfiguration;
  if (threads == 0 || threads > kMostThreads)
    return text(threads, " threads a block, 1 to ", kMostThreads,
                " are possible");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu ||
      grid.y > 65535 || grid.z > 65535)
    return text(grid.x, " x ", grid.y, " x ", grid.z, " blocks");
  error = cudaErrorInvalidValue;
  if (c.dynamicSmemBytes > kMostShared)
    return text(c.dynamicSmemBytes, " bytes of dynamic shared memory, ",
                kMostShared, " are possible");
  return "";
}

cudaError_t launch(const cudaLaunchConfig_t &c, Call call) {
  Entry entry("cudaLaunchKernelEx");
  cudaError_t error;
  if (std::string wrong = wrongBounds(c, error); !wrong.empty()) {
    refuse(error, wrong);
    refusal.kernel = " of " + nameOf(call.kernel);
    return error;
  }
  for (size_t i = 0; i < call.addresses.size(); ++i)
    requireReadable(call.addresses[i], call.kernel, i + 1);
  counts.kernels++;
  const void *kernel = call.kernel;
  auto run = [call = std::move(call), c] {
    runBlocks(call, c.gridDim, c.blockDim, c.dynamicSmemBytes);
  };
  queue(c.stream, run, kernel);
  return cudaSuccess;
}

namespace {

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
  bool late = setting("DT_CUDA_DOUBLE_PAGEABLE", "") == std::string("late");
  if (kind == cudaMemcpyHostToDevice && !isPinned(from) && !late) {
    std::string staged(static_cast<const char *>(from), bytes);
    queue(stream, [=] { std::memcpy(to, staged.data(), staged.size()); });
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

/// Within the device only.
cudaError_t cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from,
                              size_t fromPitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  Entry entry("cudaMemcpy2DAsync");
  counts.copies++;
  if (kind != cudaMemcpyDeviceToDevice || width > toPitch || width > fromPitch)
    return refuse(cudaErrorInvalidValue,
                  text("rows of ", width, " bytes, ", toPitch, " and ",
                       fromPitch, " from one to the next"));
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
  refusal.whole =
      text(describe(error), " (", refusal.detail, refusal.kernel, ")");
  return refusal.whole.c_str();
}

/// Devices have nothing of their own here but a number: each process has one
/// memory.
static int deviceCount() {
  return std::atoi(setting("DT_CUDA_DOUBLE_DEVICES", "1"));
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
    return refuse(cudaErrorInvalidDevice, text(device, " of ", deviceCount()));
  currentDevice = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *name, int length, int device) {
  Entry entry("cudaDeviceGetPCIBusId");
  std::snprintf(name, size_t(length), "0000:%02x:00.0", device);
  return cudaSuccess;
}

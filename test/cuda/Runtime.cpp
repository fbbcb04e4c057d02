//===- Runtime.cpp - errors, copies and launches ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <cstdio>
#include <iostream>
#include <link.h>
#include <numeric>
#include <random>

namespace cuda_double {

Counts counts;

namespace {

int deviceCount() { return std::atoi(setting("DT_CUDA_DOUBLE_DEVICES", "1")); }

/// Where the program, the first of all objects, was loaded over what its file
/// says.
int findProgram(dl_phdr_info *info, size_t, void *result) {
  *static_cast<uintptr_t *>(result) = info->dlpi_addr;
  return 1;
}

/// The newest error that a call returned.
struct Refusal {
  cudaError_t error = cudaSuccess;
  std::string call, detail, whole;
  bool seen = true;
};
Refusal &refusal = *new Refusal;
std::string &current = *new std::string;
std::vector<std::pair<const void *, size_t>> announced; ///< for the next launch

const char *describe(cudaError_t error) {
  constexpr std::pair<cudaError_t, const char *> kErrors[] = {
      {cudaSuccess, "no error"},
      {cudaErrorInvalidValue, "invalid argument"},
      {cudaErrorMemoryAllocation, "out of memory"},
      {cudaErrorInvalidConfiguration, "invalid configuration argument"},
      {cudaErrorInsufficientDriver,
       "CUDA driver version is insufficient for CUDA runtime version"},
      {cudaErrorNoDevice, "no CUDA-capable device is detected"},
      {cudaErrorInvalidDevice, "invalid device ordinal"},
      {cudaErrorInvalidResourceHandle, "invalid resource handle"},
      {cudaErrorNotReady, "device not ready"}};
  auto *known =
      std::ranges::find(kErrors, error, [](auto &e) { return e.first; });
  return known == std::end(kErrors) ? "unrecognized error code" : known->second;
}

void requireSeen(const char *next) {
  if (!refusal.seen)
    die(refusal.call, " returned an error (", describe(refusal.error), ": ",
        refusal.detail, "), and the program went on without a look at it, to ",
        next);
}

void atEnd() {
  std::fflush(nullptr);
  requireSeen("its end");
  // At once, as ranks share standard error.
  if (setting("DT_CUDA_DOUBLE_STATS"))
    std::cerr << text("CUDA double: kernels ", counts.kernels, ", copies ",
                      counts.copies, ", products ", counts.products,
                      ", host waits ", counts.hostWaits, ", allocations ",
                      counts.allocations, ", uses of the default stream ",
                      counts.defaultStreamUses, "\n")
              << std::flush;
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

uint64_t draw(uint64_t n) {
  static std::mt19937_64 generator(
      std::strtoull(setting("DT_CUDA_DOUBLE_SEED", "1"), nullptr, 10));
  return generator() % n;
}

Order::Order(uint64_t n) : n(n), stride(n > 1 ? 1 : 0) {
  uint64_t how = draw(4); // up and down are likely
  if (how == 1)
    at = stride = n - 1;
  if (how < 2)
    return;
  at = draw(n);
  do
    stride = draw(n);
  while (std::gcd(stride, n) != 1);
}

std::mutex &entryMutex() {
  static auto &mutex = *new std::mutex;
  return mutex;
}
const std::string &currentCall() { return current; }

Entry::Entry(const char *call) : lock(entryMutex()) {
  [[maybe_unused]] static int registered = std::atexit(atEnd);
  requireSeen(call);
  current = call;
}

cudaError_t refuse(cudaError_t error, const std::string &detail) {
  refusal = {error, current, detail, "", false};
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

void announce(const void *data, size_t bytes) {
  static bool watches = setting("DT_CUDA_DOUBLE_WATCH");
  if (watches && bytes)
    announced.emplace_back(data, bytes);
}

cudaError_t launch(const cudaLaunchConfig_t &c, Call call) {
  Entry entry("cudaLaunchKernelEx");
  auto refused = [&](cudaError_t error, const std::string &detail) {
    std::string of = " of " + nameOf(call.kernel);
    current += of;
    return refuse(error, detail + of);
  };
  uint64_t threads = uint64_t(c.blockDim.x) * c.blockDim.y * c.blockDim.z;
  auto [x, y, z] = c.gridDim;
  constexpr auto kWrong = cudaErrorInvalidConfiguration;
  if (threads == 0 || threads > kMostThreads)
    return refused(kWrong, text(threads, " threads a block, 1 to ",
                                kMostThreads, " are possible"));
  if (x == 0 || y == 0 || z == 0 || x > 0x7fffffff || y > 65535 || z > 65535)
    return refused(kWrong, text(x, " x ", y, " x ", z, " blocks"));
  if (c.dynamicSmemBytes > kMostShared)
    return refused(cudaErrorInvalidValue,
                   text(c.dynamicSmemBytes, " bytes of dynamic shared memory, ",
                        kMostShared, " are possible"));
  for (size_t i = 0; i < call.addresses.size(); ++i)
    requireReadable(call.addresses[i], call.kernel, i + 1);
  counts.kernels++;
  const void *kernel = call.kernel;
  call.writes = std::exchange(announced, {});
  auto run = [call = std::move(call), c] {
    watch(call,
          [&] { runBlocks(call, c.gridDim, c.blockDim, c.dynamicSmemBytes); });
  };
  queue(c.stream, run, kernel);
  return cudaSuccess;
}

namespace {

/// Queues a copy of rows and waits where CUDA does: for what goes to pageable
/// memory. What comes from there is read at once, or late.
cudaError_t copy(void *to, size_t toPitch, const void *from, size_t fromPitch,
                 size_t width, size_t height, cudaMemcpyKind kind,
                 cudaStream_t stream) {
  counts.copies++;
  if (width > toPitch || width > fromPitch)
    return refuse(cudaErrorInvalidValue,
                  text("rows of ", width, " bytes, ", toPitch, " and ",
                       fromPitch, " from one to the next"));
  if (width == 0 || height == 0)
    return cudaSuccess;
  size_t written = (height - 1) * toPitch + width,
         read = (height - 1) * fromPitch + width;
  if (kind == cudaMemcpyDeviceToHost)
    requireHost(to, "the target");
  else
    requireDevice(to, written, "the target");
  if (kind == cudaMemcpyHostToDevice)
    requireHost(from, "the source");
  else
    requireDevice(from, read, "the source");
  bool late = setting("DT_CUDA_DOUBLE_PAGEABLE", "") == std::string("late");
  std::string staged;
  if (kind == cudaMemcpyHostToDevice && !isPinned(from) && !late)
    staged.assign(static_cast<const char *>(from), read);
  queue(stream, [=] {
    auto *rows =
        staged.empty() ? static_cast<const char *>(from) : staged.data();
    for (size_t i = 0; i < height; ++i)
      std::memmove(static_cast<char *>(to) + i * toPitch, rows + i * fromPitch,
                   width);
  });
  if (kind == cudaMemcpyDeviceToHost && !isPinned(to))
    finish(stream);
  return cudaSuccess;
}

} // namespace
} // namespace cuda_double

using namespace cuda_double;

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  Entry entry;
  return copy(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from,
                              size_t fromPitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  Entry entry;
  return copy(to, toPitch, from, fromPitch, width, height, kind, stream);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
                            cudaStream_t stream) {
  Entry entry;
  counts.copies++;
  if (bytes == 0)
    return cudaSuccess;
  requireDevice(to, bytes, "the target");
  queue(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error) {
  std::lock_guard<std::mutex> lock(entryMutex());
  if (error != refusal.error || error == cudaSuccess)
    return describe(error);
  refusal.seen = true;
  refusal.whole = text(describe(error), " (", refusal.detail, ")");
  return refusal.whole.c_str();
}

cudaError_t cudaGetLastError() {
  std::lock_guard<std::mutex> lock(entryMutex());
  refusal.seen = true;
  return std::exchange(refusal.error, cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int *count) {
  Entry entry;
  *count = deviceCount();
  if (setting("DT_CUDA_DOUBLE_OLD_DRIVER"))
    return refuse(cudaErrorInsufficientDriver, "no device can be used");
  return *count ? cudaSuccess : refuse(cudaErrorNoDevice, "none");
}

cudaError_t cudaSetDevice(int device) {
  Entry entry;
  if (device < 0 || device >= deviceCount())
    return refuse(cudaErrorInvalidDevice, text(device, " of ", deviceCount()));
  currentDevice = device;
  return cudaSuccess;
}

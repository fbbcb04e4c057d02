//===- Runtime.cpp - errors, copies and launches ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <cstdio>
#include <random>
#include <set>

using namespace cuda_double;

namespace {

int deviceCount() { return int(setting("DT_CUDA_DOUBLE_DEVICES", 1)); }

/// The newest error that a call returned.
struct Refusal {
  cudaError_t error = cudaSuccess;
  std::string call, whole;
  bool seen = true;
};
Refusal &refusal = *new Refusal;
std::mt19937_64 generator(setting("DT_CUDA_DOUBLE_SEED", 1));
std::vector<std::pair<const void *, size_t>> announced; ///< for the next launch

const char *describe(cudaError_t error) {
#define DT_CUDA_TEXT(name, number, text) error == name ? text:
  return DT_CUDA_ERRORS(DT_CUDA_TEXT) "unrecognized error code";
}

void requireSeen(const char *next) {
  if (!refusal.seen)
    die(refusal.call, " returned an error (", refusal.whole,
        "), and the program went on without a look at it, to ", next);
}

void atEnd() {
  std::fflush(nullptr);
  requireSeen("its end");
  if (!std::getenv("DT_CUDA_DOUBLE_STATS"))
    return;
  std::string line;
  for (const char *name :
       {"kernels", "copies", "products", "graphs", "host waits", "allocations",
        "frees", "loads", "plans", "uses of the default stream",
        "communicators", "calls of NCCL", "threads of NCCL", "looks for NCCL",
        "waits for other hosts", "most pinned bytes"})
    line +=
        text(line.empty() ? "CUDA double: " : ", ", name, " ", counts[name]);
  std::cerr << line + "\n" << std::flush; // at once, as ranks share it
}

/// Queues a copy of rows and waits where CUDA does: for what goes to pageable
/// memory. What comes from there is read late, too.
cudaError_t copy(void *to, size_t toPitch, const void *from, size_t fromPitch,
                 size_t width, size_t height, cudaMemcpyKind kind,
                 cudaStream_t stream, const char *call = __builtin_FUNCTION()) {
  Entry entry(call);
  counts["copies"]++;
  if (width > toPitch || width > fromPitch)
    return refuse(cudaErrorInvalidValue,
                  text("rows of ", width, " bytes, ", toPitch, " and ",
                       fromPitch, " from one to the next"));
  if (width == 0 || height == 0)
    return cudaSuccess;
  size_t written = (height - 1) * toPitch + width,
         read = (height - 1) * fromPitch + width;
  kind == cudaMemcpyDeviceToHost ? requireHost(to, "the target")
                                 : requireDevice(to, written, "the target");
  kind == cudaMemcpyHostToDevice ? requireHost(from, "the source")
                                 : requireDevice(from, read, "the source");
  queue(stream, [=] {
    for (size_t i = 0; i < height; ++i)
      std::memmove(static_cast<char *>(to) + i * toPitch,
                   static_cast<const char *>(from) + i * fromPitch, width);
  });
  if (kind == cudaMemcpyDeviceToHost && !isPinned(to))
    finish(stream);
  return cudaSuccess;
}

} // namespace

uint64_t cuda_double::draw(uint64_t n) { return generator() % n; }

std::vector<uint64_t> cuda_double::drawOrder(uint64_t n) {
  std::vector<uint64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  uint64_t how = draw(4); // up and down are likely
  if (how == 1)
    std::ranges::reverse(order);
  else if (how > 1)
    std::ranges::shuffle(order, generator);
  return order;
}

Entry::Entry(const char *call) {
  [[maybe_unused]] static int registered = std::atexit(atEnd);
  requireSeen(call);
  requireCapturable(call);
  currentCall = call;
}

cudaError_t cuda_double::refuse(cudaError_t error, const std::string &detail) {
  refusal = {error, currentCall, text(describe(error), " (", detail, ")"),
             false};
  return error;
}

/// By the symbols that the linker left in the program's file; where that was
/// loaded, the linker says, too.
extern "C" const char __executable_start;
std::string cuda_double::nameOf(const void *kernel) {
  if (!kernel)
    return "a copy or a library call";
  char line[512];
  auto address =
      size_t(static_cast<const char *>(kernel) - &__executable_start);
  std::snprintf(
      line, sizeof line,
      "nm /proc/$PPID/exe | grep -i '^%016zx [tw] ' | cut -c 20- | c++filt -p",
      address);
  std::unique_ptr<FILE, int (*)(FILE *)> symbols(popen(line, "r"), pclose);
  bool found = symbols && std::fgets(line, sizeof line, symbols.get());
  return found ? "kernel " + std::string(line, std::strcspn(line, "\n"))
               : text("kernel at ", address);
}

void cuda_double::announce(const void *data, size_t bytes) {
  static const bool watches = std::getenv("DT_CUDA_DOUBLE_WATCH");
  if (watches && bytes)
    announced.emplace_back(data, bytes);
}

void cuda_double::loadKernel(const void *kernel) {
  static auto &loaded = *new std::set<const void *>;
  std::lock_guard<std::mutex> lock(entryMutex);
  counts["loads"] += loaded.insert(kernel).second;
}

cudaError_t cuda_double::launch(const cudaLaunchConfig_t &c, Call call) {
  loadKernel(call.kernel);
  Entry entry("cudaLaunchKernelEx");
  auto refused = [&](cudaError_t error, const auto &...detail) {
    std::string of = " of " + nameOf(call.kernel);
    currentCall += of;
    return refuse(error, text(detail..., of));
  };
  unsigned threads = c.blockDim.x, blocks = c.gridDim.x;
  if (threads == 0 || threads > kMostThreads)
    return refused(cudaErrorInvalidConfiguration, threads,
                   " threads a block, 1 to ", kMostThreads, " are possible");
  if (blocks == 0 || blocks > 0x7fffffff)
    return refused(cudaErrorInvalidConfiguration, blocks, " blocks");
  size_t most = std::clamp(mostShared[call.kernel], kPlainShared, kMostShared);
  if (c.dynamicSmemBytes > most)
    return refused(cudaErrorInvalidValue, c.dynamicSmemBytes,
                   " bytes of dynamic shared memory, ", most, " are possible");
  for (size_t i = 0; i < call.addresses.size(); ++i)
    requireReadable(call.addresses[i], call.kernel, i + 1);
  counts["kernels"]++;
  call.writes = std::exchange(announced, {});
  queue(c.stream, [=] {
    runningKernel = call.kernel;
    watch(call, [&] { runBlocks(call, c); });
  });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  return copy(to, bytes, from, bytes, bytes, 1, kind, stream);
}

int cuda_double::multiprocessors() {
  static const auto all = int(setting("DT_CUDA_DOUBLE_SMS", 132));
  return all;
}

static size_t mostPitch() {
  static const size_t most = setting("DT_CUDA_DOUBLE_PITCH", 0x7fffffff);
  return most;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
  *properties = {"the double of a GPU", mostPitch(), multiprocessors()};
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from,
                              size_t fromPitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  if (std::max(toPitch, fromPitch) > mostPitch())
    return refuse(cudaErrorInvalidValue,
                  text("a pitch of ", std::max(toPitch, fromPitch), " bytes"));
  return copy(to, toPitch, from, fromPitch, width, height, kind, stream);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
                            cudaStream_t stream) {
  Entry entry;
  counts["copies"]++;
  if (bytes == 0)
    return cudaSuccess;
  requireDevice(to, bytes, "the target");
  queue(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error) {
  std::lock_guard<std::mutex> lock(entryMutex);
  if (error != refusal.error || error == cudaSuccess)
    return describe(error);
  refusal.seen = true;
  return refusal.whole.c_str();
}

cudaError_t cudaGetLastError() {
  std::lock_guard<std::mutex> lock(entryMutex);
  refusal.seen = true;
  return std::exchange(refusal.error, cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int *count) {
  Entry entry;
  *count = deviceCount();
  if (std::getenv("DT_CUDA_DOUBLE_OLD_DRIVER"))
    return refuse(cudaErrorInsufficientDriver, "no device can be used");
  return *count ? cudaSuccess : refuse(cudaErrorNoDevice, "none");
}

static thread_local int deviceOfThread = 0;

cudaError_t cudaSetDevice(int device) {
  Entry entry;
  if (device < 0 || device >= deviceCount())
    reject("device ", device, " of ", deviceCount());
  deviceOfThread = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
  *device = deviceOfThread;
  return cudaSuccess;
}

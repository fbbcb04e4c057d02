//===- Memory.cpp - device memory that the host cannot touch ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One range of addresses for the whole run. Each allocation has pages of its
// own and a page behind it that stays closed; it ends within 256 bytes (CUDA's
// alignment) of its last page's end. Bytes beside it are filled and compared
// after each kernel. Pages are open while device work runs, and never again
// once they are freed.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

namespace cuda_double {

namespace {

constexpr size_t kRange = size_t(1) << 38, kAlignment = 256, kBeside = 256;
constexpr int kFill = 0xA5; ///< beside allocations; a number, so that sums show

size_t roundUp(size_t n, size_t to) { return (n + to - 1) / to * to; }

struct Allocation {
  char *begin, *end; ///< pages
  char *data;
  size_t bytes;
  bool live = true;
};

/// Never destroyed, as work may run until the process ends.
struct Memory {
  char *range = nullptr, *next = nullptr;
  size_t page = size_t(sysconf(_SC_PAGESIZE)), used = 0, most = size_t(8) << 30;
  std::map<const char *, Allocation> all; ///< by first page; freed ones too
  std::map<const char *, size_t> pinned;
};
Memory &memory = *new Memory;

const Allocation *allocationAt(const void *address) {
  auto it = memory.all.upper_bound(static_cast<const char *>(address));
  return it == memory.all.begin() ? nullptr : &std::prev(it)->second;
}

bool isDeviceAddress(const void *address) {
  auto *at = static_cast<const char *>(address);
  return memory.range && at >= memory.range && at < memory.range + kRange;
}

/// "freed memory", "128 bytes behind ...": how an address stands to the
/// allocation before it.
std::string describe(const void *address) {
  const Allocation *a = allocationAt(address);
  if (!a)
    return "outside of every allocation";
  auto offset = static_cast<const char *>(address) - a->data;
  std::string of = "an allocation of " + std::to_string(a->bytes) + " bytes";
  if (!a->live)
    return "in freed memory, " + of;
  if (offset < 0)
    return std::to_string(-offset) + " bytes ahead of " + of;
  if (size_t(offset) >= a->bytes)
    return std::to_string(size_t(offset) - a->bytes) +
           " bytes behind the end of " + of;
  return "byte " + std::to_string(offset) + " of " + of;
}

struct sigaction before;

void onFault(int, siginfo_t *info, void *context) {
  const char *verb = "touched";
#ifdef __x86_64__
  auto *machine = static_cast<ucontext_t *>(context);
  verb = machine->uc_mcontext.gregs[REG_ERR] & 2 ? "wrote" : "read";
#endif
  void *at = info->si_addr;
  if (!onDeviceThread()) {
    if (isDeviceAddress(at))
      die("host code %s device memory at %p, %s", verb, at,
          describe(at).c_str());
  } else if (const void *kernel = runningKernel()) {
    std::string name = nameOf(kernel);
    if (isDeviceAddress(at))
      die("%s %s outside of an allocation: %s", name.c_str(), verb,
          describe(at).c_str());
    if (isBehindShared(at))
      die("%s %s behind its %zu bytes of dynamic shared memory", name.c_str(),
          verb, sharedBytes());
    die("%s %s address %p, which is no device memory", name.c_str(), verb, at);
  } else {
    die("a copy or a library call %s address %p, %s", verb, at,
        describe(at).c_str());
  }
  sigaction(SIGSEGV, &before, nullptr); // it faults again
}

void reserve() {
  void *range = mmap(nullptr, kRange, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED)
    die("no range of %zu addresses", kRange);
  memory.range = memory.next = static_cast<char *>(range);
  if (const char *most = std::getenv("DT_CUDA_DOUBLE_MEMORY"))
    memory.most = std::strtoull(most, nullptr, 10);
  struct sigaction action{};
  action.sa_sigaction = onFault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, &before);
}

void protect(int how) {
  for (auto &[begin, a] : memory.all)
    if (a.live)
      mprotect(a.begin, size_t(a.end - a.begin), how);
}

/// First byte of [from, to) that is not as it was filled; null: none.
const char *changed(const char *from, const char *to) {
  static const std::string filled(kBeside, char(kFill));
  if (std::memcmp(from, filled.data(), size_t(to - from)) == 0)
    return nullptr;
  for (; from < to; ++from)
    if (*from != char(kFill))
      return from;
  return nullptr;
}

void checkBeside(const Allocation &a, const void *kernel) {
  const char *at = changed(a.data - kBeside, a.data);
  if (!at)
    at = changed(a.data + a.bytes, a.end);
  if (at)
    die("%s wrote outside of an allocation: %s",
        kernel ? nameOf(kernel).c_str() : "a copy or a library call",
        describe(at).c_str());
}

bool isLive(const void *address, size_t bytes) {
  const Allocation *a = allocationAt(address);
  auto *at = static_cast<const char *>(address);
  return a && a->live && at >= a->data && at + bytes <= a->data + a->bytes;
}

} // namespace

void requireDevice(const void *address, size_t bytes, const std::string &what) {
  if (!isDeviceAddress(address))
    die("%s points to host memory (%p)", what.c_str(), address);
  if (!isLive(address, bytes))
    die("%s, %zu bytes at %s, is not within one allocation", what.c_str(),
        bytes, describe(address).c_str());
}

void requireHost(const void *address, const std::string &what) {
  if (isDeviceAddress(address))
    die("%s points to device memory (%p)", what.c_str(), address);
}

void requireReadable(const void *address, const void *kernel, size_t argument) {
  if (!address || isPinned(address))
    return;
  if (!isDeviceAddress(address))
    die("%s: argument %zu points to host memory (%p)", nameOf(kernel).c_str(),
        argument, address);
  // A tensor without elements may stand at the end.
  if (!isLive(address, 0))
    die("%s: argument %zu is %s", nameOf(kernel).c_str(), argument,
        describe(address).c_str());
}

bool isPinned(const void *address) {
  auto *at = static_cast<const char *>(address);
  auto it = memory.pinned.upper_bound(at);
  return it != memory.pinned.begin() &&
         at < std::prev(it)->first + std::prev(it)->second;
}

void openMemory() { protect(PROT_READ | PROT_WRITE); }
void closeMemory() { protect(PROT_NONE); }

void checkBeside(const void *kernel) {
  for (auto &[begin, a] : memory.all)
    if (a.live)
      checkBeside(a, kernel);
}

} // namespace cuda_double

using namespace cuda_double;

cudaError_t cudaMalloc(void **result, size_t bytes) {
  Entry entry("cudaMalloc");
  counts.allocations++;
  if (!memory.range)
    reserve();
  size_t size = roundUp(bytes, kAlignment);
  size_t pages = roundUp(size + kBeside, memory.page);
  *result = nullptr;
  if (bytes == 0)
    return cudaSuccess;
  if (size < bytes || memory.used + size > memory.most ||
      size_t(memory.range + kRange - memory.next) < pages + memory.page)
    return refuse(cudaErrorMemoryAllocation, "%zu bytes, %zu are in use", bytes,
                  memory.used);
  Allocation a{memory.next, memory.next + pages, memory.next + pages - size,
               bytes};
  mprotect(a.begin, pages, PROT_READ | PROT_WRITE);
  std::memset(a.begin, kFill, pages);
  std::memset(a.data, kPoison, bytes);
  mprotect(a.begin, pages, PROT_NONE);
  memory.next = a.end + memory.page;
  memory.used += size;
  memory.all.emplace(a.begin, a);
  *result = a.data;
  return cudaSuccess;
}

/// Waits for all work, as the real one does.
cudaError_t cudaFree(void *address) {
  Entry entry("cudaFree");
  if (!address)
    return cudaSuccess;
  auto *a = const_cast<Allocation *>(allocationAt(address));
  if (!isDeviceAddress(address) || !a || a->data != address || !a->live)
    die("cudaFree of %p, which is no allocation", address);
  finishAll();
  a->live = false;
  memory.used -= roundUp(a->bytes, kAlignment);
  madvise(a->begin, size_t(a->end - a->begin), MADV_DONTNEED);
  return cudaSuccess;
}

/// Ordinary memory here, known by its addresses.
cudaError_t cudaHostAlloc(void **result, size_t bytes, unsigned) {
  Entry entry("cudaHostAlloc");
  counts.allocations++;
  *result = std::aligned_alloc(memory.page, roundUp(bytes, memory.page));
  if (!*result)
    return refuse(cudaErrorMemoryAllocation, "%zu pinned bytes", bytes);
  std::memset(*result, kPoison, bytes);
  memory.pinned.emplace(static_cast<char *>(*result), bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void *address) {
  Entry entry("cudaFreeHost");
  if (address && !memory.pinned.erase(static_cast<char *>(address)))
    die("cudaFreeHost of %p, which is no pinned memory", address);
  finishAll();
  std::free(address);
  return cudaSuccess;
}

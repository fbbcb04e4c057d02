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
#include <string_view>
#include <sys/mman.h>

namespace cuda_double {

namespace {

constexpr size_t kRange = size_t(1) << 38, kAlignment = 256, kBeside = 256;
constexpr char kFill = char(0xA5); ///< beside allocations; as a float, a number

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
  size_t page = size_t(sysconf(_SC_PAGESIZE)), used = 0, most = 0;
  std::map<const char *, Allocation> all; ///< by first page; freed ones too
  std::map<const char *, size_t> pinned;
  size_t pinnedUsed = 0;
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

/// "in freed memory", "128 bytes behind ...": how an address stands to the
/// allocation before it.
std::string describe(const void *address) {
  const Allocation *a = allocationAt(address);
  if (!a)
    return "outside of every allocation";
  auto offset = static_cast<const char *>(address) - a->data;
  std::string of = text("an allocation of ", a->bytes, " bytes");
  if (!a->live)
    return "in freed memory, " + of;
  if (offset < 0)
    return text(-offset, " bytes ahead of ", of);
  if (size_t(offset) >= a->bytes)
    return text(size_t(offset) - a->bytes, " bytes behind the end of ", of);
  return text("byte ", offset, " of ", of);
}

struct sigaction before;

void onFault(int, siginfo_t *info, void *context) {
  auto *machine = static_cast<ucontext_t *>(context);
  bool writes = machine->uc_mcontext.gregs[REG_ERR] & 2;
  const char *verb = writes ? " wrote " : " read ";
  const void *at = info->si_addr;
  bool ofDevice = isDeviceAddress(at);
  if (!onDeviceThread()) {
    if (ofDevice)
      die("host code", verb, "device memory at ", at, ", ", describe(at));
    sigaction(SIGSEGV, &before, nullptr); // it faults again
    return;
  }
  const void *kernel = runningKernel();
  if (!kernel)
    die("a copy or a library call", verb, "address ", at, ", ", describe(at));
  if (ofDevice)
    die(nameOf(kernel), verb, "outside of an allocation: ", describe(at));
  if (isBehindShared(at))
    die(nameOf(kernel), verb, "behind its dynamic shared memory");
  die(nameOf(kernel), verb, "address ", at, ", which is no device memory");
}

void reserve() {
  void *range = mmap(nullptr, kRange, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED)
    die("no range of ", kRange, " addresses");
  memory.range = memory.next = static_cast<char *>(range);
  memory.most = std::strtoull(setting("DT_CUDA_DOUBLE_MEMORY", "8589934592"),
                              nullptr, 10);
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

bool isLive(const void *address, size_t bytes) {
  const Allocation *a = allocationAt(address);
  auto *at = static_cast<const char *>(address);
  return a && a->live && at >= a->data && at + bytes <= a->data + a->bytes;
}

} // namespace

void requireDevice(const void *address, size_t bytes, const std::string &what,
                   int64_t alignment) {
  if (!isDeviceAddress(address))
    reject(what, " points to host memory (", address, ")");
  if (!isLive(address, bytes))
    reject(what, ", ", bytes, " bytes at ", describe(address),
           ", is not within one allocation");
  if (reinterpret_cast<uintptr_t>(address) % uintptr_t(alignment))
    reject(what, " at ", address, " is not aligned to ", alignment,
           " bytes, as was promised");
}

void requireHost(const void *address, const std::string &what) {
  if (isDeviceAddress(address))
    reject(what, " points to device memory (", address, ")");
}

void requireReadable(const void *address, const void *kernel, size_t argument) {
  if (!address || isPinned(address))
    return;
  if (!isDeviceAddress(address))
    die(nameOf(kernel), ": argument ", argument, " points to host memory (",
        address, ")");
  // A tensor without elements may stand at the end.
  if (!isLive(address, 0))
    die(nameOf(kernel), ": argument ", argument, " is ", describe(address));
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
  for (auto &[begin, a] : memory.all) {
    if (!a.live)
      continue;
    for (auto [from, to] :
         {std::pair(a.data - kBeside, a.data), {a.data + a.bytes, a.end}})
      if (size_t at = std::string_view(from, to).find_first_not_of(kFill);
          at != std::string_view::npos)
        die(kernel ? nameOf(kernel) : "a copy or a library call",
            " wrote outside of an allocation: ", describe(from + at));
  }
}

void watch(const Call &call, const std::function<void()> &run) {
  std::map<const Allocation *, std::string> wanted; // contents
  for (const void *address : call.addresses)
    if (!call.writes.empty() && isDeviceAddress(address))
      if (auto *a = allocationAt(address))
        wanted.try_emplace(a, a->data, a->bytes);
  run();
  for (auto &[a, bytes] : wanted) {
    for (auto [data, n] : call.writes)
      if (allocationAt(data) == a)
        std::memcpy(bytes.data() + (static_cast<const char *>(data) - a->data),
                    data, n);
    if (std::memcmp(bytes.data(), a->data, a->bytes) != 0)
      die(nameOf(call.kernel), " wrote beside its results, at ",
          describe(std::mismatch(bytes.begin(), bytes.end(), a->data).second));
  }
}

} // namespace cuda_double

using namespace cuda_double;

cudaError_t cudaMalloc(void **result, size_t bytes) {
  Entry entry;
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
    return refuse(cudaErrorMemoryAllocation,
                  text(bytes, " bytes, ", memory.used, " are in use"));
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
  Entry entry;
  if (!address)
    return cudaSuccess;
  auto *a = const_cast<Allocation *>(allocationAt(address));
  if (!isDeviceAddress(address) || !a || a->data != address || !a->live)
    die("cudaFree of ", address, ", which is no allocation");
  finishAll();
  a->live = false;
  memory.used -= roundUp(a->bytes, kAlignment);
  madvise(a->begin, size_t(a->end - a->begin), MADV_DONTNEED);
  return cudaSuccess;
}

/// Ordinary memory here, known by its addresses.
cudaError_t cudaHostAlloc(void **result, size_t bytes, unsigned) {
  Entry entry;
  counts.allocations++;
  static const size_t most =
      std::strtoull(setting("DT_CUDA_DOUBLE_PINNED", "-1"), nullptr, 10);
  *result = nullptr;
  if (memory.pinnedUsed + bytes <= most)
    *result = std::aligned_alloc(memory.page, roundUp(bytes, memory.page));
  if (!*result)
    return refuse(
        cudaErrorMemoryAllocation,
        text(bytes, " pinned bytes, ", memory.pinnedUsed, " are in use"));
  memory.pinnedUsed += bytes;
  std::memset(*result, kPoison, bytes);
  memory.pinned.emplace(static_cast<char *>(*result), bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void *address) {
  Entry entry;
  if (!address)
    return cudaSuccess;
  auto it = memory.pinned.find(static_cast<char *>(address));
  if (it == memory.pinned.end())
    die("cudaFreeHost of ", address, ", which is no pinned memory");
  memory.pinnedUsed -= it->second;
  memory.pinned.erase(it);
  finishAll();
  std::free(address);
  return cudaSuccess;
}

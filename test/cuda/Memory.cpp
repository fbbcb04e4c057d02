//===- Memory.cpp - memory that is watched ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Each allocation has pages of its own and a page behind it that stays closed;
// it ends within 256 bytes (CUDA's alignment) of its last page's end. Pages of
// device memory are open while device work runs only.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <csignal>
#include <sys/mman.h>

using namespace cuda_double;

namespace {

constexpr size_t kRange = size_t(1) << 38, kAlignment = 256, kBeside = 256;
constexpr char kFill = char(0xA5); ///< beside allocations; as a float, a number

struct Allocation {
  char *begin, *end; ///< pages
  char *data;
  size_t bytes;
  bool live = true;

  void protect(int how) const { mprotect(begin, size_t(end - begin), how); }
};

/// A range of addresses for allocations; none is given twice.
struct Memory {
  size_t most; ///< bytes in use at once
  const char *name;
  int access; ///< of the host
  char *range = reserve(kRange), *next = range;
  size_t used = 0;
  std::map<const void *, Allocation> all = {}; ///< by begin; freed ones too

  bool has(const void *address) const {
    return address >= range && address < range + kRange;
  }
  /// The last allocation that begins ahead of an address there; null: none.
  Allocation *at(const void *address) {
    auto it = all.upper_bound(address);
    bool none = !has(address) || it == all.begin();
    return none ? nullptr : &std::prev(it)->second;
  }
  bool isLive(const void *address, size_t bytes) {
    auto *first = static_cast<const char *>(address);
    const Allocation *a = at(address);
    return a && a->live && first >= a->data &&
           first + bytes <= a->data + a->bytes;
  }
};

Memory &device = *new Memory{setting("DT_CUDA_DOUBLE_MEMORY", 8ull << 30), "",
                             PROT_NONE},
       &pinned = *new Memory{setting("DT_CUDA_DOUBLE_PINNED", SIZE_MAX),
                             " pinned", PROT_READ | PROT_WRITE};

/// "in freed memory", "128 bytes behind ...": how an address stands to the
/// allocation before it.
std::string describe(const void *address) {
  const Allocation *a = device.at(address);
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

void onFault(int, siginfo_t *info, void *context) {
  auto *machine = static_cast<ucontext_t *>(context);
  bool writes = machine->uc_mcontext.gregs[REG_ERR] & 2;
  const char *verb = writes ? " wrote " : " read ";
  const void *at = info->si_addr;
  if (std::this_thread::get_id() != deviceThread) {
    if (device.has(at))
      die("host code", verb, "device memory at ", at, ", ", describe(at));
    std::signal(SIGSEGV, SIG_DFL); // it faults again
    return;
  }
  std::string who = nameOf(runningKernel);
  if (device.has(at)) // what is live is closed by watch()
    die(who, verb,
        device.isLive(at, 1) ? "beside its results, at "
                             : "outside of an allocation: ",
        describe(at));
  if (isBehindShared(at))
    die(who, verb, "behind its dynamic shared memory");
  die(who, verb, "address ", at, ", which is no device memory");
}

cudaError_t allocate(Memory &memory, void **result, size_t bytes,
                     const char *call = __builtin_FUNCTION()) {
  Entry entry(call);
  [[maybe_unused]] static const int caught = [] {
    struct sigaction action{};
    action.sa_sigaction = onFault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    return sigaction(SIGSEGV, &action, nullptr);
  }();
  counts["allocations"]++;
  *result = nullptr;
  if (bytes == 0)
    return cudaSuccess;
  size_t size = roundUp(bytes, kAlignment);
  size_t pages = roundUp(size + kBeside, kPage);
  if (size < bytes || memory.used + size > memory.most ||
      size_t(memory.range + kRange - memory.next) < pages + kPage)
    return refuse(
        cudaErrorMemoryAllocation,
        text(bytes, memory.name, " bytes, ", memory.used, " are in use"));
  Allocation a{memory.next, memory.next + pages, memory.next + pages - size,
               bytes};
  a.protect(PROT_READ | PROT_WRITE);
  std::memset(a.begin, kFill, pages);
  std::memset(a.data, kPoison, bytes);
  a.protect(memory.access);
  memory.next = a.end + kPage;
  memory.used += size;
  if (&memory == &pinned)
    counts["most pinned bytes"] =
        std::max<uint64_t>(counts["most pinned bytes"], memory.used);
  memory.all.emplace(a.begin, a);
  *result = a.data;
  return cudaSuccess;
}

/// Waits for all work, as the real one does.
cudaError_t release(Memory &memory, void *address,
                    const char *call = __builtin_FUNCTION()) {
  Entry entry(call);
  if (!address)
    return cudaSuccess;
  Allocation *a = memory.at(address);
  if (!a || a->data != address || !a->live)
    reject(address, ", which is no allocation");
  counts["frees"]++;
  finishAll();
  a->live = false;
  a->protect(PROT_NONE);
  memory.used -= size_t(a->end - a->data);
  madvise(a->begin, size_t(a->end - a->begin), MADV_DONTNEED);
  return cudaSuccess;
}

} // namespace

char *cuda_double::reserve(size_t bytes) {
  void *range = mmap(nullptr, bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED)
    die("no range of ", bytes, " addresses");
  return static_cast<char *>(range);
}

void cuda_double::requireDevice(const void *address, size_t bytes,
                                const std::string &what, int64_t alignment) {
  if (!device.has(address))
    reject(what, " points to host memory (", address, ")");
  if (!device.isLive(address, bytes))
    reject(what, ", ", bytes, " bytes at ", describe(address),
           ", is not within one allocation");
  if (reinterpret_cast<uintptr_t>(address) % uintptr_t(alignment))
    reject(what, " at ", address, " is not aligned to ", alignment,
           " bytes, as was promised");
}

void cuda_double::requireHost(const void *address, const std::string &what) {
  if (device.has(address))
    reject(what, " points to device memory (", address, ")");
}

void cuda_double::requireReadable(const void *address, const void *kernel,
                                  size_t argument) {
  if (!address || isPinned(address))
    return;
  if (!device.has(address))
    die(nameOf(kernel), ": argument ", argument, " points to host memory (",
        address, ")");
  // A tensor without elements may stand at the end.
  if (!device.isLive(address, 0))
    die(nameOf(kernel), ": argument ", argument, " is ", describe(address));
}

bool cuda_double::isPinned(const void *address) {
  return pinned.isLive(address, 1);
}

void cuda_double::openMemory(bool opens) {
  static bool open = false;
  if (std::exchange(open, opens) == opens)
    return;
  for (auto &[begin, a] : device.all)
    if (a.live)
      a.protect(opens ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void cuda_double::checkBeside() {
  openMemory(true);
  for (auto &[begin, a] : device.all) {
    if (!a.live)
      continue;
    for (std::string_view beside : {std::string_view(a.data - kBeside, kBeside),
                                    std::string_view(a.data + a.bytes, a.end)})
      if (size_t at = beside.find_first_not_of(kFill); at != beside.npos)
        die(nameOf(runningKernel),
            " wrote outside of an allocation: ", describe(&beside[at]));
  }
}

void cuda_double::watch(const Call &call, const std::function<void()> &run) {
  if (call.writes.empty())
    return run();
  auto protect = [&](int how) {
    for (const void *address : call.addresses)
      if (Allocation *a = device.at(address); a && a->live)
        a->protect(how);
  };
  protect(PROT_READ);
  std::map<char *, std::string> edges; // pages where results begin and end
  for (auto [data, n] : call.writes) {
    if (!device.isLive(data, n))
      continue;
    auto address = reinterpret_cast<uintptr_t>(data), within = address % kPage;
    auto *first = reinterpret_cast<char *>(address - within);
    size_t size = roundUp(within + n, kPage);
    mprotect(first, size, PROT_READ | PROT_WRITE);
    for (char *page : {first, first + size - kPage})
      edges.try_emplace(page, page, kPage);
  }
  run();
  auto isResult = [&](const char *at) {
    return std::ranges::any_of(call.writes, [&](const auto &write) {
      return size_t(at - static_cast<const char *>(write.first)) < write.second;
    });
  };
  for (const auto &[page, was] : edges)
    for (size_t i = 0; i < kPage; ++i)
      if (page[i] != was[i] && !isResult(&page[i])) {
        checkBeside();
        die(nameOf(runningKernel), " wrote beside its results, at ",
            describe(&page[i]));
      }
  protect(PROT_READ | PROT_WRITE);
}

cudaError_t cudaMalloc(void **result, size_t bytes) {
  return allocate(device, result, bytes);
}

cudaError_t cudaHostAlloc(void **result, size_t bytes, unsigned) {
  return allocate(pinned, result, bytes);
}

cudaError_t cudaFree(void *address) { return release(device, address); }

cudaError_t cudaFreeHost(void *address) { return release(pinned, address); }

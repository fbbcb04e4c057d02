//===- Blocks.cpp - kernels on the host -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One block at a time. A fiber (a stack) runs a block's threads one after
// another while none of them waits; one that reaches a barrier keeps its fiber,
// and another fiber goes on with the next thread. So a kernel without barriers
// is a loop on one fiber. When nothing can run, all threads must wait at one
// barrier, and go on in another order.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <cstring>
#include <link.h>
#include <set>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#if !defined(__x86_64__) || defined(DT_CUDA_DOUBLE_UCONTEXT)
#define DT_USE_UCONTEXT
#include <ucontext.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

//===----------------------------------------------------------------------===//
// Switching stacks.
//===----------------------------------------------------------------------===//

#ifndef DT_USE_UCONTEXT
// Saves what a callee must keep and the stack; goes on where `to` stopped.
extern "C" void dtSwitchStack(void **from, void *to);
asm(R"(
.pushsection .text
.globl dtSwitchStack
.type dtSwitchStack, @function
dtSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size dtSwitchStack, .-dtSwitchStack
.popsection
)");
#endif

namespace cuda_double {

namespace {

/// A place that stands still while another one runs.
class Context {
public:
#ifndef DT_USE_UCONTEXT
  /// `entry` never returns.
  void prepare(char *stack, size_t bytes, void (*entry)()) {
    auto *top = reinterpret_cast<void **>(stack + bytes);
    // As if called: the stack is 8 bytes off 16 where a function begins.
    top[-2] = reinterpret_cast<void *>(entry);
    place = top - 8;
  }
  void switchTo(Context &other) { dtSwitchStack(&place, other.place); }

private:
  void *place = nullptr;
#else
  void prepare(char *stack, size_t bytes, void (*entry)()) {
    getcontext(&context);
    context.uc_stack = {stack, 0, bytes};
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
  }
  void switchTo(Context &other) { swapcontext(&context, &other.context); }

private:
  ucontext_t context;
#endif
};

constexpr size_t kStack = 64 << 10;

struct Fiber {
  Context context;
  unsigned thread = 0; ///< that it runs or keeps waiting
  int line = 0;        ///< of the warp's barrier that it waits at
};

/// What of shared memory a block sees: thread-local storage of the object that
/// the kernel is in, and a buffer that ends before a page nobody may touch.
struct Shared {
  char *statics = nullptr;
  size_t staticBytes = 0;
  char *end = nullptr; ///< of the dynamic one
  size_t bytes = 0;
};

constexpr unsigned kLanes = 32;

/// Lanes that wait for each other, and what they hand over. Two places for
/// each: who comes to the next shuffle has read what the last one gave.
struct Warp {
  Fiber *waiting[kLanes];
  unsigned waits = 0;
  uint64_t values[2][kLanes];
  unsigned turn[kLanes] = {};
};

struct Device {
  Context scheduler;
  Fiber *fibers[kMostThreads] = {};
  unsigned made = 0;
  Fiber *running = nullptr;

  Fiber *idle[kMostThreads], *waiting[kMostThreads];
  unsigned idles = 0, waits = 0;
  const Call *call = nullptr;
  unsigned threads = 0, started = 0;
  Order order{1};
  int line = 0; ///< of the barrier that is waited at
  Warp warps[kMostThreads / kLanes];
  Shared shared;
};

/// Of the device thread.
Device device;

void place(unsigned thread) {
  if (device.threads == blockDim.x)
    threadIdx = {thread, 0, 0};
  else
    threadIdx = {thread % blockDim.x, thread / blockDim.x % blockDim.y,
                 thread / blockDim.x / blockDim.y};
}

void fiberMain() {
  for (;;) {
    Fiber *self = device.running;
    while (device.started < device.threads) {
      device.started++;
      self->thread = unsigned(device.order.next());
      place(self->thread);
      device.call->thread(device.call->arguments.get());
    }
    device.idle[device.idles++] = self;
    self->context.switchTo(device.scheduler);
  }
}

Fiber *makeFiber() {
  size_t page = size_t(sysconf(_SC_PAGESIZE));
  void *stack = mmap(nullptr, kStack + page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED)
    die("no memory for the stack of a thread");
  mprotect(stack, page, PROT_NONE); // stacks grow down
  auto *fiber = new Fiber;
  fiber->context.prepare(static_cast<char *>(stack) + page, kStack, fiberMain);
  device.made++;
  return fiber;
}

void resume(Fiber *fiber) {
  device.running = fiber;
  place(fiber->thread);
  device.scheduler.switchTo(fiber->context);
}

/// Thread-local storage of the object that holds `address`, on this thread.
int findStatics(dl_phdr_info *info, size_t, void *address) {
  bool here = false;
  size_t bytes = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &header = info->dlpi_phdr[i];
    auto offset = reinterpret_cast<uintptr_t>(address) -
                  uintptr_t(info->dlpi_addr + header.p_vaddr);
    here |= header.p_type == PT_LOAD && offset < header.p_memsz;
    if (header.p_type == PT_TLS)
      bytes = header.p_memsz;
  }
  if (!here)
    return 0;
  device.shared.statics = static_cast<char *>(info->dlpi_tls_data);
  device.shared.staticBytes = device.shared.statics ? bytes : 0;
  return 1;
}

void prepareShared(const Call &call, size_t bytes) {
  Shared &s = device.shared;
  dl_iterate_phdr(findStatics, const_cast<void *>(call.kernel));
  if (!s.end) {
    size_t page = size_t(sysconf(_SC_PAGESIZE));
    void *memory = mmap(nullptr, kMostShared + page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      die("no memory for shared memory");
    s.end = static_cast<char *>(memory) + kMostShared;
    mprotect(s.end, page, PROT_NONE);
  }
  s.bytes = bytes;
}

/// Behind a fiber's stack or nowhere: all threads of the block wait at one
/// barrier.
void requireAllAtBarrier() {
  if (device.waits != device.threads)
    die("%s: %u of a block's %u threads wait at the barrier of line %d, the "
        "others have ended",
        nameOf(device.call->kernel).c_str(), device.waits, device.threads,
        device.line);
}

/// Shared memory means nothing when a block begins. `used`: a block before it
/// may have written to the static one.
void spoilShared(bool used) {
  Shared &s = device.shared;
  if (used && s.staticBytes)
    std::memset(s.statics, kPoison, s.staticBytes);
  std::memset(s.end - s.bytes, kPoison, s.bytes);
}

bool isSpoilt() {
  const Shared &s = device.shared;
  return s.staticBytes == 0 ||
         (s.statics[0] == char(kPoison) &&
          std::memcmp(s.statics, s.statics + 1, s.staticBytes - 1) == 0);
}

/// Lets warps go on whose lanes have all come, until none is left.
void runWarps() {
  unsigned warps = (device.threads + kLanes - 1) / kLanes, waiting = 0;
  for (bool moves = true; moves;) {
    moves = false;
    waiting = 0;
    Order order(warps);
    for (unsigned i = 0; i < warps; ++i) {
      Warp &warp = device.warps[order.next()];
      for (; warp.waits == kLanes; moves = true) {
        Fiber *ready[kLanes];
        std::memcpy(ready, warp.waiting, sizeof ready);
        warp.waits = 0;
        Order lanes(kLanes);
        for (unsigned k = 0; k < kLanes; ++k)
          resume(ready[lanes.next()]);
      }
      waiting += warp.waits;
    }
  }
  for (unsigned i = 0; waiting && i < warps; ++i)
    if (unsigned n = device.warps[i].waits)
      die("%s: %u of a warp's 32 lanes wait for the others at line %d, which "
          "do not come",
          nameOf(device.call->kernel).c_str(), n,
          device.warps[i].waiting[0]->line);
}

void runBlock() {
  device.order = Order(device.threads);
  device.started = 0;
  while (device.started < device.threads)
    resume(device.idles ? device.idle[--device.idles] : makeFiber());
  runWarps();
  while (device.waits > 0) {
    requireAllAtBarrier();
    Fiber *ready[kMostThreads]; // by thread
    unsigned n = std::exchange(device.waits, 0);
    for (unsigned i = 0; i < n; ++i)
      ready[device.waiting[i]->thread] = device.waiting[i];
    Order order(n);
    for (unsigned i = 0; i < n; ++i)
      resume(ready[order.next()]);
    runWarps();
  }
}

/// Waits for the lanes of this warp.
void waitForWarp(unsigned lanes, int line) {
  if (lanes != ~0u)
    die("%s: lanes %#x of a warp at line %d: the double knows whole warps only",
        nameOf(device.call->kernel).c_str(), lanes, line);
  Fiber *self = device.running;
  Warp &warp = device.warps[self->thread / kLanes];
  if (warp.waits && warp.waiting[0]->line != line)
    die("%s: lanes of a warp wait for each other at different lines, %d and %d",
        nameOf(device.call->kernel).c_str(), warp.waiting[0]->line, line);
  self->line = line;
  warp.waiting[warp.waits++] = self;
  self->context.switchTo(device.scheduler);
}

} // namespace

void *dynamicShared() {
  // As CUDA aligns it.
  return device.shared.end - (device.shared.bytes + 15) / 16 * 16;
}

bool isBehindShared(const void *address) {
  auto *at = static_cast<const char *>(address);
  return device.shared.end && at >= device.shared.end &&
         at < device.shared.end + sysconf(_SC_PAGESIZE);
}

size_t sharedBytes() { return device.shared.bytes; }

unsigned ownLane() { return device.running->thread % kLanes; }

uint64_t exchange(unsigned lanes, uint64_t value, unsigned lane, int line) {
  unsigned own = ownLane();
  Warp &warp = device.warps[device.running->thread / kLanes];
  uint64_t *values = warp.values[warp.turn[own]++ % 2];
  values[own] = value;
  waitForWarp(lanes, line);
  return values[lane < kLanes ? lane : own];
}

void runBlocks(const Call &call, dim3 grid, dim3 block, size_t sharedBytes) {
  prepareShared(call, sharedBytes);
  gridDim = grid;
  blockDim = block;
  device.call = &call;
  device.threads = block.x * block.y * block.z;
  uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z;
  Order order(blocks);
  // Most kernels have no static shared memory: a look at the first block and
  // one behind the last are cheaper than filling it each time.
  static auto &users = *new std::set<const void *>;
  bool used = users.count(call.kernel);
  spoilShared(true);
  for (uint64_t i = 0; i < blocks; ++i) {
    uint64_t b = order.next();
    if (i > 0)
      spoilShared(used);
    blockIdx = {unsigned(b % grid.x), unsigned(b / grid.x % grid.y),
                unsigned(b / grid.x / grid.y)};
    runBlock();
    if (!used && (i == 0 || i + 1 == blocks) && !isSpoilt())
      used = users.insert(call.kernel).second;
  }
}

} // namespace cuda_double

void __syncwarp(unsigned lanes, int line) {
  cuda_double::waitForWarp(lanes, line);
}

void __syncthreads(int line) {
  using namespace cuda_double;
  if (device.waits && line != device.line)
    die("%s: threads of a block wait at different barriers, of lines %d and "
        "%d",
        nameOf(device.call->kernel).c_str(), device.line, line);
  device.line = line;
  Fiber *self = device.running;
  device.waiting[device.waits++] = self;
  self->context.switchTo(device.scheduler);
}

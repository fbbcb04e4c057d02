//===- Blocks.cpp - kernels on the host -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One block at a time. A fiber (a stack) runs a block's threads one after
// another while none of them waits; one that reaches a barrier keeps its fiber,
// and another fiber goes on with the next thread. So a kernel without barriers
// is a loop on one fiber. Barriers of warps open when all lanes have come, in
// an order that is drawn; when none can, all threads must wait at the block's.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <link.h>
#include <sys/mman.h>

#ifndef __x86_64__
#error "stacks are switched by instructions of x86-64"
#endif

dim3 threadIdx, blockIdx, blockDim, gridDim;

//===--- Switching stacks

// Saves what a callee must keep and the stack; goes on where `to` stopped.
extern "C" void dtSwitchStack(void **from, void *to);
asm(R"(
.pushsection .text
.globl dtSwitchStack
.type dtSwitchStack, @function
dtSwitchStack:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size dtSwitchStack, .-dtSwitchStack
.popsection
)");

namespace cuda_double {

namespace {

constexpr size_t kStack = 64 << 10;
constexpr unsigned kLanes = 32, kMostWarps = kMostThreads / kLanes;

size_t pageBytes() { return size_t(sysconf(_SC_PAGESIZE)); }

/// `bytes` of memory with a closed page ahead of it and one behind it.
char *allocateGuarded(size_t bytes) {
  size_t page = pageBytes();
  void *pages = mmap(nullptr, bytes + 2 * page, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  char *data = static_cast<char *>(pages) + page;
  if (pages == MAP_FAILED || mprotect(data, bytes, PROT_READ | PROT_WRITE))
    die("no memory for stacks and shared memory");
  return data;
}

struct Fiber {
  void *place = nullptr; ///< of its stack, where it stands still
  unsigned thread = 0;   ///< that it runs or keeps waiting
};

/// Threads of a block that wait for each other: a warp's or all.
struct Barrier {
  unsigned first = 0, size = 0;
  unsigned came = 0;
  int line = 0; ///< of the program, where they wait
};

/// What the lanes of a warp hand over. Two places for each: who comes to the
/// next shuffle has read what the last one gave.
struct Lanes {
  uint64_t values[2][kLanes];
  unsigned turn[kLanes] = {};
};

/// The block that runs.
struct Block {
  const Call *call = nullptr;
  unsigned threads = 0, started = 0;
  Order order{1};
  void *scheduler = nullptr; ///< where the device thread stands still
  Fiber *running = nullptr;
  Fiber *fibers[kMostThreads]; ///< of threads that have started
  std::vector<Fiber *> idle;
  Barrier all, warps[kMostWarps];
  Lanes lanes[kMostWarps];
} block;

/// What of shared memory a block sees: thread-local storage of the program, and
/// a buffer that ends before a page nobody may touch.
struct Shared {
  char *statics = nullptr;
  size_t staticBytes = 0;
  char *end = nullptr; ///< of the dynamic one
  size_t bytes = 0;
} shared;

std::string kernelName() { return nameOf(block.call->kernel); }

void fiberMain() {
  for (;;) {
    Fiber *self = block.running;
    while (block.started < block.threads) {
      block.started++;
      self->thread = unsigned(block.order.next());
      block.fibers[self->thread] = self;
      threadIdx.x = self->thread;
      block.call->thread();
    }
    block.idle.push_back(self);
    dtSwitchStack(&self->place, block.scheduler);
  }
}

Fiber *idleFiber() {
  if (block.idle.empty()) {
    auto *top = reinterpret_cast<void **>(allocateGuarded(kStack) + kStack);
    // As if called: the stack is 8 bytes off 16 where a function begins.
    top[-2] = reinterpret_cast<void *>(fiberMain);
    block.idle.push_back(new Fiber{top - 8});
  }
  Fiber *fiber = block.idle.back();
  block.idle.pop_back();
  return fiber;
}

void resume(Fiber *fiber) {
  block.running = fiber;
  threadIdx.x = fiber->thread;
  dtSwitchStack(&block.scheduler, fiber->place);
}

/// Lets all go on.
void open(Barrier &barrier) {
  barrier.came = 0;
  Order order(barrier.size);
  for (unsigned i = 0; i < barrier.size; ++i)
    resume(block.fibers[barrier.first + order.next()]);
}

/// The running thread waits. `others`: what is said where another thread waits
/// at another line.
void wait(Barrier &barrier, int line, const char *others) {
  if (barrier.came && barrier.line != line)
    die(kernelName(), ": ", others, barrier.line, " and ", line);
  barrier.line = line;
  barrier.came++;
  dtSwitchStack(&block.running->place, block.scheduler);
}

void waitForWarp(unsigned lanes, int line) {
  if (lanes != ~0u)
    die(kernelName(), ": some lanes of a warp at line ", line,
        ": the double knows whole warps only");
  wait(block.warps[block.running->thread / kLanes], line,
       "lanes of a warp wait for each other at different lines, ");
}

/// A block's barrier opens when no warp's can.
void runBlock() {
  block.order = Order(block.threads);
  block.started = 0;
  while (block.started < block.threads)
    resume(idleFiber());
  unsigned warps = (block.threads + kLanes - 1) / kLanes;
  for (;;) {
    bool moves = false;
    Order order(warps);
    for (unsigned i = 0; i < warps; ++i)
      if (Barrier &warp = block.warps[order.next()]; warp.came == kLanes) {
        open(warp);
        moves = true;
      }
    if (moves)
      continue;
    for (const Barrier &warp : block.warps)
      if (warp.came)
        die(kernelName(), ": ", warp.came,
            " of a warp's 32 lanes wait for the others at line ", warp.line,
            ", which do not come");
    if (block.all.came == 0)
      return;
    if (block.all.came != block.threads)
      die(kernelName(), ": ", block.all.came, " of a block's ", block.threads,
          " threads wait at the barrier of line ", block.all.line,
          ", the others have ended");
    open(block.all);
  }
}

/// Thread-local storage of the program, the first object, on this thread.
int findStatics(dl_phdr_info *info, size_t, void *) {
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_data) {
      shared.statics = static_cast<char *>(info->dlpi_tls_data);
      shared.staticBytes = info->dlpi_phdr[i].p_memsz;
    }
  return 1;
}

/// Shared memory means nothing when a block begins.
void spoilShared() {
  std::memset(shared.statics, kPoison, shared.staticBytes);
  std::memset(shared.end - shared.bytes, kPoison, shared.bytes);
}

} // namespace

void *dynamicShared() {
  return shared.end - (shared.bytes + 15) / 16 * 16; // as CUDA aligns it
}

bool isBehindShared(const void *address) {
  auto *at = static_cast<const char *>(address);
  return shared.end && at >= shared.end && at < shared.end + pageBytes();
}

unsigned ownLane() { return block.running->thread % kLanes; }

uint64_t exchange(unsigned lanes, uint64_t value, unsigned lane, int line) {
  unsigned own = ownLane();
  Lanes &warp = block.lanes[block.running->thread / kLanes];
  uint64_t *values = warp.values[warp.turn[own]++ % 2];
  values[own] = value;
  waitForWarp(lanes, line);
  return values[lane < kLanes ? lane : own];
}

void runBlocks(const Call &call, unsigned blocks, unsigned threads,
               size_t sharedBytes) {
  dl_iterate_phdr(findStatics, nullptr);
  if (size_t room = kMostShared + (1 << 10); !shared.end) // whole pages
    shared.end = allocateGuarded(room) + room;
  shared.bytes = sharedBytes;
  gridDim = {blocks};
  blockDim = {threads};
  block.call = &call;
  block.threads = threads;
  block.all = {0, threads};
  for (unsigned w = 0; w < kMostWarps; ++w)
    block.warps[w] = {w * kLanes, kLanes};
  Order order(blocks);
  for (unsigned i = 0; i < blocks; ++i) {
    spoilShared();
    blockIdx.x = unsigned(order.next());
    runBlock();
  }
}

} // namespace cuda_double

using namespace cuda_double;

void __syncwarp(unsigned lanes, int line) { waitForWarp(lanes, line); }

void __syncthreads(int line) {
  wait(block.all, line,
       "threads of a block wait at different barriers, of lines ");
}

//===- Blocks.cpp - kernels on the host -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Each of a block's threads has a stack of its own, on which it runs until it
// ends or waits at a barrier.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <link.h>
#include <span>
#include <sys/mman.h>

#ifndef __x86_64__
#error "stacks are switched by instructions of x86-64"
#endif

using namespace cuda_double;

//===--- Switching stacks

/// Saves what a callee must keep and the stack; goes on where `to` stopped.
[[gnu::naked, gnu::noipa]] static void switchStack([[maybe_unused]] void **from,
                                                   [[maybe_unused]] void *to) {
  asm(R"(
    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
    ret
  )");
}

namespace {

constexpr size_t kStack = 64 << 10;
constexpr unsigned kLanes = 32, kMostWarps = kMostThreads / kLanes;

/// The end of so much open memory, with a closed page behind it and one ahead.
char *allocateGuarded(size_t bytes) {
  bytes = roundUp(bytes, kPage);
  char *data = reserve(bytes + 2 * kPage) + kPage;
  if (mprotect(data, bytes, PROT_READ | PROT_WRITE))
    die("no memory for stacks and shared memory");
  return data + bytes;
}

/// Threads of a block that wait for each other: a warp's or all.
struct Barrier {
  unsigned first = 0, size = 0, came = 0, opened = 0;
  int line = 0; ///< of the program, where they wait
};

/// What its lanes hand over has two places for each: who comes to the next
/// shuffle need not wait until the others have read what the last one gave.
struct Warp : Barrier {
  uint64_t values[2][kLanes];
};

/// The block that runs.
struct Block {
  const Call *call = nullptr;
  /// Where stacks stand still: the device thread's, its threads'; null: none.
  void *scheduler = nullptr, *stacks[kMostThreads] = {};
  Barrier all;
  Warp warps[kMostWarps];
} block;

/// What of shared memory a block sees: thread-local storage of the program, and
/// a buffer that ends before a page nobody may touch.
std::span<char> statics, dynamic;
char *const dynamicEnd = allocateGuarded(kMostShared);

/// The running thread waits, or has ended.
void leave() { switchStack(&block.stacks[threadIdx.x], block.scheduler); }

/// One thread of each block, in turn.
void runThreads() {
  for (;; leave())
    block.call->thread();
}

/// Lets all run until they end or wait.
void open(Barrier &barrier) {
  barrier.came = 0;
  barrier.opened++;
  for (uint64_t i : drawOrder(barrier.size)) {
    threadIdx.x = unsigned(barrier.first + i);
    void *&stack = block.stacks[threadIdx.x];
    if (!stack) {
      auto *top = reinterpret_cast<void **>(allocateGuarded(kStack));
      // As if called: the stack is 8 bytes off 16 where a function begins.
      top[-2] = reinterpret_cast<void *>(runThreads);
      stack = top - 8;
    }
    switchStack(&block.scheduler, stack);
  }
}

/// The running thread waits. `others`: said where others wait at another line.
void wait(Barrier &barrier, int line, const char *others) {
  if (barrier.came && barrier.line != line)
    die(nameOf(runningKernel), ": ", others, barrier.line, " and ", line);
  barrier.line = line;
  barrier.came++;
  leave();
}

/// A block's barrier opens when no warp's can.
void runBlock() {
  size_t threads = block.all.size, warps = roundUp(threads, kLanes) / kLanes;
  do {
    open(block.all);
    for (bool moves = true; moves;) {
      moves = false;
      for (uint64_t w : drawOrder(warps))
        if (block.warps[w].came == kLanes) {
          open(block.warps[w]);
          moves = true;
        }
    }
    for (const Barrier &warp : block.warps)
      if (warp.came)
        die(nameOf(runningKernel), ": ", warp.came,
            " of a warp's 32 lanes wait for the others at line ", warp.line,
            ", which do not come");
    if (block.all.came != 0 && block.all.came != threads)
      die(nameOf(runningKernel), ": ", block.all.came, " of a block's ",
          threads, " threads wait at the barrier of line ", block.all.line,
          ", the others have ended");
  } while (block.all.came != 0);
}

/// Thread-local storage of the program, the first object, on this thread.
int findStatics(dl_phdr_info *info, size_t, void *) {
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_data)
      statics = {static_cast<char *>(info->dlpi_tls_data),
                 info->dlpi_phdr[i].p_memsz};
  return 1;
}

} // namespace

void *cuda_double::dynamicShared() {
  return dynamicEnd - roundUp(dynamic.size(), 16); // as CUDA aligns it
}

bool cuda_double::isBehindShared(const void *address) {
  return address >= dynamicEnd && address < dynamicEnd + kPage;
}

void cuda_double::exchange(unsigned lanes, void *value, size_t bytes,
                           unsigned lane, int line) {
  if (lanes != ~0u)
    die(nameOf(runningKernel), ": some lanes of a warp at line ", line,
        ": the double knows whole warps only");
  unsigned own = threadIdx.x % kLanes;
  Warp &warp = block.warps[threadIdx.x / kLanes];
  uint64_t *values = warp.values[warp.opened % 2];
  std::memcpy(&values[own], value, bytes);
  wait(warp, line, "lanes of a warp wait for each other at different lines, ");
  std::memcpy(value, &values[lane < kLanes ? lane : own], bytes);
}

void cuda_double::runBlocks(const Call &call,
                            const cudaLaunchConfig_t &launch) {
  dl_iterate_phdr(findStatics, nullptr);
  dynamic = {dynamicEnd - launch.dynamicSmemBytes, dynamicEnd};
  gridDim = launch.gridDim;
  blockDim = launch.blockDim;
  block.call = &call;
  block.all = {0, blockDim.x};
  for (unsigned w = 0; w < kMostWarps; ++w)
    static_cast<Barrier &>(block.warps[w]) = {w * kLanes, kLanes};
  for (uint64_t b : drawOrder(gridDim.x)) {
    // Shared memory means nothing when a block begins.
    std::ranges::fill(statics, char(kPoison));
    std::ranges::fill(dynamic, char(kPoison));
    blockIdx.x = unsigned(b);
    runBlock();
  }
}

void __syncthreads(int line) {
  wait(block.all, line,
       "threads of a block wait at different barriers, of lines ");
}

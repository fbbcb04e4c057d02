//===- Blocks.cpp - kernels on the host -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A fiber (a stack) runs a block's threads one after another while none of them
// waits; one that reaches a barrier keeps its fiber, and another fiber goes on
// with the next thread. So a kernel without barriers is a loop on one fiber.
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

dim3 threadIdx, blockIdx, blockDim, gridDim;

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
  std::vector<uint64_t> order; ///< of its threads
  size_t started = 0;          ///< threads
  // Where stacks stand still: the device thread's, those of threads that wait,
  // and of fibers that have no thread.
  void *scheduler = nullptr, *waiting[kMostThreads];
  std::vector<void *> idle;
  Barrier all;
  Warp warps[kMostWarps];
} block;

/// What of shared memory a block sees: thread-local storage of the program, and
/// a buffer that ends before a page nobody may touch.
std::span<char> statics, dynamic;
char *const dynamicEnd = allocateGuarded(kMostShared);

void fiberMain() {
  for (;;) {
    while (block.started < block.order.size()) {
      threadIdx.x = unsigned(block.order[block.started++]);
      block.call->thread();
    }
    switchStack(&block.idle.emplace_back(), block.scheduler);
  }
}

/// Threads that have not started, one after another, until one waits.
void startThreads() {
  if (block.idle.empty()) {
    auto *top = reinterpret_cast<void **>(allocateGuarded(kStack));
    // As if called: the stack is 8 bytes off 16 where a function begins.
    top[-2] = reinterpret_cast<void *>(fiberMain);
    block.idle.push_back(top - 8);
  }
  void *fiber = block.idle.back();
  block.idle.pop_back();
  switchStack(&block.scheduler, fiber);
}

/// Lets all go on.
void open(Barrier &barrier) {
  barrier.came = 0;
  barrier.opened++;
  for (uint64_t i : drawOrder(barrier.size)) {
    threadIdx.x = unsigned(barrier.first + i);
    switchStack(&block.scheduler, block.waiting[threadIdx.x]);
  }
}

/// The running thread waits. `others`: what is said where another thread waits
/// at another line.
void wait(Barrier &barrier, int line, const char *others) {
  if (barrier.came && barrier.line != line)
    die(nameOf(runningKernel), ": ", others, barrier.line, " and ", line);
  barrier.line = line;
  barrier.came++;
  switchStack(&block.waiting[threadIdx.x], block.scheduler);
}

/// A block's barrier opens when no warp's can.
void runBlock() {
  size_t threads = block.all.size, warps = roundUp(threads, kLanes) / kLanes;
  block.order = drawOrder(threads);
  block.started = 0;
  while (block.started < threads)
    startThreads();
  for (;;) {
    bool moves = false;
    for (uint64_t w : drawOrder(warps))
      if (block.warps[w].came == kLanes) {
        open(block.warps[w]);
        moves = true;
      }
    if (moves)
      continue;
    for (const Barrier &warp : block.warps)
      if (warp.came)
        die(nameOf(runningKernel), ": ", warp.came,
            " of a warp's 32 lanes wait for the others at line ", warp.line,
            ", which do not come");
    if (block.all.came == 0)
      return;
    if (block.all.came != threads)
      die(nameOf(runningKernel), ": ", block.all.came, " of a block's ",
          threads, " threads wait at the barrier of line ", block.all.line,
          ", the others have ended");
    open(block.all);
  }
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

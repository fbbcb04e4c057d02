//===- Dnnl.cpp - the runtime's one oneDNN engine and its scratch ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Dnnl.h"

#include <cstdio>
#include <cstdlib>
#include <new>

namespace dt::rt {

dnnl::engine &dnnlEngine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream &dnnlStream() {
  static dnnl::stream stream(dnnlEngine());
  return stream;
}

bool multipliesNarrow() {
  // Sets of instructions are sets of bits: AMX has those of bfloat16, too.
  constexpr int narrow = int(dnnl::cpu_isa::avx512_core_bf16);
  return (int(dnnl::get_effective_cpu_isa()) & narrow) == narrow;
}

void libraryFailure(const char *call, const char *reason) {
  std::fprintf(stderr, "error: %s failed: %s\n", call, reason);
  std::exit(1);
}

Scratch::~Scratch() {
  for (Block &block : blocks)
    std::free(block.data);
}

void *Scratch::bytes(size_t size) {
  if (used == blocks.size())
    blocks.push_back({nullptr, 0});
  Block &block = blocks[used++];
  if (block.size < size) {
    std::free(block.data);
    block.size = (size + 63) / 64 * 64;
    block.data = std::aligned_alloc(64, block.size);
    if (!block.data)
      throw std::bad_alloc();
  }
  return block.data;
}

Scratch &threadScratch() {
  static thread_local Scratch scratch;
  return scratch;
}

} // namespace dt::rt

//===- RoomTest.cpp - scratch after a rehearsal ---------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// With DT_CUDA_DOUBLE_GROWS cuDNN's plans for small batches want more workspace
// than those for large ones.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Device.h"
#include "runtime/device/cuda/Calls.h"
#include "runtime/device/cuda/Cuda.h"

#include <gtest/gtest.h>

using namespace dt::rt;

namespace {

constexpr int64_t kHeads = 2, kRows = 8, kWidth = 16;

/// Attention forward and back, and a convolution, of a batch on the device.
void compute(int64_t b) {
  int64_t row = kHeads * kWidth, all = b * kRows * row;
  AttentionShape s{};
  s.b = b, s.t = s.s = kRows, s.h = s.hk = kHeads, s.d = s.dv = kWidth;
  s.qb = s.kb = s.vb = s.ob = kRows * row;
  s.qt = s.ks = s.vs = s.ot = row;
  s.qh = s.kh = s.vh = s.oh = kWidth;
  s.scale = 1;
  auto *memory = static_cast<bf16 *>(
      device::allocate(size_t(8 * all) * sizeof(bf16), "tensors"));
  auto *lse = static_cast<float *>(
      device::allocate(size_t(b * kHeads * kRows) * sizeof(float), "sums"));
  auto at = [&](int i) { return memory + i * all; };
  void *stream = device::stream();
  attentionForward(at(0), at(1), at(2), nullptr, at(3), lse, s, stream);
  attentionBackward(at(0), at(1), at(2), nullptr, at(3), lse, at(4), at(5),
                    at(6), at(7), s, stream);
  ConvShape c{};
  c.dims = 2, c.n = b, c.c = c.o = 8, c.groups = 1;
  for (int d = 0; d < 2; ++d)
    c.in[d] = 4, c.kernel[d] = c.stride[d] = c.dilation[d] = 1;
  convForward(at(0), at(1), Floats(nullptr), at(2), c, stream);
  device::synchronize();
  device::release(memory);
  device::release(lse);
}

/// How often scratch moves when a small batch follows a large one.
unsigned movesAfter(bool rehearses) {
  device::initialize(1);
  if (rehearses)
    device::rehearse(true);
  compute(4);
  if (rehearses)
    device::rehearse(false);
  unsigned before = cuda::scratchMoves;
  compute(1);
  return cuda::scratchMoves - before;
}

} // namespace

/// Where nothing was rehearsed, scratch grows: each test is a process.
TEST(Room, GrowsWithoutARehearsal) { EXPECT_GT(movesAfter(false), 0u); }

TEST(Room, StaysAsRehearsed) {
  EXPECT_EQ(movesAfter(true), 0u);
  EXPECT_GT(cuda::scratchBytes(3), 0u);
  // What no step does may have more.
  device::Unrehearsed unrehearsed;
  unsigned before = cuda::scratchMoves;
  compute(2);
  EXPECT_GT(cuda::scratchMoves, before);
}

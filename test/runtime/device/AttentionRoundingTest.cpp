//===- AttentionRoundingTest.cpp - what rounding leaves of gradients ------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Attention.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

using namespace dt::rt;

/// Values that are nearly alike: what a probability changes is the small
/// difference of large numbers, none of which may have been rounded to bf16.
TEST(AttentionRounding, ValuesThatAreNearlyAlike) {
  AttentionShape s{};
  s.b = 1, s.t = s.s = 24, s.h = s.hk = 1, s.d = s.dv = 16;
  s.qt = s.ks = s.vs = s.ot = 16;
  s.scale = 0.25f, s.causal = true;
  size_t count = size_t(s.t * s.d);
  std::vector<float> alike = randoms(count, 3);
  for (float &value : alike)
    value += 8;
  std::vector<bf16> q = narrow(randoms(count, 1)),
                    k = narrow(randoms(count, 2)), v = narrow(alike),
                    dout = narrow(randoms(count, 4)), o(count), dq(count),
                    dk(count), dv(count);
  std::vector<float> wideO(count), wideDq(count), wideDk(count), wideDv(count),
      lse(size_t(s.t));
  attentionForward(q.data(), k.data(), v.data(), nullptr, o.data(), lse.data(),
                   s);
  attentionBackward(q.data(), k.data(), v.data(), nullptr, o.data(), lse.data(),
                    dout.data(), dq.data(), dk.data(), dv.data(), s);
  std::vector<float> wideQ = widen(q), wideK = widen(k), wideV = widen(v),
                     wideDout = widen(dout);
  attentionForward(wideQ.data(), wideK.data(), wideV.data(), nullptr,
                   wideO.data(), lse.data(), s);
  attentionBackward(wideQ.data(), wideK.data(), wideV.data(), nullptr,
                    wideO.data(), lse.data(), wideDout.data(), wideDq.data(),
                    wideDk.data(), wideDv.data(), s);
  EXPECT_LT(relativeError(widen(dq), wideDq), kNarrowEps);
  EXPECT_LT(relativeError(widen(dk), wideDk), kNarrowEps);
}

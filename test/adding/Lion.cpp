//===- Lion.cpp - the optimizer of optimizer.patch --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/EnumTexts.h"
#include "runtime/device/Device.h"

#include <cstdio>

using namespace dt::rt;

/// Steps of one element against the formula in double; beta1 0.9, beta2 0.99.
int main() {
  std::optional<OptimizerKind> kind = fromText<OptimizerKind>("lion");
  if (!kind || describe(*kind).moments.size != 1)
    return std::puts("no such optimizer"), 1;
  double settings[2];
  for (int i = 0; i < 2; ++i)
    settings[i] = describe(*kind).settings[size_t(i)].initial;
  float p = 1, g = 0, mean = 0;
  device::UpdateRun run{&p, &g, {&mean}, 1, nullptr};
  Verdict verdict{0, 0, 1, true};
  double wantP = 1, wantMean = 0;
  for (int step = 0; step < 20; ++step) {
    g = float(step % 7) - 2.5f;
    device::update(*kind, {settings, 0.01, 0.1, step}, {&run, 1, 1}, &verdict);
    double direction = 0.9 * wantMean + 0.1 * g;
    wantP = wantP * (1 - 0.01 * 0.1) - (direction > 0 ? 0.01 : -0.01);
    wantMean = 0.99 * wantMean + 0.01 * g;
    if (std::abs(p - wantP) > 1e-5 || std::abs(mean - wantMean) > 1e-6)
      return std::printf("step %d: %g for %g\n", step, p, wantP), 1;
  }
}

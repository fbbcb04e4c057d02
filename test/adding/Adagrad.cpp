//===- Adagrad.cpp - the optimizer of optimizer.patch -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/EnumTexts.h"
#include "runtime/device/Device.h"

#include <cstdio>

using namespace dt::rt;

/// Steps of one element against the formula in double.
int main() {
  std::optional<OptimizerKind> kind = fromText<OptimizerKind>("adagrad");
  if (!kind || describe(*kind).moments.size != 1)
    return std::puts("no such optimizer"), 1;
  double eps = describe(*kind).settings[0].initial;
  float p = 1, g = 0, sum = 0;
  device::UpdateRun run{&p, &g, {&sum}, 1, nullptr};
  Verdict verdict{0, 0, 1, true};
  double wantP = 1, wantSum = 0;
  for (int step = 0; step < 20; ++step) {
    g = float(step % 7) - 2.5f;
    device::update(*kind, {&eps, 0.01, 0.1, step}, {&run, 1, 1}, &verdict);
    double gradient = g + 0.1 * wantP;
    wantSum += gradient * gradient;
    wantP -= 0.01 * gradient / (std::sqrt(wantSum) + eps);
    if (std::abs(p - wantP) > 1e-5 || std::abs(sum - wantSum) > 1e-4)
      return std::printf("step %d: %g for %g\n", step, p, wantP), 1;
  }
}

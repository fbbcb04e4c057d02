//===- Signum.cpp - An optimizer --------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Signum.h"
#include "Example.h"

// Its text, by dist_train_embed.
static const char kHeader[] = {
#include "Signum.h.inc"
};

void example::addSignum(dt::Plugin &plugin) {
  plugin.addOptimizer<dt::rt::optimizers::Signum>("Signum", kHeader);
}

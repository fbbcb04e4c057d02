//===- Pipeline.td - Passes in order -----------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PIPELINE
#define PASSES_PIPELINE

// Passes that run one after another, each in MLIR's textual form: "cse", "dist-schedule{planned=true}", "dist.module(dist-shard)". In the Passes.td of a
// phase, `def Name : Pipeline<[…]>` gives the phase's Passes.h the function `void buildName(OpPassManager &)`.
class Pipeline<list<string> inOrder> {
  list<string> passes = inOrder;
}

#endif // PASSES_PIPELINE

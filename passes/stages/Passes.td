//===- Passes.td - The pass of the stages phase ---------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_STAGES_PASSES
#define PASSES_STAGES_PASSES

include "passes/Pipeline.td"

include "mlir/Pass/PassBase.td"

// Nothing happens to modules without a plan.
def StagesPipeline : Pipeline<["dist-cut-stages"]>;

def CutStages : Pass<"dist-cut-stages", "::mlir::ModuleOp"> {
  let summary = "Cut modules into pipeline stages";
  let description = [{
    A module with `pp`, `vpp` (or `stages`, the layers of each stage) becomes the modules `m.0`, `m.1`, … Cut points are between the ops of @forward, where layers are calls. Without a list the cuts are
    those that the planner would make: its prices of ops and messages on the plan's cluster (`cpu-2` if it names none), the most expensive stage as cheap as can be.

    - A value that crosses becomes a `dist.edge` from the stage that computes it to each stage that uses it.
    - Raw inputs go where they are used.
    - What is cheap and comes from raw inputs or constants only, and what has no items, is computed again in each stage.
    - A parameter that several stages read gets one `nn.parameter` in each, joined by `dist.tie`.
    - Losses follow their numerator.

    Modules that run over the whole batch then get the ranks of the modules that feed them.
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect", "::mlir::func::FuncDialect"];
}

#endif // PASSES_STAGES_PASSES

//===- Passes.td - Passes of the modules phase -------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_MODULES_PASSES
#define PASSES_MODULES_PASSES

include "passes/Pipeline.td"

include "mlir/Pass/PassBase.td"

// From modules as the recipe has them to modules that can be run a part at a time. Works on straight-line functions: layers are outlined later.
def ModulesPipeline : Pipeline<[
  "dist-split-losses",
  "dist-cut-contrastive",
  // Towers are found in what the head leaves.
  "dist-find-modules",
  "dist-round-rows",
  "dist-verify-modules"
]>;

// What changes once a plan is known, which names the modules that are there now: replicas cut the batch too.
def ModulesUnderPlan : Pipeline<[
  "dist-cut-contrastive",
  "dist-round-rows",
  "dist-verify-modules"
]>;

def SplitLosses : Pass<"dist-split-losses", "::mlir::ModuleOp"> {
  let summary = "Make numerator and denominator of losses that a graph computes itself";
  let description = [{
    A loss without denominator is a number that the graph computes, e.g. a mean. The pass follows it backward as a weighted sum of quotients: `div(sum, count)`, `reduce mean`, sums and multiples of such. Their numerators
    are sums over items, and their denominators depend on raw inputs only. Each quotient becomes a dist.loss of its own.

    - Signs, factors and conditions that do not depend on items stay around the numerator.
    - `max(count, c)` and `count + c` become the loss's `at_least` and `plus`, which apply to the sum over the whole batch.
    - A condition that the count is not 0 is dropped: every loss has it.

    A loss that cannot be split stays as it is. It is an error later, if the batch is cut.
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect", "::mlir::func::FuncDialect"];
}

def CutContrastive : Pass<"dist-cut-contrastive", "::mlir::ModuleOp"> {
  let summary = "Cut a module before the product of all items with all items";
  let description = [{
    A loss that compares every item with every other cannot be summed over parts of the batch. The module is cut at the last values that belong to one item each (embeddings). What comes before stays and runs one microbatch
    at a time. What comes after becomes a `whole_batch` module with its own dims, which runs once a step. Parameters go where they are used.

    Only if the batch is cut into microbatches, if modules are to be found inside this one (`split`), or if it multiplies in bf16, which a whole-batch module does not.
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect", "::mlir::func::FuncDialect"];
}

def FindModules : Pass<"dist-find-modules", "::mlir::ModuleOp"> {
  let summary = "Cut one graph into the modules that it holds";
  let description = [{
    For modules with the attribute `split` (recipe: `"split": "auto"`), or all. Ops that depend on some of the raw inputs only, do a large share of the work and hand over little become a module: an encoder, a tower.
    What is left is the last module. Only structure decides (docs/modules.md); scopes in parameter names give names. A remark says where a module is cut and why, or why it stays whole. Attributes, types
    and functions stay as in the whole module, whose name is in `origin`.
  }];
  let options = [Option<"all", "all", "bool", "false", "look at every module, not only at those with dist.split">];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect", "::mlir::func::FuncDialect"];
}

def RoundRows : Pass<"dist-round-rows", "::mlir::ModuleOp"> {
  let summary = "Make the number of packed rows a multiple of the ranks that share them out";
  let description = [{
    A dim that adds a measure up with a `multiple` (dist.measure) gets it: sizes of `seq` become `128*seq` (docs/sizes.md). In a module with context or sequence parallelism all that add one up get one that the ranks divide. If
    something there would take rows behind the last item's for an item's, they stay as they are, and a remark says what.

    In a module of `joined` replicas dims that count samples get that multiple: a batch whose parts cannot have as many each is an error.
  }];
}

def VerifyModules : Pass<"dist-verify-modules", "::mlir::ModuleOp"> {
  let summary = "State what the modules phase guarantees: parts of a batch do not depend on one another";
  let description = [{
    If the batch is cut, every module that runs on one part of the batch at a time must treat items independently: each op carries the item axis through, numerators of losses are sums over items, tensors of edges have items
    on the first axis (or none). Otherwise one error names the op that mixes items, or the input with a fixed dim where items should be counted.

    Raw inputs whose numbers keep the rows of items apart in attention become `dist.segments`.

    Outputs that no loss uses may mix items: a warning says that `--save-outputs` leaves them out (`dist.unjoined` on the result).
  }];
}

#endif // PASSES_MODULES_PASSES

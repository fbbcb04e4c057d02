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
  "dist-verify-modules"
]>;

// What changes once a plan is known, which names the modules that are there now: replicas cut the batch too.
def ModulesUnderPlan : Pipeline<[
  "dist-cut-contrastive",
  "dist-verify-modules"
]>;

def SplitLosses : Pass<"dist-split-losses", "::mlir::ModuleOp"> {
  let summary = "Make numerator and denominator of losses that a graph computes itself";
  let description = [{
    A loss without denominator is a number that the graph gives, e.g. a mean. It is read backward as a weighted sum of quotients whose numerators are sums over items and
    whose denominators depend on raw inputs only: `div(sum, count)`, `reduce mean`, sums and multiples of such. Signs, factors and conditions that know no items stay around the numerator;
    `max(count, c)` and `count + c` become the loss's `dist.at_least` and `dist.plus`, which apply to the sum over all parts; a condition that says that the count is not 0 is what a loss does anyway. Each quotient becomes
    a dist.loss of its own. What cannot be split stays as it is; it is an error later, if the batch is cut.
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect", "::mlir::func::FuncDialect"];
}

def CutContrastive : Pass<"dist-cut-contrastive", "::mlir::ModuleOp"> {
  let summary = "Cut a module before the product of all items with all items";
  let description = [{
    Only if the batch is cut into microbatches, the module's modules are to be found, or it multiplies in bf16, which a whole-batch module does not. A loss that compares every item with every other cannot be summed over parts. The module is cut at the last values that belong to one item each (embeddings):
    what comes before stays and runs a microbatch at a time, what comes after becomes a `whole_batch` module with its own dims, which runs once a step. Parameters go where they are used.
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect", "::mlir::func::FuncDialect"];
}

def FindModules : Pass<"dist-find-modules", "::mlir::ModuleOp"> {
  let summary = "Cut one graph into the modules that it holds";
  let description = [{
    For modules with the attribute `dist.split` (recipe: `"split": "auto"`), or all. Ops that depend on some raw inputs only, do a good part of the work and hand over little become a module:
    an encoder, a tower; what is left is the last. Decided from structure alone (docs/modules.md); exporter scopes in parameter names only give names. A remark says where a
    module is cut and why, or why it stays whole. Attributes, types and functions stay as in the whole; `origin` is the whole's name.
  }];
  let options = [Option<"all", "all", "bool", "false", "look at every module, not only at those with dist.split">];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect", "::mlir::func::FuncDialect"];
}

def VerifyModules : Pass<"dist-verify-modules", "::mlir::ModuleOp"> {
  let summary = "State what the modules phase guarantees: parts do not depend on one another";
  let description = [{
    If the batch is cut, every module that runs a part at a time must treat items alone: each op carries the item axis through, numerators of losses are sums over items, edges have items first (or none).
    Otherwise one error names the op that mixes items, or the input whose fixed dim stands where items should be counted. Outputs that are only looked at may mix items: a warning says that
    `--save-outputs` leaves them out (`dist.unjoined` on the result).
  }];
}

#endif // PASSES_MODULES_PASSES

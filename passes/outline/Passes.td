//===- Passes.td - Passes of the outline phase --------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_OUTLINE_PASSES
#define PASSES_OUTLINE_PASSES

include "passes/Pipeline.td"

include "mlir/Pass/PassBase.td"

// Equal layers become functions. After the phase modules, whose analyses look at straight-line functions.
def OutlinePipeline : Pipeline<[
  "dist.module(func.func(nn-group-experts, canonicalize, cse))",
  "dist.module(nn-outline-layers, nn-narrow-layers, func.func(canonicalize, cse))"
]>;

def GroupExperts : Pass<"nn-group-experts", "::mlir::func::FuncOp"> {
  let summary = "Place the rows of each expert one after another";
  let description = [{
    All nn.expert_linear of one choice of experts become nn.grouped_linear, on rows that nn.route orders and nn.dispatch brings into this order. Ops behind the first of them that treat rows alone, as their sharding rules say, work on
    rows in this order too. Where a use has not moved, nn.combine brings rows back; the sum of a token's rows is the same op.

    Afterwards there is no nn.expert_linear ([experts.md](../experts.md)).
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def OutlineLayers : Pass<"nn-outline-layers", "::dt::dist::ModuleOp"> {
  let summary = "Make one function of equal layers";
  let description = [{
    Ops that depend on no trained parameter (masks, positions, angles) are moved to the front. The rest is a list in which equal layers are equal subsequences: the same ops and attributes on the same types, connected alike.
    The repetition that removes most ops is outlined into a private function that takes parameters as operands. This is repeated until none removes `min-ops`.

    Equality is structural: names and scopes only choose the function's name. A sequence of calls of one function is not outlined again: each call is a layer, and a pipeline stage may begin with any of them.
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::mlir::func::FuncDialect"];
  let options = [Option<"minOps", "min-ops", "unsigned", /*default=*/"6", "smallest number of ops of a layer">];
}

def NarrowLayers : Pass<"nn-narrow-layers", "::dt::dist::ModuleOp"> {
  let summary = "Layers take and return what is narrow in its own type";
  let description = [{
    Windows of equal ops may begin or end between a value and its cast. So, for each layer function:

    - An operand that all calls widen is passed narrow and widened inside.
    - An operand that the function only narrows is narrowed by its callers, if nothing else takes it.
    - A result that the function widens is returned narrow and widened by its callers.
    - A result that is narrowed by all that take it is returned narrow.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

#endif // PASSES_OUTLINE_PASSES

//===- Passes.td - Passes of the shard phase --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_PASSES
#define PASSES_SHARD_PASSES

include "passes/Pipeline.td"

include "mlir/Pass/PassBase.td"

// From whole functions to those of one rank, where a module has `tp` or `cp`: each module by itself. dist-agree-ties tries it.
def ShardEachModule : Pipeline<[
  "dist.module(dist-prepare-shard)",
  "dist-cut-edges",
  // The partitioner reads forward and backward function as one line, and where a collective belongs shows only when it is done: halves come last.
  "dist.module(dist-shard, dist-finish-shard, dist-overlap, nn-split-backward)",
  "nn-verify-differentiated"
]>;

// Copies of one parameter must be cut alike.
def ShardPipeline : Pipeline<["dist-agree-ties"] # ShardEachModule.passes>;

def PrepareShard : Pass<"dist-prepare-shard", "::dt::dist::ModuleOp"> {
  let summary = "Bring a module that has `tp` or `cp` into the form that the partitioner reads";
  let description = [{
    Inlines calls of functions that are not called in a chain (the result of one is the operand of the next), since layouts could not meet at their boundaries. Biases of products become additions, since only one rank may add
    a bias to partial sums. Vocabularies are padded (PadVocabulary.h), also on one rank.
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"tp", "tp", "int64_t", "0", "If not 0: sets `tp` of every module">,
    Option<"ep", "ep", "int64_t", "0", "If not 0: sets `ep` of every module">,
    Option<"cp", "cp", "int64_t", "0", "If not 0: sets `cp` of every module">,
    Option<"contextKeys", "context-keys", "std::string", "", "If not empty: sets `context_keys` of every module">,
    Option<"sequenceParallel", "sequence-parallel", "bool", "false", "Sets `sequence_parallel` of every module">
  ];
}

def CutEdges : Pass<"dist-cut-edges", "::mlir::ModuleOp"> {
  let summary = "Mark edges between stages whose values stay cut over the ranks of a replica";
  let description = [{
    Before dist-shard. An edge gets `cut` if both ends are stages of one unit that dist-shard cuts over the same axes of ranks, some of which cut tokens between layers (`cp`; `tp` with `sequence_parallel`) or samples (`joined`),
    the ranks divide the value's tokens, and it has the shape of what the layers of an end hand on: of layers that hand it to one another, or, in a stage of one, of attention's tokens. Where replicas join, whatever has a row for each
    of their items is cut. A stage without attention gets the `token_block` of the unit's others.
  }];
}

def Shard : Pass<"dist-shard", "::dt::dist::ModuleOp"> {
  let summary = "Cut a module's functions over the ranks of a replica";
  let description = [{
    See docs/sharding.md, docs/context.md. Before: `.fwd` and `.bwd` functions, `tp`, `cp` and perhaps `sequence_parallel` on the module. After: the same functions with local shapes and `dist` collectives, and
    `dist.layout` on parameters. Without both, or with 1, nothing changes.
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::mlir::func::FuncDialect", "::dt::dist::DistDialect"];
  let options = [
    Option<"beam", "beam", "unsigned", "64", "How many frontiers the search keeps">
  ];
}

def FinishShard : Pass<"dist-finish-shard", "::dt::dist::ModuleOp"> {
  let summary = "Biases go back into products; of saved tensors the rank's slice is saved";
  let description = [{
    In modules with `tp` or `cp`: a bias that is added to a product immediately, with no reduction between, becomes the product's bias again. Where the backward only slices what the forward saves, the forward saves the slice.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def Overlap : Pass<"dist-overlap", "::dt::dist::ModuleOp"> {
  let summary = "Mark collectives that are done in strips together with the products next to them";
  let description = [{
    In modules with `tp` and `overlap` = N. Marks collectives of rows that gather the operand of an `nn.linear`, or that sum its result if nothing else reads it, with `strips`: N, or the number of rows if that is
    smaller (docs/sharding.md). The ops do not change; lowering cuts them.
  }];
  let dependentDialects = ["::dt::dist::DistDialect"];
}

def SplitBackward : Pass<"nn-split-backward", "::dt::dist::ModuleOp"> {
  let summary = "Split .bwd into the half that computes gradients of inputs and the half that accumulates those of parameters";
  let description = [{
    In modules with `split_backward`. `@forward.bwd.input` computes its results, the gradients of the module's inputs; `@forward.bwd.weight` does the rest. Layers are split in the same way, once each. What both need is
    computed in the input half and returned for the other one, unless the weight half can compute it again from what it has. A module without gradients of inputs has only the weight half, one without
    gradients of parameters only the input half; `@forward.bwd` is removed in either case. Attributes: docs/architecture.md.

    Runs last, because the partitioner reads forward and backward function as one sequence.
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"all", "all", "bool", "false", "Of every module, marked or not">
  ];
}

def AgreeTies : Pass<"dist-agree-ties", "::mlir::ModuleOp"> {
  let summary = "Have copies of tied parameters cut alike over tensor-parallel ranks";
  let description = [{
    Runs right before the shard phase, and tries that phase on a copy of the program. Parameters whose copies are cut differently there get a `dist.cut_hint`: "rows", or if that does not help "whole".
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect"];
}

#endif // PASSES_SHARD_PASSES

//===- Passes.td - Passes of the shard phase --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_PASSES
#define PASSES_SHARD_PASSES

include "passes/Pipeline.td"

include "mlir/Pass/PassBase.td"

// From whole functions to those of one rank, where a module has `dist.tp`: each module by itself. dist-agree-ties tries it.
def ShardEachModule : Pipeline<[
  // The partitioner reads forward and backward function as one line, and where a collective belongs shows only when it is done: halves come last.
  "dist.module(dist-prepare-shard, dist-shard, dist-finish-shard, dist-overlap, nn-split-backward)",
  "nn-verify-differentiated"
]>;

// Copies of one parameter must be cut alike.
def ShardPipeline : Pipeline<["dist-agree-ties"] # ShardEachModule.passes>;

def PrepareShard : Pass<"dist-prepare-shard", "::dt::dist::ModuleOp"> {
  let summary = "Bring a module that has `dist.tp` into the form that the partitioner reads";
  let description = [{
    Calls of functions that are not called in a chain (one's result the next one's operand) are inlined: their boundaries are no places where layouts could meet. Biases of products become additions,
    since a bias must not be added by every rank. Vocabularies are padded (PadVocabulary.h), also on one rank.
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"tp", "tp", "int64_t", "0", "If not 0: sets `dist.tp` of every module">,
    Option<"sequenceParallel", "sequence-parallel", "bool", "false", "Sets `dist.sequence_parallel` of every module">
  ];
}

def Shard : Pass<"dist-shard", "::dt::dist::ModuleOp"> {
  let summary = "Cut a module's functions over the ranks of its tensor-parallel group";
  let description = [{
    See docs/sharding.md. Before: `.fwd` and `.bwd` functions, `dist.tp` and perhaps `dist.sequence_parallel` on the module. After: the same functions with local shapes and `dist` collectives;
    `dist.layout` on parameters. Without `dist.tp`, or with 1, nothing happens.
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::mlir::func::FuncDialect", "::dt::dist::DistDialect"];
  let options = [
    Option<"beam", "beam", "unsigned", "64", "How many frontiers the search keeps">
  ];
}

def FinishShard : Pass<"dist-finish-shard", "::dt::dist::ModuleOp"> {
  let summary = "Biases go back into products";
  let description = [{ Of modules with `dist.tp`: a bias that is added to a product right away, with no reduction between, is the product's again. }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def Overlap : Pass<"dist-overlap", "::dt::dist::ModuleOp"> {
  let summary = "Mark collectives that are done in strips together with the products beside them";
  let description = [{
    Of modules with `dist.tp` and `dist.overlap` = N: a collective of rows that gathers what `nn.linear` multiplies, or adds up what one makes and nobody else reads, gets `dist.strips`: N, or the number of its rows if these are fewer (docs/sharding.md). The ops stay as they are; lowering cuts.
  }];
  let dependentDialects = ["::dt::dist::DistDialect"];
}

def SplitBackward : Pass<"nn-split-backward", "::dt::dist::ModuleOp"> {
  let summary = "Cut .bwd in the half that gives gradients of inputs and the half that adds up those of parameters";
  let description = [{
    Of modules with `dist.split_backward`. `@forward.bwd.input` computes what its results need, the gradients of the module's inputs; `@forward.bwd.weight` does the rest. Layers are split likewise,
    once each. What both need is computed in the input half and returned for the other one, unless it can be computed again from what that one has. A module without gradients of inputs has only the
    weight half, one without gradients of parameters only the input half; `@forward.bwd` is gone in either case. Attributes: docs/architecture.md. Runs last: the partitioner reads forward and backward
    function as one line.
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"all", "all", "bool", "false", "Of every module, marked or not">
  ];
}

def AgreeTies : Pass<"dist-agree-ties", "::mlir::ModuleOp"> {
  let summary = "Have copies of tied parameters cut alike over tensor-parallel ranks";
  let description = [{
    Right before the shard phase. Tries it on a copy of the program; parameters whose copies come out cut differently get a `dist.cut_hint`: "rows", or if that does not help "whole".
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect"];
}

#endif // PASSES_SHARD_PASSES

//===- Passes.td - Passes of the shard phase --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_PASSES
#define PASSES_SHARD_PASSES

include "mlir/Pass/PassBase.td"

def PrepareShard : Pass<"dist-prepare-shard", "::dt::dist::ModuleOp"> {
  let summary = "Bring a module that has `dist.tp` into the form that the partitioner reads";
  let description = [{
    Calls of functions that are not called in a chain (one's result the next one's operand) are inlined: their boundaries are no places where layouts could meet. Biases of products become additions,
    since a bias must not be added by every rank. A vocabulary that the ranks do not divide is padded.
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

def AgreeTies : Pass<"dist-agree-ties", "::mlir::ModuleOp"> {
  let summary = "Have copies of tied parameters cut alike over tensor-parallel ranks";
  let description = [{
    Right before the shard phase. Tries it on a copy of the program; parameters whose copies come out cut differently get a `dist.cut_hint`: "rows", or if that does not help "whole".
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect"];
}

#endif // PASSES_SHARD_PASSES

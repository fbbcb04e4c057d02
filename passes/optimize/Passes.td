//===- Passes.td - Passes of the optimize phase -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_OPTIMIZE_PASSES
#define PASSES_OPTIMIZE_PASSES

include "passes/Pipeline.td"

include "mlir/Pass/PassBase.td"

def OptimizePipeline : Pipeline<[
  // What differentiation left unused, and values that it made twice.
  "canonicalize",
  "cse",
  "nn-join-pads",
  "nn-fuse-casts",
  "nn-join-products",
  "nn-join-results",
  "nn-fuse-elementwise",
  "cse",
  "nn-verify-optimized"
]>;

def FuseElementwise : Pass<"nn-fuse-elementwise", "::mlir::ModuleOp"> {
  let summary = "Put connected elementwise ops of one shape into nn.fused";
  let description = [{
    Elementwise ops (ScalarOpInterface) of one block whose results have equal shapes and that use one another's results become one nn.fused. Its body is their scalar code. A producer joins its consumers also when it has other
    users; the group then has several results. Groups that read one tensor of their full shape are joined likewise: the tensor is read once, and what both compute from it (an activation and its gradient) is computed once.

    Two groups stay apart

    - if a path from one to the other leads through an op outside (the fused op would have to run before and after it);
    - if the group would touch more than `max-buffers` tensors;
    - if they wait for two attentions to a part of the keys (docs/context.md): what is merged as parts come does not wait for the last one.

    Broadcasts of an operand and splat constants disappear into the groups that use them. A single elementwise op becomes an nn.fused, too, so that the lower phase meets only this form.
  }];
  let options = [Option<"maxBuffers", "max-buffers", "unsigned", "24", "most operands and results of one group">];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def FuseCasts : Pass<"nn-fuse-casts", "::mlir::ModuleOp"> {
  let summary = "Operators that compute in float32 anyway take over casts of their operands and results";
  let description = [{
    Removes casts between float32 and 16-bit floats that no elementwise neighbour will take in. An operator whose precision rule says `sumsInFull` (norms, softmax, reductions, losses; of products the result) computes in float32
    whatever it reads. So it reads the operand of a cast directly, and stores the type of a cast that is the only use of its result. Where that is not the inferred type, the attribute `stored` has it.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def JoinPads : Pass<"nn-join-pads", "::mlir::ModuleOp"> {
  let summary = "Write sums of zero-padded slices that cover an axis as a concatenation";
  let description = [{
    The gradient of a tensor that was split (a fused QKV projection, say) is a sum of pads, one for each slice. Pads with zeros along one axis that follow one another without gap or overlap are taken out of the sum and
    concatenated. Other addends stay.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def JoinProducts : Pass<"nn-join-products", "::mlir::ModuleOp"> {
  let summary = "Products that read one input, and their gradients, as one product over parameters side by side";
  let description = [{
    The gradient of an input that several products read (queries, keys and values; gate and up) is a sum dq Wq + dk Wk + dv Wv. It becomes one product of the concatenation of dq, dk and dv with the joined parameters
    (`beside` of nn.read). The gradients of the parameters and of biases become one each (`beside` of nn.accumulate). Layer functions get one operand and one result for them. The forward products become one, too: the
    result of each is some columns of the joint result. docs/joined-products.md says which products are joined.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def JoinResults : Pass<"nn-join-results", "::mlir::ModuleOp"> {
  let summary = "If a function returns all columns of a tensor, it returns the tensor";
  let description = [{
    Results of a function are made where the caller wants them. So slices of the last product's columns (a fused QKV projection, or joined products) would be copied. If all columns of a tensor are returned by a function, it
    returns the tensor instead, and its callers slice. The same holds for functions that get the columns as operands, and for the residuals of a module.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def VerifyOptimized : Pass<"nn-verify-optimized", "::mlir::ModuleOp"> {
  let summary = "No elementwise op stands outside of nn.fused";
  let description = [{ Ops with scalar code of their own (ScalarOpInterface): the lower phase meets nn.fused only. }];
}

#endif // PASSES_OPTIMIZE_PASSES

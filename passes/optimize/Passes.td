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
    Elementwise ops (ScalarOpInterface) of one block whose results have equal shapes and that use one another's results become one nn.fused, whose body is their scalar code. A producer joins
    its consumers also when it has other users: the group then has several results. Two groups are not joined when a path from one to the other leads through an op outside (the fused op would have to run
    before and after it), nor when the group would touch more than `max-buffers` tensors. Groups that read one tensor of their full shape are joined likewise: it is read once, and what they both compute from it
    (an activation and its gradient) is computed once.

    Broadcasts of an operand and splat constants disappear into the groups that use them. A single elementwise op becomes an nn.fused too, so that the lower phase meets only this form.
  }];
  let options = [Option<"maxBuffers", "max-buffers", "unsigned", "24", "most operands and results of one group">];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def FuseCasts : Pass<"nn-fuse-casts", "::mlir::ModuleOp"> {
  let summary = "Operators that compute in float32 anyway read and store what casts make";
  let description = [{
    Casts between float32 and 16-bit floats that no elementwise neighbour will take in. An operator whose precision rule says `sumsInFull` (norms, softmax, reductions, losses; of products the result) computes in float32
    whatever it reads: a cast of its operand goes, it reads the other type; a cast that is the only use of its result goes, it stores the cast's type. Where that is not what inference says, the attribute `stored` does.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def JoinPads : Pass<"nn-join-pads", "::mlir::ModuleOp"> {
  let summary = "Write sums of zero-padded pieces that cover an axis as a concatenation";
  let description = [{
    The gradient of a tensor that was split (a fused QKV projection, say) is a sum of pads, one a piece. Pads with zeros along one axis that follow one another without gap or overlap are taken out of the sum and
    concatenated; other addends stay.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def JoinProducts : Pass<"nn-join-products", "::mlir::ModuleOp"> {
  let summary = "Products that read one input, and their gradients, as one product over parameters side by side";
  let description = [{
    What goes back to an input that several products read (queries, keys and values; gate and up) is a sum dq Wq + dk Wk + dv Wv. It becomes one product of dq, dk and dv, concatenated, with the parameters joined
    (`nn.beside` of nn.read); so do the gradients of the parameters and of biases (`nn.beside` of nn.accumulate). Layer functions get one operand and one result for them. So do the products on the way
    there: what each gave is columns of what one gives. docs/joined-products.md says which are joined.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def JoinResults : Pass<"nn-join-results", "::mlir::ModuleOp"> {
  let summary = "Columns of one tensor that all leave a function leave it as that tensor";
  let description = [{
    What leaves a function is made where the caller wants it, so slices of the last product's columns (a fused QKV projection, or products that were joined) would be copied. If those that a function returns are all columns of
    a tensor, it returns the tensor, and its callers slice; so do functions that get them as operands, and of a module's residuals those that take them.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def VerifyOptimized : Pass<"nn-verify-optimized", "::mlir::ModuleOp"> {
  let summary = "No elementwise op stands outside of nn.fused";
  let description = [{ Ops with scalar code of their own (ScalarOpInterface): the lower phase meets nn.fused only. }];
}

#endif // PASSES_OPTIMIZE_PASSES

//===- Passes.td - Passes of the import phase --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_IMPORT_PASSES
#define PASSES_IMPORT_PASSES

include "passes/Pipeline.td"

include "mlir/Pass/PassBase.td"

// From what an importer writes to raised nn IR.
def ImportPipeline : Pipeline<[
  // Identities and double transposes hide patterns; equal subexpressions must be one value before a pattern asks whether two operands are the same.
  "dist.module(func.func(canonicalize, cse, "
    "nn-raise-elementwise, nn-raise-norms, nn-raise-attention, nn-raise-losses, canonicalize, cse))",
  "nn-verify-import"
]>;

def RaiseElementwise : Pass<"nn-raise-elementwise", "::mlir::func::FuncOp"> {
  let summary = "Recover biases, SiLU and GELU from what exporters write";
  let description = [{
    `x * sigmoid(x)` becomes nn.silu, `log(sigmoid(x))` a softplus; binary cross entropy of probabilities an op; `0.5 x (1 + erf(x / sqrt 2))` and the tanh form, in the orders that PyTorch and TensorFlow exporters use, become nn.gelu; the addition of a rank-1 value of
    the result's size after nn.linear becomes its bias. A constant counts as a formula's number if it is that number rounded to the
    constant's type; in products, each factor may be rounded so.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def RaiseNorms : Pass<"nn-raise-norms", "::mlir::func::FuncOp"> {
  let summary = "Recover RMS, layer and group norm";
  let description = [{
    Small steps: the normalisation without scale first (`x * rsqrt(mean(x^2) + eps)` and its spellings; `(x - mean(x)) / sqrt(mean((x - mean)^2) + eps)`; a group norm from a reshape around an
    instance norm), then a factor of the normalised shape becomes the scale, then an addend the bias. Roots of a variance and of a sum of powers are norms: where they are 0 they have no gradient (as in
    PyTorch), and are guarded.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def RaiseAttention : Pass<"nn-raise-attention", "::mlir::func::FuncOp"> {
  let summary = "Recover rotary embedding and attention";
  let description = [{
    `matmul - softmax - matmul` becomes nn.attention with heads where the projections write them; then one neighbour a pattern is absorbed: the scale on query or key, the expansion of KV heads to
    query heads, a mask that is a function of its indices and turns out causal. Masks that select between scores and -inf, or between 0 and -inf or the lowest number, become bool masks; the number,
    where it is put and the IsNaN guard say what an empty row gives. The guard of a softmax that stays one lets no row of -inf go through it.
    Other numbers are added as they are. A mask that depends on a trained parameter (relative position bias) is not absorbed, since nn.attention has no gradient for it.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def RaiseLosses : Pass<"nn-raise-losses", "::mlir::func::FuncOp"> {
  let summary = "Recover cross-entropy from log_softmax and gather";
  let description = [{
    `gather_elements(log_softmax(x), max(labels, 0))`, multiplied by `labels != ignore`, becomes `-nn.cross_entropy`.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def VerifyImport : Pass<"nn-verify-import"> {
  let summary = "State what the import phase guarantees";
  let description = [{
    Only nn, func and dist ops are left, and scalar ones inside of nn ops; every tensor, arguments and results of functions too, has a rank, and every `?` an expression over the nn.dim symbols of its
    dist.module.
  }];
}

#endif // PASSES_IMPORT_PASSES

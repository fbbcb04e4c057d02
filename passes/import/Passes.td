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
    "nn-raise-elementwise, nn-raise-norms, nn-raise-attention, nn-raise-experts, nn-raise-losses, canonicalize, cse))",
  // Behind raising, which looks at products as the exporter wrote them.
  "dist.module(nn-apply-adapters, nn-balance-choices)",
  "dist.module(nn-show-choices)",
  "nn-limit-choices",
  "dist-mark-matrices",
  "nn-verify-import"
]>;

def RaiseElementwise : Pass<"nn-raise-elementwise", "::mlir::func::FuncOp"> {
  let summary = "Recover biases, SiLU and GELU from what exporters write";
  let description = [{
    | written as | becomes |
    | --- | --- |
    | `x * sigmoid(x)` | nn.silu |
    | `log(sigmoid(x))` | a softplus |
    | `0.5 x (1 + erf(x / sqrt 2))` and the tanh form, in the orders that PyTorch's and TensorFlow's exporters use | nn.gelu |
    | binary cross entropy of probabilities | one op |
    | the addition of a rank-1 value of the result's size after nn.linear | its bias |

    A constant counts as a formula's number if it is that number rounded to the constant's type; in products, each factor may be rounded so.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def RaiseNorms : Pass<"nn-raise-norms", "::mlir::func::FuncOp"> {
  let summary = "Recover RMS, layer and group norm";
  let description = [{
    Works in small steps. First comes the normalisation without scale: `x * rsqrt(mean(x^2) + eps)` and its spellings; `(x - mean(x)) / sqrt(mean((x - mean)^2) + eps)`; a group norm from a reshape around an
    instance norm. Then a factor of the normalised shape becomes the scale, then an addend becomes the bias.

    Roots of a variance and of a sum of powers are norms, too. Where they are 0 they have no gradient (as in PyTorch), and are guarded.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def RaiseAttention : Pass<"nn-raise-attention", "::mlir::func::FuncOp"> {
  let summary = "Recover rotary embedding and attention";
  let description = [{
    `matmul - softmax - matmul` becomes nn.attention, with heads where the projections write them. Then each pattern absorbs one neighbour: the scale on query or key, the expansion of KV heads to query heads, and what
    a bool mask says that needs none. The mask is read as conditions that all hold (`and`; `not` of `or`), through reshapes and broadcasts:

    | condition | becomes |
    | --- | --- |
    | of indices, also as a constant table: `j <= i + s - t` | `causal` |
    | of indices: `j > i + s - t - w`, with the causal rule or with `j < i + s - t + w` | `window` |
    | integers [b, t] equal integers [b, s] (numbers of documents, of images); a constant table of blocks | `segments` |
    | beside these, of positions by whose restarts the documents are numbered (`cumsum(x[j] - x[j - 1] != 1)`): as of indices | `causal`, `window` |
    | without these, bools of keys alone or of queries alone (padding) | `segments`, of two numbers |
    | always true | nothing |
    | any other: of heads, of floats, `or`, padding beside segments | a mask |

    Masks that are computed with numbers become bools first: `(1 - m) * lowest`, `m == 0`, where m is 0 or 1 (casts of bools, their products), sums of -inf and 0, differences of integers that are compared with 0.

    Masks that select between scores and -inf, or between 0 and -inf or the lowest number, become bool masks. The number, where it is put and the IsNaN guard determine the result for a query without a visible key
    (`empty_row`; docs/RationaleNN.md). Other numbers are added as they are. The guard of a softmax that is not part of an attention stops rows of -inf.

    A mask that depends on a trained parameter (relative position bias) is not absorbed, since nn.attention has no gradient for it.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def RaiseExperts : Pass<"nn-raise-experts", "::mlir::func::FuncOp"> {
  let summary = "Recover products of rows by the weights of their experts";
  let description = [{
    | written as | becomes |
    | --- | --- |
    | `matmul(W[ids], x)` or `matmul(x, W[ids])` of a weight [experts, out, in] or [experts, in, out], one row x for each of the ids | nn.expert_linear |
    | its sum with `b[ids]` | its bias |
    | its product with one factor a row, if rows are longer behind than before it and it has no bias | the factor on the rows before it |
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

def ApplyAdapters : Pass<"nn-apply-adapters", "::dt::dist::ModuleOp"> {
  let summary = "Thin products that train beside products of frozen weights (LoRA)";
  let description = [{
    `nn.adapter @w down @a up @b scale s`: each product x W^T of the parameter (nn.linear, in either orientation, with or without bias) becomes x W^T + (s (x A^T)) B^T, and the op is gone. All uses of the parameter must be
    weights of products, in one orientation. The weight itself stays as it is; whether it trains is said elsewhere.

    What is frozen then follows from the parameters: differentiation computes no gradient of W and no more of x than another product gives, masks and norms are those of the model without adapters, and sharding, stages and
    joined products see products like any other.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def BalanceChoices : Pass<"nn-balance-choices", "::dt::dist::ModuleOp"> {
  let summary = "Biases of routers that even out how often experts are chosen";
  let description = [{
    For each read of a parameter with `routing_rate`: nn.balance behind the first value that follows from the chosen numbers and may have a gradient. From the bias must follow, by floats, one nn.top_k among as many elements as it has whose numbers are used (others, of groups of experts, may stand in between), and nothing but choices.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def ShowChoices : Pass<"nn-show-choices", "::dt::dist::ModuleOp"> {
  let summary = "Numbers of chosen experts as outputs";
  let description = [{
    In modules with `show_choices`, which is taken away: what nn.expert_linear multiplies by, as it was chosen, is an output `choices.N.of.E` of layer N with E experts, in the order of layers.
  }];
}

def LimitChoices : Pass<"nn-limit-choices", "::mlir::ModuleOp"> {
  let summary = "A capacity of experts: rows beyond it are of no expert";
  let description = [{
    In modules with `expert_capacity`, which is taken away: behind each nn.top_k whose numbers nn.expert_linear multiplies by stands nn.limit_choices, and choices beyond the capacity get the number of experts, which is none (`limited`). All else that follows from the choice, such as shares, stays.

    Samples are what the only symbol of the rows counts. Of packed rows they are the runs of the segments that attention keeps apart (docs/sizes.md).

    How many choices are dropped is a dist.loss "MODULE.dropped" of weight 0, a sum without a denominator: counted by sample, in integers, which are exact where stages send them.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def MarkMatrices : Pass<"dist-mark-matrices", "::mlir::ModuleOp"> {
  let summary = "Which parameters are matrices to the optimizer";
  let description = [{
    `matrix` on trainable nn.parameter, by what the kind of dist.optimizer sees (Matrices of runtime/OptimizerRule.h): with `Axes` what has two axes or more. With `Products` what has two axes or more, has no `by_element`, and of
    which every use, in the module and through ties, is a factor of a product (nn.linear, nn.matmul): neither tables of lookups nor kernels of convolutions. Of these not the heads: products that end in a cross entropy and in no
    other product. Under all other kinds nothing.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def VerifyImport : Pass<"nn-verify-import"> {
  let summary = "State what the import phase guarantees";
  let description = [{
    Only nn (no nn.adapter), func and dist ops are left, and scalar ones inside of nn ops. Every tensor, including arguments and results of functions, has a rank, and every `?` is an expression over the nn.dim symbols of its
    dist.module.
  }];
}

#endif // PASSES_IMPORT_PASSES

//===- Linear.td - Linear layers and matrix products ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_LINEAR
#define DIALECTS_NN_OPS_LINEAR

include "dialects/nn/NNBase.td"

def NN_LinearOp : NN_SmoothOp<"linear"> {
  let summary = "y = x W^T (+ b) over the last axis";
  let description = [{
    `input` [..., in], `weight` [out, in] as PyTorch's Linear keeps it, or [in, out] with `in_out` (GPT-2's Conv1D), `bias` [out]. Weight layouts are attributes so that no
    Transpose stands between a parameter and its product.
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$weight, Optional<NN_FloatTensor>:$bias, UnitAttr:$in_out);
  let extraClassDeclaration = "::dt::nn::Work getWork();";
  let assemblyFormat = "$input `,` $weight (`,` $bias^)? attr-dict `:` type(operands)";
}
def NN_LinearDwOp : NN_GradOp<"linear_dw"> {
  let summary = "gradient of linear's weight: sum over rows of dy^T x ([out, in]; transposed with `in_out`)";
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$grad, UnitAttr:$in_out);
  let extraClassDeclaration = "::dt::nn::Work getWork();";
  let assemblyFormat = "$input `,` $grad attr-dict `:` type(operands)";
}
def NN_MatmulOp : NN_SmoothOp<"matmul"> {
  let summary = "batched matrix product; leading axes broadcast";
  let description = [{ lhs [..., m, k] ([..., k, m] with `trans_a`), rhs [..., k, n] ([..., n, k] with `trans_b`). Ranks are at least 2. }];
  let arguments = (ins NN_FloatTensor:$lhs, NN_FloatTensor:$rhs, UnitAttr:$trans_a, UnitAttr:$trans_b);
  let extraClassDeclaration = NN_Work<"Batched">.declaration;
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type(operands)";
}

#endif // DIALECTS_NN_OPS_LINEAR

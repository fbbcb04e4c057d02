//===- NNNorm.td - Normalisation, softmax, reductions, losses ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNNORM
#define DIALECTS_NN_NNNORM

include "dialects/nn/NNLinear.td"

// Layer and RMS norm act on the last `axes` axes; scale and bias have their shape.
def NN_LayerNormOp : NN_SmoothOp<"layer_norm", [NN_Recomputable, AttrSizedOperandSegments]> {
  let summary = "(x - mean) / sqrt(var + eps) * scale + bias over the last axes";
  let arguments = (ins NN_FloatTensor:$input, Optional<NN_FloatTensor>:$scale, Optional<NN_FloatTensor>:$bias, F64Attr:$eps, DefaultValuedOptionalAttr<I64Attr, "1">:$axes);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$input (`scale` $scale^)? (`bias` $bias^)? attr-dict `:` type(operands)";
}
def NN_LayerNormDxOp : NN_GradOp<"layer_norm_dx"> {
  let summary = "gradient of layer_norm's input";
  let arguments = (ins NN_FloatTensor:$input, Optional<NN_FloatTensor>:$scale, NN_FloatTensor:$grad, F64Attr:$eps, DefaultValuedOptionalAttr<I64Attr, "1">:$axes);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input (`scale` $scale^)? `,` $grad attr-dict `:` type(operands)";
}
def NN_LayerNormDscaleOp : NN_GradOp<"layer_norm_dscale"> {
  let summary = "gradient of layer_norm's scale: sum over rows of dy * normalised x";
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$grad, F64Attr:$eps, DefaultValuedOptionalAttr<I64Attr, "1">:$axes);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input `,` $grad attr-dict `:` type(operands)";
}
def NN_RmsNormOp : NN_SmoothOp<"rms_norm", [NN_Recomputable]> {
  let summary = "x / sqrt(mean(x^2) + eps) * scale over the last axes";
  let arguments = (ins NN_FloatTensor:$input, Optional<NN_FloatTensor>:$scale, F64Attr:$eps, DefaultValuedOptionalAttr<I64Attr, "1">:$axes);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$input (`scale` $scale^)? attr-dict `:` type(operands)";
}
def NN_RmsNormDxOp : NN_GradOp<"rms_norm_dx"> {
  let summary = "gradient of rms_norm's input";
  let arguments = (ins NN_FloatTensor:$input, Optional<NN_FloatTensor>:$scale, NN_FloatTensor:$grad, F64Attr:$eps, DefaultValuedOptionalAttr<I64Attr, "1">:$axes);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input (`scale` $scale^)? `,` $grad attr-dict `:` type(operands)";
}
def NN_RmsNormDscaleOp : NN_GradOp<"rms_norm_dscale"> {
  let summary = "gradient of rms_norm's scale";
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$grad, F64Attr:$eps, DefaultValuedOptionalAttr<I64Attr, "1">:$axes);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input `,` $grad attr-dict `:` type(operands)";
}
// Group norm: input [n, c, spatial...], scale and bias [c]; groups == c is instance norm.
def NN_GroupNormOp : NN_SmoothOp<"group_norm", [NN_Recomputable, AttrSizedOperandSegments]> {
  let summary = "normalisation of each group of channels of a sample";
  let arguments = (ins NN_FloatTensor:$input, Optional<NN_FloatTensor>:$scale, Optional<NN_FloatTensor>:$bias, F64Attr:$eps, I64Attr:$groups);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$input (`scale` $scale^)? (`bias` $bias^)? attr-dict `:` type(operands)";
}
def NN_GroupNormDxOp : NN_GradOp<"group_norm_dx"> {
  let summary = "gradient of group_norm's input";
  let arguments = (ins NN_FloatTensor:$input, Optional<NN_FloatTensor>:$scale, NN_FloatTensor:$grad, F64Attr:$eps, I64Attr:$groups);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input (`scale` $scale^)? `,` $grad attr-dict `:` type(operands)";
}
def NN_GroupNormDscaleOp : NN_GradOp<"group_norm_dscale"> {
  let summary = "gradient of group_norm's scale [c]";
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$grad, F64Attr:$eps, I64Attr:$groups);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input `,` $grad attr-dict `:` type(operands)";
}

class NN_SoftmaxLike<string mnemonic, string what> : NN_SmoothOp<mnemonic> {
  let summary = what;
  let arguments = (ins NN_FloatTensor:$input, I64Attr:$axis);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}
def NN_SoftmaxOp : NN_SoftmaxLike<"softmax", "exp(x - max) / sum along `axis`; a row of -inf gives not-a-number, as in ONNX">;
def NN_LogSoftmaxOp : NN_SoftmaxLike<"log_softmax", "x - log(sum(exp(x))) along `axis`">;
class NN_SoftmaxGrad<string mnemonic, string what> : NN_GradOp<mnemonic> {
  let summary = what;
  let arguments = (ins NN_FloatTensor:$output, NN_FloatTensor:$grad, I64Attr:$axis);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$output `,` $grad attr-dict `:` type(operands)";
}
def NN_SoftmaxGradOp : NN_SoftmaxGrad<"softmax_grad", "y * (dy - sum(y * dy)) with y softmax's result">;
def NN_LogSoftmaxGradOp : NN_SoftmaxGrad<"log_softmax_grad", "dy - exp(y) * sum(dy) with y log_softmax's result">;

def NN_ReduceKind : I32EnumAttr<"ReduceKind", "how elements are combined", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"mean", 1>, I32EnumAttrCase<"max", 2>, I32EnumAttrCase<"min", 3>, I32EnumAttrCase<"prod", 4>]> {
  let cppNamespace = "::dt::nn";
}
def NN_ReduceOp : NN_SmoothOp<"reduce"> {
  let summary = "combines elements along `axes`, which stay as 1 with `keepdims`";
  let description = [{ Floats and integers; on bool max is any, min is all. No axes: the value itself. A sum over no element is 0. }];
  let arguments = (ins NN_ReduceKind:$kind, NN_Tensor:$input, DenseI64ArrayAttr:$axes, UnitAttr:$keepdims);
  let results = (outs NN_Tensor:$result);
  let hasFolder = 1;
  let assemblyFormat = "$kind $input attr-dict `:` type($input)";
}
def NN_ArgMaxOp : NN_InferredOp<"arg_max", [NN_ZeroGradient, CostOpInterface, DeclareOpInterfaceMethods<ShardingOpInterface, ["getShardingRule"]>]> {
  let summary = "index of the largest element along `axis` (smallest with `min`; last of equals with `last`)";
  let arguments = (ins NN_Tensor:$input, I64Attr:$axis, UnitAttr:$keepdims, UnitAttr:$min, UnitAttr:$last);
  let results = (outs RankedTensorOf<[I64]>:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}
def NN_TopKOp : NN_SmoothTypedOp<"top_k"> {
  let summary = "the k largest elements along `axis` in order, and where they were (`smallest`: the smallest)";
  let description = [{
    Both results have the input's dims, but k along `axis`, which is the number of elements taken; where it is the size of the axis, this is a sort. Of equal elements the one with the lower index comes
    first. Not-a-number counts as larger than all numbers (as in PyTorch), so that the order is total.
  }];
  let arguments = (ins NN_Tensor:$input, I64Attr:$axis, UnitAttr:$smallest);
  let results = (outs NN_Tensor:$values, RankedTensorOf<[I64]>:$indices);
  let hasVerifier = 1;
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}
def NN_CumsumOp : NN_SmoothOp<"cumsum"> {
  let summary = "running sum along `axis`";
  let arguments = (ins NN_Tensor:$input, I64Attr:$axis, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def NN_CrossEntropyOp : NN_SmoothOp<"cross_entropy"> {
  let summary = "-log softmax(logits)[label], 0 where the label is `ignore_index`";
  let description = [{ logits [..., v], labels [...] (class index); result [...] a loss a row. Sums and means are explicit ops around it. Labels outside [0, v) other than `ignore_index` count as ignored. }];
  let arguments = (ins NN_FloatTensor:$logits, NN_IntTensor:$labels, DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$logits `,` $labels attr-dict `:` type(operands)";
}
def NN_CrossEntropyGradOp : NN_GradOp<"cross_entropy_grad"> {
  let summary = "gradient of the logits: (softmax(logits) - onehot(label)) * dy a row";
  let arguments = (ins NN_FloatTensor:$logits, NN_IntTensor:$labels, NN_FloatTensor:$grad, DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$logits `,` $labels `,` $grad attr-dict `:` type(operands)";
}

#endif // DIALECTS_NN_NNNORM

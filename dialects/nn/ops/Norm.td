//===- Norm.td - Normalisation by layer, root mean square and group -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_NORM
#define DIALECTS_NN_OPS_NORM

include "dialects/nn/NNBase.td"

class NN_NormDx<string mnemonic, string what> : NN_GradOp<mnemonic, [], NN_TypeOfFirst> {
  let summary = what;
  let assemblyFormat = "$input (`scale` $scale^)? `,` $grad attr-dict `:` type(operands)";
}
class NN_NormDscale<string mnemonic, string what> : NN_GradOp<mnemonic> {
  let summary = what;
  let assemblyFormat = "$input `,` $grad attr-dict `:` type(operands)";
}

// Layer and RMS norm act on the last `axes` axes; scale and bias have their shape.
def NN_LayerNormOp : NN_SmoothOp<"layer_norm", [NN_Recomputable, AttrSizedOperandSegments], NN_TypeOfFirst> {
  let summary = "(x - mean) / sqrt(var + eps) * scale + bias over the last axes";
  let arguments = (ins NN_FloatTensor:$input, Optional<NN_FloatTensor>:$scale, Optional<NN_FloatTensor>:$bias, F64Attr:$eps, DefaultValuedOptionalAttr<I64Attr, "1">:$axes);
  let hasVerifier = 1;
  let extraClassDeclaration = NN_Work<"Norm">.declaration;
  let assemblyFormat = "$input (`scale` $scale^)? (`bias` $bias^)? attr-dict `:` type(operands)";
}
def NN_LayerNormDxOp : NN_NormDx<"layer_norm_dx", "gradient of layer_norm's input"> {
  let arguments = (ins NN_FloatTensor:$input, Optional<NN_FloatTensor>:$scale, NN_FloatTensor:$grad, F64Attr:$eps, DefaultValuedOptionalAttr<I64Attr, "1">:$axes);
}
def NN_LayerNormDscaleOp : NN_NormDscale<"layer_norm_dscale", "gradient of layer_norm's scale: sum over rows of dy * normalised x"> {
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$grad, F64Attr:$eps, DefaultValuedOptionalAttr<I64Attr, "1">:$axes);
}
def NN_RmsNormOp : NN_SmoothOp<"rms_norm", [NN_Recomputable], NN_TypeOfFirst> {
  let summary = "x / sqrt(mean(x^2) + eps) * scale over the last axes";
  let arguments = (ins NN_FloatTensor:$input, Optional<NN_FloatTensor>:$scale, F64Attr:$eps, DefaultValuedOptionalAttr<I64Attr, "1">:$axes);
  let hasVerifier = 1;
  let extraClassDeclaration = NN_Work<"Norm">.declaration;
  let assemblyFormat = "$input (`scale` $scale^)? attr-dict `:` type(operands)";
}
def NN_RmsNormDxOp : NN_NormDx<"rms_norm_dx", "gradient of rms_norm's input"> {
  let arguments = (ins NN_FloatTensor:$input, Optional<NN_FloatTensor>:$scale, NN_FloatTensor:$grad, F64Attr:$eps, DefaultValuedOptionalAttr<I64Attr, "1">:$axes);
}
def NN_RmsNormDscaleOp : NN_NormDscale<"rms_norm_dscale", "gradient of rms_norm's scale"> {
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$grad, F64Attr:$eps, DefaultValuedOptionalAttr<I64Attr, "1">:$axes);
}

// Group norm: input [n, c, spatial...], scale and bias [c]; groups == c is instance norm.
def NN_GroupNormOp : NN_SmoothOp<"group_norm", [NN_Recomputable, AttrSizedOperandSegments], NN_TypeOfFirst> {
  let summary = "normalisation of each group of channels of a sample";
  let arguments = (ins NN_FloatTensor:$input, Optional<NN_FloatTensor>:$scale, Optional<NN_FloatTensor>:$bias, F64Attr:$eps, I64Attr:$groups);
  let hasVerifier = 1;
  let extraClassDeclaration = NN_Work<"Norm">.declaration;
  let assemblyFormat = "$input (`scale` $scale^)? (`bias` $bias^)? attr-dict `:` type(operands)";
}
def NN_GroupNormDxOp : NN_NormDx<"group_norm_dx", "gradient of group_norm's input"> {
  let arguments = (ins NN_FloatTensor:$input, Optional<NN_FloatTensor>:$scale, NN_FloatTensor:$grad, F64Attr:$eps, I64Attr:$groups);
}
def NN_GroupNormDscaleOp : NN_NormDscale<"group_norm_dscale", "gradient of group_norm's scale [c]"> {
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$grad, F64Attr:$eps, I64Attr:$groups);
}

#endif // DIALECTS_NN_OPS_NORM

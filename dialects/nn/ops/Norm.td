//===- Norm.td - Normalisation by layer, root mean square and group -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_NORM
#define DIALECTS_NN_OPS_NORM

include "dialects/nn/NNBase.td"

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

#endif // DIALECTS_NN_OPS_NORM

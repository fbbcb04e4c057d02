//===- Convolution.td - Convolutions and pooling --------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_CONVOLUTION
#define DIALECTS_NN_OPS_CONVOLUTION

include "dialects/nn/NNBase.td"

// Convolutions: input [n, c, spatial...], weight [o, c/groups, kernel...]; `pads` is begin then end, a number an axis each.
def NN_ConvOp : NN_SmoothOp<"conv"> {
  let summary = "convolution over 1 to 3 spatial axes";
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$weight, Optional<NN_FloatTensor>:$bias,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, DefaultValuedOptionalAttr<I64Attr, "1">:$groups);
  let extraClassDeclaration = NN_Work<"Convolution">.declaration;
  let assemblyFormat = "$input `,` $weight (`,` $bias^)? attr-dict `:` type(operands)";
}
def NN_ConvDxOp : NN_SmoothOp<"conv_dx", [], NN_TypeGiven> {
  let summary = "gradient of conv's input; also the transposed convolution (weight [c_in, c_out/groups, kernel...])";
  let arguments = (ins NN_FloatTensor:$grad, NN_FloatTensor:$weight,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, DefaultValuedOptionalAttr<I64Attr, "1">:$groups);
  let hasVerifier = 1;
  let extraClassDeclaration = NN_Work<"Convolution">.declaration;
  let assemblyFormat = "$grad `,` $weight attr-dict `:` functional-type(operands, results)";
}
def NN_ConvDwOp : NN_GradOp<"conv_dw", [], NN_TypeGiven> {
  let summary = "gradient of conv's weight";
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$grad,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, DefaultValuedOptionalAttr<I64Attr, "1">:$groups);
  let hasVerifier = 1;
  let extraClassDeclaration = NN_Work<"Convolution">.declaration;
  let assemblyFormat = "$input `,` $grad attr-dict `:` functional-type(operands, results)";
}

def NN_PoolKind : I32EnumAttr<"PoolKind", "how a window becomes a number", [I32EnumAttrCase<"max", 0>, I32EnumAttrCase<"avg", 1>, I32EnumAttrCase<"avg_include_pad", 2>]> {
  let cppNamespace = "::dt::nn";
}
def NN_PoolOp : NN_SmoothOp<"pool", [], NN_TypeGiven> {
  let summary = "max or average pooling over spatial axes";
  let description = [{ The result type carries the rounding (ceil_mode); windows beyond the padded end are cut. }];
  let arguments = (ins NN_PoolKind:$kind, NN_FloatTensor:$input, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);
  let hasVerifier = 1;
  let assemblyFormat = "$kind $input attr-dict `:` functional-type(operands, results)";
}
def NN_PoolDxOp : NN_GradOp<"pool_dx", [], NN_TypeOfFirst> {
  let summary = "gradient of pool's input; for max the first maximum of a window takes it (PyTorch)";
  let arguments = (ins NN_PoolKind:$kind, NN_FloatTensor:$input, NN_FloatTensor:$grad, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);
  let assemblyFormat = "$kind $input `,` $grad attr-dict `:` type(operands)";
}

#endif // DIALECTS_NN_OPS_CONVOLUTION

//===- NNLinear.td - Products, convolutions, pooling, attention --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNLINEAR
#define DIALECTS_NN_NNLINEAR

include "dialects/nn/NNElementwise.td"

defvar NN_Priced = [DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>, DeclareOpInterfaceMethods<ShardingOpInterface, ["getShardingRule"]>,
                    DeclareOpInterfaceMethods<PrecisionOpInterface, ["getPrecisionRule"]>];
class NN_SmoothOp<string mnemonic, list<Trait> traits = []>
    : NN_InferredOp<mnemonic, traits # [DeclareOpInterfaceMethods<VjpOpInterface>] # NN_Priced>;
/// The same with the result type given (and verified), where operands do not determine it.
class NN_SmoothTypedOp<string mnemonic, list<Trait> traits = []>
    : NN_PureOp<mnemonic, traits # [DeclareOpInterfaceMethods<VjpOpInterface>] # NN_Priced>;
class NN_GradOp<string mnemonic, list<Trait> traits = []>
    : NN_InferredOp<mnemonic, traits # NN_Priced>;
class NN_GradTypedOp<string mnemonic, list<Trait> traits = []>
    : NN_PureOp<mnemonic, traits # NN_Priced>;

def NN_LinearOp : NN_SmoothOp<"linear"> {
  let summary = "y = x W^T (+ b) over the last axis";
  let description = [{
    `input` [..., in], `weight` [out, in] as PyTorch's Linear keeps it, or [in, out] with `in_out` (GPT-2's Conv1D), `bias` [out]. Weight layouts are attributes so that no
    Transpose stands between a parameter and its product.
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$weight, Optional<NN_FloatTensor>:$bias, UnitAttr:$in_out);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input `,` $weight (`,` $bias^)? attr-dict `:` type(operands)";
}
def NN_LinearDwOp : NN_GradOp<"linear_dw"> {
  let summary = "gradient of linear's weight: sum over rows of dy^T x ([out, in]; transposed with `in_out`)";
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$grad, UnitAttr:$in_out);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input `,` $grad attr-dict `:` type(operands)";
}
def NN_MatmulOp : NN_SmoothOp<"matmul"> {
  let summary = "batched matrix product; leading axes broadcast";
  let description = [{ lhs [..., m, k] ([..., k, m] with `trans_a`), rhs [..., k, n] ([..., n, k] with `trans_b`). Ranks are at least 2. }];
  let arguments = (ins NN_FloatTensor:$lhs, NN_FloatTensor:$rhs, UnitAttr:$trans_a, UnitAttr:$trans_b);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type(operands)";
}

// Convolutions: input [n, c, spatial...], weight [o, c/groups, kernel...]; `pads` is begin then end, a number an axis each.
def NN_ConvOp : NN_SmoothOp<"conv"> {
  let summary = "convolution over 1 to 3 spatial axes";
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$weight, Optional<NN_FloatTensor>:$bias,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, DefaultValuedOptionalAttr<I64Attr, "1">:$groups);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input `,` $weight (`,` $bias^)? attr-dict `:` type(operands)";
}
def NN_ConvDxOp : NN_SmoothTypedOp<"conv_dx"> {
  let summary = "gradient of conv's input; also the transposed convolution (weight [c_in, c_out/groups, kernel...])";
  let arguments = (ins NN_FloatTensor:$grad, NN_FloatTensor:$weight,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, DefaultValuedOptionalAttr<I64Attr, "1">:$groups);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$grad `,` $weight attr-dict `:` functional-type(operands, results)";
}
def NN_ConvDwOp : NN_GradTypedOp<"conv_dw"> {
  let summary = "gradient of conv's weight";
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$grad,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, DefaultValuedOptionalAttr<I64Attr, "1">:$groups);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$input `,` $grad attr-dict `:` functional-type(operands, results)";
}

def NN_PoolKind : I32EnumAttr<"PoolKind", "how a window becomes a number", [I32EnumAttrCase<"max", 0>, I32EnumAttrCase<"avg", 1>, I32EnumAttrCase<"avg_include_pad", 2>]> {
  let cppNamespace = "::dt::nn";
}
def NN_PoolOp : NN_SmoothTypedOp<"pool"> {
  let summary = "max or average pooling over spatial axes";
  let description = [{ The result type carries the rounding (ceil_mode); windows beyond the padded end are cut. }];
  let arguments = (ins NN_PoolKind:$kind, NN_FloatTensor:$input, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$kind $input attr-dict `:` functional-type(operands, results)";
}
def NN_PoolDxOp : NN_GradOp<"pool_dx"> {
  let summary = "gradient of pool's input; for max the first maximum of a window takes it (PyTorch)";
  let arguments = (ins NN_PoolKind:$kind, NN_FloatTensor:$input, NN_FloatTensor:$grad, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$kind $input `,` $grad attr-dict `:` type(operands)";
}

def NN_EmptyRow : I32EnumAttr<"EmptyRow", "what a query without a visible key gives", [I32EnumAttrCase<"mean", 0>, I32EnumAttrCase<"zero", 1>, I32EnumAttrCase<"nan", 2>]> {
  let cppNamespace = "::dt::nn";
}
def NN_AttentionOp : NN_SmoothOp<"attention"> {
  let summary = "scaled dot-product attention";
  let description = [{
    query [b, t, h, d], key [b, s, k, d], value [b, s, k, e] with h a multiple of k (grouped queries: head i uses KV head i / (h/k)); heads stand where the projections write them, so no transpose
    surrounds it. `mask` broadcasts to [b, h, t, s]: bool (true = visible) or float (added to the scores). `causal`: key j is visible to query i when j <= i + s - t. Results: output [b, t, h, e] and the
    log-sum-exp of the scores [b, h, t], which the gradient uses instead of the probabilities. `empty_row`: what a query gets whose scores are all hidden (a bool mask, `causal`, or
    additive values of -inf). `mean` of all values is what one mask of the lowest finite number gives in softmax, `nan` what -inf gives, `zero` what -inf gives behind an IsNaN guard. A float mask is added as it is:
    finite values never hide a key.
  }];
  let arguments = (ins NN_FloatTensor:$query, NN_FloatTensor:$key, NN_FloatTensor:$value, Optional<NN_Tensor>:$mask,
                       F64Attr:$scale, UnitAttr:$causal, DefaultValuedAttr<NN_EmptyRow, "EmptyRow::mean">:$empty_row);
  let results = (outs NN_FloatTensor:$result, NN_FloatTensor:$lse);
  let hasVerifier = 1;
  let assemblyFormat = "$query `,` $key `,` $value (`mask` $mask^)? attr-dict `:` type(operands)";
}
def NN_AttentionGradOp : NN_GradOp<"attention_grad"> {
  let summary = "gradients of attention's query, key and value";
  let arguments = (ins NN_FloatTensor:$query, NN_FloatTensor:$key, NN_FloatTensor:$value, Optional<NN_Tensor>:$mask, NN_FloatTensor:$result, NN_FloatTensor:$lse, NN_FloatTensor:$grad,
                       F64Attr:$scale, UnitAttr:$causal, DefaultValuedAttr<NN_EmptyRow, "EmptyRow::mean">:$empty_row);
  let results = (outs NN_FloatTensor:$dquery, NN_FloatTensor:$dkey, NN_FloatTensor:$dvalue);
  let assemblyFormat = "$query `,` $key `,` $value (`mask` $mask^)? `of` $result `,` $lse `,` $grad attr-dict `:` type(operands)";
}
def NN_RotaryStyle : I32EnumAttr<"RotaryStyle", "which elements of a head turn together", [I32EnumAttrCase<"half", 0>, I32EnumAttrCase<"interleaved", 1>]> {
  let cppNamespace = "::dt::nn";
}
def NN_RotaryOp : NN_SmoothOp<"rotary", [NN_Recomputable]> {
  let summary = "rotary position embedding";
  let description = [{
    input [b, t, h, d]; cos, sin [t, r] or [b, t, r] with r the number of turned pairs (2r <= d; elements from 2r on pass through). style half: pairs (i, i + r); interleaved: (2i, 2i + 1).
    `inverse` turns back, which is the gradient.
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$cos, NN_FloatTensor:$sin, DefaultValuedAttr<NN_RotaryStyle, "RotaryStyle::half">:$style, UnitAttr:$inverse);
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$input `,` $cos `,` $sin attr-dict `:` type(operands)";
}

#endif // DIALECTS_NN_NNLINEAR

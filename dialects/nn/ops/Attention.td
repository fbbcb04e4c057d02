//===- Attention.td - Attention and rotary position embedding -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_ATTENTION
#define DIALECTS_NN_OPS_ATTENTION

include "dialects/nn/NNBase.td"

def NN_EmptyRow : I32EnumAttr<"EmptyRow", "what a query without a visible key gives", [I32EnumAttrCase<"mean", 0>, I32EnumAttrCase<"zero", 1>, I32EnumAttrCase<"nan", 2>, I32EnumAttrCase<"filled", 3>]> {
  let cppNamespace = "::dt::nn";
}
def NN_AttentionOp : NN_SmoothOp<"attention", [AttrSizedOperandSegments]> {
  let summary = "scaled dot-product attention";
  let description = [{
    query [b, t, h, d], key [b, s, k, d], value [b, s, k, e] with h a multiple of k (grouped queries: head i uses KV head i / (h/k)); heads stand where the projections write them, so no transpose
    surrounds it. `mask` broadcasts to [b, h, t, s]: bool (true = visible) or float (added to the scores). `causal`: key j is visible to query i when j <= i' with i' = i + s - t.
    `window`: only when i' - j < window and, if not causal, j - i' < window. `segments` query_segments [b or 1, t or 1] `by` key_segments [b or 1, s]: only when their numbers are equal, in whatever order these stand.
    `stripes`: the queries are those of one rank of an axis that cuts them (docs/context.md); i' is then counted in all t * over of them. `key_stripes`: so are the keys, and j and s are those of all keys.
    `partial`: the keys are some of those that rows see, whose results are merged by their log-sum-exp; a row that sees none of them is `zero`. The gradient then takes result and log-sum-exp of all keys, and gives what these keys add.
    A key is visible when all of these let it be; segments and window take no memory for [t, s], and tiles of keys that no query of a tile sees are not computed. Results: output [b, t, h, e] and the
    log-sum-exp of the scores [b, h, t], which the gradient uses instead of the probabilities. `empty_row`: what a query gets whose scores are all hidden (a bool mask, `causal`,
    segments, a window, or additive values of -inf). `mean` of all values is what the lowest finite number gives in softmax where it is added to scores, and `filled` where it is put in their place: then query and key have no gradient.
    `nan` is what -inf gives, `zero` what it gives behind an IsNaN guard, and in PyTorch's scaled_dot_product_attention. A float mask is added as it is: finite values never hide a key.
    `soft_cap` c: scores are c * tanh(scale * q k^T / c), before anything is added or hidden (Gemma 2).
  }];
  let arguments = (ins NN_FloatTensor:$query, NN_FloatTensor:$key, NN_FloatTensor:$value, Optional<NN_Tensor>:$mask,
                       Optional<NN_IntTensor>:$query_segments, Optional<NN_IntTensor>:$key_segments,
                       F64Attr:$scale, UnitAttr:$causal, DefaultValuedAttr<NN_EmptyRow, "EmptyRow::mean">:$empty_row, OptionalAttr<I64Attr>:$window, OptionalAttr<NN_Positive>:$soft_cap, OptionalAttr<NN_Stripes>:$stripes, OptionalAttr<NN_Stripes>:$key_stripes, UnitAttr:$partial);
  let results = (outs NN_FloatTensor:$result, NN_FloatTensor:$lse);
  let hasVerifier = 1;
  let extraClassDeclaration = NN_Work<"Attention">.declaration # "bool hidesForeignPairs(unsigned operand);";
  let assemblyFormat = "$query `,` $key `,` $value (`mask` $mask^)? (`segments` $query_segments^ `by` $key_segments)? attr-dict `:` type(operands)";
}
def NN_AttentionGradOp : NN_GradOp<"attention_grad", [AttrSizedOperandSegments]> {
  let summary = "gradients of attention's query, key and value";
  let arguments = (ins NN_FloatTensor:$query, NN_FloatTensor:$key, NN_FloatTensor:$value, Optional<NN_Tensor>:$mask,
                       Optional<NN_IntTensor>:$query_segments, Optional<NN_IntTensor>:$key_segments, NN_FloatTensor:$result, NN_FloatTensor:$lse, NN_FloatTensor:$grad,
                       F64Attr:$scale, UnitAttr:$causal, DefaultValuedAttr<NN_EmptyRow, "EmptyRow::mean">:$empty_row, OptionalAttr<I64Attr>:$window, OptionalAttr<NN_Positive>:$soft_cap, OptionalAttr<NN_Stripes>:$stripes, OptionalAttr<NN_Stripes>:$key_stripes, UnitAttr:$partial);
  let results = (outs NN_FloatTensor:$dquery, NN_FloatTensor:$dkey, NN_FloatTensor:$dvalue);
  let hasVerifier = 1;
  let extraClassDeclaration = NN_Work<"Attention">.declaration;
  let assemblyFormat = "$query `,` $key `,` $value (`mask` $mask^)? (`segments` $query_segments^ `by` $key_segments)? `of` $result `,` $lse `,` $grad attr-dict `:` type(operands)";
}

def NN_RotaryStyle : I32EnumAttr<"RotaryStyle", "which elements of a head turn together", [I32EnumAttrCase<"half", 0>, I32EnumAttrCase<"interleaved", 1>]> {
  let cppNamespace = "::dt::nn";
}
def NN_RotaryOp : NN_SmoothOp<"rotary", [NN_Recomputable], NN_TypeOfFirst> {
  let summary = "rotary position embedding";
  let description = [{
    input [b, t, h, d]; cos, sin [t, r] or [b, t, r] with r the number of turned pairs (2r <= d; elements from 2r on pass through). style half: pairs (i, i + r); interleaved: (2i, 2i + 1).
    `inverse` turns back, which is the gradient.
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$cos, NN_FloatTensor:$sin, DefaultValuedAttr<NN_RotaryStyle, "RotaryStyle::half">:$style, UnitAttr:$inverse);
  let hasVerifier = 1;
  let assemblyFormat = "$input `,` $cos `,` $sin attr-dict `:` type(operands)";
}

#endif // DIALECTS_NN_OPS_ATTENTION

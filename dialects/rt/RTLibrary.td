//===- RTLibrary.td - Calls of the runtime's math libraries -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One op a function of runtime/device/cpu/*.h, attributes named as there. Sizes of 0 are
// allowed everywhere: the callee does nothing (or what beta says). Operands are
// all f32 or all bf16; sums are f32 in either case.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTLIBRARY
#define DIALECTS_RT_RTLIBRARY

include "dialects/rt/RTBase.td"

def RT_MatmulOp : RT_Op<"matmul"> {
  let summary = "c[i] = op(a[i]) op(b[i]) + bias + beta c[i]";
  let description = [{
    runtime/device/cpu/Matmul.h. op(a) is m x k, op(b) is k x n. Strides are in elements; 0 means dense (ld*), or the same matrix for the whole batch (stride_a, stride_b). `accumulate`: beta = 1, else 0.
    With bf16 a and b, c and the bias are f32 or bf16; what is added to a bf16 c is added in f32, and the sum rounded.
  }];
  let arguments = (ins RT_In<"a">:$a, RT_In<"b">:$b, Optional<RT_BufferType>:$bias, RT_InOut<"c">:$c,
                       NN_Dim:$batch, NN_Dim:$m, NN_Dim:$n, NN_Dim:$k, UnitAttr:$trans_a, UnitAttr:$trans_b,
                       DefaultValuedAttr<NN_Dim, "0">:$stride_a, DefaultValuedAttr<NN_Dim, "0">:$stride_b, DefaultValuedAttr<NN_Dim, "0">:$stride_c,
                       DefaultValuedAttr<NN_Dim, "0">:$lda, DefaultValuedAttr<NN_Dim, "0">:$ldb, DefaultValuedAttr<NN_Dim, "0">:$ldc, UnitAttr:$accumulate);
  let hasVerifier = 1;
  let assemblyFormat = "$a `,` $b (`bias` $bias^)? `to` $c attr-dict `:` type(operands)";
}

class RT_ConvLike<string mnemonic, list<Trait> traits = []> : RT_Op<mnemonic, traits> {
  /// n, c, in of the *input* of the forward convolution; o output channels.
  dag shape = (ins NN_Dim:$n, I64Attr:$c, I64Attr:$o, I64Attr:$groups, NN_Dims:$in, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                   DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pad_begin, DenseI64ArrayAttr:$pad_end);
  let hasVerifier = 1;
}
def RT_ConvOp : RT_ConvLike<"conv"> {
  let summary = "convForward of runtime/device/cpu/Conv.h";
  let arguments = !con((ins RT_In<"x">:$x, RT_In<"w">:$w, Optional<RT_BufferType>:$bias, RT_Out<"y">:$y), shape);
  let assemblyFormat = "$x `,` $w (`bias` $bias^)? `to` $y attr-dict `:` type(operands)";
}
def RT_ConvDxOp : RT_ConvLike<"conv_dx"> {
  let summary = "convBackwardData of runtime/device/cpu/Conv.h (also the transposed convolution)";
  let arguments = !con((ins RT_In<"dy">:$dy, RT_In<"w">:$w, Optional<RT_BufferType>:$bias, RT_Out<"dx">:$dx), shape);
  let assemblyFormat = "$dy `,` $w (`bias` $bias^)? `to` $dx attr-dict `:` type(operands)";
}
def RT_ConvDwOp : RT_ConvLike<"conv_dw"> {
  let summary = "convBackwardWeights of runtime/device/cpu/Conv.h; `accumulate`: adds to dw and db, which must be f32";
  let arguments = !con((ins RT_In<"x">:$x, RT_In<"dy">:$dy, RT_InOut<"dw">:$dw, Optional<RT_BufferType>:$db), shape, (ins UnitAttr:$accumulate));
  let assemblyFormat = "$x `,` $dy `to` $dw (`bias` $db^)? attr-dict `:` type(operands)";
}

class RT_AttentionLike<string mnemonic, list<Trait> traits = []> : RT_Op<mnemonic, traits> {
  /// Fields of AttentionShape; each stride list is (b, t|s, h), that of the mask (b, h, t, s); MaskKind follows from the mask's element type (none, f32, bf16, i1). Strides of segments are (b, t) of the
  /// queries' and b of the keys'; SegmentKind follows from their element type. The log-sum-exp is f32.
  dag shape = (ins NN_Dim:$b, NN_Dim:$t, NN_Dim:$s, NN_Dim:$h, NN_Dim:$hk, NN_Dim:$d, NN_Dim:$dv, NN_Dims:$q_strides, NN_Dims:$k_strides, NN_Dims:$v_strides,
                   NN_Dims:$o_strides, NN_Dims:$mask_strides, OptionalAttr<NN_Dims>:$segment_strides, F64Attr:$scale, UnitAttr:$causal, OptionalAttr<I64Attr>:$window, OptionalAttr<NN_Positive>:$soft_cap, OptionalAttr<NN_Stripes>:$stripes, OptionalAttr<NN_Stripes>:$key_stripes, UnitAttr:$partial, Dist_EmptyRow:$empty_row);
  let hasVerifier = 1;
}
def RT_AttentionOp : RT_AttentionLike<"attention", [AttrSizedOperandSegments]> {
  let summary = "attentionForward of runtime/device/cpu/Attention.h";
  let arguments = !con((ins RT_In<"q">:$q, RT_In<"k">:$k, RT_In<"v">:$v, Optional<RT_BufferType>:$mask, Optional<RT_BufferType>:$query_segments, Optional<RT_BufferType>:$key_segments, RT_Out<"o">:$o, RT_Out<"lse">:$lse), shape);
  let assemblyFormat = "$q `,` $k `,` $v (`mask` $mask^)? (`segments` $query_segments^ `by` $key_segments)? `to` $o `,` $lse attr-dict `:` type(operands)";
}
def RT_AttentionGradOp : RT_AttentionLike<"attention_grad", [AttrSizedOperandSegments]> {
  let summary = "attentionBackward of runtime/device/cpu/Attention.h; strides of gradients are those of q, k, v if absent";
  let arguments = !con((ins RT_In<"q">:$q, RT_In<"k">:$k, RT_In<"v">:$v, Optional<RT_BufferType>:$mask, Optional<RT_BufferType>:$query_segments, Optional<RT_BufferType>:$key_segments,
                            RT_In<"o">:$o, RT_In<"lse">:$lse, RT_In<"do">:$dout,
                            RT_Out<"dq">:$dq, RT_Out<"dk">:$dk, RT_Out<"dv">:$dv_), shape,
                       (ins OptionalAttr<NN_Dims>:$dq_strides, OptionalAttr<NN_Dims>:$dk_strides, OptionalAttr<NN_Dims>:$dv_strides));
  let assemblyFormat = "$q `,` $k `,` $v (`mask` $mask^)? (`segments` $query_segments^ `by` $key_segments)? `of` $o `,` $lse `,` $dout `to` $dq `,` $dk `,` $dv_ attr-dict `:` type(operands)";
}

def RT_LimitChoicesOp : RT_Op<"limit_choices"> {
  let summary = "limitChoices of runtime/device/cpu/Experts.h";
  let arguments = (ins RT_In<"experts">:$experts, Optional<RT_BufferType>:$segments, RT_Out<"kept">:$kept, NN_Dim:$samples, NN_Dim:$choices, I64Attr:$each, I64Attr:$count, I64Attr:$most, F64Attr:$capacity);
  let hasVerifier = 1;
  let assemblyFormat = "$experts (`apart` $segments^)? `to` $kept attr-dict `:` type(operands)";
}
def RT_RouteOp : RT_Op<"route"> {
  let summary = "route of runtime/device/cpu/Experts.h";
  let description = [{
    Of `count` experts those from `first` on, `placed` times `group` of them, which have at most `room` rows; without `first` all. `group` experts are one part of the order; with `slots` each part has so many places, `room` together.
    `op` is whose rows they are, for the task's fault record: more rows than there is room for are taken down there.
  }];
  let arguments = (ins RT_In<"experts">:$experts, Optional<RT_BufferType>:$first, RT_Out<"order">:$order, RT_Out<"place">:$place, RT_Out<"offsets">:$offsets, NN_Dim:$rows, NN_Dim:$room, I64Attr:$count, I64Attr:$placed,
                       DefaultValuedAttr<I64Attr, "1">:$group, OptionalAttr<NN_Dim>:$slots, StrAttr:$op);
  let hasVerifier = 1;
  let assemblyFormat = "$experts (`from` $first^)? `to` $order `,` $place `,` $offsets attr-dict `:` type(operands)";
}
def RT_GroupedMatmulOp : RT_Op<"grouped_matmul"> {
  let summary = "groupedMatmul of runtime/device/cpu/Experts.h: each expert's rows by its weight";
  let description = [{ a is m x k, expert e has rows offsets[e] up to offsets[e + 1]; b holds `count` matrices k x n, or n x k with `trans_b`; bias `count` rows of n. }];
  let arguments = (ins RT_In<"a">:$a, RT_In<"b">:$b, RT_In<"offsets">:$offsets, Optional<RT_BufferType>:$bias, RT_Out<"c">:$c,
                       NN_Dim:$m, NN_Dim:$n, NN_Dim:$k, I64Attr:$count, UnitAttr:$trans_b);
  let hasVerifier = 1;
  let assemblyFormat = "$a `,` $b `at` $offsets (`bias` $bias^)? `to` $c attr-dict `:` type(operands)";
}
def RT_GroupedMatmulDwOp : RT_Op<"grouped_matmul_dw"> {
  let summary = "groupedMatmulDw of runtime/device/cpu/Experts.h: of each expert's rows a^T b";
  let description = [{ a is m x k, b is m x n; c holds `count` matrices k x n, 0 of an expert without rows. `accumulate`: adds to c, which must be f32. }];
  let arguments = (ins RT_In<"a">:$a, RT_In<"b">:$b, RT_In<"offsets">:$offsets, RT_InOut<"c">:$c, NN_Dim:$m, NN_Dim:$n, NN_Dim:$k, I64Attr:$count, UnitAttr:$accumulate);
  let hasVerifier = 1;
  let assemblyFormat = "$a `,` $b `at` $offsets `to` $c attr-dict `:` type(operands)";
}

def RT_CheckIndicesOp : RT_Op<"check_indices", [MemoryEffects<[MemWrite]>]> {
  let summary = "reports the first index from data that is out of range";
  let description = [{
    runtime/data/Fault.h. Checks every `stride`-th element of `indices` from `offset` on. Valid are 0 to `extent` - 1, with `wrap` also -`extent` to -1, and `ignored`. For the first invalid one the task's fault record gets the
    value, its row (`row`: elements of a row), and three attributes: the `op` that uses the index, the `input` of the module that it comes from (if it is one), the `item` of a row (the symbol that counts rows).

    `block` [chunk, over, stride, …]: indices count from the beginning of this rank's block of `chunk` rows (on the axis of `over` ranks with `stride`), with further cuts from the beginning of a block within the block.
    Negative indices have been converted to positive ones already.

    With `per` the indices number places that rows fill one after another (-1 before the first place): after each `per` elements there must be `extent` places more.

    The op that uses the index clamps it.
  }];
  let arguments = (ins RT_In<"indices">:$indices, NN_Dim:$extent, UnitAttr:$wrap, OptionalAttr<I64Attr>:$ignored, OptionalAttr<DenseI64ArrayAttr>:$block, DefaultValuedAttr<I64Attr, "0">:$offset, DefaultValuedAttr<I64Attr, "1">:$stride,
                       StrAttr:$op, OptionalAttr<StrAttr>:$input, OptionalAttr<StrAttr>:$item, DefaultValuedAttr<NN_Dim, "1">:$row, OptionalAttr<NN_Dim>:$per);
  let hasVerifier = 1;
  let assemblyFormat = "$op $indices `below` $extent attr-dict `:` type($indices)";
}

#endif // DIALECTS_RT_RTLIBRARY

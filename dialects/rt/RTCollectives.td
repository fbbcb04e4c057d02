//===- RTCollectives.td - What ranks of a replica do together ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Calls of runtime/comm/Collectives.h, attributes named as there; done by
// all ranks of the module's group in the same order. An axis is `over` n with
// `stride` s: ranks that differ only in (rank / s) mod n (docs/sharding.md).
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTCOLLECTIVES
#define DIALECTS_RT_RTCOLLECTIVES

include "dialects/dist/RuntimeEnums.td"
include "dialects/rt/RTBase.td"

class RT_AxisOp<string mnemonic> : RT_Op<mnemonic> {
  dag axis = (ins I64Attr:$over, I64Attr:$stride);
  let hasVerifier = 1;
}
def RT_CollectiveOp : RT_AxisOp<"collective"> {
  let summary = "a collective operation of all ranks of the axis: `in` to `out`";
  let description = [{
    | attribute, operand | meaning |
    | --- | --- |
    | `kind` | CollectiveKind of runtime/Enums.h; its form says what the buffers contain |
    | `chunk` | a block is [outer][chunk] elements; without it, one row |
    | `in` | a block; if the kind scatters, [outer][over][chunk], a block for every rank |
    | `out` | a block; if the kind gathers, a block from every rank. If it only combines, `out` may be `in` |
    | `reduction` | of a kind that combines; sum if absent |
    | `pitch` | of a kind that either gathers or scatters: distance, in elements, between the beginnings of chunks on the side with one rank's block. That buffer reaches at least to the end of the last chunk |
    | `on tp` | the stream, beside the compute stream |
  }];
  let arguments = !con((ins Dist_CollectiveKind:$kind, OptionalAttr<Dist_Reduction>:$reduction, RT_In<"in">:$in, RT_Out<"out">:$out, OptionalAttr<NN_Dim>:$chunk, OptionalAttr<NN_Dim>:$pitch), axis,
                         (ins DefaultValuedAttr<RT_Stream, "::dt::rt::Stream::compute">:$stream));
  let extraClassDeclaration = [{
    const CollectiveForm &getForm() { return formOf(getKind()); }
    /// Elements of a block.
    ::dt::nn::DimExpr getBlock();
  }];
  let assemblyFormat = "custom<RuntimeEnum>($kind) (`by` custom<RuntimeEnum>($reduction)^)? $in `to` $out (`chunk` $chunk^)? (`pitch` $pitch^)? `over` $over `stride` $stride (`on` $stream^)? attr-dict `:` type(operands)";
}
def RT_RankPlaceOp : RT_AxisOp<"rank_place"> {
  let summary = "*buffer = this rank's place on the axis, (rank / stride) mod over";
  let arguments = !con((ins RT_Out<"buffer">:$buffer), axis);
  let assemblyFormat = "$buffer `over` $over `stride` $stride attr-dict `:` type($buffer)";
}

#endif // DIALECTS_RT_RTCOLLECTIVES

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
  let summary = "what all ranks of the axis do together: `in` to `out`";
  let description = [{
    `kind`: CollectiveKind of runtime/Enums.h, whose form says what the buffers hold. A block is [outer][chunk] elements, without `chunk` one row. `in` is a block, or [outer][over][chunk], a block for
    every rank, if the kind scatters; so is `out`, with a block of every rank, if it gathers. If it does neither, `out` may be `in`. `reduction` (sum if there is none): of a kind that combines.
    `pitch`: of a kind that either gathers or scatters; chunks of the side that has one rank's (`in`, `out`) begin so many elements after one another, and that buffer reaches at least to the last one's end.
    `on tp`: beside what is on the compute stream.
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

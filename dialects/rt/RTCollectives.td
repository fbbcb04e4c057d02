//===- RTCollectives.td - What ranks of a replica do together ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One op a function of runtime/comm/Collectives.h, attributes named as there; called by
// all ranks of the module's group in the same order. An axis is `over` n with
// `stride` s: ranks that differ only in (rank / s) mod n (docs/sharding.md).
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTCOLLECTIVES
#define DIALECTS_RT_RTCOLLECTIVES

include "dialects/dist/RuntimeEnums.td"
include "dialects/rt/RTBase.td"

class RT_Collective<string mnemonic> : RT_Op<mnemonic> {
  dag axis = (ins I64Attr:$over, I64Attr:$stride);
  let hasVerifier = 1;
}
def RT_AllReduceOp : RT_Collective<"all_reduce"> {
  let summary = "out = the combination over the axis; `out` may be `in`";
  let description = [{ `kind`: Reduction of runtime/Enums.h. }];
  let arguments = !con((ins Dist_Reduction:$kind, RT_In<"in">:$in, RT_Out<"out">:$out), axis);
  let assemblyFormat = "custom<RuntimeEnum>($kind) $in `to` $out `over` $over `stride` $stride attr-dict `:` type(operands)";
}
def RT_AllGatherOp : RT_Collective<"all_gather"> {
  let summary = "`in` is [outer][chunk], `out` [outer][over][chunk]";
  let arguments = !con((ins RT_In<"in">:$in, RT_Out<"out">:$out, RT_Dim:$chunk), axis);
  let assemblyFormat = "$in `to` $out `chunk` $chunk `over` $over `stride` $stride attr-dict `:` type(operands)";
}
def RT_ReduceScatterOp : RT_Collective<"reduce_scatter"> {
  let summary = "`in` is [outer][over][chunk], `out` [outer][chunk]: this rank's part of the sum";
  let arguments = !con((ins RT_In<"in">:$in, RT_Out<"out">:$out, RT_Dim:$chunk), axis);
  let assemblyFormat = "$in `to` $out `chunk` $chunk `over` $over `stride` $stride attr-dict `:` type(operands)";
}
def RT_AllToAllOp : RT_Collective<"all_to_all"> {
  let summary = "`in` is [over][count], a block for every rank; `out` gets a block from every rank";
  let arguments = !con((ins RT_In<"in">:$in, RT_Out<"out">:$out), axis);
  let assemblyFormat = "$in `to` $out `over` $over `stride` $stride attr-dict `:` type(operands)";
}
def RT_RankPlaceOp : RT_Collective<"rank_place"> {
  let summary = "*buffer = this rank's place on the axis, (rank / stride) mod over";
  let arguments = !con((ins RT_Out<"buffer">:$buffer), axis);
  let assemblyFormat = "$buffer `over` $over `stride` $stride attr-dict `:` type($buffer)";
}

#endif // DIALECTS_RT_RTCOLLECTIVES

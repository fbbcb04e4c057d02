//===- DistCollectives.td - Layouts, and collectives of a group of ranks ----===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What the shard phase leaves in functions (docs/sharding.md). All ranks of a
// group run the same function; an axis is `over n stride s`: ranks r that differ
// only in (r / s) mod n.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_DIST_DISTCOLLECTIVES
#define DIALECTS_DIST_DISTCOLLECTIVES

include "dialects/dist/DistBase.td"
include "dialects/dist/DistInterfaces.td"
include "dialects/dist/RuntimeEnums.td"
include "dialects/nn/NNInterfaces.td"
include "dialects/nn/NNSizes.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Dist_Attr<string name, string attrMnemonic> : AttrDef<Dist_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Dist_CutAttr : Dist_Attr<"Cut", "cut"> {
  let summary = "one axis of ranks cuts one dim";
  let description = [{
    `#dist.cut<dim, chunk, over, stride>`: the dim is [outer][over][chunk], and rank i of the axis holds index i of the middle.
  }];
  let parameters = (ins "unsigned":$dim, "int64_t":$chunk, "int64_t":$over, "int64_t":$stride);
  let assemblyFormat = "`<` $dim `,` $chunk `,` $over `,` $stride `>`";
  let genVerifyDecl = 1;
}

def Dist_LayoutAttr : Dist_Attr<"Layout", "layout"> {
  let summary = "which part of a whole tensor a rank has";
  let description = [{
    `#dist.layout<64x192, [#dist.cut<1, 32, 2, 1>]>`: the whole shape (? for a dim that is not a number) and cuts, applied one after another. `of 250x64` before them: the shape that files have; the
    rest of the whole is padding with zeros at the end of dims.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, ArrayRefParameter<"int64_t">:$unpadded, ArrayRefParameter<"::dt::dist::CutAttr">:$cuts);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The shape of a rank's part.
    ::llvm::SmallVector<int64_t> getLocalShape() const;
  }];
}

def Dist_TimesAttr : Dist_Attr<"Times", "times"> {
  let summary = "what a unit's tasks take and keep";
  let description = [{
    `#dist.times<"profile.json", [array<i64: ...>]>`: where it is from, and for every stage of the unit the fields of planner::StageTimes.
  }];
  let parameters = (ins StringRefParameter<>:$source, ArrayRefParameter<"::mlir::DenseI64ArrayAttr">:$stages);
  let assemblyFormat = "`<` $source `,` `[` $stages `]` `>`";
}

def Dist_PairsAttr : Dist_Attr<"Pairs", "pairs"> {
  let summary = "FLOPs of attention inside of items";
  let description = [{
    `#dist.pairs<12288, <4*seq>, <4*seq>, true, 512>`: so many FLOPs for each pair of a row and a column of one item that `causal` and `window` (0: none) leave. What an item has of the rows and of the columns is what it brings to
    these sizes, each of which is a multiple of one symbol.
  }];
  let parameters = (ins "int64_t":$flops, "::dt::nn::DimAttr":$rows, "::dt::nn::DimAttr":$columns, "bool":$causal, "int64_t":$window);
  let assemblyFormat = "`<` $flops `,` $rows `,` $columns `,` $causal `,` $window `>`";
}

def Dist_WorkAttr : Dist_Attr<"Work", "work"> {
  let summary = "FLOPs of the model in a part";
  let description = [{
    `#dist.work<<30720*seq>, [<12288, <seq>, <seq>, true, 0>]>`: what grows with the part's dims, and attention that keeps items apart.
  }];
  let parameters = (ins "::dt::nn::DimAttr":$size, OptionalArrayRefParameter<"::dt::dist::PairsAttr">:$pairs);
  let assemblyFormat = "`<` $size (`,` `[` $pairs^ `]`)? `>`";
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// Strips in which a collective is done (Strips.h).
def Dist_Strips : OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>;
/// `kind` is a CollectiveKind of runtime/Enums.h. `answers`: methods of CollectiveOpInterface.
class Dist_Collective<string mnemonic, string kind, list<Trait> traits = []> : Dist_Op<mnemonic, [Pure, CollectiveOpInterface] # traits> {
  code answers = "";
  code rule = "";
  let results = (outs AnyRankedTensor:$result);
  let hasFolder = 1;
  let extraClassDeclaration = "::dt::rt::CollectiveKind getCollectiveKind() { return ::dt::rt::CollectiveKind::" # kind # "; }" # answers;
  let extraClassDefinition = [{
    ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor) {
      return getOver() == 1 ? ::mlir::OpFoldResult(getInput()) : ::mlir::OpFoldResult();
    }
  }] # rule;
}

/// A further axis may cut it.
class Dist_ShardedCollective<string mnemonic, string kind, list<Trait> traits = []>
    : Dist_Collective<mnemonic, kind, traits # [DeclareOpInterfaceMethods<ShardingOpInterface, ["getShardingRule"]>]> {
  let rule = [{
    ::dt::nn::ShardingRule $cppClass::getShardingRule() { return getCollectiveRule(*this); }
  }];
}

/// One block becomes one block.
class Dist_WholeCollective<string mnemonic, string kind> : Dist_ShardedCollective<mnemonic, kind, [SameOperandsAndResultType]> {
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$over, I64Attr:$stride, Dist_Strips:$strips);
  let assemblyFormat = "$input `over` $over `stride` $stride attr-dict `:` type($input)";
}

/// One side has the whole of a dim that is cut on the other: the input of a kind that gathers, else the result.
class Dist_CutCollective<string mnemonic, string kind> : Dist_ShardedCollective<mnemonic, kind> {
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$input, "uint64_t":$axis, "uint64_t":$chunk, "uint64_t":$over, "uint64_t":$stride), [{
    build($_builder, $_state, result, input, axis, chunk, over, stride, ::mlir::IntegerAttr());
  }]>];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$axis, I64Attr:$chunk, I64Attr:$over, I64Attr:$stride, Dist_Strips:$strips);
  let hasCanonicalizeMethod = 1;
  let assemblyFormat = "$input `axis` $axis `chunk` $chunk `over` $over `stride` $stride attr-dict `:` type($input) `to` type($result)";
  let answers = [{
    ::std::optional<::dt::dist::DimCut> getCut(bool is) {
      return is ? ::std::optional(::dt::dist::DimCut{getAxis(), getChunk()}) : ::std::nullopt;
    }
    ::std::optional<::dt::dist::DimCut> getTakenCut() { return getCut(::dt::rt::formOf(getCollectiveKind()).gathers); }
    ::std::optional<::dt::dist::DimCut> getGivenCut() { return getCut(::dt::rt::formOf(getCollectiveKind()).scatters); }
  }];
}

def Dist_AllReduceOp : Dist_WholeCollective<"all_reduce", "AllReduce"> {
  let summary = "partial values become the whole on every rank of the axis";
  let description = [{ `kind`: Reduction of runtime/Enums.h. }];
  let arguments = (ins Dist_Reduction:$kind, AnyRankedTensor:$input, I64Attr:$over, I64Attr:$stride, Dist_Strips:$strips);
  let hasCanonicalizeMethod = 1;
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::dt::rt::Reduction":$kind, "::mlir::Value":$input, "uint64_t":$over, "uint64_t":$stride), [{
    build($_builder, $_state, result, kind, input, over, stride, ::mlir::IntegerAttr());
  }]>];
  let assemblyFormat = "custom<RuntimeEnum>($kind) $input `over` $over `stride` $stride attr-dict `:` type($input)";
  let answers = [{
    ::std::optional<::dt::rt::Reduction> getReduction() { return getKind(); }
  }];
}
def Dist_ShiftOp : Dist_WholeCollective<"shift", "Shift"> {
  let summary = "every rank's value goes to the next rank of the axis, the last one's to the first";
  let description = [{ Point to point: after k of them a rank has the value of the rank k places before it. }];
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "uint64_t":$over, "uint64_t":$stride), [{
    build($_builder, $_state, input.getType(), input, over, stride, ::mlir::IntegerAttr());
  }]>];
}
def Dist_AllGatherOp : Dist_CutCollective<"all_gather", "AllGather"> {
  let summary = "parts along `axis` become the whole on every rank";
  let description = [{ The input's dim is [outer][chunk], the result's [outer][over][chunk]. }];
}
def Dist_ReduceScatterOp : Dist_CutCollective<"reduce_scatter", "ReduceScatter"> {
  let summary = "partial sums become parts of the sum along `axis`";
  let description = [{ The input's dim is [outer][over][chunk], the result's [outer][chunk]. }];
}
def Dist_AllToAllOp : Dist_Collective<"all_to_all", "AllToAll"> {
  let summary = "a value cut along one dim becomes cut along another";
  let description = [{ As an all_gather along `gather` and a slice along `scatter`, with 1/over of the traffic. }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$gather, I64Attr:$gather_chunk, I64Attr:$scatter, I64Attr:$scatter_chunk, I64Attr:$over, I64Attr:$stride, Dist_Strips:$strips);
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$input, "uint64_t":$gather, "uint64_t":$gather_chunk, "uint64_t":$scatter, "uint64_t":$scatter_chunk, "uint64_t":$over, "uint64_t":$stride), [{
    build($_builder, $_state, result, input, gather, gather_chunk, scatter, scatter_chunk, over, stride, ::mlir::IntegerAttr());
  }]>];
  let assemblyFormat = "$input `gather` $gather `chunk` $gather_chunk `scatter` $scatter `chunk` $scatter_chunk `over` $over `stride` $stride attr-dict `:` type($input) `to` type($result)";
  let answers = [{
    ::std::optional<::dt::dist::DimCut> getTakenCut() { return ::dt::dist::DimCut{getGather(), getGatherChunk()}; }
    ::std::optional<::dt::dist::DimCut> getGivenCut() { return ::dt::dist::DimCut{getScatter(), getScatterChunk()}; }
  }];
}

//===----------------------------------------------------------------------===//
// By a rank's place, without traffic
//===----------------------------------------------------------------------===//

class Dist_PlaceOp<string mnemonic, list<Trait> traits = []> : Dist_Op<mnemonic, traits # [Pure]> {
  let hasVerifier = 1;
}

def Dist_SliceOp : Dist_PlaceOp<"slice", [DeclareOpInterfaceMethods<ShardingOpInterface, ["getShardingRule"]>]> {
  let summary = "a rank's part, along `axis`, of a value that all ranks have";
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$axis, I64Attr:$chunk, I64Attr:$over, I64Attr:$stride);
  let results = (outs AnyRankedTensor:$result);
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
  let assemblyFormat = "$input `axis` $axis `chunk` $chunk `over` $over `stride` $stride attr-dict `:` type($input) `to` type($result)";
}
def Dist_PartialOp : Dist_PlaceOp<"partial", [SameOperandsAndResultType, DeclareOpInterfaceMethods<ShardingOpInterface, ["getShardingRule"]>]> {
  let summary = "the value on the first rank of the axis, zeros on the others";
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$over, I64Attr:$stride);
  let results = (outs AnyRankedTensor:$result);
  let hasFolder = 1;
  let assemblyFormat = "$input `over` $over `stride` $stride attr-dict `:` type($input)";
}
def Dist_RankOp : Dist_PlaceOp<"rank"> {
  let summary = "the rank's place on the axis: (rank / stride) mod over";
  let arguments = (ins I64Attr:$over, I64Attr:$stride);
  let results = (outs 0DTensorOf<[I64]>:$result);
  let assemblyFormat = "`over` $over `stride` $stride attr-dict `:` type($result)";
}

#endif // DIALECTS_DIST_DISTCOLLECTIVES

//===- Experts.td - Products of rows by their experts' weights ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// docs/experts.md. Rows are in the order of the tokens (expert_linear), or those
// of an expert one after another (what route, dispatch and combine are for).
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_EXPERTS
#define DIALECTS_NN_OPS_EXPERTS

include "dialects/nn/NNBase.td"

def NN_ExpertLinearOp : NN_PureOp<"expert_linear", [NN_Priced, NN_Items, NN_Rounded, NN_InferTypes]> {
  let summary = "each row by the weight of its expert";
  let description = [{
    `input` [r, in], `experts` [r] the number of each row's expert (negative ones count from the end), `weight` [e, out, in], or [e, in, out] with `in_out`, `bias` [e, out]. Result [r, out]. `limited`: a row of number e is of no expert, and gives 0; none counts from the end. It has no gradient: `nn-group-experts` makes nn.grouped_linear of it before differentiation.
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_IntTensor:$experts, NN_FloatTensor:$weight, Optional<NN_FloatTensor>:$bias, UnitAttr:$in_out, UnitAttr:$limited);
  let results = (outs NN_FloatTensor:$result);
  let extraClassDeclaration = "::dt::nn::Work getWork();";
  let assemblyFormat = "$input `by` $experts `,` $weight (`,` $bias^)? attr-dict `:` type(operands)";
}

def NN_LimitChoicesOp : NN_PureOp<"limit_choices", [NN_ZeroGradient, CostOpInterface, NN_Items, NN_Sharded, NN_InferTypes]> {
  let summary = "which choices of experts are within a capacity";
  let description = [{
    `experts` [s, r]: numbers below `count`, negative ones from the end; the r choices of each of s samples, in the order of tokens. Result [s, r], i1: whether fewer than n choices before this one, of the same sample, are of its expert. n is `capacity` times r / `count`, rounded up (in float64).

    `apart` `segments` [s, t], with r = k t: a sample is a run of equal numbers among them, k choices each, and r of n is how many choices the run has (docs/sizes.md).
  }];
  let arguments = (ins NN_IntTensor:$experts, Optional<TensorRankOf<[I64], [2]>>:$segments, ConfinedAttr<I64Attr, [IntPositive]>:$count, NN_Positive:$capacity);
  let results = (outs NN_BoolTensor:$result);
  let extraClassDeclaration = [{
    ::dt::nn::DimExpr getFlops() { return 0; }
    /// Choices of each of the segments' numbers; 1 without.
    int64_t getEach();
    /// Rows that an expert takes of a sample at the most, if the op says it: not of segments.
    std::optional<int64_t> getMost();
  }];
  let assemblyFormat = "$experts `of` $count `within` $capacity (`apart` $segments^)? attr-dict `:` type(operands)";
}

/// Of how many ranks this one's experts are a part (absent: of one), whose rows are the first ones.
def NN_Parts : OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>;
/// Rows that its experts have at the most, where a capacity says so; of the ranks that it is cut over each has its part of that.
def NN_Room : OptionalAttr<NN_Dim>;

def NN_RouteOp : NN_PureOp<"route", [NN_ZeroGradient, CostOpInterface, NN_Sharded, NN_InferTypes]> {
  let summary = "the order of rows by expert";
  let description = [{
    `experts` [r]: numbers below `count`, negative ones from the end. Results, of 32 bits: `order` [r], row i of the grouped order is row order[i]; `place` [r], the inverse; `offsets` [count + 1], expert e has rows offsets[e] up to offsets[e + 1] of the grouped order. Rows of one
    expert keep their order.

    `from` `first` (a tensor<i64>) `take` n: of the experts `first` up to `first` + n only, those of one rank (docs/expert-parallelism.md). `offsets` [n + 1] are theirs; behind their last row `order` is -1, and `place` is -1 for rows of others.

    `room`: these experts have no more rows than that, whatever data say (nn.limit_choices); `order` is no longer.

    `ranks` r with `slots` s: the experts are those of r ranks, an rth of `take` each, and a rank's have no more than s rows. Rows for rank i stand from place i s on, in the order in which they come; `order` is [r s], -1 where no row stands, and `offsets` [r + 1] counts the rows for the ranks before.

    Rows beyond `room` or `slots` have no place, and end the run with an error: no capacity lets them come.
  }];
  let arguments = (ins NN_IntTensor:$experts, Optional<NN_IntTensor>:$first, ConfinedAttr<I64Attr, [IntPositive]>:$count, OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$take, NN_Room:$room, OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$ranks, OptionalAttr<NN_Dim>:$slots);
  let results = (outs NN_IntTensor:$order, NN_IntTensor:$place, NN_IntTensor:$offsets);
  let extraClassDeclaration = [{
    ::dt::nn::DimExpr getFlops() { return 0; }
    /// Of how many experts rows have a place.
    uint64_t getPlaced() { return getTake().value_or(getCount()); }
    /// How many `offsets` tell apart: experts, or ranks that have them.
    uint64_t getParts() { return getRanks().value_or(getPlaced()); }
  }];
  let assemblyFormat = "$experts `of` $count (`from` $first^ `take` $take)? attr-dict `:` type(operands)";
}

def NN_DispatchOp : NN_SmoothOp<"dispatch"> {
  let summary = "rows of tokens in the grouped order";
  let description = [{ `input` [t, h]; `order` [r], `place` [k * t] of nn.route, whose rows are k of a token, one token after another; `each` = k. Result [r, h]: row i is input[order[i] / k]. With `parts`, 0 where order is -1. Its gradient is nn.combine. }];
  let arguments = (ins NN_FloatTensor:$input, NN_IntTensor:$order, NN_IntTensor:$place, ConfinedAttr<I64Attr, [IntPositive]>:$each, NN_Parts:$parts, NN_Room:$room);
  let assemblyFormat = "$input `by` $order `,` $place `each` $each attr-dict `:` type(operands)";
}
def NN_CombineOp : NN_SmoothOp<"combine"> {
  let summary = "sums of the rows of each token";
  let description = [{ `input` [r, h] in the grouped order; `order` [r], `place` [k * t] of nn.route; `each` = k. Result [t, h]: the sum of input[place[k * i + j]] over j, in this order. With `parts`, rows whose place is -1 are elsewhere and add nothing: results of all ranks add up to the sum. Its gradient is nn.dispatch. }];
  let arguments = (ins NN_FloatTensor:$input, NN_IntTensor:$order, NN_IntTensor:$place, ConfinedAttr<I64Attr, [IntPositive]>:$each, NN_Parts:$parts, NN_Room:$room);
  let assemblyFormat = "$input `by` $order `,` $place `each` $each attr-dict `:` type(operands)";
}

def NN_GroupedLinearOp : NN_SmoothOp<"grouped_linear"> {
  let summary = "each expert's rows by its weight";
  let description = [{ `input` [r, in] in the grouped order, `offsets` [e + 1] of nn.route, `weight` and `bias` as of nn.expert_linear. Result [r, out]. No row is multiplied by another expert's weight. Rows behind the last offset give 0. }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$weight, NN_IntTensor:$offsets, Optional<NN_FloatTensor>:$bias, UnitAttr:$in_out, NN_Parts:$parts, NN_Room:$room);
  let extraClassDeclaration = "::dt::nn::Work getWork();";
  let assemblyFormat = "$input `,` $weight `at` $offsets (`bias` $bias^)? attr-dict `:` type(operands)";
}
def NN_GroupedLinearDwOp : NN_GradOp<"grouped_linear_dw"> {
  let summary = "gradient of grouped_linear's weight: of each expert the sum over its rows of dy^T x ([e, out, in]; transposed with `in_out`), 0 without rows";
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$grad, NN_IntTensor:$offsets, UnitAttr:$in_out, NN_Parts:$parts, NN_Room:$room);
  let extraClassDeclaration = "::dt::nn::Work getWork();";
  let assemblyFormat = "$input `,` $grad `at` $offsets attr-dict `:` type(operands)";
}
def NN_GroupedSumOp : NN_GradOp<"grouped_sum"> {
  let summary = "of each expert the sum over its rows ([e, out]), in order: the gradient of grouped_linear's bias";
  let arguments = (ins NN_FloatTensor:$input, NN_IntTensor:$offsets, NN_Parts:$parts, NN_Room:$room);
  let assemblyFormat = "$input `at` $offsets attr-dict `:` type(operands)";
}

def NN_BalanceOp : NN_SmoothOp<"balance", [], NN_TypeOfFirst> {
  let summary = "input as it is; the gradient of a routing bias, whatever its own is";
  let description = [{
    `experts` [.., k]: the numbers of the k experts that each row chose. `bias` [e] was added to the scores that chose them; `input` follows from the choice. Gradients of the result are the input's. The bias's is not a derivative: of each expert e times how often it was chosen, minus the number of all
    choices. These are whole numbers, 0 where choices are even, and add up over the parts of a batch. `nn-balance-choices` puts it where a parameter has a `routing_rate`; the phase *differentiate* takes it away.
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$bias, NN_IntTensor:$experts);
  let hasVerifier = 1;
  let assemblyFormat = "$input `,` $bias `by` $experts attr-dict `:` type(operands)";
}

#endif // DIALECTS_NN_OPS_EXPERTS

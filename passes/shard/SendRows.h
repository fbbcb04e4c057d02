//===- SendRows.h - Rows that travel to their experts -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// docs/expert-parallelism.md, "Rows that travel". On an axis where ranks have
// tokens of their own and experts of their own, and a capacity bounds what goes
// from one to another: nn.route, nn.dispatch and nn.combine on the rank's
// tokens, with an all-to-all inside, instead of the tokens of all.
//
// What says where rows stand is then Cut::sent. A rank's `order` has two lists,
// its `place` their inverses, for each 1 of the dim's symbol those of both:
//
//   order  which of its rows stands in each slot that it sends; which slot that
//          came has each row of its experts
//   place  the slot of each of its rows; the row of each slot that came
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_SENDROWS_H
#define PASSES_SHARD_SENDROWS_H

#include "passes/shard/CutExperts.h"

namespace dt::shard {

/// Sizes of what travels, of a rank.
struct Sending {
  nn::DimExpr slots; ///< that it sends, to all ranks together: as many come
  nn::DimExpr rows;  ///< of its tokens
  nn::DimExpr room;  ///< for rows of its experts
  int64_t ranks;
  nn::DimExpr each() const { return *slots.exactDiv(nn::DimExpr(ranks)); }
};

/// Nothing where rows of an op cannot travel, or a rank would send as many
/// slots to another one as it has tokens, or more.
std::optional<Sending> findSending(mlir::Operation *op,
                                   const nn::ShardingRule &rule,
                                   const Axis &axis);

/// Cuts of the variables that say where rows stand, a variable each.
using SentCuts = llvm::SmallVector<std::pair<unsigned, Cut>, 2>;
SentCuts findSentCuts(const ShardProblem &program, const Step &step,
                      const nn::ShardingRule &rule, const Axis &axis);

/// How a rank runs nn.route, nn.dispatch or nn.combine on its tokens; nothing
/// where rows do not travel, or tokens are not cut. `tokens`: classes of cuts
/// along tokens.
std::optional<Strategy> runSending(const ShardProblem &program,
                                   const Step &step,
                                   const nn::ShardingRule &rule,
                                   const Axis &axis,
                                   const std::vector<bool> &tokens);

} // namespace dt::shard

#endif // PASSES_SHARD_SENDROWS_H

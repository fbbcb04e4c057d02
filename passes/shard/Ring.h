//===- Ring.h - Keys that go round ------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Ring attention (Liu et al. 2023), docs/context.md: each rank has its queries
// and, in n steps, every rank's block of keys and values. To the rest of the
// shard phase it is one attention whose keys are cut as its queries are.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_RING_H
#define PASSES_SHARD_RING_H

#include "passes/shard/Localize.h"

namespace dt::shard {

/// Whether keys of an attention that is whole may go round, where ranks divide
/// its tokens.
bool mayGoRound(nn::AttentionOp op);

/// Of an attention, or its gradient, leaves the strategies in which queries
/// come by keys as the axis says. Where there is none of these all are left,
/// which is a remark on the forward op.
void chooseKeys(const ShardProblem &program, Step &step,
                const nn::ShardingRule &rule, const Axis &axis);

/// A rank's part of attention whose keys are cut as queries are; `operands` are
/// local. Results of the parts are merged by their log-sum-exp as they come.
llvm::SmallVector<mlir::Value> attendInRing(mlir::OpBuilder &builder,
                                            nn::AttentionOp op,
                                            mlir::ValueRange operands,
                                            const FactorCut &cut);
/// Gradients of keys and values go round with these, and get what each rank
/// adds; what the owner adds waits there.
llvm::SmallVector<mlir::Value> attendInRing(mlir::OpBuilder &builder,
                                            nn::AttentionGradOp op,
                                            mlir::ValueRange operands,
                                            const FactorCut &cut);

} // namespace dt::shard

#endif // PASSES_SHARD_RING_H

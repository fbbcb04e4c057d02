//===- Localize.cpp - Attributes that depend on the cut ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Localize.h"
#include "passes/shard/Passes.h"
#include "passes/shard/Ring.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace dt;
using namespace dt::shard;

#include "passes/shard/ShardInterfaces.cpp.inc"
#include "llvm/ADT/TypeSwitch.h"

Operation *dt::shard::cloneLocal(OpBuilder &builder, Operation *op,
                                 ValueRange operands, TypeRange types) {
  IRMapping mapping;
  mapping.map(op->getOperands(), operands);
  // Equal operands may have different local forms.
  Operation *local = builder.clone(*op, mapping);
  local->setOperands(operands);
  for (auto [result, type] : llvm::zip(local->getResults(), types))
    result.setType(type);
  return local;
}

namespace {

/// Starts (and pads) count from the begin of a rank's part of each dim.
SmallVector<int64_t> scaled(ArrayRef<int64_t> values, const FactorCut &cut) {
  SmallVector<int64_t> local(values);
  for (auto [d, value] : llvm::enumerate(local))
    if (cut.inOperand(0, d))
      value /= cut.axis.over;
  return local;
}

struct SliceModel
    : LocalizeOpInterface::ExternalModel<SliceModel, nn::SliceOp> {
  SmallVector<Value> localize(Operation *op, OpBuilder &builder,
                              ValueRange operands, TypeRange types,
                              const FactorCut &cut) const {
    auto local = cast<nn::SliceOp>(cloneLocal(builder, op, operands, types));
    local.setStarts(scaled(local.getStarts(), cut));
    return {local.getResult()};
  }
};

struct PadModel : LocalizeOpInterface::ExternalModel<PadModel, nn::PadOp> {
  SmallVector<Value> localize(Operation *op, OpBuilder &builder,
                              ValueRange operands, TypeRange types,
                              const FactorCut &cut) const {
    auto local = cast<nn::PadOp>(cloneLocal(builder, op, operands, types));
    local.setLow(scaled(local.getLow(), cut));
    return {local.getResult()};
  }
};

/// Ops with an attribute `groups`: each rank has its share.
template <typename OpT>
struct GroupsModel : LocalizeOpInterface::ExternalModel<GroupsModel<OpT>, OpT> {
  SmallVector<Value> localize(Operation *op, OpBuilder &builder,
                              ValueRange operands, TypeRange types,
                              const FactorCut &cut) const {
    auto local = cast<OpT>(cloneLocal(builder, op, operands, types));
    if (cut.rule->factors[cut.factor].kind == nn::FactorKind::group)
      local.setGroups(local.getGroups() / cut.axis.over);
    return {local->getResults().begin(), local->getResults().end()};
  }
};

/// Stripes by a cut, inside of those that queries have: of both axes together.
nn::StripesAttr joinStripes(MLIRContext *context, nn::StripesAttr outer,
                            const FactorCut &cut) {
  int64_t chunk = cut.chunk, over = cut.axis.over, stride = cut.axis.stride;
  if (outer) {
    if (outer.getChunk() != chunk * over || outer.getStride() != over * stride)
      return {};
    over *= outer.getOver();
  }
  return nn::StripesAttr::get(context, chunk, over, stride, /*behind=*/0);
}

/// Queries know their place (the factor is no `blocked` one where none has
/// any).
template <typename OpT>
struct AttentionModel
    : LocalizeOpInterface::ExternalModel<AttentionModel<OpT>, OpT> {
  bool canCut(Operation *op, const FactorCut &cut) const {
    auto attention = cast<OpT>(op);
    return cut.axis.context && !attention.getPartial() &&
           joinStripes(op->getContext(), attention.getStripesAttr(), cut);
  }
  SmallVector<Value> localize(Operation *op, OpBuilder &builder,
                              ValueRange operands, TypeRange types,
                              const FactorCut &cut) const {
    if (cut.ring)
      return attendInRing(builder, cast<OpT>(op), operands, cut);
    auto local = cast<OpT>(cloneLocal(builder, op, operands, types));
    if (cut.rule->factors[cut.factor].kind == nn::FactorKind::blocked)
      local.setStripesAttr(
          joinStripes(op->getContext(), local.getStripesAttr(), cut));
    return {local->getResults().begin(), local->getResults().end()};
  }
};

/// A dim that another axis has cut: [outer][over][chunk]; the last factor of
/// the rule is the chunk (DistCollectives.cpp).
struct ChunkModel : LocalizeOpInterface::FallbackModel<ChunkModel> {
  bool canCut(Operation *, const FactorCut &) const { return false; }
  SmallVector<Value> localize(Operation *op, OpBuilder &builder,
                              ValueRange operands, TypeRange types,
                              const FactorCut &cut) const {
    Operation *local = cloneLocal(builder, op, operands, types);
    if (cut.factor + 1 == cut.rule->factors.size())
      llvm::TypeSwitch<Operation *>(local)
          .Case<dist::AllGatherOp, dist::ReduceScatterOp, dist::SliceOp>(
              [&](auto op) { op.setChunk(op.getChunk() / cut.axis.over); });
    return {local->getResult(0)};
  }
};

} // namespace

void dt::shard::registerLocalizeModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, nn::NNDialect *) {
    nn::SliceOp::attachInterface<SliceModel>(*context);
    nn::PadOp::attachInterface<PadModel>(*context);
    nn::ConvOp::attachInterface<GroupsModel<nn::ConvOp>>(*context);
    nn::ConvDxOp::attachInterface<GroupsModel<nn::ConvDxOp>>(*context);
    nn::ConvDwOp::attachInterface<GroupsModel<nn::ConvDwOp>>(*context);
    nn::AttentionOp::attachInterface<AttentionModel<nn::AttentionOp>>(*context);
    nn::AttentionGradOp::attachInterface<AttentionModel<nn::AttentionGradOp>>(
        *context);
    nn::GroupNormOp::attachInterface<GroupsModel<nn::GroupNormOp>>(*context);
    nn::GroupNormDxOp::attachInterface<GroupsModel<nn::GroupNormDxOp>>(
        *context);
    nn::GroupNormDscaleOp::attachInterface<GroupsModel<nn::GroupNormDscaleOp>>(
        *context);
  });
  registry.addExtension(+[](MLIRContext *context, dist::DistDialect *) {
    // Not getRegisteredOperationsByDialect: see LowerCollectives.cpp.
    for (RegisteredOperationName op : context->getRegisteredOperations())
      if (isa<dist::DistDialect>(op.getDialect()) &&
          op.hasInterface<nn::ShardingOpInterface>())
        op.attachInterface<ChunkModel>();
  });
  registerLocalizeIndexedModels(registry);
  registerLocalizeExpertModels(registry);
}

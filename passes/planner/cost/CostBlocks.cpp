//===- CostBlocks.cpp - Blocks that collectives go through ----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// As the runtime plans them (step/MessagePlan.cpp), by the same sizes.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/cost/Cost.h"
#include "passes/planner/describe/Plan.h"
#include "runtime/comm/MessageBlocks.h"

namespace dt::planner {

using rt::CollectiveKind;

/// Gradients are summed in it; of other types as many bytes go the same way.
static constexpr rt::DType kSummed = rt::DType::F32;

static int64_t countOf(double bytes) {
  return int64_t(bytes / double(rt::sizeOf(kSummed)));
}

/// Over TCP or MPI, whatever takes more.
static double combinedBytes(CollectiveKind kind, double bytes, int64_t ranks) {
  int64_t count = countOf(bytes);
  return double(std::max(rt::mostCombinedBytes(kind, kSummed, count, ranks),
                         rt::mpiCombinedBytes(kind, kSummed, count, ranks)));
}

CollectiveBlocks ModuleCost::blocks(int index, const CostOptions &options,
                                    const TokenSums &part) const {
  CollectiveBlocks most;
  if (part.empty())
    return most;
  auto look = [&](const Exchange &exchange) {
    int ranks = exchange.getOver(options.tp);
    if (ranks == 1)
      return;
    bool strips = options.overlap > 1 && !exchange.beside.empty();
    double bytes =
        exchange.bytes.at(part) / options.cp / (strips ? options.overlap : 1);
    bool rows = exchange.rows.at(part) > 1,
         beside = strips || isCovered(exchange, options);
    double packed =
        double(rt::packedSides(rt::formOf(exchange.kind), size_t(bytes / ranks),
                               ranks, rows, strips)
                   .bytes());
    most.keepLarger({combinedBytes(exchange.kind, bytes, ranks),
                     beside ? 0 : packed, beside ? packed : 0});
  };
  const LayerKind &kind = description.kinds[index];
  if (const RankLayer *layer = partitioned(index, options)) {
    for (const Exchange &exchange : layer->forwardExchanges)
      look(exchange);
    for (const Exchange &exchange : layer->backwardExchanges)
      look(exchange);
  } else if (kind.forwardReduces + kind.backwardReduces > 0) {
    Exchange sum{CollectiveKind::AllReduce, kind.reduced};
    if (options.sequenceParallel) {
      // A sample's tokens are cut, a block has some of each.
      sum.kind = CollectiveKind::ReduceScatter;
      sum.rows = perItem(1);
    }
    look(sum);
  }
  return most;
}

CollectiveBlocks ModuleCost::tiedBlocks(int begin, int end, int tp,
                                        int64_t replicas) const {
  CollectiveBlocks most;
  for (const Tie &tie : description.ties)
    if (int count = tie.count(begin, end);
        count > 0 && count < int(tie.layers.size()) && description.trainable)
      most.keepLarger(
          {combinedBytes(CollectiveKind::AllReduce,
                         rankShare(tie, tp) * double(rt::sizeOf(kSummed)),
                         replicas * int64_t(tie.layers.size()))});
  return most;
}

double ModuleCost::sumBlocks(int begin, int end, int tp, int64_t replicas,
                             bool zero, int64_t experts) const {
  if (!description.trainable)
    return 0;
  CollectiveKind kind =
      zero ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
  auto blocksOf = [&](double parameters, int64_t over) {
    if (over <= 1 || parameters <= 0)
      return 0.0;
    auto blockOf = [&](int64_t count) {
      return double(rt::combinedBytes(kind, kSummed, count, over));
    };
    int64_t count = countOf(parameters * description.bytes.gradient),
            most = countOf(double(kBucketBytes));
    return double(count / most) * blockOf(most) + blockOf(count % most);
  };
  Parameters all = parameters(begin, end, tp, experts);
  return blocksOf(all.own - all.experts - tiedParameters(begin, end, tp),
                  replicas) +
         blocksOf(all.experts, replicas * tp / experts);
}

} // namespace dt::planner

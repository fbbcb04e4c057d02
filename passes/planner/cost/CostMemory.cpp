//===- CostMemory.cpp - What a layer keeps, what its parameters take ------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/cost/Cost.h"

namespace dt::planner {

double ModuleCost::keptByKind(const RankLayer *layer, int index,
                              const CostOptions &options,
                              const TokenSums &part) const {
  if (!description.hasBackward() || part.empty())
    return 0;
  if (layer)
    return layer->kept.at(part) / options.cp;
  const LayerKind &kind = description.kinds[index];
  double tp = options.tp;
  int save = int(options.save);
  return (kind.keptSplit[save].at(part) / tp +
          kind.keptSequence[save].at(part) /
              (options.sequenceParallel ? tp : 1)) /
         options.cp;
}

double ModuleCost::keptForWeights(const RankLayer *layer, int index,
                                  const CostOptions &options,
                                  const TokenSums &part) const {
  if (!description.trainable || part.empty())
    return 0;
  if (layer)
    return layer->keptForWeights.at(part) / options.cp;
  constexpr double kElement = 2;
  double bytes = 0, tp = options.tp,
         sequence = options.sequenceParallel ? tp : 1;
  for (const Op &op : description.kinds[index].weight)
    if (op.kind == Op::Gemm)
      bytes += op.n * op.rows.at(part) * kElement * op.count /
               (op.split == Op::Columns ? tp : sequence);
    else // one of the two that are read
      bytes += op.bytes.at(part) / 2 / tp;
  return bytes / options.cp;
}

double ModuleCost::keptToWeights(const RankLayer *layer, int index,
                                 const CostOptions &options,
                                 const TokenSums &part) const {
  if (!description.trainable || part.empty())
    return 0;
  if (layer)
    return layer->keptToWeights.at(part) / options.cp;
  constexpr double kElement = 2;
  double bytes = 0, tp = options.tp,
         sequence = options.sequenceParallel ? tp : 1;
  const Op *before = nullptr;
  for (const Op &op : description.kinds[index].weight) {
    // Products beside one another that look alike read one tensor.
    bool shared = before && before->kind == Op::Gemm && op.kind == Op::Gemm &&
                  before->k == op.k && before->split == op.split;
    before = &op;
    if (shared)
      continue;
    if (op.kind == Op::Gemm)
      bytes += op.k * op.rows.at(part) * kElement * (op.expert ? op.count : 1) /
               (op.split == Op::Columns ? sequence : tp);
    else // one of the two that are read
      bytes += op.bytes.at(part) / 2 / tp;
  }
  return std::min(bytes / options.cp,
                  keptByKind(nullptr, index, options, part));
}

double ModuleCost::keptAtStart(const RankLayer *layer,
                               const CostOptions &options,
                               const TokenSums &part) const {
  bool differs = layer && layer->chained && description.hasBackward();
  return differs ? (layer->keptAtStart - layer->kept).at(part) / options.cp : 0;
}

double ModuleCost::keysOfOthers(int kind, const CostOptions &options,
                                const TokenSums &part) const {
  double bytes = description.kinds[kind].exchanged.at(part) / options.tp,
         back = description.hasBackward() ? 2 : 1;
  if (options.cp == 1 || exchangesHeads(options))
    return 0;
  // One more block, or all.
  return back * bytes * (options.ring ? 1.0 : options.cp - 1.0) / options.cp;
}

double ModuleCost::workspace(int kind, const CostOptions &options,
                             const TokenSums &part, bool halves,
                             double gradients) const {
  const RankLayer *layer = partitioned(kind, options);
  if (layer && layer->scratch.at(part) > 0) {
    // A stage of its own in a narrow module casts them.
    bool has = layer->chained || description.precision != "f32";
    return (halves ? layer->scratchOfHalves : layer->scratch).at(part) /
               options.cp +
           keysOfOthers(kind, options, part) + (has ? 0 : gradients);
  }
  CostOptions all = options;
  all.save = Save::All;
  return keptByKind(kind, all, part) - keptByKind(kind, options, part) +
         keysOfOthers(kind, options, part) + gradients;
}

double ModuleCost::handedOut(int begin, int end, const CostOptions &options,
                             const TokenSums &part) const {
  double bytes = 0;
  for (int i = begin; i < end; ++i)
    if (auto *layer = partitioned(description.layers[i], options))
      bytes += layer->handedOut.at(part) / options.cp;
  return bytes;
}

double ModuleCost::kept(int begin, int end, const CostOptions &options,
                        const TokenSums &part) const {
  double bytes = 0;
  if (begin < end)
    bytes = keptAtStart(partitioned(description.layers[begin], options),
                        options, part);
  description.forRuns(begin, end, [&](int kind, int count) {
    bytes += keptByKind(kind, options, part) * double(count);
  });
  return bytes;
}

double ModuleCost::rankParameters(int begin, int end, int tp) const {
  // Where tokens are cut a table of positions may be, too: it counts whole.
  CostOptions options{tp, Save::Vjp, /*sequenceParallel=*/false};
  double sum = 0;
  for (int i = begin; i < end; ++i) {
    int kind = description.layers[i];
    const RankLayer *layer = partitioned(kind, options);
    sum += layer ? layer->parameters : description.kinds[kind].parameters / tp;
  }
  for (const Tie &tie : description.ties)
    if (int count = tie.count(begin, end))
      sum -= (count - 1) * rankShare(tie, tp);
  return sum;
}

double ModuleCost::rankShare(const Tie &tie, int tp) const {
  CostOptions whole{1, Save::Vjp, /*sequenceParallel=*/false}, cut = whole;
  cut.tp = tp;
  // What else a layer has may be cut less.
  double share = 1;
  for (int i : tie.layers) {
    const RankLayer *all = partitioned(description.layers[i], whole),
                    *own = partitioned(description.layers[i], cut);
    bool known = all && own && all->parameters > 0;
    share =
        std::min(share, known ? own->parameters / all->parameters : 1.0 / tp);
  }
  return tie.parameters * share;
}

double ModuleCost::tiedParameters(int begin, int end, int tp) const {
  double sum = 0;
  for (const Tie &tie : description.ties)
    if (int count = tie.count(begin, end);
        count > 0 && count < int(tie.layers.size()))
      sum += rankShare(tie, tp);
  return sum;
}

ModuleCost::Parameters ModuleCost::parameters(int begin, int end, int tp,
                                              int64_t experts) const {
  double all = rankParameters(begin, end, tp), sum = 0;
  if (experts <= tp)
    return {all, all, 0};
  for (int i = begin; i < end; ++i)
    sum += description.kinds[description.layers[i]].expertParameters;
  double here = sum / double(experts);
  return {all, all - here * (double(experts) / double(tp) - 1), here};
}

double ModuleCost::snapshot(int begin, int end, int tp, int64_t shards,
                            int64_t experts) const {
  double most = 0;
  for (int i = begin; cluster.isOnHost() && i < end; ++i)
    most = std::max(most, state(i, i + 1, tp, shards, experts));
  return most;
}

StateBytes ModuleCost::stateBytes(int begin, int end, int tp, int64_t shards,
                                  int64_t experts) const {
  StateBytes bytes;
  auto add = [&](double parameters, const ParameterBytes &each, int64_t over) {
    bytes.parameters += parameters * each.weight;
    if (!description.trainable)
      return;
    bytes.gradients += parameters * each.gradient;
    bytes.moments += parameters * each.optimizer / double(over);
    bytes.sums += over > 1 ? parameters * each.gradient / double(over) : 0;
  };
  // Experts have replicas of their own.
  int64_t others =
      std::max<int64_t>(1, shards * tp / std::max<int64_t>(1, experts));
  for (int i = begin; i < end; ++i) {
    const LayerKind &kind = description.kinds[description.layers[i]];
    Parameters all = parameters(i, i + 1, tp, experts);
    ParameterBytes each = kind.bytes.value_or(description.bytes);
    add(all.own - all.experts, each, shards);
    add(all.experts, each, others);
  }
  // Copies of other stages' parameters are summed in full, updated as a whole.
  for (const Tie &tie : description.ties)
    if (int count = tie.count(begin, end)) {
      double share = rankShare(tie, tp);
      ParameterBytes each = tie.bytes.value_or(description.bytes);
      add(-count * share, each, shards);
      bool isWhole = count == int(tie.layers.size());
      if (!isWhole && each.gradient > 0)
        each.gradient = sizeof(float);
      add(share, each, isWhole ? shards : 1);
    }
  return bytes;
}

} // namespace dt::planner

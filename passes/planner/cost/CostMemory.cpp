//===- CostMemory.cpp - What a layer keeps, what its parameters take ------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/cost/Cost.h"

namespace dt::planner {

double ModuleCost::keptByKind(int index, const CostOptions &options,
                              const TokenSums &part) const {
  return keptByKind(partitioned(index, options), index, options, part);
}

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

double ModuleCost::keptForWeights(int index, const CostOptions &options,
                                  const TokenSums &part) const {
  return keptForWeights(partitioned(index, options), index, options, part);
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
  for (const Op &op : description.kinds[index].weight) {
    double in = op.k, out = op.n;
    if (op.kind == Op::Gemm) {
      in *=
          op.rows.at(part) * kElement / (op.split == Op::Depth ? tp : sequence);
      out *= op.rows.at(part) * kElement /
             (op.split == Op::Columns ? tp : sequence);
      bytes += (in + out) * op.count;
    } else {
      // Read and written, less the weights themselves: its two operands.
      bytes += op.bytes.at(part) / tp;
    }
  }
  return bytes / options.cp;
}

double ModuleCost::workspace(int kind, const CostOptions &options,
                             const TokenSums &part) const {
  CostOptions all = options;
  all.save = Save::All;
  return keptByKind(kind, all, part) - keptByKind(kind, options, part);
}

double ModuleCost::kept(int begin, int end, const CostOptions &options,
                        const TokenSums &part) const {
  double bytes = 0;
  for (int i = begin; i < end;) {
    int kind = description.layers[i], run = i;
    while (run < end && description.layers[run] == kind)
      ++run;
    bytes += keptByKind(kind, options, part) * double(run - i);
    i = run;
  }
  return bytes;
}

double ModuleCost::parameters(int begin, int end) const {
  double sum = 0;
  for (int i = begin; i < end; ++i)
    sum += description.kinds[description.layers[i]].parameters;
  return sum;
}

double ModuleCost::rankParameters(int begin, int end, int tp) const {
  CostOptions options;
  options.tp = tp;
  double sum = 0;
  for (int i = begin; i < end; ++i) {
    int kind = description.layers[i];
    const RankLayer *layer = partitioned(kind, options);
    sum += layer ? layer->parameters : description.kinds[kind].parameters / tp;
  }
  return sum;
}

double ModuleCost::expertsElsewhere(int begin, int end, int tp, int ep) const {
  double experts = 0;
  for (int i = begin; i < end && ep > 1; ++i)
    experts += description.kinds[description.layers[i]].expertParameters;
  return experts / tp * (1 - 1.0 / ep);
}

double ModuleCost::state(int begin, int end, int tp, int64_t dp, int ep) const {
  double all = rankParameters(begin, end, tp);
  double own = all - expertsElsewhere(begin, end, tp, ep);
  double bytes = own * description.weightBytes;
  // The optimizer's state is sharded over all replicas, experts or not.
  if (description.trainable)
    bytes += own * description.gradientBytes +
             all * description.optimizerBytes / double(dp);
  return bytes;
}

} // namespace dt::planner

//===- Cost.cpp - How long a layer takes ----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/cost/Cost.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

using namespace llvm;

namespace dt::planner {

ModuleCost::ModuleCost(const Cluster &cluster, int node, const Module &module,
                       const Profile *profile)
    : cluster(cluster), device(cluster.getDevice(node)), description(module),
      node(node), profile(profile), rates(module.kinds.size()) {
  // A profile of another device says nothing about this one.
  bool here =
      profile && (profile->device.empty() || profile->device == device.name);
  for (const LayerKind &kind : module.kinds) {
    profiles.push_back(here ? profile->find(module.name, kind.name) : nullptr);
    measured |= profiles.back() != nullptr;
    measuredWhole &= profiles.back() != nullptr;
  }
  peakFlops = device.peak(module.precision);
}

ModuleCost::RateList::~RateList() {
  for (Rates *one = first; one;)
    delete std::exchange(one, one->next);
}

bool ModuleCost::setMeasured(Rate &rate, const Op &op, Pass pass,
                             double fraction, double n, double k) const {
  auto it = device.measured.find(device.rateName(description.precision));
  if (it == device.measured.end())
    return false;
  const MeasuredRates &known = it->second;
  if (op.kind == Op::Gemm) {
    auto &products = pass == Pass::Weight ? known.weights : known.products;
    rate.unit = 2 * n * k * op.count;
    if (!products || rate.unit <= 0)
      return false;
    rate.measured = std::make_shared<Curve>(products->at(n, k));
    rate.compute = op.rows * (fraction * rate.unit);
    return true;
  }
  rate.bytes = op.bytes * fraction;
  if (op.kind == Op::Stream) {
    rate.measured = known.stream;
    rate.compute = rate.bytes;
    rate.unit = op.count;
  } else if (op.kind == Op::Attention) {
    rate.measured =
        pass == Pass::Forward ? known.attention : known.attentionBack;
    rate.compute = op.flops * fraction;
  }
  return rate.measured != nullptr;
}

ModuleCost::Rate ModuleCost::rateOf(const Op &op, const CostOptions &options,
                                    Pass pass) const {
  // What of an expert is not cut over the TP group is, by its rows.
  double tp = op.expert ? options.getExpertTP() : options.tp;
  bool all = op.split == Op::Heads ||
             (op.split == Op::Sequence && options.sequenceParallel);
  bool cut = op.split == Op::Columns || op.split == Op::Depth;
  double fraction = 1 /
                    (all         ? options.tp
                     : op.expert ? options.tp / tp
                                 : 1) /
                    options.cp;
  double moved = 1 / (device.bandwidth * device.stream);
  Rate rate;
  rate.cheap = op.cheap;
  // Experts are in one kernel.
  rate.launch = device.launch * (op.expert ? 1 : op.count);
  rate.product = op.kind == Op::Gemm;
  rate.attention = op.kind == Op::Attention;
  double n = op.split == Op::Columns ? op.n / tp : op.n;
  double k = op.split == Op::Depth ? op.k / tp : op.k;
  double fixed = op.fixedBytes / (op.split == Op::Whole ? 1 : tp);
  if (setMeasured(rate, op, pass, fraction / (cut && !rate.product ? tp : 1), n,
                  k)) {
    rate.cut = rate.product && cut;
    rate.fixedBytes = op.kind == Op::Stream ? fixed : 0;
    rate.unit /= op.expert ? options.ep : 1;
    return rate;
  }
  rate.fixedBytes = fixed * moved;
  rate.bytes = op.bytes * (fraction * moved);
  if (rate.product) {
    // m n k / (m/(m + rows) ...): linear in m + rows.
    double row = n > 0 && k > 0 ? 2 * n * k * op.count /
                                      (peakFlops * device.gemm.peak *
                                       (n / (n + device.gemm.columns)) *
                                       (k / (k + device.gemm.depth)))
                                : 0;
    rate.compute = op.rows * (fraction * row);
    rate.least = device.gemm.rows * row;
    rate.cut = cut;
    if (cut)
      rate.bytes = rate.bytes * (1 / tp);
  } else if (op.kind != Op::Stream) {
    double reached =
        op.kind == Op::Attention ? device.attention : device.convolution;
    rate.compute =
        op.flops * (fraction / (cut ? tp : 1) / (peakFlops * reached));
  }
  if (op.expert) {
    // As many tokens for each rank, in fewer and larger products.
    rate.least /= options.ep;
    rate.fixedBytes /= options.ep;
  }
  return rate;
}

double ModuleCost::Rate::at(const TokenSums &part) const {
  double seconds = compute.at(part);
  if (product && seconds <= 0)
    return 0;
  if (measured) {
    double work = seconds + fixedBytes;
    return work > 0
               ? work / measured->at(work / (unit > 0 ? unit : bytes.at(part)))
               : 0;
  }
  return std::max(seconds + least, bytes.at(part) + fixedBytes) + launch;
}

const ModuleCost::Rates &ModuleCost::ratesOf(int kind,
                                             const CostOptions &options) const {
  const RankLayer *cut = partitioned(kind, options);
  auto keyOf = [](const CostOptions &o) {
    return std::tie(o.tp, o.cp, o.ep, o.etp, o.sequenceParallel);
  };
  for (const Rates *known = rates[kind].first; known; known = known->next)
    if (known->layer == cut && keyOf(known->options) == keyOf(options))
      return *known;
  auto made = std::make_unique<Rates>();
  made->options = options;
  made->layer = cut;
  // What is cut already is divided over tokens only.
  CostOptions whole;
  whole.cp = options.cp;
  const LayerKind &layer = description.kinds[kind];
  double slowest = getSlowest(kind, options, cut);
  for (auto [ops, list, pass] :
       {std::tuple(cut ? &cut->forward : &layer.forward, &made->forward,
                   Pass::Forward),
        {cut ? &cut->input : &layer.input, &made->input, Pass::Input},
        {cut ? &cut->weight : &layer.weight, &made->weight, Pass::Weight}})
    for (const Op &op : *ops) {
      list->push_back(rateOf(op, cut ? whole : options, pass));
      if (op.expert)
        list->back().multiply(slowest);
      // Messages of a group may hide behind them, also where they are cut
      // already.
      list->back().cut |= cut && op.kind == Op::Gemm && options.tp > 1;
    }
  auto addMessage = [&](const Exchange &exchange, Pass pass,
                        std::vector<Message> &messages) {
    Group group =
        cluster.getGroup(node, exchange.getOver(options.tp), exchange.stride);
    Message &message = messages.emplace_back(Message{exchange, group, {}});
    for (const Op &op : exchange.beside)
      message.beside.push_back(rateOf(op, whole, pass));
  };
  if (cut) {
    for (const Exchange &exchange : cut->forwardExchanges)
      addMessage(exchange, Pass::Forward, made->forwardMessages);
    for (const Exchange &exchange : cut->backwardExchanges)
      addMessage(exchange, Pass::Input, made->backwardMessages);
  } else if (options.tp > 1) {
    Message sum{{rt::CollectiveKind::AllReduce, layer.reduced},
                cluster.getGroup(node, options.tp, 1),
                {}};
    // Rows that travel to experts come back as sums.
    int less = options.leavesGroup() && layer.expertParameters > 0;
    made->forwardMessages.resize(std::max(0, layer.forwardReduces - less), sum);
    made->backwardMessages.resize(std::max(0, layer.backwardReduces - less),
                                  sum);
  }
  made->next = rates[kind].first;
  while (!rates[kind].first.compare_exchange_weak(made->next, made.get()))
    ;
  return *made.release();
}

/// Layers with a capacity are described with room for so many rows.
double ModuleCost::getSlowest(int kind, const CostOptions &options,
                              const RankLayer *cut) const {
  const LayerKind &layer = description.kinds[kind];
  double slowest =
      profile ? profile->getSlowest(description, kind, options.ep) : 1;
  if (!profile || layer.capacity <= 0)
    return slowest;
  auto rowsOf = [](const std::vector<Op> &ops) {
    double work = 0;
    for (const Op &op : ops)
      if (op.expert)
        work += op.rows.at(TokenSums::of(1, 1)) * op.n * op.k * op.count;
    return work;
  };
  double all = rowsOf(layer.forward) / options.tp,
         room = cut && all > 0 ? rowsOf(cut->forward) / all : 1;
  return std::min(slowest, layer.capacity) / room;
}

namespace {

/// Measured over modelled time at a part: interpolated over the tokens'
/// logarithm between points, the nearest point's outside them.
template <typename Ratio>
double interpolate(const std::vector<ProfilePoint> &points, double tokens,
                   Ratio ratio) {
  if (tokens <= points.front().tokens)
    return ratio(points.front());
  if (tokens >= points.back().tokens)
    return ratio(points.back());
  size_t i = 1;
  while (points[i].tokens < tokens)
    ++i;
  const ProfilePoint &a = points[i - 1], &b = points[i];
  double fraction = std::log(tokens / a.tokens) / std::log(b.tokens / a.tokens);
  return ratio(a) * (1 - fraction) + ratio(b) * fraction;
}

} // namespace

ModuleCost::Price ModuleCost::price(int index, const CostOptions &options,
                                    const TokenSums &part) const {
  if (part.empty())
    return {};
  Work work = workOf(index, options, part);
  const RankLayer *cut = work.known.layer;
  return {layer(work), keptByKind(cut, index, options, part),
          keptToWeights(cut, index, options, part),
          keptForWeights(cut, index, options, part),
          keptAtStart(cut, options, part)};
}

Times ModuleCost::layer(const Work &work) const {
  Times times = modelled(work);
  if (profiles[work.index])
    times = measuredTimes(work, times);
  addMessages(work, times);
  return times;
}

/// The model's times, scaled by what was measured over what it says there.
Times ModuleCost::measuredTimes(const Work &work, const Times &now) const {
  int index = work.index;
  const TokenSums &part = work.part;
  // The nearest measured TP: the largest up to this one, else the smallest.
  const auto &all = *profiles[index];
  auto it = all.upper_bound(work.options.tp);
  if (it != all.begin())
    --it;
  CostOptions as = work.options, here = as;
  as.tp = it->first;
  as.cp = as.ep = 1;
  as.etp = 0;
  as.save = here.save = profile->save;
  // Layers are measured alone: without sequence parallelism.
  if (description.getPartitioned({as.tp, as.save, false}))
    as.sequenceParallel = false;
  // What the model says nothing about is taken to grow with tokens.
  auto ratioOf = [&](double modelled, auto measuredOf, auto modelOf) {
    return interpolate(it->second, part.tokens, [&](const ProfilePoint &point) {
      double model =
          modelOf(this->modelled(workOf(index, as, point.getPart())));
      return modelled <= 0 || model <= 0 ? measuredOf(point) / point.tokens
                                         : measuredOf(point) / model;
    });
  };
  auto scaled = [&](double modelled, double ratio) {
    return ratio * (modelled > 0 ? modelled : part.tokens);
  };
  Times base = modelled(workOf(index, here, part)), result;
  double forward = ratioOf(
      now.forward, [](const ProfilePoint &p) { return p.forward; },
      [](const Times &t) { return t.forward; });
  result.forward = scaled(now.forward, forward);
  if (!description.hasBackward())
    return result;
  bool apart = it->second.front().weight.has_value();
  double own = apart ? 0 : base.weight;
  double back = ratioOf(
      base.input + own, [](const ProfilePoint &p) { return p.backward; },
      [&](const Times &t) { return t.input + (apart ? 0 : t.weight); });
  result.input = scaled(base.input + own, back);
  if (!apart) { // shared out as the model has it
    result.weight =
        base.input + own > 0 ? result.input * own / (base.input + own) : 0;
    result.input -= result.weight;
  } else if (description.trainable) {
    result.weight =
        scaled(now.weight,
               ratioOf(
                   now.weight,
                   [](const ProfilePoint &p) { return p.weight.value_or(0); },
                   [](const Times &t) { return t.weight; }));
  }
  // What another saved set does again costs as much as it did forward.
  result.again = (now.forward > 0 ? forward : 1) * now.again;
  result.input = std::max(0.0, result.input + (now.forward > 0 ? forward : 1) *
                                                  (now.again - base.again));
  return result;
}

Times ModuleCost::modelled(const Work &work) const {
  const Rates &known = work.known;
  auto sum = [&](const std::vector<Rate> &list) {
    double time = 0;
    for (const Rate &rate : list)
      time += rate.at(work.part);
    return time;
  };
  Times times;
  double cheap = 0;
  for (const Rate &rate : known.forward) {
    double time = rate.at(work.part);
    times.forward += time;
    if (rate.cheap)
      cheap += time;
  }
  if (!description.hasBackward())
    return times;
  times.input = sum(known.input);
  if (description.trainable)
    times.weight = sum(known.weight);
  if (!known.layer) {
    if (work.options.save == Save::None)
      times.again = times.forward;
    else if (work.options.save == Save::Vjp)
      times.again = cheap;
    times.input += times.again;
    return times;
  }
  CostOptions all = work.options;
  all.save = Save::All;
  if (partitioned(work.index, all))
    times.again =
        std::max(0.0, times.input - sum(ratesOf(work.index, all).input));
  return times;
}

const RankLayer *ModuleCost::partitioned(int kind,
                                         const CostOptions &options) const {
  if (options.etp)
    return nullptr;
  const std::vector<RankLayer> *layers = description.getPartitioned(
      {options.tp, options.save, options.sequenceParallel, options.ep});
  return layers ? &(*layers)[kind] : nullptr;
}

Times ModuleCost::layers(int begin, int end, const CostOptions &options,
                         const TokenSums &part) const {
  Times times;
  // Equal layers follow one another: each kind is priced once a run.
  description.forRuns(begin, end, [&](int kind, int count) {
    times += layer(kind, options, part) * double(count);
  });
  return times;
}

ModuleCost::Bounds ModuleCost::bounds(const CostOptions &options,
                                      const TokenSums &part) const {
  Bounds sum;
  for (int kind : description.layers) {
    const Rates &known = ratesOf(kind, options);
    auto add = [&](const std::vector<Rate> &list) {
      for (const Rate &rate : list) {
        double compute = rate.compute.at(part);
        if (rate.product && compute <= 0)
          continue;
        if (rate.measured) {
          (rate.unit > 0 && !rate.product ? sum.bandwidth : sum.compute) +=
              rate.at(part);
          continue;
        }
        compute += rate.least;
        double bytes = rate.bytes.at(part) + rate.fixedBytes;
        (compute >= bytes ? sum.compute : sum.bandwidth) +=
            std::max(compute, bytes);
        sum.launch += rate.launch;
      }
    };
    add(known.forward);
    if (description.hasBackward())
      add(known.input);
    if (description.trainable)
      add(known.weight);
  }
  return sum;
}

Error checkPrecision(const Cluster &cluster, const Model &model) {
  for (const NodeKind &node : cluster.nodes)
    for (const Module &module : model.modules)
      if (const DeviceKind &device = cluster.devices[node.device];
          device.peak(module.precision) == 0)
        return createStringError(
            formatv("device '{0}' has no rate for {1}, which module '{2}' "
                    "computes in",
                    device.name, module.precision, module.name));
  return Error::success();
}

} // namespace dt::planner

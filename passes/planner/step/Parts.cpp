//===- Parts.cpp - Which items each rank works on when --------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/PartBounds.h"

#include "runtime/reorder/Order.h"
#include "runtime/reorder/Partition.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

namespace dt::planner {

namespace {

using Ids = std::vector<int32_t>;

/// Of those that cost the same the first.
void sortDearestFirst(Ids &ids, const std::vector<int64_t> &costs) {
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return costs[a] != costs[b] ? costs[a] > costs[b] : a < b;
  });
}

Ids countUp(size_t count) {
  Ids ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

/// Groups of some of those that have loads.
std::vector<Ids> partitionOf(const Ids &some, const std::vector<int64_t> &loads,
                             const reorder::PartitionOptions &options) {
  std::vector<int64_t> own;
  for (int32_t one : some)
    own.push_back(loads[one]);
  std::vector<Ids> groups = reorder::partition(own, options).groups;
  for (Ids &group : groups)
    for (int32_t &one : group)
      one = some[one];
  return groups;
}

class Builder {
public:
  Builder(const Model &model, const Plan &plan,
          const std::vector<Sample> &batch, const std::vector<ItemCost> &costs,
          const PartsOptions &effort)
      : model(model), plan(plan), batch(batch), costs(costs), effort(effort),
        sums(effort.sums ? *effort.sums : ownSums.emplace(model, batch, costs)),
        bounds(model, plan, batch) {}

  Parts run() {
    parts.microbatches = int(plan.microbatches);
    parts.modules.resize(model.modules.size());
    dp = int(plan.units[model.pace].dp);
    speeds = plan.units[model.pace].getSpeeds();
    measure();
    bool whole = plan.assign == Assign::Samples;
    if (!plan.balancesParts() || plan.assign == Assign::Given)
      asDrawn();
    else if (whole)
      byReplica();
    else
      byPart();
    placeAll();
    // Of equal work short samples may be more rows than long ones.
    if (!parts.tooLarge.empty()) {
      byRows();
      placeAll();
    }
    return std::move(parts);
  }

private:
  /// Loads of samples: in the pacing module, in all others together, and in
  /// those of each unit that has ranks of its own.
  void measure() {
    paceLoad.assign(batch.size(), 0);
    otherLoad.assign(batch.size(), 0);
    for (size_t m = 0; m < model.modules.size(); ++m) {
      if (int(m) == model.pace) {
        paceLoad = sums.loads[m];
        continue;
      }
      // Modules differ in how many ranks share their work.
      int64_t ranks = ranksOf(int(m));
      std::vector<int64_t> &own = ownLoads[plan.sharesRanks() ? -1 : int(m)];
      own.resize(batch.size(), 0);
      for (size_t i = 0; i < batch.size(); ++i) {
        int64_t load = sums.loads[m][i] * 16 / ranks;
        own[i] += load;
        otherLoad[i] += load;
      }
    }
  }
  int64_t ranksOf(int m) const { return plan.units[m].getRanks(); }

  int count() const { return int(plan.microbatches) * dp; }
  Ids &slot(int k, int r) { return slots[size_t(k) * dp + r]; }

  /// Sample i of the batch to place i / dp of replica i mod dp.
  void asDrawn() {
    slots.assign(count(), {});
    int64_t n = plan.microbatches;
    for (size_t i = 0; i < batch.size(); ++i) {
      int64_t place = int64_t(i) / dp / plan.micro;
      slot(int(std::min(place, n - 1)), int(i % dp)).push_back(int32_t(i));
    }
  }

  /// As programs pack (runtime/data): microbatches that are about equally full,
  /// and of each the parts of replicas.
  void byRows() {
    reorder::PartitionOptions microbatches, replicas;
    microbatches.groups = int(plan.microbatches);
    replicas.groups = dp;
    std::vector<int64_t> shares = bounds.getSampleShares(), own = shares;
    if (bounds.has(model.pace) &&
        model.modules[model.pace].item == ItemKind::Sample)
      own = bounds.getItemShares(model.pace);
    slots.clear();
    for (const Ids &microbatch :
         reorder::partition(shares, microbatches).groups)
      for (Ids &part : partitionOf(microbatch, own, replicas))
        slots.push_back(std::move(part));
  }

  /// DistTrain: samples to replicas by LPT on what makes them differ, then
  /// every replica orders its own microbatches.
  void byReplica() {
    slots.assign(count(), {});
    std::vector<int64_t> loads(batch.size());
    for (size_t i = 0; i < batch.size(); ++i)
      loads[i] = paceLoad[i] * 16 / ranksOf(model.pace) + otherLoad[i];
    reorder::PartitionOptions options;
    options.groups = dp;
    options.maxCount = int32_t((batch.size() + dp - 1) / dp);
    reorder::Partition lpt = reorder::partitionLPT(loads, options);
    for (int r = 0; r < dp; ++r) {
      std::vector<Ids> own = intoMicrobatches(lpt.groups[r]);
      Ids order = countUp(own.size());
      if (plan.ordersMicrobatches() && own.size() > 1)
        order = fillIntervals(own);
      for (size_t k = 0; k < own.size(); ++k)
        slot(int(k), r) = std::move(own[order[k]]);
    }
  }
  std::vector<Ids> intoMicrobatches(const Ids &samples) const {
    std::vector<Ids> result(plan.microbatches);
    for (size_t i = 0; i < samples.size(); ++i)
      result[std::min<size_t>(i / plan.micro, result.size() - 1)].push_back(
          samples[i]);
    return result;
  }
  /// By algorithm 2, in the timeline of 1F1B: what is beside the backbone in
  /// the first stage, backwards twice as long as forwards.
  Ids fillIntervals(const std::vector<Ids> &own) {
    size_t rows = size_t(plan.units[model.pace].pp) + 1;
    std::vector<int64_t> first(own.size(), 0), stage(own.size(), 0);
    for (size_t k = 0; k < own.size(); ++k)
      for (int32_t sample : own[k]) {
        first[k] += otherLoad[sample];
        stage[k] += paceLoad[sample] * 16 / ranksOf(model.pace);
      }
    // Replicas differ in how long things take, no more.
    if (timeline.tasks.empty()) {
      std::vector<std::vector<int64_t>> any(rows, stage);
      timeline = reorder::make1F1B(any, any, 0);
    }
    for (size_t row = 0; row < rows; ++row)
      for (size_t k = 0; k < own.size(); ++k) {
        int64_t forward = row == 0 ? first[k] : stage[k];
        timeline.durations[row][k] = forward;
        timeline.durations[rows + row][k] = 2 * forward;
      }
    return reorder::orderByIntervals(timeline);
  }

  /// Ours: the pacing unit's parts are even in its own work, however many
  /// samples that takes; then parts become microbatches.
  void byPart() {
    reorder::PartitionOptions options;
    options.groups = count();
    options.effort = effort.effort;
    if (!speeds.empty())
      return bySpeed(options);
    std::vector<Ids> own = sums.getParts(options.groups, [&] {
      return reorder::partition(paceLoad, options).groups;
    });
    std::vector<int64_t> pace = sumUp(paceLoad, own), sum(dp, 0);
    slots.assign(count(), {});
    std::vector<Ids> together = groupParts(own, pace);
    for (int k = 0; k < int(together.size()); ++k) {
      // The most expensive part to the replica that has done least so far.
      Ids &group = together[k], replicas = countUp(dp);
      sortDearestFirst(group, pace);
      llvm::stable_sort(replicas,
                        [&](int32_t a, int32_t b) { return sum[a] < sum[b]; });
      for (size_t i = 0; i < group.size(); ++i) {
        sum[replicas[i]] += pace[group[i]];
        slot(k, replicas[i]) = std::move(own[group[i]]);
      }
    }
  }

  static std::vector<int64_t> sumUp(const std::vector<int64_t> &loads,
                                    const std::vector<Ids> &parts) {
    std::vector<int64_t> result;
    for (const Ids &part : parts) {
      result.push_back(0);
      for (int32_t sample : part)
        result.back() += loads[sample];
    }
    return result;
  }

  /// The same where replicas differ in speed: a part is even in the time that
  /// it takes its replica. Parts that take about as long are side by side.
  void bySpeed(reorder::PartitionOptions options) {
    for (int k = 0; k < int(plan.microbatches); ++k)
      options.speeds.insert(options.speeds.end(), speeds.begin(), speeds.end());
    slots = reorder::partition(paceLoad, options).groups;
    for (int r = 0; r < dp; ++r) {
      std::vector<std::pair<int64_t, Ids>> own;
      for (int k = 0; k < int(plan.microbatches); ++k) {
        int64_t load = 0;
        for (int32_t sample : slot(k, r))
          load += paceLoad[sample];
        own.emplace_back(-load, std::move(slot(k, r)));
      }
      llvm::sort(own);
      for (int k = 0; k < int(plan.microbatches); ++k)
        slot(k, r) = std::move(own[k].second);
    }
  }

  /// `dp` parts to a microbatch. Parts of equal work side by side: no replica
  /// waits for another, even where one document fills a part. Of microbatches
  /// that the pacing unit takes about as long for, or no longer than another
  /// unit for the mean one, the others' work is made even.
  std::vector<Ids> groupParts(const std::vector<Ids> &parts,
                              const std::vector<int64_t> &pace) const {
    constexpr double kAlike = 0.97;
    double beat = 0;
    for (auto &[unit, loads] : ownLoads) {
      double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
      beat = std::max(beat, sum / double(plan.microbatches));
    }
    std::vector<int64_t> others = sumUp(otherLoad, parts);
    Ids order = countUp(pace.size());
    sortDearestFirst(order, pace);
    double scale = 16.0 * dp / double(ranksOf(model.pace));
    auto longest = [&](size_t k) {
      return std::max(beat, scale * double(pace[order[k * dp]]));
    };
    std::vector<Ids> groups;
    for (size_t begin = 0, end = 0; begin * dp < order.size(); begin = end) {
      while (end * dp < order.size() && longest(end) >= kAlike * longest(begin))
        ++end;
      Ids alike(order.begin() + begin * dp, order.begin() + end * dp);
      for (Ids &group : makeEven(alike, others))
        groups.push_back(std::move(group));
    }
    return groups;
  }

  /// Groups of `dp` of these parts whose loads add up to about the same.
  std::vector<Ids> makeEven(const Ids &parts,
                            const std::vector<int64_t> &loads) const {
    reorder::PartitionOptions options;
    options.groups = int32_t(parts.size()) / dp;
    options.maxCount = dp;
    options.effort = effort.effort * options.groups / plan.microbatches;
    if (options.groups == 1)
      return {parts};
    return partitionOf(parts, loads, options);
  }

  /// As many of the largest sample as a replica gets of a microbatch's.
  TokenSums roomForWhole(int m) const {
    int64_t replicas = plan.units[m].dp,
            samples = int64_t(batch.size() - 1) / plan.microbatches + 1;
    TokenSums most;
    if (plan.compiled && model.modules[m].item != ItemKind::Sample &&
        replicas <= samples)
      for (const TokenSums &sample : sums.moments[m])
        if (costs[m].at(sample) > costs[m].at(most))
          most = sample;
    return most * double((samples - 1) / replicas + 1);
  }

  void placeAll() {
    parts.tooLarge.clear();
    for (int m = 0; m < int(model.modules.size()); ++m) {
      std::string tooLarge;
      if (effort.mean) {
        placeEvenly(m);
        tooLarge = bounds.checkMeans(m, parts);
      } else {
        place(m);
        tooLarge = bounds.check(m, parts);
        if (!tooLarge.empty() && m != model.pace) {
          place(m, true);
          tooLarge = bounds.check(m, parts);
        }
      }
      parts.modules[m].whole = roomForWhole(m);
      if (parts.tooLarge.empty())
        parts.tooLarge = tooLarge;
    }
  }

  /// Only sums: what stays with its sample, and even shares of the rest, but
  /// for the largest item, which nobody can share.
  void placeEvenly(int m) {
    Parts::Items &items = parts.modules[m];
    const UnitPlan &unit = plan.units[m];
    int64_t replicas = unit.dp;
    bool own = m == model.pace;
    items.replicas = int(replicas);
    items.moments.assign(size_t(parts.microbatches) * replicas, {});
    for (int k = 0; k < parts.microbatches; ++k) {
      TokenSums sum;
      ItemSize largest;
      for (int r = 0; r < dp; ++r)
        for (int32_t sample : slot(k, r)) {
          (own ? items.moments[size_t(k) * replicas + r] : sum) +=
              sums.moments[m][sample];
          if (!own && costs[m].isAbove(sums.largest[m][sample], largest))
            largest = sums.largest[m][sample];
        }
      if (own)
        continue;
      auto first = items.moments.begin() + k * replicas;
      std::fill_n(first, replicas, sum * (1 / double(replicas)));
      std::vector<int32_t> fast = unit.getSpeeds();
      double all = std::accumulate(fast.begin(), fast.end(), 0.0);
      for (size_t r = 0; r < fast.size(); ++r)
        first[r] = sum * (fast[r] / all);
      TokenSums one = TokenSums::of(largest);
      if (!(largest == ItemSize()) && costs[m].at(one) > costs[m].at(*first))
        *first = one;
    }
  }

  /// Puts a module's items where the plan wants them; `byRows`: where they
  /// leave all parts about equally full.
  void place(int m, bool byRows = false) {
    Parts::Items &items = parts.modules[m];
    items = {};
    int64_t replicas = plan.units[m].dp;
    items.replicas = int(replicas);
    list(m, items);
    items.replica.assign(items.sizes.size(), 0);
    items.parts.assign(size_t(parts.microbatches) * replicas, {});
    items.moments.assign(items.parts.size(), {});
    std::vector<Ids> ofSample = bySample(items);
    std::vector<int64_t> shares, loads;
    if (byRows)
      shares = bounds.getItemShares(m);
    for (const ItemSize &size : items.sizes)
      loads.push_back(costs[m].at(size));
    for (int k = 0; k < parts.microbatches; ++k) {
      if (m == model.pace)
        stay(items, ofSample, k);
      else if (byRows)
        spread(items, ofSample, k, shares, {});
      else if (plan.assign == Assign::Items && plan.balancesParts())
        spread(items, ofSample, k, loads, plan.units[m].getSpeeds());
      else
        spreadSamples(m, items, ofSample, k);
    }
    for (size_t p = 0; p < items.parts.size(); ++p)
      for (int32_t item : items.parts[p]) {
        items.moments[p] += TokenSums::of(items.sizes[item]);
        items.replica[item] = int32_t(p % replicas);
      }
  }
  void list(int m, Parts::Items &items) const {
    for (size_t s = 0; s < batch.size(); ++s)
      for (const ItemSize &size : batch[s].getSizes(model.modules[m].item)) {
        items.sizes.push_back(size);
        items.owner.push_back(int32_t(s));
      }
  }
  std::vector<Ids> bySample(const Parts::Items &items) const {
    std::vector<Ids> result(batch.size());
    for (size_t i = 0; i < items.owner.size(); ++i)
      result[items.owner[i]].push_back(int32_t(i));
    return result;
  }

  void stay(Parts::Items &items, const std::vector<Ids> &ofSample, int k) {
    for (int r = 0; r < dp; ++r)
      for (int32_t sample : slot(k, r))
        llvm::append_range(items.parts[size_t(k) * dp + r], ofSample[sample]);
  }

  /// Every item by itself, over all replicas, by what it weighs.
  void spread(Parts::Items &items, const std::vector<Ids> &ofSample, int k,
              const std::vector<int64_t> &weights,
              std::vector<int32_t> replicaSpeeds) {
    Ids all;
    for (int r = 0; r < dp; ++r)
      for (int32_t sample : slot(k, r))
        llvm::append_range(all, ofSample[sample]);
    reorder::PartitionOptions options;
    options.groups = items.replicas;
    options.effort = effort.itemEffort;
    options.speeds = std::move(replicaSpeeds);
    std::vector<Ids> groups = partitionOf(all, weights, options);
    for (int r = 0; r < items.replicas; ++r) {
      llvm::sort(groups[r]);
      items.parts[size_t(k) * items.replicas + r] = std::move(groups[r]);
    }
  }

  /// Whole samples, inside groups of replicas: gcd of the two DP sizes many.
  void spreadSamples(int m, Parts::Items &items,
                     const std::vector<Ids> &ofSample, int k) {
    int groups = std::gcd(dp, items.replicas);
    int from = dp / groups, to = items.replicas / groups;
    for (int g = 0; g < groups; ++g) {
      Ids samples;
      std::vector<int64_t> loads;
      for (int r = g * from; r < (g + 1) * from; ++r)
        for (int32_t sample : slot(k, r)) {
          samples.push_back(sample);
          loads.push_back(sums.loads[m][sample]);
        }
      reorder::PartitionOptions options;
      options.groups = to;
      std::vector<Ids> parts =
          plan.assign == Assign::Given
              ? inTurn(samples.size(), to)
              : reorder::partitionLPT(loads, options).groups;
      for (int r = 0; r < to; ++r)
        for (int32_t i : parts[r])
          llvm::append_range(
              items.parts[size_t(k) * items.replicas + g * to + r],
              ofSample[samples[i]]);
    }
  }
  static std::vector<Ids> inTurn(size_t count, int groups) {
    std::vector<Ids> result(groups);
    for (size_t i = 0; i < count; ++i)
      result[i * groups / std::max<size_t>(1, count)].push_back(int32_t(i));
    return result;
  }

  const Model &model;
  const Plan &plan;
  const std::vector<Sample> &batch;
  const std::vector<ItemCost> &costs;
  const PartsOptions &effort;
  std::optional<SampleSums> ownSums; ///< where the options have none
  SampleSums &sums;
  PartBounds bounds;
  Parts parts;
  int dp = 1;
  std::vector<int32_t> speeds; ///< of the pacing unit's replicas
  std::vector<int64_t> paceLoad, otherLoad;
  std::map<int, std::vector<int64_t>> ownLoads; ///< by unit; -1: shared ranks
  reorder::OrderProblem timeline; ///< of DistTrain's order, made when asked for
  std::vector<Ids> slots; ///< samples of [microbatch * dp + pacing replica]
};

} // namespace

Parts makeParts(const Model &model, const Plan &plan,
                const std::vector<Sample> &batch,
                const std::vector<ItemCost> &costs,
                const PartsOptions &options) {
  return Builder(model, plan, batch, costs, options).run();
}

} // namespace dt::planner

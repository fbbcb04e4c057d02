//===- PartSums.cpp - Sums over samples and parts ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What Parts.h has beside the cutting itself.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/Parts.h"

namespace dt::planner {

SampleSums::SampleSums(const Model &model, const std::vector<Sample> &batch,
                       const std::vector<ItemCost> &costs) {
  for (size_t m = 0; m < model.modules.size(); ++m) {
    ItemKind kind = model.modules[m].item;
    moments.emplace_back();
    loads.emplace_back();
    largest.emplace_back();
    for (const Sample &sample : batch) {
      moments.back().push_back(momentsOf(sample, kind));
      int64_t &load = loads.back().emplace_back(0);
      ItemSize &most = largest.back().emplace_back();
      for (const ItemSize &size : sample.getSizes(kind)) {
        load += costs[m].at(size);
        if (costs[m].isAbove(size, most))
          most = size;
      }
    }
  }
}

std::vector<std::vector<int32_t>> SampleSums::getParts(
    int64_t count,
    llvm::function_ref<std::vector<std::vector<int32_t>>()> make) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto it = parts.find(count); it != parts.end())
      return it->second;
  }
  std::vector<std::vector<int32_t>> made = make();
  std::lock_guard<std::mutex> lock(mutex);
  return parts.try_emplace(count, std::move(made)).first->second;
}

TokenSums Parts::Items::getSum(int microbatch) const {
  TokenSums sum;
  for (int r = 0; r < replicas; ++r)
    sum += moments[size_t(microbatch) * replicas + r];
  return sum;
}

TokenSums Parts::Items::getMean() const {
  TokenSums sum;
  for (const TokenSums &part : moments)
    sum += part;
  return sum * (1 / double(std::max<size_t>(1, moments.size())));
}

void Parts::permute(const std::vector<int32_t> &order) {
  for (Items &items : modules) {
    auto oldParts = std::move(items.parts);
    auto oldMoments = items.moments;
    items.parts.resize(oldParts.size());
    for (int k = 0; k < microbatches; ++k)
      for (int r = 0; r < items.replicas; ++r) {
        size_t to = size_t(k) * items.replicas + r;
        size_t from = size_t(order[k]) * items.replicas + r;
        items.moments[to] = oldMoments[from];
        if (!oldParts.empty())
          items.parts[to] = std::move(oldParts[from]);
      }
  }
}

Parts Parts::joinTasks(const Plan &plan) const {
  Parts joined = *this;
  for (size_t u = 0; u < modules.size(); ++u) {
    int span = plan.units[u].span;
    size_t replicas = size_t(modules[u].replicas);
    std::vector<TokenSums> &moments = joined.modules[u].moments;
    for (int k = 0; k < microbatches; ++k)
      for (size_t r = 0; k % span && r < replicas; ++r) {
        moments[size_t(k - k % span) * replicas + r] +=
            moments[k * replicas + r];
        moments[k * replicas + r] = {};
      }
  }
  return joined;
}

} // namespace dt::planner

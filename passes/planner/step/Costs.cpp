//===- Costs.cpp - Costs of all modules, and what no plan beats -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/Step.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

Costs::Costs(const Cluster &cluster, const Model &model, const Profile *profile)
    : cluster(cluster), model(model), profile(profile),
      modules(model.modules.size()) {
  for (size_t node = 0; node < cluster.nodes.size(); ++node)
    for (const Module &module : model.modules)
      costs.push_back(
          std::make_unique<ModuleCost>(cluster, int(node), module, profile));
  for (size_t m = 0; m < modules; ++m) {
    CostOptions options;
    auto nanoseconds = [&](double tokens, double other) {
      TokenSums one = TokenSums::of(tokens, other);
      return 1e9 * get(0, int(m)).module(options, one).total();
    };
    // Through three points far enough apart to see the square.
    double a = 512, b = 2048, c = 8192;
    auto fit = [&](double fa, double fb, double fc) -> Linear {
      double square =
          std::max(0.0, ((fc - fb) / (c - b) - (fb - fa) / (b - a)) / (c - a));
      double token = std::max(0.0, (fb - fa) / (b - a) - square * (a + b));
      return {std::max(0.0, fa - token * a - square * a * a), token, square};
    };
    ItemCost cost{fit(nanoseconds(a, 0), nanoseconds(b, 0), nanoseconds(c, 0))};
    if (model.modules[m].hasOther()) {
      Linear alone =
          fit(nanoseconds(0, a), nanoseconds(0, b), nanoseconds(0, c));
      cost.other = alone.token;
      cost.otherSquare = alone.square;
      if (cost.token <= 0 && cost.square <= 0)
        cost.item = alone.item;
      cost.product =
          std::max(0.0, nanoseconds(b, b) - cost.at(TokenSums::of(b, b))) /
          (b * b);
    }
    items.push_back(cost);
  }
}

bool Costs::isMeasured(int module) const {
  for (size_t node = 0; node < cluster.nodes.size(); ++node)
    if (get(int(node), module).isMeasured())
      return true;
  return false;
}

StringRef Costs::getSource(int module) const {
  bool whole = true;
  for (size_t node = 0; node < cluster.nodes.size(); ++node)
    whole &= get(int(node), module).isMeasuredWhole();
  return whole ? "profile" : isMeasured(module) ? "profile and model" : "model";
}

double Costs::workOn(int node, int module, const TokenSums &all) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto [known, isNew] = works.try_emplace({node, module, all}, 0);
  double &best = known->second;
  if (!isNew || all.empty())
    return best;
  best = INFINITY;
  for (int tp = 1; tp <= model.modules[module].maxTP; tp *= 2) {
    CostOptions options{tp, Save::All};
    Times times = get(node, module).module(options, all);
    best = std::min(best, times.total() * tp);
  }
  return best;
}

double Costs::work(int module, const TokenSums &all) const {
  double best = all.empty() ? 0 : INFINITY;
  for (size_t node = 0; node < cluster.nodes.size(); ++node)
    best = std::min(best, workOn(int(node), module, all));
  return best;
}

/// Who does what on several kinds of devices is a linear program. Any price of
/// a second on each kind, all devices together costing 1, gives a bound: every
/// module at its cheapest. The best prices are found pair by pair.
double Costs::workBound(const std::vector<Sample> &batch) const {
  std::vector<int> kinds; // a node of each kind of device
  std::vector<double> devices;
  for (int node = 0; node < int(cluster.nodes.size()); ++node) {
    auto same = llvm::find_if(kinds, [&](int kind) {
      return cluster.nodes[kind].device == cluster.nodes[node].device;
    });
    if (same == kinds.end()) {
      kinds.push_back(node);
      devices.push_back(0);
      same = kinds.end() - 1;
    }
    devices[same - kinds.begin()] += double(cluster.getNumDevices(node));
  }
  // In one piece: larger parts are never slower, so no plan beats this.
  std::vector<std::vector<double>> seconds(modules);
  for (size_t m = 0; m < modules; ++m)
    for (int kind : kinds)
      seconds[m].push_back(
          workOn(kind, int(m), momentsOf(batch, model.modules[m].item)));
  auto bound = [&](const std::vector<double> &price) {
    double sum = 0;
    for (const std::vector<double> &own : seconds) {
      double least = INFINITY;
      for (size_t k = 0; k < own.size(); ++k)
        least = std::min(least, price[k] * own[k]);
      sum += least;
    }
    return sum;
  };
  double all = double(cluster.getNumDevices());
  std::vector<double> price(kinds.size(), 1 / all);
  for (int round = 0; round < 3; ++round)
    for (size_t i = 1; i < kinds.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        // Concave in how the two share what they cost together.
        double both = price[i] * devices[i] + price[j] * devices[j];
        auto share = [&](double part) {
          price[i] = both * part / devices[i];
          price[j] = both * (1 - part) / devices[j];
          return bound(price);
        };
        double low = 0, high = 1;
        for (int step = 0; step < 60; ++step) {
          double a = low + (high - low) / 3, b = high - (high - low) / 3;
          if (share(a) < share(b))
            low = a;
          else
            high = b;
        }
        share((low + high) / 2);
      }
  return bound(price);
}

} // namespace dt::planner

//===- Profile.cpp - Measured times of layers -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/cost/Profile.h"

#include "models/frontend/json/JsonReader.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <numeric>

using namespace llvm;

namespace dt::planner {

namespace {

using models::JsonReader;

constexpr double kMostSeconds = 1e6, kMostRows = 1e15;

ProfilePoint readPoint(const JsonReader &json) {
  json.keys({"tp", "rows", "tokens", "forward", "backward", "weight"});
  ProfilePoint point;
  json.read("rows", point.rows, 1, 1e12);
  point.tokens = json.at("tokens").number(1, 1e15);
  point.forward = json.at("forward").number(0, kMostSeconds);
  json.read("backward", point.backward, 0, kMostSeconds);
  json.read("weight", point.weight, 0, kMostSeconds);
  return point;
}

Link readLink(const JsonReader &json) {
  json.keys({"latency", "bandwidth"});
  return {json.at("latency").number(0, kMostSeconds),
          json.at("bandwidth").number(1, 1e18)};
}

LayerProfile readLayer(const JsonReader &json) {
  LayerProfile layer;
  for (const JsonReader &entry : json.list()) {
    ProfilePoint point = readPoint(entry);
    int tp = 1;
    entry.read("tp", tp, 1, 4096);
    std::vector<ProfilePoint> &points = layer[tp];
    if (!points.empty() && point.tokens <= points.back().tokens)
      entry.at("tokens").fail("expected more tokens than in the point before "
                              "of the same TP: points ascend");
    if (!points.empty() &&
        point.weight.has_value() != points[0].weight.has_value())
      entry.fail(
          "'weight' is given at all points of a layer and TP or at none");
    points.push_back(point);
  }
  if (layer.empty())
    json.fail("expected at least one measured point");
  return layer;
}

/// Of every expert; or one number, how many the most have over the mean.
std::vector<double> readRows(const JsonReader &json) {
  std::vector<double> rows;
  if (json.raw().is_number())
    return {json.number(1, kMostRows)};
  double sum = 0;
  for (const JsonReader &entry : json.list())
    sum += rows.emplace_back(entry.number(0, kMostRows));
  if (json.ok() && sum <= 0)
    json.fail("expected rows of at least one expert");
  return rows.size() == 1 ? std::vector<double>{1} : rows;
}

/// The layers of a module that have experts, and how many.
Error checkRouting(const Module &module,
                   const std::vector<std::vector<double>> &layers) {
  size_t l = 0;
  for (int layer : module.layers) {
    const LayerKind &kind = module.kinds[layer];
    size_t experts = size_t(kind.getExperts());
    for (int route = 0; route < kind.routes; ++route, ++l)
      if (l < layers.size() && layers[l].size() > 1 &&
          layers[l].size() != experts)
        return createStringError(formatv("routing of module '{0}', layer {1} "
                                         "of those with experts: expected "
                                         "rows of {2} experts, not of {3}",
                                         module.name, l, experts,
                                         layers[l].size()));
  }
  if (l == layers.size())
    return Error::success();
  return createStringError(formatv("routing of module '{0}': expected {1} "
                                   "layers, as many as have experts, not {2}",
                                   module.name, l, layers.size()));
}

} // namespace

double Profile::getSlowest(const Module &module, int kind, int ep) const {
  auto counted = routing.find(module.name);
  int experts = module.kinds[kind].getExperts(), layers = 0;
  if (counted == routing.end() || ep < 2 || !experts || experts % ep)
    return 1;
  double sum = 0, own = experts / ep;
  auto rows = counted->second.begin();
  auto add = [&](ArrayRef<double> all) {
    ++layers;
    if (all.size() == 1) { // the others have as many as one another
      double most = std::min<double>(all[0], experts);
      sum += (most + (own - 1) * (experts - most) / (experts - 1)) / own;
      return;
    }
    auto sumOf = [](ArrayRef<double> some) {
      return std::accumulate(some.begin(), some.end(), 0.0);
    };
    double most = 0;
    for (int rank = 0; rank < ep; ++rank)
      most =
          std::max(most, sumOf(all.slice(rank * experts / ep, experts / ep)));
    sum += most * ep / sumOf(all);
  };
  for (int layer : module.layers)
    for (int route = 0; route < module.kinds[layer].routes; ++route, ++rows)
      if (layer == kind)
        add(*rows);
  return layers ? sum / layers : 1;
}

const LayerProfile *Profile::find(StringRef module, StringRef kind) const {
  auto it = modules.find(module.str());
  if (it == modules.end())
    return nullptr;
  auto layer = it->second.find(kind.str());
  return layer == it->second.end() ? nullptr : &layer->second;
}

Error Profile::check(const Model &model) const {
  std::vector<StringRef> names;
  auto find = [&](const std::string &name) -> Expected<const Module *> {
    names.clear();
    for (const Module &one : model.modules) {
      if (one.name == name)
        return &one;
      names.push_back(one.name);
    }
    return createStringError("the profile names module '" + name +
                             "', which the model does not have" +
                             models::didYouMean(name, names));
  };
  for (auto &[name, layers] : routing) {
    auto module = find(name);
    if (!module)
      return module.takeError();
    if (Error error = checkRouting(**module, layers))
      return error;
  }
  for (auto &[name, layers] : modules) {
    auto found = find(name);
    if (!found)
      return found.takeError();
    const Module *module = *found;
    names.clear();
    for (const LayerKind &kind : module->kinds)
      names.push_back(kind.name);
    for (auto &[layer, points] : layers)
      if (!is_contained(names, layer))
        return createStringError("the profile names layer '" + layer +
                                 "' of module '" + name +
                                 "', which the model does not have" +
                                 models::didYouMean(layer, names));
  }
  return Error::success();
}

void Profile::setLinks(Cluster &cluster) const {
  for (NodeKind &node : cluster.nodes) {
    if (!device.empty() && device != cluster.devices[node.device].name)
      continue;
    if (inside)
      node.inside = node.reduce = *inside;
    if (reduce)
      node.reduce = *reduce;
  }
}

Expected<Profile> parseProfile(StringRef text, StringRef file) {
  Profile profile;
  Error wrong = models::readJson(text, file, [&](const JsonReader &root) {
    root.keys({"version", "device", "save", "modules", "update", "inside",
               "reduce", "routing"});
    root.checkVersion();
    root.read("device", profile.device);
    root.read("save", profile.save);
    root.read("update", profile.update, 0, kMostSeconds);
    if (root.has("inside"))
      profile.inside = readLink(root.at("inside"));
    if (root.has("reduce"))
      profile.reduce = readLink(root.at("reduce"));
    if (root.has("routing"))
      for (auto &[module, layers] : root.at("routing").entries())
        for (const JsonReader &layer : layers.list())
          profile.routing[module].push_back(readRows(layer));
    if (root.ok() && (root.has("modules") || profile.routing.empty()))
      for (auto &[module, layers] : root.at("modules").entries())
        for (auto &[layer, points] : layers.entries())
          profile.modules[module][layer] = readLayer(points);
    if (root.ok() && profile.modules.empty() && profile.routing.empty())
      root.at("modules").fail("expected at least one measured module");
  });
  if (wrong)
    return std::move(wrong);
  return profile;
}

Expected<Profile> readProfile(StringRef file) {
  return models::readFile(file, parseProfile);
}

} // namespace dt::planner

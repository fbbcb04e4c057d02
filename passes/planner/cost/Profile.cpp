//===- Profile.cpp - Measured times of layers -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/cost/Profile.h"

#include "models/frontend/json/JsonReader.h"

using namespace llvm;

namespace dt::planner {

namespace {

using models::JsonReader;

constexpr double kMostSeconds = 1e6;

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
    std::vector<ProfilePoint> &points = layer.points[tp];
    if (!points.empty() && point.tokens <= points.back().tokens)
      entry.at("tokens").fail("expected more tokens than in the point before "
                              "of the same TP: points ascend");
    if (!points.empty() &&
        point.weight.has_value() != points[0].weight.has_value())
      entry.fail(
          "'weight' is given at all points of a layer and TP or at none");
    points.push_back(point);
  }
  if (layer.points.empty())
    json.fail("expected at least one measured point");
  return layer;
}

} // namespace

const LayerProfile *Profile::find(StringRef module, StringRef kind) const {
  auto it = modules.find(module.str());
  if (it == modules.end())
    return nullptr;
  auto layer = it->second.find(kind.str());
  return layer == it->second.end() ? nullptr : &layer->second;
}

Error Profile::check(const Model &model) const {
  for (auto &[name, layers] : modules) {
    const Module *module = nullptr;
    std::vector<StringRef> names;
    for (const Module &one : model.modules) {
      names.push_back(one.name);
      if (one.name == name)
        module = &one;
    }
    if (!module)
      return createStringError("the profile names module '" + name +
                               "', which the model does not have" +
                               models::didYouMean(name, names));
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
    root.keys(
        {"version", "device", "save", "modules", "update", "inside", "reduce"});
    root.checkVersion();
    root.read("device", profile.device);
    root.read("save", profile.save);
    root.read("update", profile.update, 0, kMostSeconds);
    if (root.has("inside"))
      profile.inside = readLink(root.at("inside"));
    if (root.has("reduce"))
      profile.reduce = readLink(root.at("reduce"));
    if (root.ok())
      for (auto &[module, layers] : root.at("modules").entries())
        for (auto &[layer, points] : layers.entries())
          profile.modules[module][layer] = readLayer(points);
    if (root.ok() && profile.modules.empty())
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

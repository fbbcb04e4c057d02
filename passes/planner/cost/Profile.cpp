//===- Profile.cpp - Measured times of layers -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/cost/Profile.h"

#include "models/frontend/json/JsonReader.h"

#include "llvm/Support/MemoryBuffer.h"

#include <cmath>

using namespace llvm;

namespace dt::planner {

namespace {

using models::JsonReader;
using models::OrderedJson;

constexpr double kMostSeconds = 1e6;

ProfilePoint readPoint(const JsonReader &json) {
  json.keys({"tp", "rows", "tokens", "forward", "backward", "weight"});
  ProfilePoint point;
  if (json.has("rows"))
    point.rows = json.at("rows").number(1, 1e12);
  point.tokens = json.at("tokens").number(1, 1e15);
  point.forward = json.at("forward").number(0, kMostSeconds);
  if (json.has("backward"))
    point.backward = json.at("backward").number(0, kMostSeconds);
  if (json.has("weight"))
    point.weight = json.at("weight").number(0, kMostSeconds);
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
    int64_t tp = entry.has("tp") ? entry.at("tp").integer(1) : 1;
    if (tp > 4096)
      entry.at("tp").fail("expected at most 4096");
    std::vector<ProfilePoint> &points = layer.points[int(tp)];
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
      return createStringError(inconvertibleErrorCode(),
                               "the profile names module '" + name +
                                   "', which the model does not have" +
                                   models::didYouMean(name, names));
    names.clear();
    for (const LayerKind &kind : module->kinds)
      names.push_back(kind.name);
    for (auto &[layer, points] : layers)
      if (!is_contained(names, layer))
        return createStringError(inconvertibleErrorCode(),
                                 "the profile names layer '" + layer +
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
  std::string error;
  Expected<OrderedJson> json = models::parseJson(text, file);
  if (!json)
    return json.takeError();
  Profile profile;
  JsonReader root(&*json, "", &error);
  root.keys(
      {"version", "device", "save", "modules", "update", "inside", "reduce"});
  if (root.at("version").integer(1) != 1)
    root.at("version").fail("expected 1");
  if (root.has("device"))
    profile.device = root.at("device").string();
  if (root.has("save"))
    profile.save = root.at("save").choice<Save>();
  if (root.has("update"))
    profile.update = root.at("update").number(0, kMostSeconds);
  if (root.has("inside"))
    profile.inside = readLink(root.at("inside"));
  if (root.has("reduce"))
    profile.reduce = readLink(root.at("reduce"));
  if (error.empty())
    for (auto &[module, layers] : root.at("modules").entries())
      for (auto &[layer, points] : layers.entries())
        profile.modules[module][layer] = readLayer(points);
  if (error.empty() && profile.modules.empty())
    root.at("modules").fail("expected at least one measured module");
  if (!error.empty())
    return createStringError(inconvertibleErrorCode(), file + ": " + error);
  return profile;
}

Expected<Profile> readProfile(StringRef file) {
  auto buffer = MemoryBuffer::getFile(file, /*IsText=*/true);
  if (!buffer)
    return createStringError(buffer.getError(),
                             file + ": " + buffer.getError().message());
  return parseProfile((*buffer)->getBuffer(), file);
}

std::string printProfile(const Profile &profile) {
  OrderedJson json;
  json["version"] = 1;
  json["device"] = profile.device;
  json["save"] = rt::textOf(profile.save);
  if (profile.update)
    json["update"] = *profile.update;
  for (auto &[name, link] :
       {std::pair("inside", profile.inside), {"reduce", profile.reduce}})
    if (link)
      json[name] = {{"latency", link->latency}, {"bandwidth", link->bandwidth}};
  json["modules"] = OrderedJson::object();
  for (auto &[module, layers] : profile.modules)
    for (auto &[layer, measured] : layers) {
      OrderedJson &list = json["modules"][module][layer] = OrderedJson::array();
      for (auto &[tp, points] : measured.points)
        for (const ProfilePoint &point : points) {
          list.push_back({{"tp", tp},
                          {"rows", point.rows},
                          {"tokens", point.tokens},
                          {"forward", point.forward},
                          {"backward", point.backward}});
          if (point.weight)
            list.back()["weight"] = *point.weight;
        }
    }
  return json.dump(1);
}

} // namespace dt::planner

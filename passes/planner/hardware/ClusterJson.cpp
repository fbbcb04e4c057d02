//===- ClusterJson.cpp - Reading a cluster --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/json/JsonReader.h"
#include "passes/planner/hardware/Cluster.h"

#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace dt::planner {

namespace {

using models::JsonReader;

constexpr double kTiny = 1e-30;
constexpr double kHuge = 1e30;
constexpr int64_t kMostCount = 1000000;
/// More devices than this are a mistake in a file.
constexpr int64_t kMostDevices = int64_t(1) << 17;

double positive(const JsonReader &json) { return json.number(kTiny, kHuge); }

int count(const JsonReader &json) { return int(json.integer(1, kMostCount)); }

std::vector<double> readFigures(const JsonReader &json, bool ascend) {
  std::vector<double> figures;
  for (const JsonReader &entry : json.list()) {
    double figure = positive(entry);
    if (ascend && !figures.empty() && figure <= figures.back())
      entry.fail("expected more than the entry before: sizes ascend");
    figures.push_back(figure);
  }
  if (figures.empty())
    json.fail("expected at least one figure");
  return figures;
}

std::vector<double> readRates(const JsonReader &json, size_t count) {
  std::vector<double> rates = readFigures(json.at("rates"), false);
  if (json.ok() && rates.size() != count)
    json.at("rates").fail("expected a rate for each of " + Twine(count) +
                          " sizes, not " + Twine(rates.size()));
  return rates;
}

std::shared_ptr<const Curve> readCurve(const JsonReader &json, StringRef key) {
  if (!json.has(key))
    return nullptr;
  JsonReader table = json.at(key);
  table.keys({"sizes", "rates"});
  std::vector<double> sizes = readFigures(table.at("sizes"), true);
  std::vector<double> rates = readRates(table, sizes.size());
  return json.ok() ? std::make_shared<Curve>(sizes, rates) : nullptr;
}

std::shared_ptr<const ProductRates> readProducts(const JsonReader &json,
                                                 StringRef key) {
  if (!json.has(key))
    return nullptr;
  JsonReader table = json.at(key);
  table.keys({"rows", "columns", "depth", "rates"});
  std::array<std::vector<double>, 3> sizes = {
      readFigures(table.at("rows"), true),
      readFigures(table.at("columns"), true),
      readFigures(table.at("depth"), true)};
  size_t count = sizes[0].size() * sizes[1].size() * sizes[2].size();
  std::vector<double> rates = readRates(table, count);
  return json.ok() ? std::make_shared<ProductRates>(sizes, rates) : nullptr;
}

MeasuredRates readMeasured(const JsonReader &json) {
  json.keys({"products", "weights", "attention", "attention_back", "stream"});
  return {readProducts(json, "products"), readProducts(json, "weights"),
          readCurve(json, "attention"), readCurve(json, "attention_back"),
          readCurve(json, "stream")};
}

Link readLink(const JsonReader &json) {
  Link link;
  link.latency = json.at("latency").number(0, 10);
  link.bandwidth = positive(json.at("bandwidth"));
  link.measured = readCurve(json, "measured");
  return link;
}

GemmEfficiency readGemm(const JsonReader &json) {
  json.keys({"peak", "rows", "columns", "depth"});
  GemmEfficiency gemm;
  json.read("peak", gemm.peak, kTiny, 1);
  json.read("rows", gemm.rows, 0, 1e9);
  json.read("columns", gemm.columns, 0, 1e9);
  json.read("depth", gemm.depth, 0, 1e9);
  return gemm;
}

DeviceKind readDevice(StringRef name, const JsonReader &json) {
  json.keys({"flops", "memory", "reserve", "bandwidth", "launch", "gemm",
             "attention", "convolution", "stream", "measured", "source",
             "target"});
  DeviceKind device;
  device.name = name.str();
  json.read("target", device.target);
  for (auto &[precision, value] : json.at("flops").entries()) {
    if (!is_contained({"f64", "f32", "tf32", "f16", "bf16", "f8"}, precision))
      value.fail("unknown precision (known: f64, f32, tf32, f16, bf16, f8)");
    device.flops[precision] = positive(value);
  }
  if (device.flops.empty())
    json.at("flops").fail("expected at least one precision");
  device.memory = positive(json.at("memory"));
  device.bandwidth = positive(json.at("bandwidth"));
  if (json.has("reserve")) {
    device.reserve = json.at("reserve").number(0, kHuge);
    if (device.reserve >= device.memory)
      json.at("reserve").fail("leaves nothing of the memory");
  }
  json.read("launch", device.launch, 0, 1);
  if (json.has("gemm"))
    device.gemm = readGemm(json.at("gemm"));
  device.attention = device.convolution = device.gemm.peak;
  json.read("attention", device.attention, kTiny, 1);
  json.read("convolution", device.convolution, kTiny, 1);
  json.read("stream", device.stream, kTiny, 1);
  if (json.has("measured"))
    for (auto &[precision, rates] : json.at("measured").entries()) {
      if (!device.flops.count(precision))
        rates.fail("expected a peak of this precision in 'flops'");
      device.measured[precision] = readMeasured(rates);
    }
  return device;
}

std::vector<Straggler> readStragglers(const JsonReader &json) {
  std::vector<Straggler> stragglers;
  double all = 0;
  for (const JsonReader &entry : json.list()) {
    entry.keys({"slowdown", "share"});
    Straggler own = {entry.at("slowdown").number(1, 1e6),
                     entry.at("share").number(kTiny, 1)};
    all += own.share;
    stragglers.push_back(own);
  }
  if (json.ok() && all > 1 + 1e-9)
    json.fail("expected shares of at most 1 together, not " +
              formatv("{0}", all).str());
  return stragglers;
}

/// `alone`: the file has no other kind.
NodeKind readNode(const JsonReader &json, const Cluster &cluster, bool alone) {
  json.keys({"device", "devices", "count", "inside", "reduce", "network",
             "nics", "cores", "pieces", "stragglers"});
  NodeKind node;
  node.device = int(json.at("device").findNamed(cluster.devices, "device"));
  node.devices = count(json.at("devices"));
  node.count = count(json.at("count"));
  node.inside = readLink(json.at("inside"));
  node.reduce = json.has("reduce") ? readLink(json.at("reduce")) : node.inside;
  node.network = node.count > 1 || !alone || json.has("network")
                     ? readLink(json.at("network"))
                     : node.inside;
  json.read("nics", node.nics, 1, kMostCount);
  json.read("cores", node.cores, 1, kMostCount);
  json.read("pieces", node.pieces, 1, kMostCount);
  if (json.has("stragglers"))
    node.stragglers = readStragglers(json.at("stragglers"));
  return node;
}

Level readLevel(const JsonReader &json, const Cluster &cluster) {
  json.keys({"nodes", "oversubscription", "rails"});
  Level level;
  level.nodes = count(json.at("nodes"));
  int below = cluster.levels.empty() ? 1 : cluster.levels.back().nodes;
  if (json.ok() && (level.nodes <= below || level.nodes % below != 0))
    json.at("nodes").fail("expected a multiple of the " + Twine(below) +
                          " below it, and more, not " + Twine(level.nodes));
  json.read("oversubscription", level.oversubscription, 1, 1e6);
  json.read("rails", level.rails, 1, kMostCount);
  for (const NodeKind &node : cluster.nodes)
    if (level.rails > node.nics)
      json.at("rails").fail("expected at most the " + Twine(node.nics) +
                            " NICs of a node, not " + Twine(level.rails));
  return level;
}

} // namespace

Expected<Cluster> parseCluster(StringRef text, StringRef file) {
  Cluster cluster;
  Error wrong = models::readJson(text, file, [&](const JsonReader &root) {
    root.keys({"version", "name", "devices", "nodes", "levels"});
    root.checkVersion();
    root.read("name", cluster.name);
    for (auto &[name, device] : root.at("devices").entries())
      cluster.devices.push_back(readDevice(name, device));
    if (root.ok() && cluster.devices.empty())
      root.at("devices").fail("expected at least one device");
    if (root.ok()) {
      std::vector<JsonReader> nodes = root.at("nodes").list();
      for (const JsonReader &node : nodes)
        cluster.nodes.push_back(readNode(node, cluster, nodes.size() == 1));
    }
    if (root.ok() && cluster.nodes.empty())
      root.at("nodes").fail("expected at least one kind of node");
    if (root.ok() && cluster.getNumDevices() > kMostDevices)
      root.at("nodes").fail("expected at most " + Twine(kMostDevices) +
                            " devices, not " + Twine(cluster.getNumDevices()));
    if (root.ok())
      for (const JsonReader &level : root.listIfAny("levels"))
        cluster.levels.push_back(readLevel(level, cluster));
  });
  if (wrong)
    return std::move(wrong);
  return cluster;
}

Expected<Cluster> readCluster(StringRef file) {
  return models::readFile(file, parseCluster);
}

} // namespace dt::planner

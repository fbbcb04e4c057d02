//===- Traffic.cpp - how many bytes ranks sent ----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/observe/Traffic.h"
#include "runtime/base/Files.h"
#include "runtime/base/ReadJson.h"
#include "runtime/base/Safetensors.h"
#include "runtime/observe/CollectiveTraffic.h"
#include "runtime/save/Outputs.h"
#include "runtime/step/BatchRanks.h"
#include "runtime/step/Routes.h"
#include "runtime/step/Transfers.h"

#include <nlohmann/json.hpp>

#include <map>

namespace dt::rt {

namespace {

class EdgeExpectation {
public:
  EdgeExpectation(const ProgramInfo &program, const Placement &placement,
                  const Batch &batch, const EdgeInfo &edge)
      : program(program), placement(placement), batch(batch), edge(edge),
        shape(edgeShape(program, edge)), from(size_t(edge.from)),
        to(size_t(edge.to)) {}

  /// Bytes sent from this rank, forward or back.
  uint64_t bytes(bool gradient) const {
    if (isCopied())
      return 0;
    uint64_t sum = 0;
    const ModuleInfo &producer = program.modules[from],
                     &consumer = program.modules[to];
    // A message for every task of the end that has more.
    int64_t tasks =
        std::max(tasksOf(program, producer), tasksOf(program, consumer));
    int32_t span = consumer.wholeBatch ? spanOf(producer) : spanOf(consumer);
    for (int64_t k = 0; k < tasks; ++k)
      sum += edge.cut ? blockBytes(k * span, gradient)
                      : itemBytes(k * span, gradient);
    return sum;
  }

private:
  /// Whether this rank has both ends: nothing leaves it, however its TP group
  /// would share out what goes elsewhere.
  bool isCopied() const {
    for (const TaskRow &row : program.ranks[size_t(placement.rank())].rows)
      if (row.kind == TaskKind::Copy && &program.edges[row.index] == &edge)
        return true;
    return false;
  }

  /// Over a cut edge: what this rank has of its parts, for the one at its
  /// place.
  uint64_t blockBytes(int64_t microbatch, bool gradient) const {
    size_t module = gradient ? to : from, other = gradient ? from : to;
    const Placement::Place &own = placement.at(module);
    if (!own.runs() ||
        placement.rankOf(other, own.replica, own.tp) == placement.rank())
      return 0;
    uint64_t bytes = 0;
    for (int32_t p = 0; p < piecesOf(program.modules[module]); ++p) {
      const Part &part = batch.part(program, module, microbatch, p);
      const TensorInfo &tensor = tensorOf(gradient);
      bytes += uint64_t(elementCount(shapeOf(tensor, part.dims.data()))) *
               sizeOf(tensor.type);
    }
    return bytes;
  }

  uint64_t itemBytes(int64_t microbatch, bool gradient) const {
    std::map<int64_t, int> owners; // item -> rank it leaves from
    const ModuleInfo &producer = program.modules[from],
                     &consumer = program.modules[to];
    for (int32_t a = 0; a < partsOf(producer); ++a) {
      ItemRows items =
          itemsOf(batch.assignment, from, taskOf(producer, microbatch), a,
                  shape.producerSymbol);
      int64_t total = items.total(), at = 0;
      for (size_t i = 0; i < items.count(); at += items.of(i++))
        if (items.of(i))
          owners[(*items.items)[i]] =
              placement.rankOf(from, a / piecesOf(producer),
                               int32_t(at * placement.tp(from) / total));
    }
    int64_t rows = 0;
    for (int32_t b = 0; b < partsOf(consumer); ++b) {
      ItemRows list =
          itemsOf(batch.assignment, to, taskOf(consumer, microbatch), b,
                  shape.consumerSymbol);
      int64_t total = list.total(), tp = placement.tp(to), at = 0, t = 0;
      for (size_t j = 0; j < list.count(); at += list.of(j++)) {
        auto owner = owners.find((*list.items)[j]);
        if (owner == owners.end() || !list.of(j))
          continue;
        while ((t + 1) * total / tp <= at)
          ++t;
        int receiver = placement.rankOf(to, b / piecesOf(consumer), int32_t(t));
        if (gradient && consumer.wholeBatch &&
            gradientSource(consumer, owner->second) != b)
          continue;
        int sender = gradient ? receiver : owner->second;
        if (sender == placement.rank() && receiver != owner->second)
          rows += list.of(j);
      }
    }
    return rows ? uint64_t(rows) * rowBytes(microbatch, gradient) : 0;
  }

  const TensorInfo &tensorOf(bool gradient) const {
    return gradient
               ? edge.produced.tensor
               : program.modules[from].outputs[size_t(edge.fromOutput)].tensor;
  }

  uint64_t rowBytes(int64_t microbatch, bool gradient) const {
    size_t module = gradient ? to : from;
    const TensorInfo &tensor = tensorOf(gradient);
    const Part &part = batch.part(program, module, microbatch, 0);
    std::vector<int64_t> extents = dt::rt::shapeOf(tensor, part.dims.data());
    if (shape.consumerSymbol >= 0)
      extents[size_t(rowAxis(tensor))] = tensor.shape[rowAxis(tensor)].scale;
    return uint64_t(elementCount(extents)) * sizeOf(tensor.type);
  }

  const ProgramInfo &program;
  const Placement &placement;
  const Batch &batch;
  const EdgeInfo &edge;
  EdgeShape shape;
  size_t from, to;
};

} // namespace

std::vector<uint64_t> expectedMessages(const ProgramInfo &program,
                                       const Placement &placement,
                                       const Batch &batch) {
  std::vector<uint64_t> out;
  for (const EdgeInfo &edge : program.edges) {
    EdgeExpectation expectation(program, placement, batch, edge);
    out.push_back(expectation.bytes(false));
    out.push_back(edge.gradient ? expectation.bytes(true) : 0);
  }
  return out;
}

TrafficReport::TrafficReport(const Trainer &trainer, std::string path)
    : trainer(trainer), path(std::move(path)),
      expected(2 * trainer.program().edges.size),
      before(trainer.comm().traffic()) {}

void TrafficReport::addStep(const Batch &batch) {
  if (path.empty())
    return;
  std::vector<uint64_t> step =
      expectedMessages(trainer.program(), trainer.placement(), batch);
  for (size_t i = 0; i < step.size(); ++i)
    expected[i] += step[i];
  for (auto &[label, bytes] : expectedCollectives(
           trainer.program(), trainer.placement(), trainer.ownership(), batch))
    collectives[label] += bytes;
  ++steps;
}

/// Of all ranks.
struct TrafficReport::Sums {
  std::vector<uint64_t> edges;
  std::map<std::string, uint64_t> collectives;
  std::map<std::string, Traffic> counted;
  std::vector<uint64_t> received; ///< of each rank, of data

  void add(const nlohmann::json &rank) {
    edges.resize(rank["expected"].size());
    for (size_t i = 0; i < edges.size(); ++i)
      edges[i] += rank["expected"][i].get<uint64_t>();
    for (auto &[label, bytes] : rank["collectives"].items())
      collectives[label] += bytes.get<uint64_t>();
    for (auto &[label, traffic] : rank["traffic"].items()) {
      counted[label].bytes += traffic[0].get<uint64_t>();
      counted[label].calls += traffic[1].get<uint64_t>();
    }
    received.push_back(rank["traffic"].contains(kDataReceived)
                           ? rank["traffic"][kDataReceived][0].get<uint64_t>()
                           : 0);
  }
};

void TrafficReport::writeFile(Sums &sums) const {
  using Json = nlohmann::ordered_json;
  Json edges = Json::array(), list = Json::array();
  for (size_t i = 0; i < sums.edges.size(); ++i) {
    std::string label = Transfers::label(trainer.program(), i / 2, i % 2 == 1);
    edges.push_back({{"edge", label.substr(label.find(' ') + 1)},
                     {"direction", i % 2 ? "gradient" : "forward"},
                     {"bytes", sums.counted[label].bytes},
                     {"messages", sums.counted[label].calls},
                     {"expected", sums.edges[i]}});
    sums.counted.erase(label);
  }
  for (auto &[label, bytes] : sums.collectives)
    if (bytes)
      sums.counted[label]; // also what nobody sent
  Traffic data = sums.counted[kDataSent], control;
  sums.counted.erase(kDataSent);
  sums.counted.erase(kDataReceived);
  for (auto &[label, counted] : sums.counted) {
    std::string axis = axisOf(label);
    if (axis == "control") {
      control.bytes += counted.bytes;
      control.calls += counted.calls;
      continue;
    }
    list.push_back({{"axis", axis},
                    {"name", label},
                    {"bytes", counted.bytes},
                    {"calls", counted.calls},
                    {"expected", sums.collectives[label]}});
  }
  Json file = {
      {"steps", steps},
      {"edges", edges},
      {"collectives", list},
      {"data",
       {{"bytes", data.bytes},
        {"messages", data.calls},
        {"received", sums.received}}},
      {"control", {{"bytes", control.bytes}, {"calls", control.calls}}}};
  writeWhole(path, file.dump(1) + "\n");
}

void TrafficReport::write() {
  if (path.empty())
    return;
  nlohmann::json mine = {{"expected", expected},
                         {"collectives", collectives},
                         {"traffic", nlohmann::json::object()}};
  for (auto &[label, counted] : trainer.comm().traffic()) {
    const Traffic &start = before[label];
    if (counted.calls > start.calls)
      mine["traffic"][label] = {counted.bytes - start.bytes,
                                counted.calls - start.calls};
  }
  std::vector<std::string> all = trainer.comm().allGatherText(mine.dump());
  onFirstRank(trainer.comm(), {}, [&] {
    Sums sums;
    for (const std::string &text : all)
      sums.add(readJson(text, "another rank's traffic"));
    writeFile(sums);
  });
}

} // namespace dt::rt

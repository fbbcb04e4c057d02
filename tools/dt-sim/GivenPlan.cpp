//===- GivenPlan.cpp - Pricing a plan that somebody has made --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-sim/GivenPlan.h"

#include "dialects/dist/SharedExperts.h"
#include "models/frontend/json/JsonReader.h"

using namespace llvm;

namespace dt::planner {

namespace {

using models::JsonReader;

constexpr int64_t kMost = int64_t(1) << 20;

int readSize(const JsonReader &json, StringRef key) {
  int size = 1;
  json.read(key, size, 1, kMost);
  return size;
}

/// The first of a list or a range "3-10".
int64_t readFirstRank(const JsonReader &json) {
  if (json.raw().is_string()) {
    std::string text = json.string();
    StringRef rest = text;
    int64_t first = 0;
    if (rest.consumeInteger(10, first))
      json.fail("expected ranks such as \"3-10\"");
    return first;
  }
  std::vector<JsonReader> ranks = json.list();
  if (ranks.empty())
    json.fail("expected at least one rank");
  return ranks.empty() ? 0 : ranks.front().integer(0);
}

/// Layers before each stage, and all.
std::vector<int> readCuts(const JsonReader &json, int stages, int layers) {
  std::vector<int> cuts = {0, layers};
  if (json.has("predicted") && json.at("predicted").has("layers")) {
    cuts = {0};
    for (const JsonReader &stage : json.at("predicted").at("layers").list())
      cuts.push_back(cuts.back() + int(stage.list().size()));
  }
  if (json.ok() && (int(cuts.size()) != stages + 1 || cuts.back() != layers))
    json.fail("expected 'predicted.layers' with " + Twine(stages) +
              " stages of together " + Twine(layers) + " layers");
  return cuts;
}

/// Replicas of equal speed that follow one another are a block.
void readSpeeds(const JsonReader &json, UnitPlan &unit) {
  std::vector<JsonReader> speeds = json.list();
  if (json.ok() && int64_t(speeds.size()) != unit.dp)
    json.fail("expected dp = " + Twine(unit.dp) + " numbers, not " +
              Twine(speeds.size()));
  for (const JsonReader &one : speeds) {
    int speed = int(one.integer(1, kMost));
    if (unit.blocks.empty() || unit.blocks.back().speed != speed)
      unit.blocks.push_back({0, speed});
    ++unit.blocks.back().replicas;
  }
  if (unit.blocks.size() == 1)
    unit.blocks.clear();
}

UnitPlan readUnit(const JsonReader &json, const Module &module, int64_t next) {
  UnitPlan unit;
  unit.tp = readSize(json, "tp");
  unit.cp = readSize(json, "cp");
  unit.ep = readSize(json, "ep");
  unit.dp = readSize(json, "dp");
  if (json.ok() && !dist::canShareExperts(unit.ep, unit.tp, unit.cp, unit.dp))
    json.at("ep").fail(dist::expectSharing(unit.ep, unit.tp, unit.cp, unit.dp));
  unit.pp = readSize(json, "pp");
  unit.vpp = readSize(json, "vpp");
  unit.sub = readSize(json, "sub");
  unit.span = readSize(json, "span");
  if (json.has("overlap"))
    unit.overlap = readSize(json, "overlap");
  if (json.has("run_ahead"))
    unit.runAhead = int(std::min(json.at("run_ahead").integer(0), kMost));
  int64_t zero = 0;
  json.read("zero", zero, 0);
  unit.zero = int(std::min<int64_t>(zero, 1));
  if (json.has("save") && json.at("save").raw().is_array()) {
    for (const JsonReader &word : json.at("save").list())
      unit.saves.push_back(word.choice<Save>());
    if (json.ok() && int(unit.saves.size()) != unit.pp * unit.vpp)
      json.at("save").fail("expected one word, or one for each stage");
  } else {
    json.read("save", unit.save);
  }
  if (json.has("speeds"))
    readSpeeds(json.at("speeds"), unit);
  unit.firstRank = json.has("ranks") ? readFirstRank(json.at("ranks")) : next;
  unit.cuts = readCuts(json, unit.pp * unit.vpp, int(module.layers.size()));
  return unit;
}

} // namespace

Expected<Plan> readGivenPlan(StringRef file, const Model &model,
                             int64_t samples) {
  Plan plan;
  plan.policy = "given";
  plan.assign = Assign::Given;
  plan.reorder = Reorder::None;
  plan.sequenceParallel = false;
  auto read = [&](const JsonReader &root) {
    int64_t next = 0;
    for (size_t m = 0; m < model.modules.size() && root.ok(); ++m) {
      const Module &module = model.modules[m];
      JsonReader json = root.at("units").at(module.name);
      UnitPlan unit = readUnit(json, module, next);
      unit.module = int(m);
      next = unit.firstRank + unit.getRanks();
      plan.ranks = std::max(plan.ranks, next);
      json.read("sequence_parallel", plan.sequenceParallel);
      plan.units.push_back(std::move(unit));
    }
    plan.microbatches = root.at("microbatches").integer(1);
    for (const JsonReader &pipeline : root.at("pipelines").list())
      pipeline.read("schedule", plan.schedule);
    root.read("reorder", plan.reorder);
    if (plan.reorder != Reorder::None)
      plan.assign = Assign::Items;
    int64_t parts =
        root.ok() ? plan.microbatches * plan.units[model.pace].dp : 1;
    plan.micro = (samples + parts - 1) / parts;
  };
  auto parse = [&](StringRef text, StringRef path) -> Expected<Plan> {
    if (Error error = models::readJson(text, path, read))
      return std::move(error);
    return plan;
  };
  return models::readFile(file, parse);
}

} // namespace dt::planner

//===- PlanFile.cpp - Reading plan files ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/PlanJson.h"

#include "dialects/dist/SharedExperts.h"
#include "passes/scheduler/core/Schedule.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>

using namespace llvm;

namespace dt::plan {

using models::JsonReader;
using models::OrderedJson;

namespace {

/// More ranks, microbatches or stages than this are a mistake in a file.
constexpr int64_t kMost = int64_t(1) << 20, kMostStages = 1024;

constexpr StringRef kTopKeys[] = {
    "version", "recipe_hash",   "ranks",     "microbatches",  "pace",
    "units",   "edges",         "pipelines", "reorder",       "bucket_bytes",
    "memory",  "receive_depth", "predicted", "gradient_sums", "cluster"};
constexpr StringRef kUnitKeys[] = {"tp",        "ep",
                                   "cp",        "dp",
                                   "pp",        "vpp",
                                   "ranks",     "rows_max",
                                   "sub",       "save",
                                   "run_ahead", "zero",
                                   "stages",    "sequence_parallel",
                                   "span",      "overlap",
                                   "times",     "speeds",
                                   "context",   "predicted"};
constexpr StringRef kTimesKeys[] = {"from", "of", "stages"};
constexpr StringRef kPipelineKeys[] = {"units", "schedule", "w_split"};
constexpr StringRef kEdgeKeys[] = {"receive_depth", "message"};

int64_t count(const JsonReader &json, int64_t low = 1) {
  int64_t value = json.integer(low);
  if (value > kMost)
    json.fail("expected at most " + Twine(kMost) + ", not " + Twine(value));
  return std::min(value, kMost);
}

class PlanParser {
public:
  PlanParser(JsonReader top, PlanFile &plan) : top(top), plan(plan) {}

  void parse() {
    top.keys(kTopKeys);
    if (!top.ok())
      return;
    if (top.at("version").integer() != 1 && top.ok())
      top.at("version").fail("expected 1, the only version that there is");
    plan.ranks = count(top.at("ranks"));
    if (top.has("microbatches"))
      plan.microbatches = count(top.at("microbatches"));
    top.read("pace", plan.pace);
    if (top.has("pace") && plan.pace.empty())
      top.at("pace").fail("expected the name of a unit");
    for (auto &[name, json] : top.at("units").entries())
      plan.units.push_back(unit(name, json));
    if (top.ok() && plan.units.empty())
      top.at("units").fail("expected at least one unit");
    pipelines();
    for (UnitEntry &unit : plan.units)
      if (top.ok() && !unit.timesOf.empty() &&
          unit.timesOf !=
              describeLayout(unit, plan.schedule, plan.microbatches))
        unit.times.clear();
    edges();
    rest();
  }

private:
  UnitEntry unit(const std::string &name, const JsonReader &json);
  void saves(const JsonReader &json, UnitEntry &entry);
  void stages(const JsonReader &json, UnitEntry &entry);
  void speeds(const JsonReader &json, UnitEntry &entry);
  void times(const JsonReader &json, UnitEntry &entry);
  void pipelines();
  void pipeline(const JsonReader &json, StringSet<> &named);
  void edges();
  void rest();
  void checkUnitName(const JsonReader &json, StringRef name);

  JsonReader top;
  PlanFile &plan;
};

UnitEntry PlanParser::unit(const std::string &name, const JsonReader &json) {
  UnitEntry entry;
  entry.name = name;
  json.keys(kUnitKeys);
  auto read = [&](StringRef key, int64_t &value, int64_t low = 1) {
    if (json.has(key))
      value = count(json.at(key), low);
  };
  read("tp", entry.tp);
  read("ep", entry.ep);
  read("cp", entry.cp);
  read("dp", entry.dp);
  if (json.ok() &&
      !dist::canShareExperts(entry.ep, entry.tp, entry.cp, entry.dp))
    json.at("ep").fail(
        dist::expectSharing(entry.ep, entry.tp, entry.cp, entry.dp));
  read("pp", entry.pp);
  read("vpp", entry.vpp);
  read("sub", entry.sub);
  read("span", entry.span);
  if (json.has("run_ahead"))
    entry.runAhead = count(json.at("run_ahead"), 0);
  read("overlap", entry.overlap);
  if (json.has("zero")) {
    entry.zero = json.at("zero").integer(0);
    if (entry.zero > 1)
      json.at("zero").fail("expected 0 or 1 (optimizer state sharded), not " +
                           Twine(entry.zero));
  }
  if (json.has("ranks"))
    entry.ranks = readRanks(json.at("ranks"));
  if (json.has("speeds"))
    speeds(json.at("speeds"), entry);
  if (json.has("rows_max"))
    for (auto &[kind, rows] : json.at("rows_max").entries())
      entry.rowsMax[kind] = count(rows);
  json.read("sequence_parallel", entry.sequenceParallel);
  if (json.has("context"))
    entry.context = json.at("context").choice<rt::ContextKeys>();
  if (json.ok() && entry.getNumStages() > kMostStages)
    json.fail("expected at most " + Twine(kMostStages) +
              " stages, not pp * vpp = " + Twine(entry.getNumStages()));
  if (json.has("save"))
    saves(json.at("save"), entry);
  if (json.has("stages"))
    stages(json.at("stages"), entry);
  if (json.has("times"))
    times(json.at("times"), entry);
  return entry;
}

/// A word, or one for each stage.
void PlanParser::saves(const JsonReader &json, UnitEntry &entry) {
  auto add = [&](const JsonReader &word) {
    entry.save.push_back(rt::textOf(word.choice<rt::Save>()));
  };
  if (!json.raw().is_array())
    return add(json);
  for (const JsonReader &word : json.list())
    add(word);
  if (json.ok() && int64_t(entry.save.size()) != entry.getNumStages())
    json.fail(
        "expected one word, or pp * vpp = " + Twine(entry.getNumStages()) +
        " of them, not " + Twine(entry.save.size()));
  if (llvm::all_equal(entry.save))
    entry.save.resize(1);
}

/// A number for each replica. That all are alike needs not be said.
void PlanParser::speeds(const JsonReader &json, UnitEntry &entry) {
  for (const JsonReader &speed : json.list())
    entry.speeds.push_back(count(speed));
  if (json.ok() && entry.getJoined() > 1)
    json.fail("are not for replicas that share out experts (ep), all of "
              "which work at the same time");
  if (json.ok() && int64_t(entry.speeds.size()) != entry.dp)
    json.fail("expected dp = " + Twine(entry.dp) + " numbers, not " +
              Twine(entry.speeds.size()));
  if (llvm::all_equal(entry.speeds))
    entry.speeds.clear();
}

void PlanParser::stages(const JsonReader &json, UnitEntry &entry) {
  for (const JsonReader &stage : json.list()) {
    entry.stages.push_back(stage.strings());
    if (json.ok() && entry.stages.back().empty())
      stage.fail("expected at least one piece");
  }
  if (json.ok() && int64_t(entry.stages.size()) != entry.getNumStages())
    json.fail("expected pp * vpp = " + Twine(entry.getNumStages()) +
              " stages, not " + Twine(entry.stages.size()));
}

void PlanParser::times(const JsonReader &json, UnitEntry &entry) {
  std::vector<StringRef> keys;
  for (auto [key, value] : planner::kStageTimes)
    keys.push_back(key);
  json.keys(kTimesKeys);
  json.read("from", entry.timesFrom);
  json.read("of", entry.timesOf);
  for (const JsonReader &stage : json.at("stages").list()) {
    stage.keys(keys);
    planner::StageTimes &times = entry.times.emplace_back();
    for (auto [key, value] : planner::kStageTimes)
      stage.read(key, times.*value, 0);
  }
  if (json.ok() && int64_t(entry.times.size()) != entry.getNumStages())
    json.fail("expected times of pp * vpp = " + Twine(entry.getNumStages()) +
              " stages, not " + Twine(entry.times.size()));
}

void PlanParser::checkUnitName(const JsonReader &json, StringRef name) {
  std::vector<StringRef> known;
  for (const UnitEntry &unit : plan.units)
    known.push_back(unit.name);
  if (!is_contained(known, name))
    json.fail("there is no unit '" + name + "'" +
              models::didYouMean(name, known) +
              " (units: " + join(known, ", ") + ")");
}

void PlanParser::pipeline(const JsonReader &json, StringSet<> &named) {
  json.keys(kPipelineKeys);
  for (const JsonReader &unit : json.at("units").list()) {
    std::string name = unit.string();
    checkUnitName(unit, name);
    if (!named.insert(name).second)
      unit.fail("'" + name + "' is in two pipelines");
  }
  JsonReader at = json.at("schedule");
  std::string schedule = at.string();
  if (!json.ok())
    return;
  const scheduler::Registry &registry = scheduler::Registry::get();
  const scheduler::Registry::Entry *entry = registry.find(schedule);
  if (!entry) {
    std::vector<StringRef> known;
    for (const scheduler::Registry::Entry &other : registry.getEntries())
      known.push_back(other.name);
    return at.fail("no schedule '" + schedule + "'; expected one of " +
                   registry.getNames() + models::didYouMean(schedule, known));
  }
  if (!plan.schedule.empty() && plan.schedule != schedule)
    return at.fail("pipelines run in one schedule; this is '" + schedule +
                   "', another has '" + plan.schedule + "'");
  plan.schedule = schedule;
  if (json.has("w_split") &&
      json.at("w_split").flag() != entry->traits.splitsBackward && json.ok())
    json.at("w_split").fail("the schedule '" + schedule + "' " +
                            (entry->traits.splitsBackward
                                 ? "splits backwards; expected true"
                                 : "does not split backwards; expected false"));
}

void PlanParser::pipelines() {
  StringSet<> named;
  for (const JsonReader &json : top.listIfAny("pipelines"))
    pipeline(json, named);
  if (plan.schedule.empty())
    plan.schedule = plan.ranks > 1 ? "1f1b" : "accumulate";
}

void PlanParser::edges() {
  if (!top.has("edges"))
    return;
  for (auto &[name, json] : top.at("edges").entries()) {
    json.keys(kEdgeKeys);
    PlanFile::EdgeEntry &edge = plan.edges[name];
    if (json.has("receive_depth"))
      edge.depth = count(json.at("receive_depth"));
    json.read("message", edge.message, 0);
  }
}

void PlanParser::rest() {
  if (top.has("reorder"))
    plan.reorder = rt::textOf(top.at("reorder").choice<rt::Reorder>());
  top.read("bucket_bytes", plan.bucketBytes, 1);
  top.read("cluster", plan.cluster);
  if (top.has("gradient_sums")) {
    std::string type = top.at("gradient_sums").string();
    if (top.ok() && type != "f32" && type != "bf16")
      top.at("gradient_sums").fail("expected \"f32\" or \"bf16\"");
    plan.narrowSums = type == "bf16";
  }
  if (top.has("receive_depth"))
    plan.depth = count(top.at("receive_depth"));
  if (!top.has("memory"))
    return;
  JsonReader memory = top.at("memory");
  if (memory.raw().is_array())
    for (const JsonReader &bytes : memory.list())
      plan.memory.push_back(bytes.integer(1));
  else
    plan.memory.push_back(memory.integer(1));
  if (memory.raw().is_array() && int64_t(plan.memory.size()) != plan.ranks)
    memory.fail("expected bytes of every rank (" + Twine(plan.ranks) +
                " numbers) or one number for all, not " +
                Twine(plan.memory.size()) + " numbers");
}

} // namespace

std::vector<int64_t> readRanks(const JsonReader &json) {
  std::vector<int64_t> ranks;
  if (!json.raw().is_string()) {
    for (const JsonReader &rank : json.list())
      ranks.push_back(count(rank, 0));
    if (json.ok() && ranks.empty())
      json.fail("expected at least one rank");
    return ranks;
  }
  std::string text = json.string();
  auto [first, last] = StringRef(text).split('-');
  int64_t a, b;
  if (first.getAsInteger(10, a) || last.getAsInteger(10, b) || a < 0 || b < a ||
      b > kMost) {
    json.fail("expected a list of ranks or a range like \"3-10\", not \"" +
              text + "\"");
    return ranks;
  }
  for (; a <= b; ++a)
    ranks.push_back(a);
  return ranks;
}

Expected<PlanFile> parsePlan(const OrderedJson &json, StringRef path) {
  PlanFile plan;
  plan.path = path.str();
  std::string error;
  PlanParser(JsonReader(&json, "", &error), plan).parse();
  if (!error.empty())
    return createStringError(path + ": " + error);
  return plan;
}

Error PlanFile::error(const Twine &key, const Twine &what) const {
  return createStringError(path + ": " + key + ": " + what);
}

std::string describeLayout(const UnitEntry &unit, StringRef schedule,
                           std::optional<int64_t> microbatches) {
  std::string text;
  raw_string_ostream os(text);
  os << "tp=" << unit.tp;
  if (unit.ep > 1)
    os << ",ep=" << unit.ep;
  os << ",dp=" << unit.dp << ",pp=" << unit.pp << ",vpp=" << unit.vpp
     << ",sub=" << unit.sub << ",save=" << join(unit.save, "+");
  if (unit.cp > 1)
    os << ",cp=" << unit.cp;
  if (unit.context)
    os << ",context=" << rt::textOf(*unit.context);
  if (unit.span > 1)
    os << ",span=" << unit.span;
  if (unit.overlap > 1)
    os << ",overlap=" << unit.overlap;
  if (unit.sequenceParallel)
    os << ",sequence_parallel";
  if (unit.splitsBackward(schedule))
    os << ",split backwards";
  for (const int64_t &speed : unit.speeds)
    os << (&speed == &unit.speeds[0] ? ",speeds=" : "+") << speed;
  for (auto &[kind, rows] : unit.rowsMax)
    os << ",rows_max." << kind << "=" << rows;
  for (const std::vector<std::string> &pieces : unit.stages)
    os << (&pieces == &unit.stages[0] ? ",pieces=" : "+") << pieces.size();
  if (microbatches)
    os << ",microbatches=" << *microbatches;
  return text;
}

Expected<PlanFile> parsePlan(StringRef text, StringRef path) {
  Expected<OrderedJson> json = models::parseJson(text, path);
  if (!json)
    return json.takeError();
  return parsePlan(*json, path);
}

Expected<PlanFile> readPlan(StringRef path) {
  auto buffer = models::readRegular(path);
  if (!buffer)
    return createStringError(
        "--plan: '" + path + "': " + toString(buffer.takeError()) +
        " (a plan is a file, auto, or a line: 'MODULE:tp=2,dp=2; "
        "schedule=1f1b')");
  return parsePlan((*buffer)->getBuffer(), path);
}

} // namespace dt::plan

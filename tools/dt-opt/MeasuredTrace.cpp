//===- MeasuredTrace.cpp - A step as a run has done it ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/MeasuredTrace.h"

#include "passes/picture/Lanes.h"
#include "passes/picture/Units.h"

#include "llvm/ADT/STLExtras.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <map>

using namespace llvm;

namespace dt {

namespace {

using Json = nlohmann::json;
using picture::Bar;
using picture::BarKind;
using picture::Lane;
using picture::TimelineChart;

/// An event with a duration, in nanoseconds.
struct Event {
  std::string name, module;
  int64_t rank = 0, step = 0, microbatch = -1;
  double start = 0, end = 0;
};

/// What a rank's part of a step took.
struct Step {
  std::map<int64_t, std::pair<double, double>> ranks; ///< start and end
  double length() const {
    double longest = 0;
    for (auto &[rank, times] : ranks)
      longest = std::max(longest, times.second - times.first);
    return longest;
  }
};

class TraceReader {
public:
  TraceReader(const scheduler::Problem &problem, StringRef file)
      : problem(problem), file(file) {}

  Error read(const Json &json);
  Expected<TimelineChart> draw();

private:
  Error fail(const Twine &what) const {
    return createStringError(Twine(file) + ": " + what +
                             " (expected what train --trace writes)");
  }
  Expected<Event> readEvent(const Json &json) const;
  /// The number of the step to be drawn.
  int64_t choose() const;
  Error addBar(const Event &event, double begin, Lane &lane) const;
  static BarKind kindOf(StringRef verb);
  std::string stagesOf(int rank) const;

  const scheduler::Problem &problem;
  StringRef file;
  std::vector<Event> events; ///< without those of whole steps
  std::map<int64_t, Step> steps;
};

Expected<Event> TraceReader::readEvent(const Json &json) const {
  auto isNumber = [](const Json &from, const char *key) {
    return from.contains(key) && from[key].is_number() &&
           std::isfinite(from[key].get<double>());
  };
  auto isInteger = [](const Json &from, const char *key) {
    return from.contains(key) && from[key].is_number_integer();
  };
  auto args = json.find("args");
  if (!isNumber(json, "ts") || !isNumber(json, "dur") ||
      json["dur"].get<double>() < 0 || !isInteger(json, "tid") ||
      !json.contains("name") || !json["name"].is_string() ||
      args == json.end() || !args->is_object() || !isInteger(*args, "step"))
    return fail("an event of another form");
  Event event;
  event.name = json["name"];
  event.rank = json["tid"];
  event.step = (*args)["step"];
  event.start = json["ts"].get<double>() * 1e3;
  event.end = event.start + json["dur"].get<double>() * 1e3;
  if (args->contains("module") && (*args)["module"].is_string())
    event.module = (*args)["module"];
  if (isInteger(*args, "microbatch"))
    event.microbatch = (*args)["microbatch"];
  if (event.rank < 0 || event.rank >= problem.ranks)
    return fail("the program has " + Twine(problem.ranks) +
                " ranks, an event is of rank " + Twine(event.rank));
  return event;
}

Error TraceReader::read(const Json &json) {
  if (!json.contains("traceEvents") || !json["traceEvents"].is_array())
    return fail("'traceEvents' is not a list");
  for (const Json &each : json["traceEvents"]) {
    if (!each.is_object() || each.value("ph", Json()) != "X")
      continue; // names of lanes, sums that overlap tasks
    auto event = readEvent(each);
    if (!event)
      return event.takeError();
    if (event->name == "step")
      steps[event->step].ranks[event->rank] = {event->start, event->end};
    else
      events.push_back(std::move(*event));
  }
  if (steps.empty())
    return fail("there is no event 'step'");
  return Error::success();
}

int64_t TraceReader::choose() const {
  std::vector<std::pair<double, int64_t>> lengths;
  for (auto &[number, step] : steps)
    if (steps.size() == 1 || number != steps.begin()->first)
      lengths.emplace_back(step.length(), number);
  llvm::sort(lengths);
  return lengths[lengths.size() / 2].second;
}

BarKind TraceReader::kindOf(StringRef verb) {
  if (verb.starts_with("forward"))
    return BarKind::Forward;
  if (verb.starts_with("backward input"))
    return BarKind::Input;
  if (verb.starts_with("backward weight"))
    return BarKind::Weight;
  return BarKind::Backward;
}

Error TraceReader::addBar(const Event &event, double begin, Lane &lane) const {
  StringRef name = event.name;
  if (name.starts_with("wait for "))
    return Error::success();
  Bar bar{BarKind::Message,  0,  event.start - begin,
          event.end - begin, -1, event.name};
  if (!event.module.empty()) {
    auto stage = find_if(problem.stages, [&](const scheduler::Stage &known) {
      return known.name == event.module;
    });
    if (stage == problem.stages.end())
      return fail("the program has no stage '" + event.module + "'");
    name.consume_front(event.module + " ");
    bar.kind = stage->batchSync ? BarKind::Sync : kindOf(name);
    bar.unit = stage->unit;
    bar.microbatch = event.microbatch;
    lane.busy += event.end - event.start;
  } else if (name.contains(" reduce ")) {
    bar.kind = BarKind::Reduce;
  } else if (name.contains(" denominator ")) {
    bar.kind = BarKind::Sync;
  }
  lane.bars.push_back(std::move(bar));
  return Error::success();
}

std::string TraceReader::stagesOf(int rank) const {
  std::string text;
  for (const scheduler::Stage &stage : problem.stages)
    if (any_of(stage.replicas, [&](const std::vector<int> &ranks) {
          return is_contained(ranks, rank);
        }))
      text += (text.empty() ? "" : ", ") + stage.name;
  return text;
}

Expected<TimelineChart> TraceReader::draw() {
  int64_t number = choose();
  Step &step = steps[number];
  double length = step.length(), first = step.ranks.begin()->second.first;
  for (auto &[rank, times] : step.ranks)
    first = std::min(first, times.first);
  // Machines have clocks of their own: ranks that begin more than a step apart
  // are each drawn from their own begin.
  auto beginOf = [&](int64_t rank) {
    auto own = step.ranks.find(rank);
    return own != step.ranks.end() && own->second.first - first > length
               ? own->second.first
               : first;
  };
  TimelineChart chart;
  chart.units = picture::nameUnits(problem);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    chart.lanes.emplace_back();
    chart.lanes.back().ranks = {rank};
    chart.lanes.back().runs = stagesOf(rank);
  }
  double tasks = 0;
  for (const Event &event : events) {
    if (event.step != number)
      continue;
    double begin = beginOf(event.rank);
    if (Error error = addBar(event, begin, chart.lanes[size_t(event.rank)]))
      return std::move(error);
    tasks = std::max(tasks, event.end - begin);
  }
  // Updates begin when all have come so far: the norm is everybody's.
  for (auto &[rank, times] : step.ranks) {
    double end = times.second - beginOf(rank);
    chart.end = std::max(chart.end, end);
    if (end > tasks)
      chart.lanes[size_t(rank)].bars.push_back(
          {BarKind::Optimizer, 0, tasks, end, -1, "norm and optimizer"});
  }
  chart.end = std::max(chart.end, tasks);
  double busy = 0;
  for (const Lane &lane : chart.lanes)
    busy += lane.busy;
  double all = chart.end * double(chart.lanes.size());
  chart.title = "step " + std::to_string(number) + " as measured";
  chart.notes = {
      "It took " + picture::printTime(chart.end * 1e-9) +
          ", the median of the trace's steps without the first.",
      "Idle " + picture::printShare(all > 0 ? 1 - busy / all : 0) +
          ": the share of all ranks' time, from the begin of the step to its "
          "end, in which a rank has no task of a module."};
  return chart;
}

} // namespace

Expected<TimelineChart> readTrace(const nlohmann::json &json,
                                  const scheduler::Problem &problem,
                                  StringRef file) {
  TraceReader reader(problem, file);
  if (Error error = reader.read(json))
    return std::move(error);
  return reader.draw();
}

} // namespace dt

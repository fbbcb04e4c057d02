//===- Published.cpp - The zero-bubble authors' pipelines -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/passes/scheduler/Published.h"

#include "test/passes/scheduler/Chain.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

namespace dt::scheduler {

Problem Pipeline::makeProblem() const {
  Problem problem = makeChain(ranks, microbatches,
                              {forward, input, weight, latency}, chunks, v);
  for (Stage &stage : problem.stages) {
    stage.activation = activation;
    stage.weightActivation = weightActivation;
  }
  if (memory && isSearched())
    problem.memory.assign(ranks, memory);
  return problem;
}

std::string Pipeline::getOwn() const {
  if (schedule == "1F1B")
    return "1f1b";
  if (schedule == "1F1B-interleaved")
    return "interleaved";
  return "zb";
}

bool Pipeline::isSearched() const { return getOwn() == "zb"; }

/// A rank's work, for wall time behind the first microbatch's way to it. With
/// one chunk also what the first rank must wait: from its first forward to the
/// first gradient (the round trip) it may run as many forwards as it has room
/// for; from its last forward to the last gradient, what is in flight then.
Time Pipeline::getBound(Objective objective) const {
  if (bound)
    return bound;
  Time work = Time(microbatches) * chunks * (forward + input + weight);
  Time least = work;
  if (objective == Objective::Wall)
    least += (ranks - 1) * (forward + latency);
  if (chunks > 1 || !memory || !isSearched())
    return least;
  Time roundTrip = ranks * forward + (ranks - 1) * (input + 2 * latency);
  int most = int(std::min<Bytes>(memory / activation, microbatches));
  Time before = std::max<Time>(0, roundTrip - most * forward), inFlight = 0;
  for (int x = 1; x <= most; ++x) {
    Bytes y = std::min<Bytes>((memory - x * activation) / weightActivation,
                              microbatches - x);
    inFlight =
        std::max(inFlight, forward + (x - 1) * (input + weight) + y * weight);
  }
  Time after = std::max<Time>(0, roundTrip - inFlight);
  return std::max(
      least,
      work + (most < microbatches ? before + after : std::max(before, after)));
}

std::string Pipeline::getName() const {
  return set + " " + schedule + " p " + std::to_string(ranks) + " n " +
         std::to_string(microbatches) + " memory " + std::to_string(memory);
}

Published readPublished(const std::string &path) {
  std::ifstream file(path);
  nlohmann::json json = nlohmann::json::parse(file);
  Published published;
  for (const nlohmann::json &row : json.at("cases")) {
    Pipeline c;
    int v = 0;
    auto read = [&, i = 0](auto &...values) mutable {
      (row.at(i++).get_to(values), ...);
    };
    read(c.set, c.schedule, c.ranks, c.microbatches, c.forward, c.input,
         c.weight, c.latency, c.chunks, v, c.activation, c.weightActivation,
         c.memory, c.span, c.wall);
    c.v = v;
    published.cases.push_back(c);
  }
  for (const nlohmann::json &row : json.at("optima")) {
    Pipeline c;
    c.set = "small";
    c.schedule = "ZB";
    c.activation = 2;
    c.weightActivation = 1;
    auto read = [&, i = 0](auto &...values) mutable {
      (row.at(i++).get_to(values), ...);
    };
    read(c.ranks, c.microbatches, c.forward, c.input, c.weight, c.latency,
         c.memory, c.bound, c.span);
    published.small.push_back(c);
  }
  return published;
}

namespace {

/// Ends of tasks by stage and microbatch, -1: not yet.
struct Ends {
  std::vector<Time> forward, gradient;
};

} // namespace

Recount recount(const Pipeline &pipeline, const Solution &solution) {
  Recount result;
  int n = pipeline.microbatches, stages = pipeline.ranks * pipeline.chunks;
  Ends ends{std::vector<Time>(stages * n, -1),
            std::vector<Time>(stages * n, -1)};
  std::vector<int> state(stages * n, 0); // 1 forward, 2 input, 3 all
  std::vector<size_t> cursor(pipeline.ranks, 0);
  std::vector<Time> now(pipeline.ranks, 0), first(pipeline.ranks, -1);
  std::vector<Bytes> held(pipeline.ranks, 0);
  auto step = [&](int rank, const Task &task) {
    int s = task.stage, at = s * n + task.microbatch;
    bool forward = task.kind == Kind::Forward;
    Time ready = 0, time = 0;
    Bytes change = 0;
    int from = 0, to = 0;
    auto wait = [&](const std::vector<Time> &ends, int other) {
      // Between chunks of one rank nothing travels.
      bool same = pipeline.v && other + s == stages - 1;
      Time end = ends[other * n + task.microbatch];
      ready = std::max(ready, end + (same ? 0 : pipeline.latency));
      return end >= 0;
    };
    if (forward) {
      if (s && !wait(ends.forward, s - 1))
        return false;
      time = pipeline.forward;
      change = pipeline.activation;
      to = 1;
    } else if (task.kind == Kind::Weight) {
      time = pipeline.weight;
      change = -pipeline.weightActivation;
      from = 2;
      to = 3;
    } else {
      if (s + 1 < stages && !wait(ends.gradient, s + 1))
        return false;
      bool whole = task.kind == Kind::Backward;
      time = pipeline.input + (whole ? pipeline.weight : 0);
      change = (whole ? 0 : pipeline.weightActivation) - pipeline.activation;
      from = 1;
      to = whole ? 3 : 2;
    }
    if (state[at] != from)
      return false;
    state[at] = to;
    Time start = std::max(now[rank], ready);
    if (first[rank] < 0)
      first[rank] = start;
    now[rank] = start + time;
    held[rank] += change;
    result.peak = std::max(result.peak, held[rank]);
    if (task.kind != Kind::Weight)
      (forward ? ends.forward : ends.gradient)[at] = now[rank];
    return true;
  };
  for (bool any = true; any;) {
    any = false;
    for (int rank = 0; rank < pipeline.ranks; ++rank)
      for (const std::vector<Task> &list = solution.ranks[rank];
           cursor[rank] < list.size() && step(rank, list[cursor[rank]]);
           any = true)
        ++cursor[rank];
  }
  for (int rank = 0; rank < pipeline.ranks; ++rank) {
    if (cursor[rank] < solution.ranks[rank].size())
      result.error = "rank " + std::to_string(rank) + " never gets to task " +
                     std::to_string(cursor[rank]);
    result.wall = std::max(result.wall, now[rank]);
    result.span = std::max(result.span, now[rank] - first[rank]);
  }
  if (std::any_of(state.begin(), state.end(), [](int s) { return s != 3; }) &&
      result.error.empty())
    result.error = "not every microbatch goes forward and back";
  return result;
}

} // namespace dt::scheduler

//===- Trace.cpp - A step to look at --------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/Step.h"

#include <nlohmann/json.hpp>

namespace dt::planner {

std::string printTrace(const PlannedStep &result) {
  using Json = nlohmann::ordered_json;
  Json events = Json::array();
  const scheduler::Problem &problem = result.problem;
  scheduler::TaskGraph graph(problem);
  for (int rank = 0; rank < problem.ranks; ++rank) {
    const std::vector<scheduler::Task> &tasks = result.solution.ranks[rank];
    std::string unit =
        tasks.empty() ? "idle"
                      : problem.units[problem.stages[tasks[0].stage].unit].name;
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 0},
                      {"tid", rank},
                      {"args",
                       {{"name", unit + " rank " +
                                     std::to_string(result.planRank[rank])}}}});
    for (const scheduler::Task &task : tasks) {
      int node = graph.getNode(task);
      Time start = result.simulation.start[node];
      events.push_back(
          {{"name", scheduler::getName(problem, task)},
           {"cat", std::string(1, scheduler::getLetter(task.kind))},
           {"ph", "X"},
           {"pid", 0},
           {"tid", rank},
           {"ts", double(start) * 1e-3},
           {"dur", double(result.simulation.end[node] - start) * 1e-3}});
    }
    std::string name = "bytes of rank " + std::to_string(result.planRank[rank]);
    for (auto [time, bytes] : getMemoryOverTime(result, rank))
      events.push_back({{"name", name},
                        {"ph", "C"},
                        {"pid", 0},
                        {"ts", double(time) * 1e-3},
                        {"args", {{"bytes", bytes}}}});
  }
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump();
}

} // namespace dt::planner

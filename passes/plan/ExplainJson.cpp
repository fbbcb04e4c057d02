//===- ExplainJson.cpp - Explanations as JSON and as a page ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/Explain.h"

#include "passes/schedule/Draw.h"

#include <nlohmann/json.hpp>

using namespace llvm;

namespace dt::plan {

namespace {

using Json = nlohmann::ordered_json;

Json print(const Losses &l) {
  return {{"kernels", l.kernels},     {"tp_messages", l.reduce},
          {"recomputation", l.again}, {"waiting", l.waiting},
          {"tail", l.tail},           {"idle", l.idle}};
}

Json print(const Explanation::Unit &unit) {
  const StepResult::Memory &m = unit.memory;
  return {{"costs", unit.costs},
          {"device", unit.device},
          {"items_mean", unit.items},
          {"items_max", unit.mostItems},
          {"tokens_max", unit.mostTokens},
          {"microbatch_seconds", unit.seconds},
          {"bound_by", unit.boundBy},
          {"memory",
           {{"total", m.total()},
            {"state", m.state},
            {"activations", m.activations},
            {"workspace", m.workspace},
            {"buffers", m.buffers},
            {"checkpoint", m.snapshot},
            {"capacity", unit.capacity}}}};
}

std::string escape(StringRef text) {
  std::string result;
  for (char c : text)
    result += c == '&'   ? std::string("&amp;")
              : c == '<' ? std::string("&lt;")
              : c == '>' ? std::string("&gt;")
                         : std::string(1, c);
  return result;
}

} // namespace

std::string printJson(const Explanation &e, const Model &model) {
  Json json = Json::parse(printPlan(e.plan, model));
  for (size_t u = 0; u < e.units.size(); ++u) {
    Json unit = print(e.units[u]);
    unit["busy"] = e.plan.predicted.busy[u];
    json["units"][e.units[u].name]["predicted"] = unit;
  }
  Json &predicted = json["predicted"];
  predicted["losses"] = print(e.plan.predicted.losses);
  predicted["losses"]["waiting_fill"] = e.fill;
  if (!e.bounds.empty())
    predicted["others_are"] = e.bounds;
  for (const Explanation::Other &other : e.others) {
    Json row = {{"policy", other.policy}};
    if (!other.notExecutable.empty())
      row["not_executable"] = other.notExecutable;
    if (other.error.empty())
      row.update({{"step", other.predicted.step},
                  {"ceiling", other.predicted.getCeiling()},
                  {"mfu", other.predicted.mfu},
                  {"losses", print(other.predicted.losses)},
                  {"loses", other.loses}});
    else
      row["error"] = other.error;
    predicted["others"].push_back(row);
  }
  for (const Explanation::Relaxation &relaxation : e.relaxations)
    predicted["relax"].push_back(
        {{"what", relaxation.what}, {"step", relaxation.step}});
  if (e.spread.seeds)
    predicted["against_disttrain"] = {{"seeds", e.spread.seeds},
                                      {"mean", e.spread.mean},
                                      {"least", e.spread.least},
                                      {"most", e.spread.most}};
  return json.dump(1);
}

Error printHtml(raw_ostream &os, const Explanation &e, const PolicyInput &input,
                int lanes) {
  auto step = simulateStep(input.costs, e.plan, input.batch);
  if (!step)
    return step.takeError();
  if (step->problem.ranks > lanes) {
    StepOptions options;
    options.fold = true;
    options.requireMemory = false;
    step = simulateStep(input.costs, e.plan, input.batch, options);
    if (!step)
      return step.takeError();
  }
  schedule::Graph graph(step->problem);
  schedule::Timeline timeline;
  timeline.start = step->simulation.start;
  timeline.end = step->simulation.end;
  timeline.busy = step->simulation.busy;
  timeline.span = step->simulation.span;
  timeline.wall = step->simulation.tasks;
  for (Time span : timeline.span)
    timeline.longestSpan = std::max(timeline.longestSpan, span);
  for (int rank = 0; rank < step->problem.ranks; ++rank)
    timeline.peak.push_back(int64_t(step->held[rank].activations));
  std::string text, title = e.plan.policy + ", nanoseconds";
  raw_string_ostream stream(text);
  printText(stream, e, input);
  if (step->folded)
    title += "; one rank for all that do the same";
  std::string page;
  raw_string_ostream pageStream(page);
  schedule::drawHtml(pageStream, graph, step->solution, timeline, title);
  // The explanation in front of the picture.
  size_t at = page.find("<body>");
  os << page.substr(0, at + 6) << "\n<pre>" << escape(text) << "</pre>\n"
     << page.substr(at + 6);
  return Error::success();
}

} // namespace dt::plan

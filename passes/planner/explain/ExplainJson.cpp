//===- ExplainJson.cpp - Explanations as JSON -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/explain/Explain.h"

#include <nlohmann/json.hpp>

using namespace llvm;

namespace dt::planner {

namespace {

using Json = nlohmann::ordered_json;

Json print(const Losses &l) {
  return {{"kernels", l.kernels},     {"tp_messages", l.reduce},
          {"recomputation", l.again}, {"waiting", l.waiting},
          {"tail", l.tail},           {"idle", l.idle}};
}

Json print(const PlannedStep::Memory &m) {
  return {{"total", m.total()},           {"state", m.state.total()},
          {"activations", m.activations}, {"workspace", m.workspace},
          {"buffers", m.buffers},         {"messages", m.messages},
          {"checkpoint", m.snapshot}};
}

Json print(const Explanation::Unit &unit) {
  Json json = {
      {"costs", unit.costs},           {"device", unit.device},
      {"items_mean", unit.items},      {"items_max", unit.mostItems},
      {"tokens_max", unit.mostTokens}, {"microbatch_seconds", unit.seconds},
      {"bound_by", unit.boundBy},      {"memory", print(unit.memory)}};
  json["memory"]["capacity"] = unit.capacity;
  if (unit.boundTokens > 0) {
    json["tokens_mean"] = unit.tokens;
    json["tokens_bound"] = unit.boundTokens;
  }
  if (unit.estimate)
    json["memory"]["estimate"] = print(*unit.estimate);
  return json;
}

} // namespace

std::string printJson(const Explanation &e, const Model &model) {
  Json json = Json::parse(printPlan(e.plan, model));
  for (size_t u = 0; u < e.units.size(); ++u) {
    Json unit = print(e.units[u]);
    unit["busy"] = e.plan.predicted.busy[u];
    json["units"][e.units[u].name]["predicted"].update(unit);
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

} // namespace dt::planner

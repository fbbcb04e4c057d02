//===- Schedule.cpp - the schedule that a checkpoint remembers ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/Schedule.h"
#include "runtime/base/Safetensors.h"

#include <map>

namespace dt::rt {

namespace {

/// A hash of what parameters have of their own, under any plan the same; 0:
/// none has anything.
uint64_t hashOfGroups(const ProgramInfo &program) {
  std::map<std::string, std::pair<double, double>> own;
  for (const ParameterInfo &p : program.parameters)
    if (p.tied < 0 && (p.lrFactor != 1 || p.weightDecay >= 0))
      own[p.tensor.name] = {p.lrFactor, p.weightDecay};
  std::string text = own.empty() ? "" : nlohmann::json(own).dump();
  return own.empty() ? 0 : hashBytes(text.data(), text.size());
}

} // namespace

nlohmann::json scheduleOf(const Trainer &trainer) {
  const Trainer::Settings &settings = trainer.settings();
  const OptimizerInfo &o = settings.optimizer;
  const OptimizerDescription &kind = describe(o.kind);
  nlohmann::json out = {{"optimizer", kind.name},
                        {"lr", o.lr},
                        {"weight_decay", o.weightDecay},
                        {"clip_norm", o.clipNorm},
                        {"warmup", o.warmupSteps}};
  for (size_t i = 0; i < kind.settings.size; ++i)
    out[kind.settings[i].name] = o.settings[i];
  if (uint64_t groups = hashOfGroups(trainer.program()))
    out["groups"] = hexText(groups);
  if (o.averageDecay > 0)
    out["ema"] = o.averageDecay;
  out["schedule"] = textOf(o.schedule);
  if (o.schedule == ScheduleKind::Constant)
    return out;
  out["steps"] = o.totalSteps ? o.totalSteps : settings.totalSteps;
  out["decay_from"] = o.decayFrom, out["final"] = o.finalFraction;
  return out;
}

std::string changesOf(const nlohmann::json &before,
                      const nlohmann::json &after) {
  std::string text;
  auto value = [](const nlohmann::json &in, const std::string &key) {
    auto found = in.find(key);
    return found == in.end()
               ? std::string("none")
               : found->dump(-1, ' ', true,
                             nlohmann::json::error_handler_t::replace);
  };
  nlohmann::json keys = before;
  keys.update(after);
  for (auto &[key, ignored] : keys.items()) {
    if (key == "steps" && value(after, key) == "0")
      continue; // no step follows, only what is written at the end
    if (key == "groups" && value(before, key) != value(after, key))
      text += std::string(text.empty() ? "" : ", ") +
              "the rates and decays of parameters (optimizer.groups)";
    else if (value(before, key) != value(after, key))
      text += (text.empty() ? "" : ", ") + key + " " + value(before, key) +
              " -> " + value(after, key);
  }
  return text;
}

} // namespace dt::rt

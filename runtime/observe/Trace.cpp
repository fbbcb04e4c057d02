//===- Trace.cpp - when each rank did what --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/observe/Trace.h"
#include "runtime/comm/Agreement.h"
#include "runtime/save/Outputs.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace dt::rt {

namespace {

constexpr double kShortWait = 20e-6; ///< seconds; shorter ones are not shown

/// "backward input": the text in words.
std::string verb(TaskKind kind) {
  std::string text = textOf(kind);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

} // namespace

std::string nameOf(const TaskRow &row, const ProgramInfo &program) {
  std::string name;
  switch (row.kind) {
  case TaskKind::Denominator:
    name = program.losses[row.index].name;
    break;
  case TaskKind::Receive:
  case TaskKind::Send:
  case TaskKind::Copy: {
    const EdgeInfo &edge = program.edges[row.index];
    const ModuleInfo &to = program.modules[size_t(edge.to)];
    name = std::string(to.name) + "." +
           to.inputs[size_t(edge.toInput)].buffer.tensor.name;
    if (row.gradient)
      name += " gradient";
    break;
  }
  default:
    name = program.modules[row.index].name;
  }
  name += " " + verb(row.kind) + " " + std::to_string(row.microbatch);
  return row.piece ? name + " piece " + std::to_string(row.piece) : name;
}

Trace::Trace(const Trainer &trainer, const std::string &path)
    : trainer(trainer), path(path) {
  if (path.empty())
    return;
  stream.open(own());
}

Trace::~Trace() {
  std::error_code ignored;
  if (enabled())
    std::filesystem::remove(own(), ignored);
}

std::string Trace::own() const {
  return rankFiles(path, trainer.comm().size())[size_t(trainer.comm().rank())];
}

void Trace::event(const std::string &name, int64_t step, double begin,
                  double end) {
  if (!enabled())
    return;
  nlohmann::ordered_json event = {{"name", name},
                                  {"ph", "X"},
                                  {"ts", begin * 1e6},
                                  {"dur", (end - begin) * 1e6},
                                  {"pid", 0},
                                  {"tid", trainer.comm().rank()},
                                  {"args", {{"step", step}}}};
  stream.write(event.dump() + "\n");
}

void Trace::row(const TaskRow &row, int64_t step, const RowTime &time) {
  if (!enabled())
    return;
  std::string name = nameOf(row, trainer.program());
  if (time.begin - time.wait > kShortWait)
    event("wait for " + name, step, time.wait, time.begin);
  nlohmann::ordered_json event = {
      {"name", name},
      {"ph", "X"},
      {"ts", time.begin * 1e6},
      {"dur", (time.end - time.begin) * 1e6},
      {"pid", 0},
      {"tid", trainer.comm().rank()},
      {"args", {{"step", step}, {"cpu_us", time.cpu * 1e6}}}};
  bool module = row.kind == TaskKind::Forward ||
                row.kind == TaskKind::Backward ||
                row.kind == TaskKind::BackwardInput ||
                row.kind == TaskKind::BackwardWeight;
  if (module) {
    const ModuleInfo &info = trainer.program().modules[row.index];
    event["args"]["module"] = info.name;
    event["args"]["stage"] = info.stage;
    event["args"]["microbatch"] = row.microbatch;
    if (info.sub > 1)
      event["args"]["piece"] = row.piece;
  }
  stream.write(event.dump() + "\n");
}

/// Sums overlap one another and rows, so these are asynchronous events; tracks
/// of their own, a category a rank.
void Trace::sum(size_t module, size_t bytes, int64_t step, double begin,
                double end) {
  if (!enabled())
    return;
  int rank = trainer.comm().rank();
  std::string name =
      std::string("sum of gradients ") + trainer.program().modules[module].name;
  std::string id = std::to_string(rank) + "." + std::to_string(sums++);
  auto write = [&](const char *phase, double at) {
    nlohmann::ordered_json event = {
        {"name", name},   {"cat", "rank " + std::to_string(rank)},
        {"ph", phase},    {"id", id},
        {"ts", at * 1e6}, {"pid", 0},
        {"tid", rank},    {"args", {{"step", step}, {"bytes", bytes}}}};
    stream.write(event.dump() + "\n");
  };
  write("b", begin);
  write("e", end);
}

void Trace::finish() {
  if (path.empty())
    return;
  std::string failure = failureOf([&] { stream.close(); });
  std::error_code ignored;
  try {
    onFirstRank(trainer.comm(), failure, [&] { join(); });
  } catch (...) {
    std::filesystem::remove(own(), ignored);
    throw;
  }
}

void Trace::join() const {
  Replacement replacement(path);
  FileWriter out(replacement.temporary());
  out.write("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
  bool any = false;
  auto add = [&](const std::string &line) {
    out.write((any ? ",\n" : "\n") + line);
    any = true;
  };
  int ranks = trainer.comm().size();
  const ProgramInfo &program = trainer.program();
  for (int r = 0; r < ranks; ++r) {
    std::string name = "rank " + std::to_string(r) + ":";
    for (const ModuleInfo &module : program.modules)
      for (int32_t rank : module.ranks)
        if (rank == r)
          name += std::string(" ") + module.name;
    nlohmann::ordered_json lane = {{"name", "thread_name"},
                                   {"ph", "M"},
                                   {"pid", 0},
                                   {"tid", r},
                                   {"args", {{"name", name}}}};
    add(lane.dump());
  }
  for (const std::string &file : rankFiles(path, ranks)) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);)
      add(line);
    if (in.bad() || !in.is_open())
      throw Error(file + ": cannot read");
    in.close();
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
  }
  out.write("\n]}\n");
  out.close(true);
  replacement.commit();
}

} // namespace dt::rt

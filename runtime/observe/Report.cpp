//===- Report.cpp - what a run was beside what it should have been --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/observe/Report.h"
#include "runtime/base/Cores.h"
#include "runtime/base/Files.h"
#include "runtime/base/ReadJson.h"
#include "runtime/observe/TaskTimes.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <tuple>

namespace dt::rt {

namespace {

constexpr int64_t warmup = 3;      // steps that do not count
constexpr int64_t least = 6;       // steps without which there is no report
constexpr size_t remembered = 200; // even steps whose times are kept

} // namespace

/// Where ranks poll: a collective as it is for a rank that does not wait for
/// the others. Each rank comes last in some steps.
double RunReport::collectiveOf(const std::vector<float> &all) const {
  if (!polls || all.empty())
    return median({all.begin(), all.end()});
  std::vector<float> values = all;
  size_t quarter = values.size() / 4;
  std::nth_element(values.begin(), values.begin() + ptrdiff_t(quarter),
                   values.end());
  return values[quarter];
}

namespace {

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}
std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", 1e3 * seconds);
  return text;
}

} // namespace

void RunReport::Fit::add(double work, double seconds) {
  n += 1, x += work, y += seconds, xx += work * work, xy += work * seconds;
}
void RunReport::Fit::add(const Fit &o) {
  n += o.n, x += o.x, y += o.y, xx += o.xx, xy += o.xy;
}
double RunReport::Fit::at(double work) const {
  if (n == 0)
    return 0;
  double spread = xx - x * x / n;
  double slope =
      spread > 1e-9 * xx ? std::max(0.0, (xy - x * y / n) / spread) : 0;
  return std::max(0.0, y / n + slope * (work - x / n));
}

RunReport::Fit *RunReport::fitOf(Fits &fits, const TaskRow &row) const {
  int kind = computeKindOf(row.kind);
  return kind < 0 ? nullptr
                  : &fits[size_t(row.index) * kComputeKinds + size_t(kind)];
}

/// The part that a row works on; null if the rank does not run the module.
const PartItems *RunReport::partOf(const Assignment &assignment,
                                   const TaskRow &row, int rank) const {
  int32_t replica = viewOf(program, rank).replica[row.index];
  if (replica < 0)
    return nullptr;
  const ModuleInfo &module = program.modules[row.index];
  int32_t pieces = piecesOf(module);
  return &assignment.part(row.index, taskOf(module, row.microbatch),
                          replica * pieces + row.piece);
}

/// Predicted milliseconds of the part that a row works on.
double RunReport::workOf(const Assignment &assignment, const TaskRow &row,
                         int rank) const {
  const ModuleInfo &module = program.modules[row.index];
  const PartItems *part = partOf(assignment, row, rank);
  double work = 0;
  for (size_t s = 0; part && s < module.symbols.size; ++s) {
    const SymbolInfo &symbol = module.symbols[s];
    work += 1e-6 * symbol.cost * double(part->dims[s]);
    ItemRows rows{&part->symbols[s], assignment.measureOf(row.index, s)};
    for (size_t i = 0; symbol.squareCost > 0 && i < rows.count(); ++i)
      work +=
          1e-6 * symbol.squareCost * double(rows.of(i)) * double(rows.of(i));
  }
  return work;
}

/// Items of the module's own kind in the part that a row works on.
size_t RunReport::itemsOf(const Assignment &assignment, const TaskRow &row,
                          int rank) const {
  const ModuleInfo &module = program.modules[row.index];
  const PartItems *part = partOf(assignment, row, rank);
  for (size_t s = 0; part && module.item && s < module.symbols.size; ++s)
    if (module.symbols[s].item &&
        std::string(module.symbols[s].item) == module.item)
      return part->symbols[s].size();
  return 0;
}

void RunReport::step(int64_t step, const StepTimes &times, const Batch &batch) {
  const Span<TaskRow> &rows = program.ranks[rank].rows;
  if (cpu.empty()) {
    cpu.resize(rows.size);
    collectives.resize(rows.size);
    sentIn.assign(rows.size, 0);
    fits.resize(program.modules.size * kComputeKinds);
    balance.assign(program.modules.size, {0, 0});
  }
  if (counted++ < warmup)
    return;
  last = batch.assignment;
  lastPlain = batch.plain ? *batch.plain : batch.assignment;
  for (size_t m = 0; m < batch.assignment.balance.size(); ++m) {
    balance[m].before += batch.assignment.balance[m].before;
    balance[m].after += batch.assignment.balance[m].after;
  }
  for (size_t r = 0; r < rows.size; ++r)
    sentIn[r] += times.sent[r] > 0;
  if (step % 2) {
    walls.push_back(times.wall);
    waits.push_back(times.waited);
    return;
  }
  tails.push_back(float(times.tail));
  exchanges.push_back(float(times.exchange));
  for (size_t r = 0; r < rows.size; ++r) {
    if (cpu[r].size() < remembered) {
      cpu[r].push_back(float(times.cpu[r]));
      const std::vector<float> &calls = times.collectives[r];
      if (collectives[r].size() < calls.size())
        collectives[r].resize(calls.size());
      for (size_t c = 0; c < calls.size(); ++c)
        collectives[r][c].push_back(calls[c]);
    }
    if (Fit *fit = fitOf(fits, rows[r]))
      fit->add(workOf(batch.assignment, rows[r], rank), times.cpu[r]);
  }
}

/// What rank 0 needs of this rank.
std::string RunReport::pack() const {
  nlohmann::json json;
  json["machine"] = machineName();
  json["rows"] = nlohmann::json::array();
  for (const std::vector<float> &times : cpu)
    json["rows"].push_back(median({times.begin(), times.end()}));
  json["collectives"] = nlohmann::json::array();
  for (const auto &calls : collectives) {
    double sum = 0;
    for (const std::vector<float> &times : calls)
      sum += collectiveOf(times);
    json["collectives"].push_back(sum);
  }
  json["exchange"] = collectiveOf(exchanges);
  json["tail"] = median({tails.begin(), tails.end()});
  json["wall"] = median(walls);
  json["waited"] = median(waits);
  json["sent"] = sentIn;
  json["steps"] = counted - warmup;
  json["memory"]["scratch"] = regions.scratchBytes();
  Trainer::MessageBytes messages = trainer.messageBytes();
  json["memory"]["messages"] = {{"over", textOf(messages.carrier)},
                                {"device", messages.device},
                                {"host", messages.host}};
  for (size_t m = 0; m < program.modules.size; ++m)
    if (const RegionBytes &bytes = regions.bytes(m);
        viewOf(program, rank).replica[m] >= 0)
      json["memory"]["modules"][program.modules[m].name] = {
          {"arena", bytes.arena},
          {"parameters", bytes.parameters},
          {"gradients", bytes.gradients},
          {"moments", bytes.moments},
          {"sums", bytes.sums}};
  json["fits"] = nlohmann::json::array();
  for (const Fit &f : fits)
    json["fits"].push_back({f.n, f.x, f.y, f.xx, f.xy});
  return json.dump();
}

/// Rows that compute; `around`: what the rank's rows between this one and the
/// next that computes took (messages, copies; before the first: denominators).
nlohmann::json RunReport::tasksOf(const std::vector<RowTimes> &times) const {
  static const char *const letters[kComputeKinds] = {"F", "B", "I", "W"};
  nlohmann::json out = nlohmann::json::array();
  for (size_t r = 0; r < times.size(); ++r) {
    const Span<TaskRow> &rows = program.ranks[r].rows;
    double around = 0;
    int64_t first = int64_t(out.size());
    std::map<std::tuple<int, int, uint32_t>, size_t> known; // of pieces: one
    for (size_t i = 0; i < rows.size; ++i) {
      const TaskRow &row = rows[i];
      int kind = computeKindOf(row.kind);
      if (kind < 0) {
        if (int64_t(out.size()) == first)
          around += times[r].seconds[i];
        else
          out.back()["around"] =
              out.back()["around"].get<double>() + times[r].seconds[i];
        continue;
      }
      auto [place, fresh] =
          known.try_emplace({row.index, kind, row.microbatch}, out.size());
      if (!fresh) {
        nlohmann::json &task = out[place->second];
        task["items"] =
            task["items"].get<size_t>() + itemsOf(last, row, int(r));
        task["seconds"] = task["seconds"].get<double>() + times[r].seconds[i];
        task["collectives"] =
            task["collectives"].get<double>() + times[r].collectives[i];
        continue;
      }
      out.push_back({{"rank", r},
                     {"stage", program.modules[row.index].name},
                     {"task", letters[kind]},
                     {"microbatch", row.microbatch},
                     {"items", itemsOf(last, row, int(r))},
                     {"seconds", times[r].seconds[i]},
                     {"collectives", times[r].collectives[i]},
                     {"around", around}});
      around = 0;
    }
  }
  return out;
}

SimulatedStep RunReport::simulate(const std::vector<RowTimes> &times,
                                  int cores) const {
  return simulateRows(
      program, times,
      [&](const TaskRow &row, int rank) {
        size_t index = size_t(&row - program.ranks[rank].rows.begin());
        return 2 * allSent[rank][index] > counted - warmup;
      },
      cores);
}

/// The step as it would be with these parts, by the fitted times.
SimulatedStep RunReport::simulateAs(const Assignment &assignment, Fits &fits,
                                    const std::vector<RowTimes> &times,
                                    int cores) const {
  std::vector<RowTimes> fitted = times;
  for (size_t rank = 0; rank < times.size(); ++rank)
    for (size_t r = 0; r < times[rank].seconds.size(); ++r) {
      const TaskRow &row = program.ranks[rank].rows[r];
      if (Fit *fit = fitOf(fits, row))
        fitted[rank].seconds[r] = fit->at(workOf(assignment, row, int(rank)));
    }
  return simulate(fitted, cores);
}

double RunReport::boundOf(const SimulatedStep &step, int cores) const {
  double bound = 0, sum = 0;
  for (double busy : step.busy)
    sum += busy;
  if (cores)
    bound = sum / std::min(double(cores), double(step.busy.size()));
  for (const ModuleInfo &module : program.modules) {
    double own = 0;
    for (int32_t r : module.ranks)
      own += step.busy[size_t(r)];
    bound = std::max(bound, own / std::max(1.0, double(module.ranks.size)));
  }
  return bound;
}

/// Who shares a module shares its sums, and the last one to come does not wait.
/// Ranks without such a module only meet the others.
std::vector<double>
RunReport::exchangeOf(const std::vector<double> &took) const {
  std::vector<double> out(took.size(),
                          *std::min_element(took.begin(), took.end()));
  for (const ModuleInfo &module : program.modules) {
    if (module.ranks.size < 2)
      continue;
    double least = took[size_t(module.ranks[0])];
    for (int32_t r : module.ranks)
      least = std::min(least, took[size_t(r)]);
    for (int32_t r : module.ranks)
      out[size_t(r)] = std::max(out[size_t(r)], least);
  }
  return out;
}

std::string RunReport::finish(Comm &comm, const std::string &file) {
  if (counted - warmup < least)
    return rank > 0 || file.empty()
               ? std::string()
               : "no " + file + ": a report takes " +
                     std::to_string(warmup + least) + " steps\n";
  std::vector<std::string> packed = comm.allGatherText(pack());
  if (rank != 0)
    return {};
  std::vector<RowTimes> times;
  Fits all(program.modules.size * kComputeKinds);
  double wall = 0, waited = 0;
  std::vector<double> exchange;
  bool oneNode = true;
  nlohmann::json memory = nlohmann::json::array(); // by rank
  for (const std::string &text : packed) {
    nlohmann::json json = readJson(text, "another rank's report");
    times.push_back({json["rows"].get<std::vector<double>>(),
                     json["collectives"].get<std::vector<double>>(),
                     json["tail"]});
    exchange.push_back(json["exchange"]);
    allSent.push_back(json["sent"].get<std::vector<int64_t>>());
    wall = std::max(wall, json["wall"].get<double>());
    waited += json["waited"].get<double>();
    memory.push_back(json["memory"]);
    oneNode &= json["machine"] == machineName();
    for (size_t i = 0; i < all.size(); ++i) {
      const auto &f = json["fits"][i];
      all[i].add(Fit{f[0], f[1], f[2], f[3], f[4]});
    }
  }
  if (polls)
    exchange = exchangeOf(exchange);
  for (size_t r = 0; r < times.size(); ++r) {
    times[r].tail += exchange[r];
    waited -= exchange[r];
  }
  int cores = oneNode ? usableCores() : 0;
  SimulatedStep step = simulate(times, cores);
  for (double moved : step.collectives)
    waited -= moved;
  double ranks = double(packed.size());
  double bubble = wall > 0 ? std::max(0.0, waited) / (wall * ranks) : 0;
  nlohmann::json out = {{"ranks", packed.size()},
                        {"cores", cores},
                        {"steps", counted - warmup},
                        {"schedule", program.schedule ? program.schedule : ""},
                        {"step_seconds", wall},
                        {"simulated_seconds", step.seconds},
                        {"bubble", bubble},
                        {"memory", memory},
                        {"simulated_bubble", step.bubble()}};
  out["tasks"] = tasksOf(times);
  for (const RowTimes &rank : times)
    out["tails"].push_back(rank.tail);
  std::string text =
      "step " + milliseconds(wall) + ", simulated from its tasks " +
      milliseconds(step.seconds) + " (" +
      (cores ? std::to_string(cores) + " cores shared" : "a core each") +
      "); bubble " + percent(bubble) + ", simulated " + percent(step.bubble()) +
      "\n";
  SimulatedStep plain = simulateAs(lastPlain, all, times, cores);
  double before = plain.seconds;
  double after = simulateAs(last, all, times, cores).seconds;
  out["reorder"] = {{"plain_seconds", before},
                    {"seconds", after},
                    {"bound_seconds", boundOf(plain, cores)}};
  std::string line;
  for (size_t m = 0; m < balance.size(); ++m) {
    double n = double(counted - warmup);
    double plain = balance[m].before / n, now = balance[m].after / n;
    out["imbalance"][program.modules[m].name] = {plain, now};
    if (plain <= 1.0005 && now <= 1.0005)
      continue;
    char entry[64];
    std::snprintf(entry, sizeof entry, " %.3f -> %.3f", plain, now);
    line += (line.empty() ? "" : ", ") + std::string(program.modules[m].name) +
            entry;
  }
  if (!line.empty())
    text += "imbalance of replicas (fullest over mean): " + line + "\n";
  if (before > after * 1.0005)
    text += "reordering: " + milliseconds(before) + " -> " +
            milliseconds(after) + " (simulated from this run's tasks)\n";
  if (!file.empty())
    writeWhole(file, out.dump(1) + "\n");
  return text;
}

} // namespace dt::rt

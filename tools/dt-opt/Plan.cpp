//===- Plan.cpp - --emit=plan: what each module costs -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Report.h"

#include "passes/picture/Units.h"
#include "passes/plan/PlanFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <map>

using namespace dt;

namespace {

std::string number(std::optional<int64_t> value) {
  return value ? llvm::formatv("{0:N}", *value).str() : "-";
}

/// Columns as wide as their widest cell; the first `words` are
/// words.
void printTable(llvm::ArrayRef<std::vector<std::string>> rows,
                llvm::raw_ostream &os, size_t words = 3) {
  std::vector<size_t> width;
  for (auto &row : rows)
    for (auto [i, cell] : llvm::enumerate(row)) {
      width.resize(std::max(width.size(), i + 1));
      width[i] = std::max(width[i], cell.size());
    }
  for (auto &row : rows) {
    std::string line;
    for (auto [i, cell] : llvm::enumerate(row)) {
      std::string space(width[i] - cell.size(), ' ');
      line += (i ? "  " : "") + (i < words ? cell + space : space + cell);
    }
    os << llvm::StringRef(line).rtrim() << "\n";
  }
}

/// "0-3", "0,2": ranks as a plan names them.
std::string rangeOf(const std::vector<int64_t> &ranks) {
  return picture::printRanges(ranks, ",");
}

/// A row for all ranks with the same cells: those ranks, then the cells.
void printRankTable(std::vector<std::string> head, int64_t ranks,
                    llvm::function_ref<std::vector<std::string>(int64_t)> cells,
                    llvm::raw_ostream &os) {
  std::map<std::vector<std::string>, std::vector<int64_t>> groups;
  for (int64_t rank = 0; rank < ranks; ++rank)
    groups[cells(rank)].push_back(rank);
  std::map<int64_t, std::vector<std::string>> ordered;
  for (auto &[cells, ranks] : groups) {
    std::vector<std::string> &row = ordered[ranks[0]];
    row = {rangeOf(ranks)};
    row.insert(row.end(), cells.begin(), cells.end());
  }
  std::vector<std::vector<std::string>> rows = {std::move(head)};
  for (auto &[first, row] : ordered)
    rows.push_back(row);
  printTable(rows, os, 2);
}

void printModules(const ProgramReport &report, llvm::raw_ostream &os) {
  std::vector<std::vector<std::string>> rows = {
      {"module", "item", "ranks", "tp", "cp", "dp", "sub", "zero", "trainable",
       "frozen", "forward FLOPs", "backward FLOPs", "microbatch bytes",
       "at once", "sent bytes"}};
  for (const ModuleReport &m : report.modules)
    rows.push_back({m.name, m.item, rangeOf(m.ranks), number(m.tp),
                    number(m.cp), number(m.dp), number(m.sub), number(m.zero),
                    number(m.trainable), number(m.frozen),
                    number(m.forwardFlops), number(m.backwardFlops),
                    number(m.slotBytes), number(m.slots), number(m.sentBytes)});
  printTable(rows, os);
}

void printRanks(const ProgramReport &report, llvm::raw_ostream &os) {
  auto cells = [&](int64_t rank) -> std::vector<std::string> {
    int64_t sums[4] = {0, 0, 0, 0}, total = 0;
    std::string names;
    for (const ModuleReport &m : report.modules) {
      if (!llvm::is_contained(m.ranks, rank))
        continue;
      names += (names.empty() ? "" : " ") + m.name;
      for (int i = 0; i < 3; ++i)
        sums[i] += m.stateBytes[i];
      sums[3] += m.activationBytes;
      total += m.getBytes();
    }
    return {names,           number(sums[0]), number(sums[1]),
            number(sums[2]), number(sums[3]), number(total)};
  };
  printRankTable({"rank", "runs", "parameters", "gradients", "optimizer",
                  "activations", "bytes"},
                 report.plan->ranks, cells, os);
}

/// Modules that are no units.
void printWholeBatch(const ProgramReport &report, llvm::raw_ostream &os) {
  for (const ModuleReport &m : report.modules)
    if (m.wholeBatch)
      os << m.name
         << " compares the whole batch: it is on the ranks of what it "
            "takes, and no plan names it.\n";
}

void printPlanned(const ProgramReport &report, llvm::raw_ostream &os) {
  printModules(report, os);
  os << "\nOf one rank: parameters in elements, FLOPs of a step, bytes of a "
        "microbatch, how many of these stand at once,\nand what a replica "
        "sends on of each; all at the bounds of a part.\nBytes of ranks are "
        "estimates, --emit=memory has them as they will be allocated.\n";
  printWholeBatch(report, os);
  os << "\n";
  printRanks(report, os);
  os << llvm::formatv("\nschedule {0}, {1} microbatches: bubble {2:f1} % at "
                      "predicted times\n",
                      report.plan->schedule, report.getMicrobatches(),
                      100 * report.plan->bubble);
  if (!report.chosen.explanation.empty())
    os << "\n" << report.chosen.explanation;
}

/// Sums over a rank's modules.
std::vector<std::string> cellsOf(const RankReport &rank, bool onHost) {
  RankReport::Module sum = rank.sum(" ");
  RankReport::Messages messages = rank.getMostMessages(onHost);
  return {sum.name,
          number(sum.arena),
          number(rank.scratch),
          number(sum.parameters),
          number(sum.gradients),
          number(sum.moments),
          number(sum.sums),
          number(messages.device),
          number(sum.total() + rank.scratch + messages.device),
          number(messages.host)};
}

} // namespace

void dt::printRankMemory(const ProgramReport &report, llvm::raw_ostream &os) {
  printRankTable(
      {"rank", "runs", "arena", "scratch", "parameters", "gradients",
       "optimizer", "sums", "messages", "bytes", "host"},
      int64_t(report.ranks.size()),
      [&](int64_t rank) {
        return cellsOf(report.ranks[size_t(rank)], report.onHost);
      },
      os);
}

void dt::printLibraryMemory(const ProgramReport &report,
                            llvm::raw_ostream &os) {
  printRankTable(
      {"rank", "runs", "communicators", "NCCL", "cuBLASLt", "cuDNN at most",
       "context"},
      int64_t(report.ranks.size()),
      [&](int64_t rank) -> std::vector<std::string> {
        const RankReport &r = report.ranks[size_t(rank)];
        const RankReport::Libraries &l = r.libraries;
        return {r.sum(" ").name,    number(l.communicators), number(l.nccl),
                number(l.cublaslt), number(l.cudnn),         number(l.context)};
      },
      os);
}

void dt::printPlan(const ProgramReport &report, llvm::raw_ostream &os) {
  if (report.plan)
    return printPlanned(report, os);
  std::vector<std::vector<std::string>> rows = {
      {"module", "role", "item", "trainable", "frozen", "forward FLOPs",
       "backward FLOPs", "buffer bytes", "scratch bytes"}};
  ModuleReport total;
  int64_t forward = 0, backward = 0;
  for (const ModuleReport &m : report.modules) {
    rows.push_back({m.name, m.role, m.item, number(m.trainable),
                    number(m.frozen), number(m.forwardFlops),
                    number(m.backwardFlops),
                    report.hasMemory ? number(m.bufferBytes) : "-",
                    report.hasMemory ? number(m.scratchBytes) : "-"});
    total.trainable += m.trainable;
    total.frozen += m.frozen;
    forward += m.forwardFlops.value_or(0);
    backward += m.backwardFlops.value_or(0);
  }
  rows.push_back({"total", "", "", number(total.trainable),
                  number(total.frozen), number(forward), number(backward)});
  printTable(rows, os);
  os << "\nFLOPs of a step: " << report.globalBatch << " samples in "
     << report.getMicrobatches()
     << (report.getMicrobatches() == 1 ? " microbatch" : " microbatches")
     << ", as many items as their bounds allow.\n";
  printWholeBatch(report, os);
  if (report.hasMemory)
    os << "Arena: " << number(report.arenaBytes)
       << " bytes (a region for each module; scratch "
       << number(report.scratchBytes)
       << "). Parameters: " << number(report.parameterBytes)
       << " bytes, and as many for gradients and each optimizer moment.\n";
}

namespace {

/// Stages on ranks of their own; the others are further rounds.
int64_t getPositions(const UnitReport &unit) {
  size_t pp = 1;
  while (
      pp < unit.stages.size() &&
      llvm::none_of(
          llvm::ArrayRef(unit.stages).take_front(pp),
          [&](auto *stage) { return stage->ranks == unit.stages[pp]->ranks; }))
    ++pp;
  return int64_t(pp);
}

class JsonPrinter {
public:
  JsonPrinter(const ProgramReport &report, llvm::raw_ostream &os)
      : report(report), json(os, 2) {}

  void print() {
    std::vector<UnitReport> units = getUnits(report, /*wholeBatch=*/false);
    json.object([&] {
      json.attribute("version", 1);
      json.attribute("ranks", report.plan ? report.plan->ranks : 1);
      json.attribute("microbatches", report.getMicrobatches());
      if (report.plan)
        json.attribute("pace", report.plan->pace);
      json.attributeObject("units", [&] {
        for (const UnitReport &unit : units)
          json.attributeObject(unit.name, [&] { printUnit(unit); });
      });
      json.attributeArray("pipelines", [&] { printPipeline(units); });
      if (report.plan)
        printChoices(*report.plan);
      if (report.plan && !report.plan->messages.empty())
        json.attributeObject("edges", [&] {
          for (auto &edge : report.plan->messages)
            json.attributeObject(
                edge.first, [&] { json.attribute("message", edge.second); });
        });
      json.attributeObject("predicted", [&] { printPrediction(); });
    });
  }

private:
  void printUnit(const UnitReport &unit);
  void printTimes(const UnitReport &unit);
  void printCosts(const UnitReport &unit);
  void printPipeline(llvm::ArrayRef<UnitReport> units);
  void printChoices(const PlanReport &plan);
  void printPrediction();

  const ProgramReport &report;
  llvm::json::OStream json;
};

/// Of each of the plan's replicas.
std::map<std::string, int64_t> getRowsMax(const UnitReport &unit) {
  std::map<std::string, int64_t> rows;
  for (const ModuleReport *stage : unit.stages)
    for (auto &[quantity, most] : stage->rowsMax)
      rows[quantity] = most / stage->joined;
  return rows;
}

void JsonPrinter::printUnit(const UnitReport &unit) {
  const ModuleReport &first = *unit.stages[0];
  int64_t pp = getPositions(unit);
  json.attribute("tp", first.tp);
  if (first.ep > 1)
    json.attribute("ep", first.ep);
  if (first.cp > 1)
    json.attribute("cp", first.cp);
  if (first.context)
    json.attribute("context", rt::textOf(*first.context));
  json.attribute("dp", first.dp);
  json.attribute("pp", pp);
  json.attribute("vpp", int64_t(unit.stages.size()) / pp);
  json.attributeArray("ranks", [&] {
    if (first.ranks.empty())
      json.value(0);
    for (int64_t i = 0; i < pp; ++i)
      for (int64_t rank : unit.stages[i]->ranks)
        json.value(rank);
  });
  json.attributeObject("rows_max", [&] {
    for (auto &[item, max] : getRowsMax(unit))
      json.attribute(item, max);
  });
  json.attribute("sub", first.sub);
  if (first.span > 1)
    json.attribute("span", first.span);
  if (first.runAhead)
    json.attribute("run_ahead", *first.runAhead);
  if (first.sequenceParallel)
    json.attribute("sequence_parallel", true);
  if (first.overlap > 1)
    json.attribute("overlap", first.overlap);
  if (llvm::all_of(unit.stages, [&](auto *s) { return s->save == first.save; }))
    json.attribute("save", first.save);
  else
    json.attributeArray("save", [&] {
      for (const ModuleReport *stage : unit.stages)
        json.value(stage->save);
    });
  json.attribute("zero", first.zero);
  if (llvm::all_of(unit.stages, [](auto *stage) { return !!stage->times; }))
    json.attributeObject("times", [&] { printTimes(unit); });
  json.attributeObject("predicted", [&] { printCosts(unit); });
}

void JsonPrinter::printTimes(const UnitReport &unit) {
  const ModuleReport &first = *unit.stages[0];
  plan::UnitEntry entry;
  entry.tp = first.tp;
  entry.ep = first.ep;
  entry.cp = first.cp;
  entry.context = first.context;
  entry.dp = first.dp;
  entry.pp = getPositions(unit);
  entry.vpp = int64_t(unit.stages.size()) / entry.pp;
  entry.sub = first.sub;
  entry.overlap = first.overlap;
  entry.sequenceParallel = first.sequenceParallel;
  for (const ModuleReport *stage : unit.stages)
    entry.save.push_back(stage->save);
  entry.rowsMax = getRowsMax(unit);
  if (llvm::all_equal(entry.save))
    entry.save.resize(1);
  json.attribute("from", first.timesFrom);
  json.attribute("of", plan::describeLayout(entry, report.plan->schedule,
                                            report.getMicrobatches()));
  json.attributeArray("stages", [&] {
    for (const ModuleReport *stage : unit.stages)
      json.object([&] {
        for (auto [key, value] : planner::kStageTimes)
          if ((*stage->times).*value)
            json.attribute(key, (*stage->times).*value);
      });
  });
}

void JsonPrinter::printCosts(const UnitReport &unit) {
  ModuleReport sum;
  int64_t forward = 0, backward = 0, bytes = 0, sent = 0;
  for (const ModuleReport *m : unit.stages) {
    sum.trainable += m->trainable;
    sum.frozen += m->frozen;
    sum.bufferBytes += m->bufferBytes;
    sum.scratchBytes = std::max(sum.scratchBytes, m->scratchBytes);
    forward += m->forwardFlops.value_or(0);
    backward += m->backwardFlops.value_or(0);
    bytes = std::max(bytes, m->getBytes());
    sent += m->sentBytes;
  }
  json.attribute("trainable", sum.trainable);
  json.attribute("frozen", sum.frozen);
  json.attribute("forward_flops", forward);
  json.attribute("backward_flops", backward);
  if (report.plan) {
    json.attribute("rank_bytes", bytes);
    json.attribute("sent_bytes", sent);
  }
  if (report.hasMemory) {
    json.attribute("buffer_bytes", sum.bufferBytes);
    json.attribute("scratch_bytes", sum.scratchBytes);
  }
}

void JsonPrinter::printPipeline(llvm::ArrayRef<UnitReport> units) {
  json.object([&] {
    json.attributeArray("units", [&] {
      for (const UnitReport &unit : units)
        json.value(unit.name);
    });
    json.attribute("schedule",
                   report.plan ? report.plan->schedule : "accumulate");
  });
}

void JsonPrinter::printChoices(const PlanReport &plan) {
  json.attribute("reorder", plan.reorder);
  json.attribute("bucket_bytes", plan.bucketBytes);
  if (plan.narrowSums)
    json.attribute("gradient_sums", "bf16");
  json.attribute("receive_depth", plan.depth);
  if (!plan.memory.empty())
    json.attributeArray("memory", [&] {
      for (int64_t bytes : plan.memory)
        json.value(bytes);
    });
}

void JsonPrinter::printPrediction() {
  json.attribute("global_batch", report.globalBatch);
  json.attribute("micro_batch", report.microBatch);
  if (report.plan) {
    json.attribute("tasks_ns", report.plan->wall);
    json.attribute("bubble_wall", report.plan->bubble);
  }
  if (report.hasMemory) {
    json.attribute("arena_bytes", report.arenaBytes);
    json.attribute("parameter_bytes", report.parameterBytes);
  }
}

} // namespace

void dt::printPlanJson(const ProgramReport &report, llvm::raw_ostream &os) {
  // A policy's own file says more: its stages and what it expects.
  if (report.plan && !report.chosen.file.empty()) {
    os << report.chosen.file;
    return;
  }
  JsonPrinter(report, os).print();
  os << "\n";
}

//===- PlanPage.cpp - --emit=plan as a page ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Of a plan that a policy chose the planner has made the page
// (passes/planner/explain/ExplainHtml.cpp). This one is for plans that were
// given, and for programs of one rank without a plan.
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Pictures.h"

#include "passes/picture/Devices.h"
#include "passes/picture/Lanes.h"
#include "passes/picture/Page.h"
#include "passes/picture/Units.h"
#include "passes/scheduler/core/Evaluate.h"
#include "passes/scheduler/core/Schedule.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>
#include <set>
#include <tuple>

using namespace dt;

namespace {

using picture::BarChart;
using picture::BarKind;
using picture::HtmlTable;
using picture::printBytes;
using picture::printCount;
using picture::printShare;
using picture::printTime;

constexpr double kNano = 1e-9;

/// Further rounds of a pipeline are on the ranks of the first.
picture::DeviceBlock makeDevices(const UnitReport &unit) {
  const ModuleReport &first = *unit.stages[0];
  picture::DeviceBlock block;
  block.name = unit.name;
  block.group =
      first.wholeBatch ? int64_t(first.ranks.size()) : first.getGroup();
  block.replicas = first.wholeBatch ? 1 : first.dp;
  block.positions = 0;
  std::vector<std::vector<int64_t>> seen;
  for (const ModuleReport *stage : unit.stages) {
    if (llvm::is_contained(seen, stage->ranks))
      continue;
    seen.push_back(stage->ranks);
    ++block.positions;
    llvm::append_range(block.ranks, stage->ranks);
  }
  if (block.ranks.empty()) { // no plan
    block.group = block.replicas = block.positions = 1;
    block.ranks = {0};
  }
  std::string layout = "TP " + std::to_string(first.tp) + " · DP " +
                       std::to_string(first.dp) + " · PP " +
                       std::to_string(block.positions);
  if (first.cp > 1)
    layout += " · CP " + std::to_string(first.cp);
  if (int64_t rounds = int64_t(unit.stages.size()) / block.positions;
      rounds > 1)
    layout += " · VPP " + std::to_string(rounds);
  if (first.sub > 1)
    layout += " · sub " + std::to_string(first.sub);
  if (first.span > 1)
    layout += " · span " + std::to_string(first.span);
  if (first.zero)
    layout += " · ZeRO " + std::to_string(first.zero);
  if (first.wholeBatch)
    layout = "over the whole batch";
  std::vector<int64_t> ranks = block.ranks;
  llvm::sort(ranks);
  block.notes = {layout, (ranks.size() == 1 ? "rank " : "ranks ") +
                             picture::printRanges(ranks)};
  return block;
}

/// Ranks of the stages of a unit.
std::vector<int> getRanks(const scheduler::Problem &problem, int unit) {
  std::set<int> ranks;
  for (const scheduler::Stage &stage : problem.stages)
    for (const std::vector<int> &replica : stage.replicas)
      if (stage.unit == unit)
        ranks.insert(replica.begin(), replica.end());
  return {ranks.begin(), ranks.end()};
}

class PlanPageWriter {
public:
  PlanPageWriter(const ProgramReport &report, llvm::raw_ostream &os)
      : report(report), page(os, "Plan: who runs what"),
        units(getUnits(report, /*wholeBatch=*/true)) {
    if (report.plan && report.plan->steps)
      evaluate();
  }

  void write() {
    page.paragraph(subtitle());
    addTiles();
    page.heading("Who runs what");
    addDevices();
    addModules();
    addWork();
    if (timeline) {
      page.heading("Schedules");
      addSchedules();
      page.heading("The step");
      addTimeline();
    }
    page.heading("Memory");
    addMemory();
  }

private:
  void evaluate();
  std::string subtitle() const;
  void addTiles();
  void addDevices();
  void addModules();
  void addWork();
  void addTimeWork();
  void addFlops();
  void addSchedules();
  void addTimeline();
  void addMemory();
  void addEstimates();

  const ProgramReport &report;
  picture::Page page;
  std::vector<UnitReport> units;
  std::unique_ptr<scheduler::TaskGraph> graph;
  std::optional<scheduler::Timeline> timeline;
};

void PlanPageWriter::evaluate() {
  graph = std::make_unique<scheduler::TaskGraph>(report.plan->steps->problem);
  auto result = scheduler::evaluate(*graph, report.plan->steps->solution);
  if (result)
    timeline = std::move(*result);
  else // verified, so there is one
    llvm::consumeError(result.takeError());
}

std::string PlanPageWriter::subtitle() const {
  std::string samples =
      std::to_string(report.globalBatch) + " samples a step in " +
      std::to_string(report.getMicrobatches()) +
      (report.getMicrobatches() == 1 ? " microbatch." : " microbatches.");
  if (!report.plan)
    return "One rank, no plan: all modules take turns. " + samples;
  return std::to_string(report.plan->ranks) +
         (report.plan->ranks == 1 ? " rank" : " ranks") + ", schedule " +
         report.plan->schedule + ", reorder " + report.plan->reorder + ". " +
         samples +
         " Times are predicted, not measured: "
         "they say how parts compare.";
}

void PlanPageWriter::addTiles() {
  int64_t parameters = 0, flops = 0;
  for (const UnitReport &unit : units)
    for (const ModuleReport *m : unit.stages) {
      int64_t copies = m->wholeBatch ? 1 : m->dp, group = m->getGroup();
      parameters += (m->trainable + m->frozen) * m->tp;
      flops += (m->forwardFlops.value_or(0) + m->backwardFlops.value_or(0)) *
               group * copies;
    }
  std::vector<picture::Tile> tiles;
  tiles.push_back({std::to_string(report.plan ? report.plan->ranks : 1),
                   report.plan && report.plan->ranks != 1 ? "ranks" : "rank",
                   ""});
  if (timeline) {
    tiles.push_back({printTime(double(timeline->wall) * kNano),
                     "predicted time of the tasks",
                     "from 0 to the end of the last task"});
    tiles.push_back({printShare(timeline->getWallBubble()), "bubble",
                     picture::describeBubble(*timeline)});
  }
  tiles.push_back({printCount(double(parameters)), "parameters",
                   "of all modules; what ranks of a tensor-parallel group "
                   "each have is counted for each"});
  tiles.push_back({printCount(double(flops)), "FLOPs a step",
                   "all ranks, at the bounds of ragged items"});
  if (report.hasMemory)
    tiles.push_back({printBytes(double(report.arenaBytes)), "arena", ""});
  page.tiles(tiles);
}

void PlanPageWriter::addDevices() {
  std::vector<picture::DeviceBlock> blocks;
  for (const UnitReport &unit : units)
    blocks.push_back(makeDevices(unit));
  page.paragraph("A square is a rank. Squares that touch are a tensor-parallel "
                 "group, groups are replicas, and columns with a number are "
                 "positions of a pipeline.");
  page.picture(
      [&](llvm::raw_ostream &os) { picture::drawDevices(os, blocks); });
}

void PlanPageWriter::addModules() {
  HtmlTable table;
  table.head = {"module",    "role",   "item",          "ranks",
                "trainable", "frozen", "forward FLOPs", "backward FLOPs"};
  table.words = 4;
  auto count = [](std::optional<int64_t> value) {
    return value ? printCount(double(*value)) : std::string("-");
  };
  for (const ModuleReport &m : report.modules) {
    table.rows.push_back({m.name, m.role, m.item,
                          m.ranks.empty() ? "0" : picture::printRanges(m.ranks),
                          count(m.trainable), count(m.frozen),
                          count(m.forwardFlops), count(m.backwardFlops)});
    if (report.plan)
      llvm::append_range(
          table.rows.back(),
          std::vector<std::string>{printBytes(double(m.slotBytes)),
                                   std::to_string(m.slots),
                                   printBytes(double(m.sentBytes))});
  }
  if (report.plan)
    llvm::append_range(
        table.head,
        std::vector<std::string>{"a microbatch holds", "at once", "and sends"});
  page.paragraph(report.plan ? "Figures are those of one rank: elements of "
                               "parameters, FLOPs of a step, bytes at the "
                               "bounds of a part."
                             : "Elements of parameters, FLOPs of a step.");
  page.table(table);
}

void PlanPageWriter::addWork() {
  if (timeline) {
    page.heading("Where time goes");
    addTimeWork();
  } else {
    page.heading("Where the work is");
    addFlops();
  }
}

/// Shares of all ranks' time until the last task ends.
void PlanPageWriter::addTimeWork() {
  const scheduler::Solution &solution = report.plan->steps->solution;
  const scheduler::Problem &problem = report.plan->steps->problem;
  BarChart bars;
  bars.label = "shares of ranks' time";
  bars.parts = picture::nameUnits(problem);
  bars.areUnits = true;
  bars.parts.push_back("waiting");
  bars.neutral.assign(bars.parts.size(), false);
  bars.neutral.back() = true;
  auto add = [&](const std::string &name, llvm::ArrayRef<int> ranks) {
    std::vector<double> values(bars.parts.size(), 0);
    double all = double(timeline->wall) * double(ranks.size());
    for (int rank : ranks)
      for (const scheduler::Task &task : solution.ranks[size_t(rank)]) {
        auto node = graph->getNode(task);
        values[size_t(problem.stages[size_t(task.stage)].unit)] +=
            double(timeline->end[node] - timeline->start[node]) / all;
      }
    values.back() =
        std::max(0.0, 1 - std::accumulate(values.begin(), values.end(), 0.0));
    bars.rows.push_back({name, values, 0});
  };
  std::vector<int> everybody(solution.ranks.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  if (timeline->wall > 0 && !everybody.empty())
    add("all ranks", everybody);
  for (size_t u = 0; u < problem.units.size() && !bars.rows.empty(); ++u)
    if (std::vector<int> own = getRanks(problem, int(u));
        own.size() < everybody.size())
      add("those of " + bars.parts[u], own);
  bars.print = printShare;
  page.paragraph("Shares of ranks' time, from 0 to the end of the last task, "
                 "at predicted times: of all ranks, and of those of a unit.");
  page.picture([&](llvm::raw_ostream &os) { picture::drawBars(os, bars); });
}

void PlanPageWriter::addFlops() {
  BarChart bars;
  bars.label = "FLOPs of a step";
  for (const ModuleReport &m : report.modules)
    bars.parts.push_back(m.name);
  bars.areUnits = true;
  BarChart::Row forward{"forward", {}, 0}, backward{"backward", {}, 0};
  for (const ModuleReport &m : report.modules) {
    forward.values.push_back(double(m.forwardFlops.value_or(0)));
    backward.values.push_back(double(m.backwardFlops.value_or(0)));
  }
  bars.rows = {forward, backward};
  bars.print = printCount;
  page.paragraph("FLOPs of a step, as many items as their bounds allow. A "
                 "multiply-add is two.");
  page.picture([&](llvm::raw_ostream &os) { picture::drawBars(os, bars); });
}

/// The same stages in every other order that takes them.
void PlanPageWriter::addSchedules() {
  struct Row {
    std::string name;
    scheduler::Timeline timeline;
  };
  std::vector<Row> rows = {{report.plan->schedule, *timeline}};
  scheduler::SolveOptions options;
  options.communicate = false;
  options.effort = 200000;
  for (const scheduler::Registry::Entry &entry :
       scheduler::Registry::get().getEntries()) {
    if (entry.name == report.plan->schedule)
      continue;
    auto solution = scheduler::solve(*graph, entry.name, options);
    auto result =
        solution ? scheduler::evaluate(*graph, *solution)
                 : llvm::Expected<scheduler::Timeline>(solution.takeError());
    if (result)
      rows.push_back({entry.name, std::move(*result)});
    else
      llvm::consumeError(result.takeError());
  }
  llvm::sort(rows, [](const Row &a, const Row &b) {
    return std::tie(a.timeline.wall, a.name) <
           std::tie(b.timeline.wall, b.name);
  });
  HtmlTable table;
  table.head = {"schedule", "tasks end after", "against this", "bubble",
                "most activations on a rank"};
  for (const Row &row : rows) {
    if (row.name == report.plan->schedule)
      table.chosen = table.rows.size();
    scheduler::Bytes most = 0;
    for (scheduler::Bytes bytes : row.timeline.peak)
      most = std::max(most, bytes);
    table.rows.push_back(
        {row.name, printTime(double(row.timeline.wall) * kNano),
         timeline->wall ? "\u00d7" + printCount(double(row.timeline.wall) /
                                                double(timeline->wall))
                        : "-",
         printShare(row.timeline.getWallBubble()), printBytes(double(most))});
  }
  page.paragraph("The same stages on the same ranks in the order of every "
                 "schedule that takes them, bounds on memory aside.");
  page.table(table);
  page.command("Other layouts are compared by the planner: ",
               "dt-opt RECIPE --plan=auto --cluster=FILE --emit=plan -o X.html",
               ".");
}

void PlanPageWriter::addTimeline() {
  picture::TimelineChart chart = picture::makeChart(
      *graph, report.plan->steps->solution, *timeline, "predicted step");
  page.paragraph(picture::describeBubble(*timeline) +
                 " A row stands for all ranks that do the same.");
  page.picture([&](llvm::raw_ostream &os) {
    picture::drawTimeline(os, chart, /*standalone=*/false);
  });
}

void PlanPageWriter::addMemory() {
  if (!report.hasMemory)
    return addEstimates();
  page.paragraph("What every rank allocates, to the byte.");
  BarChart bars = makeRankBars(report);
  page.picture([&](llvm::raw_ostream &os) { picture::drawBars(os, bars); });
  page.paragraph("The arena of rank 0: bytes upwards, tasks in their order to "
                 "the right. Brackets on the right are layers.");
  page.picture([&](llvm::raw_ostream &os) {
    drawArenaOf(report, os, /*standalone=*/false);
  });
}

void PlanPageWriter::addEstimates() {
  BarChart bars;
  bars.label = "bytes of every rank";
  bars.parts = {"parameters", "gradients", "optimizer", "activations"};
  RankRows rows;
  for (int64_t rank = 0; rank < report.plan->ranks; ++rank) {
    BarChart::Row row{"", std::vector<double>(4, 0.0), 0};
    for (const ModuleReport &m : report.modules) {
      if (!llvm::is_contained(m.ranks, rank))
        continue;
      row.name += (row.name.empty() ? "" : ", ") + m.name;
      for (size_t i = 0; i < 3; ++i)
        row.values[i] += double(m.stateBytes[i]);
      row.values[3] += double(m.activationBytes);
    }
    if (size_t(rank) < report.plan->memory.size())
      row.limit = double(report.plan->memory[size_t(rank)]);
    addRank(rows, std::move(row), rank);
  }
  bars.rows = nameRows(rows);
  if (!report.plan->memory.empty())
    bars.limitName = "the plan's bound";
  bars.print = printBytes;
  page.command("Estimates, made before buffers have places; ",
               "--emit=memory -o X.html",
               " has the bytes as they will be allocated. A row stands for all "
               "ranks that have the same.");
  page.picture([&](llvm::raw_ostream &os) { picture::drawBars(os, bars); });
}

} // namespace

void dt::printPlanHtml(const ProgramReport &report, llvm::raw_ostream &os) {
  if (report.plan && !report.chosen.page.empty())
    os << report.chosen.page;
  else
    PlanPageWriter(report, os).write();
}

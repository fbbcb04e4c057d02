//===- ExplainHtml.cpp - Explanations as a page ---------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/explain/Explain.h"

#include "passes/picture/Bars.h"
#include "passes/picture/Devices.h"
#include "passes/picture/Lanes.h"
#include "passes/picture/Page.h"
#include "passes/picture/Units.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <numeric>
#include <tuple>

using namespace llvm;

namespace dt::planner {

namespace {

using picture::BarChart;
using picture::HtmlTable;
using picture::printBytes;
using picture::printCount;
using picture::printShare;
using picture::printTime;

std::string times(double ratio) { return "\u00d7" + printCount(ratio); }

/// Ranks of the plan by rank of the simulated problem: it stands for all from
/// its first one to the next one's.
std::vector<std::vector<int64_t>> ranksOf(const PlannedStep &step,
                                          const Plan &plan) {
  int64_t end = 0;
  for (const UnitPlan &unit : plan.units)
    end = std::max(end, unit.firstRank + unit.getRanks());
  std::vector<size_t> order(step.planRank.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return step.planRank[a] < step.planRank[b];
  });
  std::vector<std::vector<int64_t>> ranks(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    int64_t first = step.planRank[order[i]],
            next = i + 1 < order.size() ? step.planRank[order[i + 1]] : end;
    for (int64_t rank = first; rank < std::max(next, first + 1); ++rank)
      ranks[order[i]].push_back(rank);
  }
  return ranks;
}

class PlanPage {
public:
  PlanPage(raw_ostream &os, const Explanation &e, const PolicyInput &input,
           const PlannedStep &step)
      : e(e), p(e.plan.predicted), input(input), step(step),
        page(os, input.model().name.empty()
                     ? "Plan by " + e.plan.policy
                     : input.model().name + ": plan by " + e.plan.policy) {}

  void write() {
    page.paragraph(subtitle());
    addTiles();
    page.heading("Who runs what");
    addDevices();
    addUnits();
    addParts();
    page.heading("Where device time goes");
    addLosses();
    if (!e.others.empty())
      addOthers();
    if (!e.relaxations.empty())
      addRelaxations();
    page.heading("The step");
    addTimeline();
    page.heading("Memory");
    addMemory();
  }

private:
  const std::string &nameOf(size_t unit) const {
    return input.model().modules[unit].name;
  }
  std::string subtitle() const;
  void addTiles();
  void addDevices();
  void addUnits();
  void addParts();
  void addLosses();
  void addOthers();
  void addRelaxations();
  void addTimeline();
  void addTail(picture::Lane &lane) const;
  void addMemory();

  const Explanation &e;
  const Prediction &p;
  const PolicyInput &input;
  const PlannedStep &step;
  picture::Page page;
};

std::string PlanPage::subtitle() const {
  const Cluster &cluster = input.costs.cluster;
  std::string costs = p.costs == "model"     ? "the cost model"
                      : p.costs == "profile" ? "the profile"
                                             : "the profile where it has "
                                               "them, else on the cost model";
  return formatv("{0} of {1} devices of {2}. Schedule {3}, items assigned by "
                 "{4}, reorder {5}. Predicted; figures rest on {6}.{7}",
                 e.plan.ranks, cluster.getNumDevices(), cluster.name,
                 e.plan.schedule, planner::getName(e.plan.assign),
                 rt::textOf(e.plan.reorder), costs,
                 e.plan.notExecutable.empty()
                     ? ""
                     : " Priced only: " + e.plan.notExecutable + ".");
}

void PlanPage::addTiles() {
  double fullest = 0, capacity = 0;
  for (const Explanation::Unit &unit : e.units)
    if (unit.memory.total() > fullest) {
      fullest = unit.memory.total();
      capacity = unit.capacity;
    }
  page.tiles(
      {{printTime(p.step), "a step", "predicted wall time of a step"},
       {printShare(p.mfu), "MFU",
        "FLOPs of the model over those that the devices could do"},
       {times(p.getCeiling()), "of the work bound",
        "no plan is faster by more: the bound is all work at achieved speed "
        "over all devices"},
       {printShare(p.wallBubble), "bubble",
        "share of all ranks' time until the last task ends in which a rank "
        "has no task"},
       {printBytes(fullest), "of " + printBytes(capacity) + " on the fullest",
        "memory of the fullest rank"},
       {std::to_string(e.plan.microbatches),
        e.plan.microbatches == 1 ? "microbatch" : "microbatches", "of a step"},
       {std::to_string(input.samples()), "samples a step", ""}});
}

void PlanPage::addDevices() {
  std::vector<picture::DeviceBlock> blocks;
  for (size_t u = 0; u < e.plan.units.size(); ++u) {
    const UnitPlan &layout = e.plan.units[u];
    picture::DeviceBlock block;
    block.name = nameOf(u);
    int64_t first = layout.firstRank, count = layout.getRanks();
    std::vector<int64_t> ranks(static_cast<size_t>(count));
    std::iota(ranks.begin(), ranks.end(), first);
    block.group = int64_t(layout.tp) * layout.cp;
    block.replicas = layout.dp;
    block.positions = layout.pp;
    std::string degrees =
        formatv("TP {0} · DP {1} · PP {2}", layout.tp, layout.dp, layout.pp);
    if (layout.vpp > 1)
      degrees += formatv(" · VPP {0}", layout.vpp);
    if (layout.cp > 1)
      degrees +=
          formatv(" · CP {0}{1}", layout.cp, layout.ring ? " in a ring" : "");
    block.notes = {degrees, (count == 1 ? "rank " : "ranks ") +
                                picture::printRanges(ranks)};
    block.ranks = std::move(ranks);
    blocks.push_back(std::move(block));
  }
  page.paragraph("A square is a rank. Squares that touch are a tensor-parallel "
                 "group, groups are replicas, and columns with a number are "
                 "positions of a pipeline.");
  page.picture([&](raw_ostream &os) { picture::drawDevices(os, blocks); });
}

void PlanPage::addUnits() {
  HtmlTable table;
  table.head = {"unit", "device",     "bound by", "devices",     "TP",
                "DP",   "PP",         "VPP",      "saves",       "items a part",
                "most", "microbatch", "busy",     "figures from"};
  table.words = 3;
  table.wordsAtEnd = 1;
  for (size_t u = 0; u < e.units.size(); ++u) {
    const Explanation::Unit &unit = e.units[u];
    const UnitPlan &layout = e.plan.units[u];
    table.rows.push_back({unit.name, unit.device, unit.boundBy,
                          std::to_string(unit.ranks), std::to_string(layout.tp),
                          std::to_string(layout.dp), std::to_string(layout.pp),
                          std::to_string(layout.vpp), describeSaves(layout),
                          printCount(unit.items), printCount(unit.mostItems),
                          printTime(unit.seconds), printShare(p.busy[u]),
                          unit.costs});
  }
  page.table(table);
}

void PlanPage::addParts() {
  BarChart bars;
  bars.label = "tokens of parts";
  bars.parts = {"tokens"};
  bars.neutral = {false};
  bars.limitName = "most that a part may have";
  bars.print = printCount;
  for (const Explanation::Unit &unit : e.units)
    if (unit.boundTokens > 0) {
      bars.rows.push_back(
          {unit.name + ", mean", {unit.tokens}, unit.boundTokens});
      bars.rows.push_back(
          {unit.name + ", fullest", {unit.mostTokens}, unit.boundTokens});
    }
  if (bars.rows.empty())
    return;
  page.paragraph("Items differ in size: a part is as many as its bound has "
                 "room for. What it does not fill is memory that is not used; "
                 "no row of it is computed.");
  page.picture([&](raw_ostream &os) { picture::drawBars(os, bars); });
}

void PlanPage::addLosses() {
  BarChart bars;
  bars.label = "shares of device time";
  bars.parts = {"work",
                "slower kernels",
                "TP messages",
                "recomputation",
                "fill, drain and messages",
                "uneven parts",
                "gradients and optimizer",
                "idle devices"};
  bars.neutral = {false, false, false, false, false, false, false, true};
  const Losses &l = p.losses;
  double uneven = std::max(0.0, l.waiting - e.fill);
  bars.rows = {{"",
                {p.step > 0 ? p.bound / p.step : 0, l.kernels, l.reduce,
                 l.again, std::min(e.fill, l.waiting), uneven, l.tail, l.idle},
                0}};
  bars.print = printShare;
  page.paragraph("Shares of step times devices. Work is all that the model "
                 "asks for at the best speed that its kernels reach.");
  page.picture([&](raw_ostream &os) { picture::drawBars(os, bars); });
}

void PlanPage::addOthers() {
  page.heading("Alternatives");
  page.paragraph("The best plan of every other policy" +
                 (e.bounds.empty() ? "" : " " + e.bounds) +
                 ", and what it loses more to.");
  HtmlTable table;
  table.head = {"policy", "step", "against this", "MFU", "loses more to"};
  table.wordsAtEnd = 1;
  table.rows.push_back({e.plan.policy, printTime(p.step), times(1),
                        printShare(p.mfu), "this plan"});
  table.chosen = 0;
  std::vector<const Explanation::Other *> ordered;
  for (const Explanation::Other &other : e.others)
    ordered.push_back(&other);
  llvm::sort(ordered, [](auto *a, auto *b) {
    return std::make_tuple(!a->error.empty(), a->predicted.step, a->policy) <
           std::make_tuple(!b->error.empty(), b->predicted.step, b->policy);
  });
  for (const Explanation::Other *other : ordered) {
    if (!other->error.empty()) {
      table.rows.push_back({other->policy, "-", "-", "-", other->error});
      continue;
    }
    std::string loses = other->loses;
    if (!other->notExecutable.empty())
      loses += " (priced only: " + other->notExecutable + ")";
    table.rows.push_back({other->policy, printTime(other->predicted.step),
                          times(other->predicted.step / p.step),
                          printShare(other->predicted.mfu), loses});
  }
  page.table(table);
  if (e.spread.seeds)
    page.paragraph("Against disttrain under " + std::to_string(e.spread.seeds) +
                   " other data seeds: " + times(e.spread.mean) + " (" +
                   times(e.spread.least) + " to " + times(e.spread.most) +
                   ").");
}

void PlanPage::addRelaxations() {
  page.heading("What another cluster or batch would give");
  HtmlTable table;
  table.head = {"with", "step", "change"};
  for (const Explanation::Relaxation &relaxation : e.relaxations)
    table.rows.push_back({relaxation.what, printTime(relaxation.step),
                          printShare(relaxation.step / p.step - 1)});
  page.table(table);
}

/// What follows a rank's last task: sums of gradients as far as they have not
/// gone on beside tasks, then its optimizer.
void PlanPage::addTail(picture::Lane &lane) const {
  auto known = llvm::find(step.planRank, lane.ranks.front());
  if (known == step.planRank.end() || lane.bars.empty())
    return;
  size_t rank = size_t(known - step.planRank.begin());
  double tasks = 0, reduced = double(step.simulation.reduced[rank]),
         done = double(step.simulation.done[rank]);
  for (const picture::Bar &bar : lane.bars)
    tasks = std::max(tasks, bar.end);
  if (reduced > tasks)
    lane.bars.push_back({picture::BarKind::Reduce, 0, tasks, reduced, -1,
                         "gradients summed over replicas"});
  reduced = std::max(reduced, tasks);
  if (done > reduced)
    lane.bars.push_back(
        {picture::BarKind::Optimizer, 0, reduced, done, -1, "optimizer"});
}

void PlanPage::addTimeline() {
  scheduler::TaskGraph graph(step.problem);
  const Simulation &sim = step.simulation;
  scheduler::Timeline timeline;
  timeline.start = sim.start;
  timeline.end = sim.end;
  timeline.busy = sim.busy;
  timeline.span = sim.span;
  timeline.wall = sim.tasks;
  for (int rank = 0; rank < step.problem.ranks; ++rank)
    timeline.peak.push_back(int64_t(step.held[rank].activations));
  picture::TimelineChart chart =
      picture::makeChart(graph, step.solution, timeline, "predicted step",
                         ranksOf(step, e.plan), step.folded);
  chart.end = double(std::max(sim.step, sim.tasks));
  for (picture::Lane &lane : chart.lanes)
    addTail(lane);
  page.paragraph(
      "Bubble " + printShare(p.wallBubble) +
      ": the share of all ranks' time, from 0 to the end of the last task, in "
      "which a rank has no task. In the longest span of a rank, from its first "
      "task to its last, " +
      printShare(p.spanBubble) +
      " is idle. A row stands for all ranks that do the same" +
      (step.folded ? ", with the times of the slowest of them." : "."));
  page.picture(
      [&](raw_ostream &os) { picture::drawTimeline(os, chart, false); });
}

void PlanPage::addMemory() {
  BarChart bars;
  bars.label = "memory of the fullest rank of every unit";
  bars.parts = {"parameters, gradients, optimizer", "activations",
                "workspace of a layer", "message buffers", "checkpoint"};
  for (const Explanation::Unit &unit : e.units) {
    const PlannedStep::Memory &m = unit.memory;
    if (m.total() > 0)
      bars.rows.push_back({unit.name,
                           {m.state.total(), m.activations, m.workspace,
                            m.buffers + m.messages, m.snapshot},
                           unit.capacity});
  }
  bars.limitName = "what a plan may use of a device";
  bars.print = printBytes;
  page.paragraph("The fullest rank of every unit, with all that it holds: "
                 "units on the same ranks have the same figures.");
  page.picture([&](raw_ostream &os) { picture::drawBars(os, bars); });
}

} // namespace

Error printHtml(raw_ostream &os, const Explanation &e,
                const PolicyInput &input) {
  constexpr int kMostLanes = 64;
  auto step = simulateStep(input.costs, e.plan, input.batch);
  if (!step)
    return step.takeError();
  if (step->problem.ranks > kMostLanes) {
    StepOptions options;
    options.fold = true;
    options.requireMemory = false;
    step = simulateStep(input.costs, e.plan, input.batch, options);
    if (!step)
      return step.takeError();
  }
  PlanPage(os, e, input, *step).write();
  return Error::success();
}

} // namespace dt::planner

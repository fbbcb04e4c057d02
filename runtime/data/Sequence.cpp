//===- Sequence.cpp - microbatches against the schedule ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Sequence.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Sequence.h"

#include "runtime/reorder/Partition.h"

#include <algorithm>
#include <numeric>

namespace dt::rt {

Sequence::Sequence(const ProgramInfo &program)
    : program(program), microbatches(int32_t(microbatchCount(program))) {
  for (const RankInfo &rank : program.ranks) {
    int32_t previous = -1;
    sequences.emplace_back();
    for (const TaskRow &row : rank.rows)
      if (computes(row.kind) && row.index < program.modules.size &&
          int64_t(row.microbatch) < microbatches)
        addRow(row, previous);
  }
  addDependences();
  list();
  findInFlight();
}

/// -1: no rank has such a row.
int32_t Sequence::nodeOf(int32_t module, TaskKind kind,
                         int32_t microbatch) const {
  auto found = numbers.find({module, {int32_t(kind), microbatch}});
  return found == numbers.end() ? -1 : found->second;
}

void Sequence::addWait(int32_t node, int32_t on) {
  std::vector<int32_t> &waits = nodes[size_t(node)].waits;
  if (on >= 0 && on != node &&
      std::find(waits.begin(), waits.end(), on) == waits.end())
    waits.push_back(on);
}

int32_t Sequence::addNode(const TaskRow &row, int32_t place) {
  int32_t module = row.index, node = nodeOf(module, row.kind, place);
  if (node >= 0)
    return node;
  node = int32_t(nodes.size());
  numbers[{module, {int32_t(row.kind), place}}] = node;
  auto found = std::find_if(rows.begin(), rows.end(), [&](const Row &r) {
    return r.module == module && r.kind == row.kind;
  });
  if (found == rows.end())
    found = rows.insert(found, {module, row.kind});
  nodes.push_back({int32_t(found - rows.begin()), place, {}});
  return node;
}

/// Rows of the pieces of a part are one task.
void Sequence::addRow(const TaskRow &row, int32_t &previous) {
  int32_t last = lastPlace(row.index, int32_t(row.microbatch));
  if (previous >= 0 && previous == nodeOf(row.index, row.kind, last))
    return;
  for (int32_t place = int32_t(row.microbatch); place <= last; ++place) {
    int32_t node = addNode(row, place);
    addWait(node, previous);
    previous = node;
    sequences.back().push_back(node);
  }
}

/// Of the task that serves a microbatch. A whole batch is at place 0.
int32_t Sequence::lastPlace(int32_t module, int32_t microbatch) const {
  const ModuleInfo &info = program.modules[size_t(module)];
  return info.wholeBatch ? 0 : int32_t(lastOfTask(program, info, microbatch));
}

void Sequence::waitForForward(int32_t node, int32_t module,
                              int32_t microbatch) {
  addWait(node,
          nodeOf(module, TaskKind::Forward, lastPlace(module, microbatch)));
}

void Sequence::waitForBackward(int32_t node, int32_t module,
                               int32_t microbatch) {
  int32_t last = lastPlace(module, microbatch);
  addWait(node, nodeOf(module, TaskKind::Backward, last));
  addWait(node, nodeOf(module, TaskKind::BackwardInput, last));
}

/// What the edges say; whole-batch modules are worked on at place 0 and touch
/// all microbatches of their neighbours.
void Sequence::addDependences() {
  auto eachPlace = [&](int32_t module, int32_t other, int32_t place, auto f) {
    bool all = program.modules[size_t(module)].wholeBatch &&
               !program.modules[size_t(other)].wholeBatch;
    bool first = program.modules[size_t(other)].wholeBatch;
    int32_t last = all     ? microbatches - 1
                   : first ? 0
                           : lastPlace(module, place);
    int32_t span = spanOf(program.modules[size_t(module)]);
    for (int32_t k = all || first ? 0 : place - place % span; k <= last; ++k)
      f(k);
  };
  for (int32_t n = 0; n < int32_t(nodes.size()); ++n) {
    auto [module, kind] = rows[size_t(nodes[size_t(n)].row)];
    int32_t place = nodes[size_t(n)].place;
    if (kind == TaskKind::BackwardWeight)
      addWait(
          n, nodeOf(module, TaskKind::BackwardInput, lastPlace(module, place)));
    else if (kind != TaskKind::Forward)
      waitForForward(n, module, place);
    for (const EdgeInfo &edge : program.edges) {
      if (kind == TaskKind::Forward && edge.to == module)
        eachPlace(module, edge.from, place,
                  [&](int32_t k) { waitForForward(n, edge.from, k); });
      if (kind != TaskKind::Forward && edge.from == module && edge.gradient)
        eachPlace(module, edge.to, place,
                  [&](int32_t k) { waitForBackward(n, edge.to, k); });
    }
  }
}

/// One task a rank and sweep, so that tasks of a time stand together and a
/// change of a late place leaves most of the list as it is.
void Sequence::list() {
  std::vector<size_t> cursor(sequences.size(), 0);
  skeleton.microbatches = microbatches;
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t r = 0; r < sequences.size(); ++r) {
      while (cursor[r] < sequences[r].size() &&
             nodes[size_t(sequences[r][cursor[r]])].task >= 0)
        ++cursor[r];
      if (cursor[r] == sequences[r].size())
        continue;
      Node &node = nodes[size_t(sequences[r][cursor[r]])];
      reorder::OrderProblem::Task task;
      task.row = node.row, task.place = node.place;
      for (int32_t wait : node.waits)
        task.waits.push_back({nodes[size_t(wait)].task, 0});
      if (std::any_of(task.waits.begin(), task.waits.end(),
                      [](const auto &wait) { return wait.task < 0; }))
        continue;
      node.task = int32_t(skeleton.tasks.size());
      skeleton.tasks.push_back(std::move(task));
      progress = true;
    }
  }
  ok = !nodes.empty() && skeleton.tasks.size() == nodes.size();
}

/// Where algorithm 2 looks: the first module that goes both ways.
void Sequence::findInFlight() {
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = 0; j < rows.size(); ++j)
      if (rows[i].kind == TaskKind::Forward &&
          (rows[j].kind == TaskKind::Backward ||
           rows[j].kind == TaskKind::BackwardInput) &&
          rows[i].module == rows[j].module && skeleton.firstBackward == 0) {
        skeleton.firstForward = int32_t(i);
        skeleton.firstBackward = int32_t(j);
      }
  int32_t ahead = 0;
  for (const auto &task : skeleton.tasks) {
    if (task.row == skeleton.firstBackward &&
        skeleton.firstBackward != skeleton.firstForward)
      break;
    ahead += task.row == skeleton.firstForward;
  }
  skeleton.inFlight = std::max(1, ahead);
}

reorder::OrderProblem Sequence::problem(const PerPart<int64_t> &loads) const {
  reorder::OrderProblem out = skeleton;
  std::vector<int32_t> kinds(program.modules.size, 0);
  for (const Row &row : rows)
    ++kinds[size_t(row.module)];
  for (const Row &row : rows) {
    const auto &own = loads[size_t(row.module)];
    std::vector<int64_t> durations;
    for (int32_t k = 0; k < microbatches; ++k) {
      const auto &replicas = own[std::min(size_t(k), own.size() - 1)];
      int64_t load = *std::max_element(replicas.begin(), replicas.end());
      bool forward = row.kind == TaskKind::Forward;
      // Forward alone: all; with Backward: 1 and 2 thirds; else a third each.
      int64_t thirds = kinds[size_t(row.module)] == 1               ? 3
                       : kinds[size_t(row.module)] == 2 && !forward ? 2
                                                                    : 1;
      durations.push_back(load / 3 * thirds);
    }
    out.durations.push_back(std::move(durations));
  }
  return out;
}

double Sequence::length(const PerPart<int64_t> &loads) const {
  std::vector<int32_t> order(static_cast<size_t>(microbatches));
  std::iota(order.begin(), order.end(), 0);
  return double(reorder::evaluateOrder(problem(loads), order)) / kCostUnit;
}

namespace {
/// As the samples come: so many a microbatch, or as many parts in each.
std::vector<Items> consecutive(const ProgramInfo &program,
                               const StepItems &items) {
  int64_t n = microbatchCount(program);
  std::vector<Items> result(static_cast<size_t>(n));
  auto ceil = [n](int64_t all) {
    return std::max<int64_t>(1, (all + n - 1) / n);
  };
  int64_t micro = program.parts ? ceil(items.samples) : program.microBatch;
  size_t part = 0, each = size_t(ceil(int64_t(items.parts.size()) - 1));
  for (int64_t place = 0; place < items.samples; ++place) {
    while (part + 1 < items.parts.size() && items.parts[part + 1] <= place)
      ++part;
    result[items.parts.empty() ? size_t(place / micro) : part / each].push_back(
        place);
  }
  return result;
}

/// Microbatches whose loads are even; in the order of their first samples.
std::vector<Items> even(const ProgramInfo &program,
                        const std::vector<int64_t> &loads) {
  reorder::PartitionOptions options;
  options.groups = int32_t(microbatchCount(program));
  options.maxCount = int32_t(program.microBatch);
  if (std::adjacent_find(loads.begin(), loads.end(), std::not_equal_to<>()) ==
          loads.end() ||
      !reorder::checkPartition(loads, options).empty())
    return {};
  reorder::Partition found = reorder::partition(loads, options);
  std::vector<Items> result;
  for (const auto &group : found.groups)
    result.emplace_back(group.begin(), group.end());
  std::sort(result.begin(), result.end());
  return result;
}
} // namespace

std::vector<std::vector<Items>>
compositions(const ProgramInfo &program, const StepItems &items,
             const std::vector<std::vector<int64_t>> &loads) {
  std::vector<std::vector<Items>> result = {consecutive(program, items)};
  if (loads.empty())
    return result;
  std::vector<int64_t> all(size_t(items.samples), 0), others = all;
  for (size_t m = 0; m < program.modules.size; ++m) {
    const ModuleInfo &module = program.modules[m];
    if (module.wholeBatch)
      continue;
    bool pace =
        program.pace >= 0 && size_t(program.pace) < program.modules.size &&
        module.unit && program.modules[size_t(program.pace)].unit &&
        std::string(module.unit) == program.modules[size_t(program.pace)].unit;
    for (size_t i = 0; i < all.size(); ++i) {
      int64_t load = loads[m][i] / replicasOf(module);
      all[i] += load;
      others[i] += pace ? 0 : load;
    }
  }
  for (const auto &sums : {all, others})
    if (std::vector<Items> found = even(program, sums);
        !found.empty() &&
        std::find(result.begin(), result.end(), found) == result.end())
      result.push_back(std::move(found));
  return result;
}

std::vector<Items> packed(const ProgramInfo &program,
                          const std::vector<int64_t> &rows) {
  reorder::PartitionOptions options;
  options.groups = int32_t(microbatchCount(program));
  std::vector<Items> microbatches;
  for (const std::vector<int32_t> &group :
       reorder::partition(rows, options).groups)
    microbatches.emplace_back(group.begin(), group.end());
  return microbatches;
}

} // namespace dt::rt

//===- Assignment.cpp - who works on which items of a step ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Assignment.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Assignment.h"

#include "runtime/base/Error.h"
#include "runtime/data/BatchSource.h"
#include "runtime/data/Cut.h"
#include "runtime/data/Sequence.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace dt::rt {

namespace {
/// Work of the search for an order, in tasks evaluated (2 to 3 ns each), over
/// all candidates of a step.
constexpr int64_t kEffort = 600000;

/// Few microbatches have few orders.
int64_t effortFor(const reorder::OrderProblem &problem, int64_t most) {
  int64_t n = problem.microbatches, orders = 1;
  for (int64_t i = 2; i <= n && orders < 40 * n * n; ++i)
    orders *= i;
  return std::min(most, std::min(2 * orders, 40 * n * n) *
                            int64_t(problem.tasks.size()));
}

/// Replicas wait for one another once a task, of `span` microbatches.
double imbalance(const std::vector<std::vector<int64_t>> &loads, int32_t span) {
  double most = 0, mean = 0;
  for (size_t k = 0; k < loads.size(); k += size_t(span)) {
    std::vector<int64_t> replicas = loads[k];
    for (size_t i = k + 1; i < std::min(k + size_t(span), loads.size()); ++i)
      for (size_t r = 0; r < replicas.size(); ++r)
        replicas[r] += loads[i][r];
    most += double(*std::max_element(replicas.begin(), replicas.end()));
    mean +=
        double(std::accumulate(replicas.begin(), replicas.end(), int64_t(0))) /
        double(replicas.size());
  }
  return mean > 0 ? most / mean : 1;
}

/// Microbatches of a composition at their places.
template <typename T>
void permute(std::vector<T> &microbatches, const std::vector<int32_t> &order) {
  std::vector<T> old = std::move(microbatches);
  microbatches.clear();
  for (int32_t from : order)
    microbatches.push_back(std::move(old[size_t(from)]));
}
} // namespace

struct Assigner::State {
  State(const ProgramInfo &program, Reorder mode)
      : program(program), mode(mode), groups(partGroups(program)) {
    if (inter())
      sequence.emplace(program);
  }
  bool intra() const { return mode == Reorder::Intra || mode == Reorder::Both; }
  bool inter() const { return mode == Reorder::Inter || mode == Reorder::Both; }

  struct Candidate {
    std::vector<Items> microbatches;
    CutParts cut;
    std::vector<int32_t> order;
    int64_t length = 0;
  };
  Candidate search(const StepCutter &cutter,
                   std::vector<std::vector<Items>> compositions) const;
  PerPart<PartItems> place(const StepCutter &cutter,
                           const std::vector<Items> &given,
                           Candidate &best) const;

  const ProgramInfo &program;
  Reorder mode;
  std::vector<PartGroup> groups;
  std::optional<Sequence> sequence;
};

/// The shortest of the candidates that fit; the first of equal ones.
Assigner::State::Candidate
Assigner::State::search(const StepCutter &cutter,
                        std::vector<std::vector<Items>> compositions) const {
  Candidate best;
  int64_t effort = kEffort / int64_t(compositions.size());
  for (auto &microbatches : compositions) {
    Candidate found{std::move(microbatches), {}, {}, 0};
    found.cut = cutter.cut(found.microbatches, intra());
    found.order.resize(found.microbatches.size());
    std::iota(found.order.begin(), found.order.end(), 0);
    bool fits = found.cut.tooLarge.empty();
    if (fits && sequence && sequence->valid()) {
      reorder::OrderProblem problem = sequence->problem(found.cut.loads);
      reorder::Order order =
          reorder::reorder(problem, {effortFor(problem, effort)});
      found.order = order.order, found.length = order.length;
    }
    bool better =
        best.microbatches.empty() ||
        (fits && (!best.cut.tooLarge.empty() || found.length < best.length));
    if (better)
      best = std::move(found);
  }
  return best;
}

/// Microbatches at their places. Where tasks have several the places say which,
/// so parts are made anew; as given, if these do not fit into a task together.
PerPart<PartItems> Assigner::State::place(const StepCutter &cutter,
                                          const std::vector<Items> &given,
                                          Candidate &best) const {
  permute(best.microbatches, best.order);
  bool joined = std::any_of(program.modules.begin(), program.modules.end(),
                            [](const auto &m) { return spanOf(m) > 1; });
  if (joined && inter()) {
    best.cut = cutter.cut(best.microbatches, intra());
    if (!best.cut.tooLarge.empty()) {
      best.microbatches = given;
      best.cut = cutter.cut(given, intra());
    }
    if (!best.cut.tooLarge.empty())
      throw Error(best.cut.tooLarge);
    return cutter.fill(best.cut);
  }
  PerPart<PartItems> parts = cutter.fill(best.cut);
  for (size_t m = 0; !joined && m < program.modules.size; ++m)
    if (!program.modules[m].wholeBatch) {
      permute(parts[m], best.order);
      permute(best.cut.loads[m], best.order);
    }
  return parts;
}

Assigner::Assigner(const ProgramInfo &program, Reorder mode)
    : state(std::make_unique<State>(program, mode)) {}
Assigner::~Assigner() = default;

Assignment Assigner::assign(const StepItems &items) const {
  const ProgramInfo &program = state->program;
  StepCutter cutter(program, state->groups, items);
  std::vector<std::vector<int64_t>> loads;
  for (size_t m = 0; state->inter() && m < program.modules.size; ++m)
    loads.push_back(cutter.sampleLoads(int32_t(m)));
  std::vector<std::vector<Items>> candidates =
      compositions(program, items, loads);
  std::vector<Items> given = candidates[0];
  State::Candidate best = state->search(cutter, std::move(candidates));
  if (std::vector<int64_t> rows = cutter.sampleRows();
      !best.cut.tooLarge.empty() && !rows.empty()) {
    given = packed(program, rows);
    best = state->search(cutter, {given});
  }
  if (!best.cut.tooLarge.empty())
    throw Error(best.cut.tooLarge);

  Assignment out;
  out.modules = state->place(cutter, given, best);
  PerPart<int64_t> before = state->mode == Reorder::None
                                ? best.cut.loads
                                : cutter.cut(given, false).loads;
  for (size_t m = 0; m < program.modules.size; ++m) {
    int32_t span = spanOf(program.modules[m]);
    out.balance.push_back(
        {imbalance(before[m], span), imbalance(best.cut.loads[m], span)});
  }
  if (state->sequence && state->sequence->valid()) {
    out.lengthBefore = state->sequence->length(before);
    out.lengthAfter = state->sequence->length(best.cut.loads);
  }
  out.microbatches = std::move(best.microbatches);
  out.measures = cutter.measures();
  return out;
}

Assignment Assigner::given(const StepItems &items) const {
  StepCutter cutter(state->program, state->groups, items);
  Assignment out;
  out.microbatches = compositions(state->program, items, {})[0];
  CutParts cut = cutter.cut(out.microbatches, false);
  for (size_t m = 0; m < cut.loads.size(); ++m) {
    double all = imbalance(cut.loads[m], spanOf(state->program.modules[m]));
    out.balance.push_back({all, all});
  }
  out.modules = cutter.fill(cut);
  out.measures = cutter.measures();
  return out;
}

uint64_t Assignment::hash() const {
  uint64_t hash = 0xCBF29CE484222325ull;
  auto mix = [&](uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 32;
  };
  auto mixItems = [&](const Items &items) {
    mix(items.size());
    for (int64_t item : items)
      mix(uint64_t(item));
  };
  mix(microbatches.size());
  for (const Items &places : microbatches)
    mixItems(places);
  for (const auto &module : modules) {
    mix(module.size());
    for (const auto &replicas : module) {
      mix(replicas.size());
      for (const PartItems &part : replicas) {
        for (const Items &items : part.symbols)
          mixItems(items);
        mixItems(part.dims);
      }
    }
  }
  return hash;
}

double utilisation(const ProgramInfo &program, const Assignment &assignment) {
  const ModuleInfo &pace = program.modules[size_t(program.pace)];
  double rows = 0, bounds = 0;
  for (size_t s = 0; s < pace.symbols.size; ++s)
    if (pace.symbols[s].measure)
      for (const auto &task : assignment.modules[size_t(program.pace)])
        for (const PartItems &part : task) {
          rows += double(ItemRows{&part.symbols[s],
                                  assignment.measureOf(size_t(program.pace), s)}
                             .total());
          bounds += double(pace.symbols[s].max);
        }
  return bounds > 0 ? rows / bounds : 0;
}

std::vector<int64_t> shapeOf(const TensorInfo &tensor, const int64_t *dims) {
  std::vector<int64_t> shape(size_t(tensor.rank));
  for (int32_t i = 0; i < tensor.rank; ++i)
    shape[size_t(i)] = extentOf(tensor.shape[i], dims);
  return shape;
}

int64_t ItemRows::total() const {
  int64_t sum = measure ? 0 : int64_t(count());
  for (size_t i = 0; measure && i < count(); ++i)
    sum += of(i);
  return sum;
}

size_t ItemRows::itemAt(int64_t row) const {
  size_t i = measure ? 0 : size_t(row);
  for (; measure && i < count() && row >= of(i); ++i)
    row -= of(i);
  return i;
}

Overlap overlap(const Items &a, const Items &b) {
  Overlap out;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) {
      out.inA.push_back(int64_t(i++));
      out.inB.push_back(int64_t(j++));
    } else {
      ++(a[i] < b[j] ? i : j);
    }
  }
  return out;
}

RankView viewOf(const ProgramInfo &program, int32_t rank) {
  RankView view{rank, {}};
  for (const ModuleInfo &module : program.modules) {
    auto *found = std::find(module.ranks.begin(), module.ranks.end(), rank);
    int32_t place = int32_t(found - module.ranks.begin());
    view.replica.push_back(found == module.ranks.end() ? -1
                           : module.wholeBatch
                               ? place
                               : place / std::max(1, module.tp));
  }
  return view;
}

Part beginPart(const ProgramInfo &program, const Assignment &assignment,
               size_t module, const PartItems &items,
               const std::vector<int64_t> &fixed, const std::string &where) {
  const ModuleInfo &info = program.modules[module];
  Part part;
  part.items = items.symbols;
  part.measures = assignment.measures[module];
  part.inputs.resize(info.inputs.size);
  for (size_t s = 0; s < info.symbols.size; ++s) {
    const SymbolInfo &symbol = info.symbols[s];
    part.dims.push_back(symbol.item ? items.dims[s] : fixed[s]);
    if (part.dims.back() > symbol.max)
      throw Error(where + ": dim " + info.name + "." + symbol.name + " is " +
                  std::to_string(part.dims.back()) +
                  "; the program was compiled for at most " +
                  std::to_string(symbol.max));
  }
  return part;
}

} // namespace dt::rt

//===- Formulation.cpp - DistTrain's orchestration problem ----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/search/Formulation.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

using namespace llvm;

namespace dt::planner {

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      low.push_back(d);
      if (d != n / d)
        high.push_back(n / d);
    }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

namespace {

/// Bytes of a GPU of a unit, `samples` a replica at once.
double memoryOf(const FormulaUnit &unit, int64_t tp, int64_t dp, int64_t pp,
                int64_t samples) {
  return unit.parameters / double(tp * pp) +
         unit.optimizer / double(tp * dp * pp) +
         double(samples) * unit.activations / double(tp);
}

/// A unit at one (TP, DP): what PP changes is not decided yet.
struct Choice {
  int64_t tp, dp, minPP;
  double warmup; ///< samples of a replica times time
  double bound;  ///< share of the objective that it costs at least
};

/// The parts of a unit that do not depend on the layout of others.
class Unit {
public:
  Unit(const FormulaUnit &unit, const FormulaProblem &problem)
      : unit(unit), problem(problem) {
    for (int64_t pp = 1; pp <= unit.layers; ++pp)
      if (!problem.ppDivides || unit.layers % pp == 0)
        allowed.push_back(pp);
    next.resize(unit.layers + 2, unit.layers + 1);
    for (int64_t pp = unit.layers; pp >= 1; --pp)
      next[pp] = std::binary_search(allowed.begin(), allowed.end(), pp)
                     ? pp
                     : next[pp + 1];
  }

  /// Smallest allowed PP of at least `pp`; 0 if there is none.
  int64_t roundUp(double pp) const {
    if (!(pp <= double(unit.layers)))
      return 0;
    int64_t result = next[std::max<int64_t>(1, int64_t(std::ceil(pp)))];
    return result > unit.layers ? 0 : result;
  }

  double memory(int64_t tp, int64_t dp, int64_t pp, int64_t samples) const {
    return memoryOf(unit, tp, dp, pp, samples);
  }

  /// Layouts that fit and cost less than `limit`, cheapest bound first.
  /// `samples` of a microbatch over all replicas, `steady` repeats of the
  /// slowest stage.
  std::vector<Choice> choices(ArrayRef<int64_t> dps, int64_t samples,
                              double steady, double limit) const {
    std::vector<Choice> result;
    for (auto [tp, time] : unit.time)
      for (int64_t dp : dps) {
        int64_t own = samples / dp;
        double warmup = double(own) * time;
        double work = warmup * double(tp * dp);
        double bound =
            warmup / double(problem.vpp) + steady * work / double(problem.gpus);
        if (bound >= limit)
          continue;
        int64_t pp = smallestPP(tp, dp, own);
        if (pp && tp * dp * pp <= problem.gpus)
          result.push_back({tp, dp, pp, warmup, bound});
      }
    llvm::sort(result, [](const Choice &a, const Choice &b) {
      return std::tie(a.bound, a.tp, a.dp) < std::tie(b.bound, b.tp, b.dp);
    });
    return result;
  }

private:
  int64_t smallestPP(int64_t tp, int64_t dp, int64_t samples) const {
    auto fits = [&](int64_t pp) {
      return memory(tp, dp, pp, samples) <= problem.memory;
    };
    auto it = std::partition_point(allowed.begin(), allowed.end(),
                                   [&](int64_t pp) { return !fits(pp); });
    return it == allowed.end() ? 0 : *it;
  }

  const FormulaUnit &unit;
  const FormulaProblem &problem;
  std::vector<int64_t> allowed, next;
};

class Solver {
public:
  explicit Solver(const FormulaProblem &problem) : problem(problem) {
    units.emplace_back(problem.backbone, problem);
    for (const FormulaUnit &unit : problem.others)
      units.emplace_back(unit, problem);
  }

  bool run(FormulaPlan &plan) {
    for (int64_t dp : divisors(problem.batch / problem.micro))
      tryDataParallel(dp);
    plan = best;
    return best.microbatches > 0;
  }
  /// Whether all layouts that may be better were looked at.
  bool isDone() const { return looked < kMostChoices; }

private:
  void tryDataParallel(int64_t dp) {
    int64_t samples = dp * problem.micro;
    microbatches = problem.batch / samples;
    steady = double(microbatches - 1);
    lists.clear();
    lists.push_back(units[0].choices({dp}, samples, steady, limit));
    if (lists[0].empty())
      return;
    std::vector<int64_t> dps = divisors(samples);
    for (size_t i = 1; i < units.size(); ++i)
      lists.push_back(units[i].choices(dps, samples, steady, limit));
    rest.assign(units.size() + 1, 0);
    for (size_t i = units.size(); i-- > 0;) {
      if (lists[i].empty())
        return;
      rest[i] = rest[i + 1] + lists[i].front().bound;
    }
    chosen.resize(units.size());
    descend(0, 0, 0);
  }

  /// Chooses (TP, DP) of unit i and on; `bound` of those chosen.
  void descend(size_t i, double bound, int64_t gpus) {
    if (i == units.size())
      return finish();
    for (const Choice &choice : lists[i]) {
      if (bound + choice.bound + rest[i + 1] >= limit ||
          ++looked >= kMostChoices)
        return;
      int64_t used = gpus + choice.tp * choice.dp * choice.minPP;
      if (used > problem.gpus)
        continue;
      chosen[i] = &choice;
      descend(i + 1, bound + choice.bound, used);
    }
  }

  /// The best PP of all units for the (TP, DP) chosen: the slowest unit gets
  /// more stages as long as there are GPUs; nothing else shortens the step.
  void finish() {
    double warmup = 0;
    for (const Choice *choice : chosen)
      warmup += choice->warmup / double(problem.vpp);
    // The slowest stage must be below this to be of interest.
    double slowest = steady > 0 ? (limit - warmup) / steady
                                : std::numeric_limits<double>::infinity();
    if (!(slowest > 0) && limit < std::numeric_limits<double>::infinity())
      return;
    std::vector<int64_t> &pps = scratch;
    pps.resize(units.size());
    int64_t used = 0;
    for (size_t i = 0; i < units.size(); ++i) {
      double need = std::isinf(slowest) ? 1 : chosen[i]->warmup / slowest;
      pps[i] = units[i].roundUp(std::max(need, double(chosen[i]->minPP)));
      if (!pps[i])
        return;
      used += chosen[i]->tp * chosen[i]->dp * pps[i];
      if (used > problem.gpus)
        return;
    }
    while (steady > 0) {
      size_t worst = 0;
      for (size_t i = 1; i < units.size(); ++i)
        if (time(i, pps[i]) > time(worst, pps[worst]))
          worst = i;
      int64_t more = units[worst].roundUp(double(pps[worst] + 1));
      int64_t extra =
          chosen[worst]->tp * chosen[worst]->dp * (more - pps[worst]);
      if (!more || used + extra > problem.gpus)
        break;
      used += extra;
      pps[worst] = more;
    }
    record(pps);
  }

  double time(size_t i, int64_t pp) const {
    return chosen[i]->warmup / double(pp);
  }

  void record(ArrayRef<int64_t> pps) {
    FormulaPlan plan;
    plan.microbatches = microbatches;
    for (size_t i = 0; i < units.size(); ++i) {
      FormulaLayout layout{chosen[i]->tp, chosen[i]->dp, pps[i],
                           time(i, pps[i]), chosen[i]->warmup};
      if (i == 0)
        plan.backbone = layout;
      else
        plan.others.push_back(layout);
    }
    plan.objective = evaluateFormula(problem, plan);
    if (plan.objective < limit) {
      limit = plan.objective;
      best = std::move(plan);
    }
  }

  const FormulaProblem &problem;
  std::vector<Unit> units;
  std::vector<std::vector<Choice>> lists;
  std::vector<double> rest;
  std::vector<const Choice *> chosen;
  std::vector<int64_t> scratch;
  /// Four units need some thousands; many alike are another problem.
  static constexpr int64_t kMostChoices = 2000000;
  int64_t microbatches = 0, looked = 0;
  double steady = 0, limit = std::numeric_limits<double>::infinity();
  FormulaPlan best;
};

/// Which unit cannot be placed even alone, or that all together cannot.
Error explain(const FormulaProblem &problem) {
  auto least = [&](const FormulaUnit &unit, bool whole) {
    double bytes = std::numeric_limits<double>::infinity();
    Unit rules(unit, problem);
    for (auto [tp, time] : unit.time)
      for (int64_t dp = 1; tp * dp <= problem.gpus; ++dp) {
        int64_t most = std::min(unit.layers, problem.gpus / (tp * dp));
        for (int64_t pp = most; pp >= 1; --pp)
          if (!problem.ppDivides || unit.layers % pp == 0) {
            int64_t samples = whole ? problem.micro : 1;
            bytes = std::min(bytes, rules.memory(tp, dp, pp, samples));
            break;
          }
      }
    return bytes;
  };
  auto report = [&](const FormulaUnit &unit, bool whole) -> Error {
    double bytes = least(unit, whole);
    if (bytes <= problem.memory)
      return Error::success();
    return createStringError(formatv(
        "unit '{0}' does not fit: on {1} GPUs a GPU holds at least {2:f0} "
        "bytes of it, {3:f0} more than the {4:f0} that it has",
        unit.name, problem.gpus, bytes, bytes - problem.memory,
        problem.memory));
  };
  if (Error error = report(problem.backbone, true))
    return error;
  for (const FormulaUnit &unit : problem.others)
    if (Error error = report(unit, false))
      return error;
  return createStringError(formatv(
      "the units fit {0} GPUs one by one, but not together", problem.gpus));
}

} // namespace

double evaluateFormula(const FormulaProblem &problem, const FormulaPlan &plan) {
  double warmup = plan.backbone.warmup, slowest = plan.backbone.stageTime;
  for (const FormulaLayout &layout : plan.others) {
    warmup += layout.warmup;
    slowest = std::max(slowest, layout.stageTime);
  }
  return warmup / double(problem.vpp) + slowest * double(plan.microbatches - 1);
}

bool fitsMemory(const FormulaProblem &problem, const FormulaPlan &plan) {
  int64_t samples = plan.backbone.dp * problem.micro;
  auto fits = [&](const FormulaUnit &unit, const FormulaLayout &layout) {
    return memoryOf(unit, layout.tp, layout.dp, layout.pp,
                    samples / layout.dp) <= problem.memory;
  };
  for (size_t i = 0; i < plan.others.size(); ++i)
    if (!fits(problem.others[i], plan.others[i]))
      return false;
  return fits(problem.backbone, plan.backbone);
}

Expected<FormulaPlan> solveFormula(const FormulaProblem &problem) {
  FormulaPlan plan;
  Solver solver(problem);
  bool fits = solver.run(plan);
  if (!solver.isDone())
    return createStringError(
        formatv("{0} units are too many for an exact solution",
                problem.others.size() + 1));
  if (!fits)
    return explain(problem);
  return plan;
}

} // namespace dt::planner

//===- LayoutSearch.h - Choosing layouts by cost ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_LAYOUTSEARCH_H
#define PASSES_SHARD_LAYOUTSEARCH_H

#include "passes/shard/Cuts.h"

namespace dt::shard {

struct Prices {
  /// Bytes of traffic that a stored element of a parameter is worth.
  double memory = 16;
  /// Bytes of traffic that a floating-point operation is worth.
  double flop = 1e-3;
  /// Reductions of parameter gradients happen once in so many runs.
  double microbatches = 1;
};

/// States that a variable is available in, a bit each.
using Mask = uint16_t;
using Masks = std::vector<Mask>;
/// A parameter whose layout no use has asked for yet.
constexpr Mask kUndecided = 1 << 15;

/// A change of state that a step needs: of the variable, before the step.
struct Conversion {
  unsigned variable;
  State from, to;
};

/// What a step did, for whoever emits it.
struct Applied {
  llvm::SmallVector<Conversion> before, after;
  /// States of operands that are returned or accumulated.
  llvm::SmallVector<State> operands;
};

/// The effect of steps on masks, used by the search and, again, to emit what it
/// chose.
class CostModel {
public:
  CostModel(const ShardProblem &program, const CutConstraints &cuts,
            const Axis &axis, const Prices &prices)
      : program(program), cuts(cuts), axis(axis), prices(prices),
        turnIndex(findTurn(program)) {}

  Masks begin() const;
  bool isAllowed(const Masks &masks, const Step &step,
                 const Strategy &strategy) const;
  /// Cost of running a step; what it did goes to `applied` if somebody wants
  /// it.
  double apply(Masks &masks, unsigned step, const Strategy *strategy,
               Applied *applied = nullptr) const;
  double partialBytes(const Masks &masks) const;
  /// Bytes that a rank sends for a conversion (free ones: almost nothing).
  double price(unsigned variable, State from, State to) const;

private:
  using Log = llvm::SmallVectorImpl<Conversion>;
  static unsigned findTurn(const ShardProblem &program);
  /// An op of one operand whose result has more bytes.
  bool widens(const Step &step) const;
  bool routesAll(const Step &step) const;
  /// `forward`: a cut will have to be gathered again on the way back.
  double convert(Masks &masks, unsigned variable, State to, bool mayGather,
                 Log *log, bool forward = false) const;
  bool changesTokens(const Variable &v, State from, State to) const;
  double store(unsigned variable, State state) const;
  double addGradient(Masks &masks, unsigned gradient, unsigned parameter,
                     Log *log) const;
  double finish(Masks &masks, const Step &step, Applied *applied) const;
  State returned(const Masks &masks, unsigned variable, bool residual) const;
  State gradientState(const Masks &masks, unsigned gradient,
                      unsigned parameter) const;
  double turn(Masks &masks, unsigned step, Log *log) const;
  bool waits(const Masks &masks, unsigned variable) const;
  double settle(Masks &masks, unsigned step, Log *log) const;

  const ShardProblem &program;
  const CutConstraints &cuts;
  Axis axis;
  Prices prices;
  unsigned turnIndex; ///< steps before it are the forward function's
};

struct LayoutChoice {
  std::vector<unsigned> choices; ///< a strategy a step
  double cost = 0;
  Masks last; ///< masks after the last step; parameters keep theirs
};

/// Beam search over the steps: exact as long as no more than `width` frontiers
/// differ.
LayoutChoice searchLayouts(const ShardProblem &program, const CostModel &model,
                           unsigned width);

} // namespace dt::shard

#endif // PASSES_SHARD_LAYOUTSEARCH_H

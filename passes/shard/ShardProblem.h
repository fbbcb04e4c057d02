//===- ShardProblem.h - A function pair as a list of steps ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What the search works on: forward and backward function as one straight line
// of steps over variables. A residual is one variable on both sides, a
// parameter is one variable however often it is read.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_SHARDPROBLEM_H
#define PASSES_SHARD_SHARDPROBLEM_H

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "dialects/nn/NNShape.h"

#include <optional>
#include <tuple>

namespace dt::shard {

/// The axis of ranks at hand.
struct Axis {
  int64_t over, stride;
  bool experts = false; ///< each rank of it has experts of its own
  /// Context parallelism (docs/context.md): tokens are cut, parameters whole,
  /// those of experts excepted where ranks have their own.
  bool context = false;
  /// Of a context axis: tokens are cut in blocks of so many; 0: one a rank.
  int64_t block = 0;
  /// Of a context axis: ranks have other samples, not other tokens of all.
  bool samples = false;
  /// Of a context axis: how queries come by keys; null: what sends fewer bytes.
  std::optional<rt::ContextKeys> keys = std::nullopt;
  /// Of an axis of experts: a rank's rows are at most as many as a capacity
  /// says. No other axis cuts them by tokens, of which each may have them all.
  bool bounded = false;
  /// Of such an axis of tokens: rows may travel one by one (SendRows.h). No
  /// axis comes behind it, which would have to cut what does.
  bool sends = false;
  bool operator==(const Axis &o) const {
    auto all = [](const Axis &a) {
      return std::tie(a.over, a.stride, a.experts, a.context, a.block,
                      a.samples, a.bounded, a.keys, a.sends);
    };
    return all(*this) == all(o);
  }
};

/// A dim seen as [outer][ranks][chunk]; or rows in the order of experts, and
/// where they end, of which a rank has those of its experts, or those of its
/// tokens (CutExperts.h), or what it sends (SendRows.h).
struct Cut {
  enum Kind : uint8_t { blocks, ofExperts, ends, ofTokens, sent };
  unsigned dim;
  int64_t chunk;
  Kind kind = blocks;
  bool operator==(const Cut &o) const {
    return dim == o.dim && chunk == o.chunk && kind == o.kind;
  }
};

/// A variable's state on the axis: whole, partial sums, or one of its cuts.
using State = uint8_t;
constexpr State kWhole = 0, kPartial = 1, kFirstCut = 2;
/// More cuts of one variable are not considered.
constexpr unsigned kMaxCuts = 12;

/// A state that means the same outside of its program.
struct Layout {
  enum Kind : uint8_t { whole, partial, cut } kind = whole;
  Cut at{0, 0};
  bool operator==(const Layout &o) const {
    return kind == o.kind && (kind != cut || at == o.at);
  }
};

struct Variable {
  mlir::RankedTensorType type;
  nn::Shape shape;
  double bytes = 0; ///< at the bounds of its symbols
  /// Candidates; a cut's class are all cuts that ops tie to it.
  llvm::SmallVector<Cut, 4> cuts;
  llvm::SmallVector<unsigned, 4> classes;

  bool parameter = false;
  nn::ParameterOp symbol; ///< in a module function
  /// The variable that stands for the parameter's gradient: kWhole or kPartial.
  int gradient = -1;
  double price = 0; ///< of storing all of it, in bytes of traffic
  bool constant = false;

  /// Fixed before the search (arguments of layers).
  std::optional<Layout> given;
  /// Last step that uses it, and last one before the function returns it.
  int lastUse = -1, lastRealUse = -1;
  /// What the return of its function asks for, if anything fixed.
  std::optional<Layout> settled;
  /// Returned as the gradient of that parameter variable.
  int gradientOf = -1;

  bool isRouted(State state) const {
    return state >= kFirstCut && cuts[state - kFirstCut].kind != Cut::blocks;
  }
  std::optional<State> find(const Cut &cut) const;
  Layout layout(State state) const;
  std::optional<State> state(const Layout &layout) const;
};

/// One way to run a step. Results may need a reduction at once (maxima).
struct Strategy {
  llvm::SmallVector<State, 4> operands, results;
  /// The factor that is cut, and its chunk; -1: none.
  int factor = -1;
  int64_t chunk = 0;
  /// Rows travel to their experts, in so many bytes that a rank sends.
  bool sends = false;
  double traffic = 0;
  /// Operands that are partial sums, if the op is linear in them.
  bool linear = false;
  /// Keys are cut as queries are, and go round (Ring.h).
  bool ring = false;
  std::optional<rt::Reduction> reduce;
  double flops = 0; ///< of one rank
  unsigned factorClass = 0;
};

struct Step {
  enum Kind : uint8_t { compute, call, accumulate, finish, turn } kind;
  mlir::Operation *op = nullptr;
  llvm::SmallVector<unsigned, 4> operands, results;
  llvm::SmallVector<Strategy, 4> strategies;
  bool contraction = false;
  double flops = 0;
  std::optional<nn::ShardingRule> rule; ///< of its op, if it has one
};

struct Pair {
  mlir::func::FuncOp forward, backward; ///< backward may be null
};

/// What a caller must know of a layer that has been solved.
struct LayerLayouts {
  llvm::SmallVector<Layout> forwardArguments, forwardResults;
  llvm::SmallVector<Layout> backwardArguments, backwardResults;
};

/// How backward arguments and results of a pair are tied to its forward
/// arguments and results.
struct Links {
  struct Source {
    bool isResult;
    unsigned index;
  };
  llvm::SmallVector<std::optional<Source>> backwardArguments;
  /// Forward argument whose gradient a backward result is (parameters only).
  llvm::SmallVector<std::optional<unsigned>> gradientOf;
  llvm::SmallVector<bool> parameters; ///< which forward arguments are
};

class ShardProblem {
public:
  /// `links` of a module function are found by names, those of a layer are
  /// given.
  ShardProblem(Pair pair, const Links *links);

  Pair pair;
  std::vector<Variable> variables;
  std::vector<Step> steps;
  llvm::DenseMap<mlir::Value, unsigned> index;
  /// Variables of forward results, as returned.
  llvm::SmallVector<unsigned> forwardReturns, backwardReturns;

  unsigned variableOf(mlir::Value value) const { return index.lookup(value); }
  bool isModuleFunction() const { return moduleFunction; }
  /// Value of a size at the bounds of the module's symbols.
  double evaluate(const nn::DimExpr &size) const;

private:
  unsigned addVariable(mlir::Value value);
  void addArguments(const Links *links);
  void addBackwardArguments(const Links *links);
  void addOps(mlir::func::FuncOp function);
  void findUses();

  bool moduleFunction;
  llvm::DenseMap<mlir::Operation *, unsigned> parameters;
};

/// Tokens along a dim, cut over the axis; nothing where it does not divide
/// them.
std::optional<Cut> cutTokens(unsigned dim, int64_t tokens, const Axis &axis);
/// Functions of one dist.forward have one name together.
mlir::StringAttr getFamily(mlir::func::FuncOp function);
/// The pair that a call of one of its functions belongs to.
Pair findPair(mlir::func::FuncOp function);

} // namespace dt::shard

#endif // PASSES_SHARD_SHARDPROBLEM_H

//===- CutFinder.h - What factors say of cuts -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A dim's cut points are products of its minor factors. Those of one op's rule
// are cut points of every op that shares the dim; a cut in `over` blocks lies
// between two of them.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_CUTFINDER_H
#define PASSES_SHARD_CUTFINDER_H

#include "passes/shard/CutExperts.h"

#include "llvm/ADT/IntEqClasses.h"

#include <set>

namespace dt::shard {

/// Where a factor is found: elements of one of its indices are `minor` apart.
struct Place {
  unsigned variable, dim;
  int64_t minor;
};

/// A factor of a step and its places.
struct Relation {
  int step, factor;
  nn::DimExpr size;
  nn::FactorKind kind;
  llvm::SmallVector<Place, 4> places;
};

/// Of the values of one program, on one axis. Calls go in this order.
class CutFinder {
public:
  CutFinder(ShardProblem &program, const Axis &axis)
      : program(program), axis(axis) {
    points.resize(program.variables.size());
    for (auto [i, v] : llvm::enumerate(program.variables)) {
      points[i].resize(v.shape.size());
      for (auto [d, size] : llvm::enumerate(v.shape)) {
        points[i][d].insert(1);
        if (auto n = size.asConstant())
          points[i][d].insert(*n);
      }
    }
  }

  void collect();
  void spread();
  void findCandidates(CutConstraints &info);
  /// The dim may be cut so: a point of its own.
  void addPoint(unsigned variable, const Cut &cut) {
    points[variable][cut.dim].insert(cut.chunk * axis.over);
  }
  void addGiven(unsigned variable, const Layout &layout);
  void classify(CutConstraints &info);
  /// Of a context axis, once it is known what tokens are.
  void routeTokens(CutConstraints &info) {
    if (axis.context && !axis.experts)
      addTokenRows(program, ruleOf, axis, info);
  }
  void buildStrategies(const CutConstraints &info);

private:
  void addRelations(int step, const nn::ShardingRule &rule);
  void tie(unsigned a, unsigned b);
  bool canCut(const Relation &r, int64_t chunk) const;
  std::optional<Strategy> cutFactor(const Relation &r, int64_t chunk) const;
  void addStrategies(int step, const CutConstraints &info);
  unsigned id(unsigned variable, unsigned cut) const {
    return variable * kMaxCuts + cut;
  }

  ShardProblem &program;
  Axis axis;
  std::vector<llvm::SmallVector<std::set<int64_t>, 4>> points;
  std::vector<Relation> relations;
  std::vector<llvm::SmallVector<unsigned>> ofStep;
  std::vector<const nn::ShardingRule *> ruleOf;
  llvm::IntEqClasses classes;
};

} // namespace dt::shard

#endif // PASSES_SHARD_CUTFINDER_H

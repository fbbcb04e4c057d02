//===- Ownership.h - which rank reduces, updates and saves what -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// From the tables alone: how a module's flat gradient region is cut into
// buckets, which elements this rank's optimizer updates (all, or with
// ModuleInfo::zero its share of each bucket), of which it keeps masters, and
// which it counts in the global norm and writes into checkpoints. Every element
// of every parameter is counted by exactly one rank of the world.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STATE_OWNERSHIP_H
#define DT_RUNTIME_STATE_OWNERSHIP_H

#include "runtime/Optimizers.h"
#include "runtime/device/BFloat16.h"
#include "runtime/state/GradientGroups.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <vector>

namespace dt::rt {

/// A range of a module's gradients, in elements, which also follow one another
/// in the parameter region.
struct FloatRange {
  size_t begin = 0, count = 0;
  DType type = DType::F32; ///< of the stored elements
  size_t stored = 0; ///< bytes from the start of the parameter region to them
  DType gradient = DType::F32; ///< of the gradients

  size_t end() const { return begin + count; }
  /// `n` of its elements, from the module's `from`-th on.
  FloatRange part(size_t from, size_t n) const {
    return {from, n, type, stored + (from - begin) * sizeOf(type), gradient};
  }
  /// Whether elements behind it that begin with those of `next` could be a part
  /// of it.
  bool goesOnIn(const FloatRange &next) const {
    return type == next.type && gradient == next.gradient &&
           part(next.begin, 0).stored == next.stored;
  }
};

/// Gradients that are summed over a group of ranks at once; a module's ascend,
/// as parameters do in the order in which a backward function is done with
/// them. `scatter`: the r-th rank gets the sum of the r-th of as many equal
/// blocks, and gives back updated parameters; else all get all.
struct Bucket {
  size_t group; ///< Ownership::groups
  FloatRange range;
  bool scatter;
  size_t sum; ///< where this rank's block of a scattered bucket is summed, in
              ///< floats of the module's sums
};

/// How the optimizer treats parameters (ParameterInfo).
struct UpdateRule {
  bool decay;
  double lrFactor = 1, weightDecay = -1;
  bool matrix = false;
  double routingRate = -1;
  bool operator==(const UpdateRule &o) const {
    return decay == o.decay && lrFactor == o.lrFactor &&
           weightDecay == o.weightDecay && matrix == o.matrix &&
           routingRate == o.routingRate;
  }
  bool isRouting() const { return routingRate >= 0; }
};

/// What this rank's optimizer updates; `moment` is where the range begins in
/// the module's average and in its masters, if it is not stored in float32;
/// `kept` where in each of its moments that are of elements. All in floats, and
/// the same numbers but under optimizers of matrices.
struct UpdateRange {
  FloatRange range;
  UpdateRule rule;
  size_t moment;
  Moments<size_t> kept{};
};

/// Elements [begin, end) of a parameter's part, and where their moments and
/// masters are (if they have any), as above.
struct OwnedPiece {
  int64_t begin, end;
  size_t moment;
  Moments<size_t> kept{};
  /// This rank counts and saves them, of those that have the same part.
  bool counts = true;
};

/// A tensor with several copies in the program: rows of the parameter table,
/// the first being the one that files know.
struct TieGroup {
  std::vector<size_t> rows;
};

/// Parameters that follow one another in their module's gradients, have these
/// in one type and are summed over the same axes of a replica
/// (Ownership::takePartialRun), with the padding behind each.
struct PartialRun {
  size_t first;
  size_t elements;
};

class Ownership {
public:
  Ownership(const ProgramInfo &program, const Placement &placement);

  /// Who adds up gradients of the module's parameters, of copies and of a whole
  /// batch apart. Known of modules that this rank does not run, too.
  const std::vector<GradientGroup> &groups(size_t module) const {
    return modules[module].groups;
  }
  /// Of a parameter that no group adds up.
  static constexpr size_t kNoGroup = size_t(-1);
  /// Among its module's.
  size_t groupOf(size_t parameter) const { return groupIndex[parameter]; }
  /// Axes of a replica's ranks over which its gradient is summed before that.
  const std::vector<CutInfo> &summedBefore(size_t parameter) const {
    return earlier[parameter];
  }
  const std::vector<Bucket> &buckets(size_t module) const {
    return modules[module].buckets;
  }
  const std::vector<UpdateRange> &updates(size_t module) const {
    return modules[module].updates;
  }
  /// Of an average.
  size_t momentFloats(size_t module) const {
    return modules[module].momentFloats;
  }
  /// Of moment k.
  size_t keptFloats(size_t module, size_t k) const {
    return kind.shapes.empty() ? momentFloats(module)
                               : modules[module].keptFloats.at[k];
  }
  /// Of what the program's optimizer keeps.
  MomentShape momentShape(size_t parameter, size_t k) const {
    return isRouting(parameter) ? MomentShape::None
                                : kind.shapeOf(k, isMatrix(parameter));
  }
  /// Where a moment of rows or columns is among the module's: of the whole
  /// part, on all ranks that have one.
  size_t factors(size_t parameter, size_t k) const {
    return factorPlaces[parameter].at[k];
  }
  /// Of what is updated and not stored in float32: as far as moments go for
  /// that.
  size_t masterFloats(size_t module) const {
    return modules[module].masterFloats;
  }
  /// Blocks of scattered buckets while they are being summed.
  size_t sumFloats(size_t module) const { return modules[module].sumFloats; }
  /// What this rank counts and saves; empty for parameters of modules that it
  /// does not run.
  const std::vector<OwnedPiece> &owned(size_t parameter) const {
    return pieces[parameter];
  }
  /// What this rank updates, in order. Counted are elements that no other
  /// rank of its group counts; of a parameter that is not spread() each counts
  /// all.
  std::vector<OwnedPiece> updatedPieces(size_t parameter) const;
  /// Of the module's rows that are updated, in order, the run from `next` on,
  /// as far as they begin before `end`; `next` is then what follows.
  PartialRun takePartialRun(const std::vector<size_t> &rows, size_t &next,
                            size_t end) const;
  /// Whether ranks of its group have shares of what its optimizer keeps.
  bool spread(size_t parameter) const;
  /// To the optimizer (ParameterInfo::matrix).
  bool isMatrix(size_t parameter) const;
  /// Whether it follows from choices of experts (ParameterInfo::routingRate).
  bool isRouting(size_t parameter) const;
  /// Whether the optimizer sees all of it at once.
  bool isWhole(size_t parameter) const {
    return updated(parameter) && !isRouting(parameter) &&
           kind.isWhole(isMatrix(parameter));
  }
  /// Whether the optimizer changes it, this copy or another.
  bool updated(size_t parameter) const { return isUpdated[parameter]; }
  /// Whether its value is that of masters, and what is stored is rounded.
  bool hasMaster(size_t parameter) const;
  /// A place among the module's gradients, in elements, as bytes from their
  /// begin, and back: narrow gradients come first.
  size_t gradientBytes(size_t module, size_t place) const {
    size_t narrow = narrowBytes[module] / sizeof(bf16);
    return place <= narrow
               ? place * sizeof(bf16)
               : narrowBytes[module] + (place - narrow) * sizeof(float);
  }
  size_t gradientPlace(size_t module, size_t bytes) const {
    size_t narrow = std::min(bytes, narrowBytes[module]);
    return narrow / sizeof(bf16) + (bytes - narrow) / sizeof(float);
  }
  /// The unit of places among the module's gradients.
  size_t gradientStep(size_t module) const { return modules[module].step; }
  /// The row that files know: its own, or the one it is a copy of.
  size_t original(size_t parameter) const { return originals[parameter]; }
  const std::vector<TieGroup> &ties() const { return tieGroups; }

private:
  struct Module {
    std::vector<GradientGroup> groups;
    std::vector<Bucket> buckets;
    std::vector<FloatRange> scattered; ///< of buckets, ascending
    std::vector<UpdateRange> updates;  ///< ascending
    size_t momentFloats = 0, masterFloats = 0, sumFloats = 0, step = 0;
    Moments<size_t> keptFloats{};
  };
  void findTies();
  void findGroup(size_t parameter);
  size_t findStep(size_t module) const;
  void planModule(size_t module);
  std::vector<FloatRange> reduceRun(Module &out, size_t module, size_t group,
                                    FloatRange run,
                                    const std::vector<size_t> &ends) const;
  void addUpdates(Module &out, size_t module,
                  const std::vector<FloatRange> &ranges);
  void addRange(Module &out, FloatRange part, const UpdateRule &rule);
  void placeFactors(Module &out, size_t module);
  void findOwned(size_t parameter);
  FloatRange rangeOf(size_t parameter) const;

  const ProgramInfo &program;
  const Placement &placement;
  const OptimizerDescription &kind;
  std::vector<Module> modules;
  std::vector<size_t> narrowBytes; ///< by module, of gradients
  std::vector<std::vector<OwnedPiece>> pieces;
  std::vector<Moments<size_t>> factorPlaces;
  std::vector<char> isUpdated, isTied;
  std::vector<size_t> originals, groupIndex;
  std::vector<std::vector<CutInfo>> earlier;
  std::vector<TieGroup> tieGroups;
};

/// Elements of the part that a rank stores.
size_t partElements(const ParameterInfo &parameter);
/// The part of a matrix, or of several: elements = matrices * rows * columns.
struct PartMatrix {
  size_t matrices, rows, columns;
};
PartMatrix partMatrix(const ParameterInfo &parameter);

/// The ranks that hold a tied tensor, by what they hold of it
/// (canonicalPlace).
std::map<int64_t, std::set<int>> holdersOf(const ProgramInfo &program,
                                           const Placement &placement,
                                           const TieGroup &tie);

} // namespace dt::rt

#endif // DT_RUNTIME_STATE_OWNERSHIP_H

//===- NNSharding.h - How operators may be cut ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Rules for partitioning and for precision, as plain data. A dim is a list of
// factors, major to minor (a channel dim of a grouped convolution is groups x
// channels); equal factors of several dims are cut together. After Shardy's
// factor rules (openxla.org/shardy), with kinds.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNSHARDING_H
#define DIALECTS_NN_NNSHARDING_H

#include "dialects/nn/DimExpr.h"

#include "mlir/IR/Operation.h"

namespace dt::nn {

/// What it takes to cut a factor. A result without the factor is then partial.
enum class FactorKind : uint8_t {
  pass,      ///< nothing
  sum,       ///< nothing; some results are partial sums
  max,       ///< nothing; results are partial maxima
  min,       ///< nothing; results are partial minima
  blocked,   ///< the local op must know the offset of its block and the size of
             ///< the whole (vocabulary, indices, means); else as sum or pass
  group,     ///< as pass, but no finer than one of it (heads, norm groups)
  replicate, ///< cannot be cut
  // Of experts, which are cut all three at once and where a module asks for it
  // (docs/experts.md).
  experts, ///< each rank has its experts, one after another
  routed,  ///< rows in the order of experts: those of the rank's, in a dim of
           ///< the same size, as data decide how many they are; or of as many
           ///< as there may be
  places,  ///< where such rows are: of all, in a dim of the same size
  ends,    ///< where rows of experts begin, and the last end
};

struct ShardingRule {
  struct Factor {
    DimExpr size;
    FactorKind kind;
  };
  /// Factors of each dim of a value, major to minor; a broadcast dim has none.
  using Dims = llvm::SmallVector<llvm::SmallVector<unsigned, 2>>;

  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<Dims> operands;
  llvm::SmallVector<Dims> results;
  /// Groups of operands in which the op is jointly linear: if all of a group
  /// are partial sums, so are the results.
  llvm::SmallVector<llvm::SmallVector<unsigned>> linear;
  /// Operands that are added to the results as they are (a bias): partial where
  /// a factor of kind sum is cut, lest every rank adds them.
  llvm::SmallVector<unsigned> addends;

  /// "([a b], [c b]) -> ([a c]) b:sum linear{0} linear{1}": a letter a factor,
  /// "-" for a dim without, kinds other than pass. For messages and tests.
  std::string str() const;
};

/// Whether a factor is in some dim of a value.
bool hasFactor(const ShardingRule::Dims &dims, unsigned factor);
/// The factor of the rows, if the op treats each alone: the first dim, all of
/// it, of every value that has it, all results among them.
std::optional<unsigned> findRows(const ShardingRule &rule);
/// Whether the only result has such rows; `operands`: which of these have, too.
bool treatsRowsAlone(mlir::Operation *op,
                     llvm::SmallVectorImpl<bool> &operands);

/// Factors are the dims of the broadcast shape.
ShardingRule elementwiseShardingRule(mlir::Operation *op);
/// One operation an element of the first result.
DimExpr elementwiseFlops(mlir::Operation *op);

/// What a cost model takes an op for.
struct Work {
  enum Kind : uint8_t {
    None,        ///< the same memory, or memory that is there already
    View,        ///< elements elsewhere, or as another type
    Stream,      ///< as long as its bytes take
    Norm,        ///< statistics over rows
    Product,     ///< [rows, k] by [k, n]; operand 1 is the weight, or the
                 ///< gradient of which the weight's is made
    Convolution, ///< operand 1 as of a product
    Batched,     ///< products of activations by activations
    Attention    ///< the same, and the scores stay inside
  };
  Work(Kind kind, DimExpr k = 0, DimExpr n = 0)
      : kind(kind), k(std::move(k)), n(std::move(n)) {}
  bool isComputeHeavy() const { return kind >= Product; }

  Kind kind;
  DimExpr k, n; ///< of a product
};

/// Groups of operands in all of which the op is linear together, by its traits
/// LinearJointly, LinearEach, LinearFirst and LinearLast; `exact`: of integers,
/// which add and multiply without loss.
llvm::SmallVector<llvm::SmallVector<unsigned>>
getLinearGroups(mlir::Operation *op, bool exact = false);

/// Which operands and results may be 16-bit floats.
struct PrecisionRule {
  llvm::SmallVector<bool> operands, results;
  bool sumsInFull; ///< sums in 32 bits inside, whatever its operands are

  static PrecisionRule anyNarrow(mlir::Operation *op, bool sumsInFull = false);
};

} // namespace dt::nn

#endif // DIALECTS_NN_NNSHARDING_H

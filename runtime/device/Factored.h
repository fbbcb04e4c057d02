//===- Factored.h - Adafactor's update of whole parameters ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// In four steps, between which ranks add up what they have (state/Wholes.h).
// Each target has its loops; what they compute are the lines of
// optimizers::Adafactor. Sums are double inside a step and in an order that
// follows from the tables alone.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_FACTORED_H
#define DT_RUNTIME_DEVICE_FACTORED_H

#include "runtime/device/Device.h"

namespace dt::rt::device {

/// Elements of a whole parameter that this rank updates.
struct WholePiece {
  UpdateRun run; ///< its one moment: `variance`, of what is no matrix
  size_t first;  ///< the first one, of the part's elements
  bool counts;   ///< in sums; else another rank counts them
};

/// A parameter's part: matrices of `rows` x `columns`, `lines` rows in all.
struct FactoredTensor {
  size_t count; ///< elements
  const WholePiece *pieces;
  size_t pieceCount; ///< ascending
  size_t lines, rows, columns;
  bool matrix;
  double wholeRows, wholeColumns, wholeElements; ///< of the parameter
  float *rowFactors, *columnFactors;             ///< state
  /// Sums of this step: by line and column, and one each.
  float *rowSums, *columnSums, *squares, *steps, *totalSquares, *totalSteps,
      *means;

  DT_HOST_DEVICE size_t matrices() const { return lines / rows; }
};

/// `columnSums`, `rowSums`, `totalSquares`.
void factoredSums(const UpdateStep &step, const Runs<FactoredTensor> &tensors,
                  const Verdict *verdict);
/// State of rows and columns, `means`.
void factoredMeans(const UpdateStep &step, const Runs<FactoredTensor> &tensors,
                   const Verdict *verdict);
/// State of what is no matrix, `totalSteps`.
void factoredSteps(const UpdateStep &step, const Runs<FactoredTensor> &tensors,
                   const Verdict *verdict);
/// Parameters.
void factoredUpdate(const UpdateStep &step, const Runs<FactoredTensor> &tensors,
                    const Verdict *verdict);

/// The elements of a piece that lie in [begin, end) of the part: f(i, at) for
/// the i-th of the piece, which is element `at`; from `from` on in steps of
/// `by`.
template <typename F>
DT_HOST_DEVICE void forElements(const WholePiece &piece, size_t begin,
                                size_t end, size_t from, size_t by,
                                const F &f) {
  size_t last = piece.first + piece.run.count;
  size_t low = begin > piece.first ? begin : piece.first,
         high = end < last ? end : last;
  for (size_t at = low + from; at < high; at += by)
    f(at - piece.first, at);
}

/// What element `at` of a matrix moves along.
DT_HOST_DEVICE inline float matrixDirection(const optimizers::Adafactor &rule,
                                            const FactoredTensor &t, size_t at,
                                            float g) {
  size_t line = at / t.columns, matrix = line / t.rows;
  return rule.direction(
      g, rule.estimate(t.rowFactors[line],
                       t.columnFactors[matrix * t.columns + at % t.columns],
                       t.means[matrix]));
}

} // namespace dt::rt::device

#endif // DT_RUNTIME_DEVICE_FACTORED_H

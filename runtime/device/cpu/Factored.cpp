//===- Factored.cpp - Adafactor on the CPU --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Threads share rows, blocks of columns or chunks of elements, so that no sum
// depends on their number.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Factored.h"
#include "runtime/device/cpu/Snapshot.h"

#include <algorithm>

namespace dt::rt::device {

namespace {

using optimizers::Adafactor;

/// Columns that are added up together.
constexpr size_t kColumns = 256;
/// Elements of a chunk.
constexpr size_t kChunk = 16384;

float total(const float *values, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i)
    sum += double(values[i]);
  return float(sum);
}

/// Squares of gradients and of parameters by line.
void sumLines(const FactoredTensor &t, float scale) {
#pragma omp parallel for schedule(static) if (t.count > kChunk)
  for (int64_t line = 0; line < int64_t(t.lines); ++line) {
    size_t begin = size_t(line) * t.columns;
    double gradients = 0, parameters = 0;
    for (size_t p = 0; p < t.pieceCount; ++p)
      if (const WholePiece &piece = t.pieces[p]; piece.counts)
        forElements(piece, begin, begin + t.columns, 0, 1,
                    [&](size_t i, size_t) {
                      double g = double(piece.run.gradients[i] * scale),
                             x = double(piece.run.parameters[i]);
                      gradients += g * g, parameters += x * x;
                    });
    if (t.matrix)
      t.rowSums[line] = float(gradients);
    t.squares[line] = float(parameters);
  }
  *t.totalSquares = total(t.squares, t.lines);
}

/// Squares of gradients of columns [first, last) of one of the matrices.
void sumColumns(const FactoredTensor &t, size_t matrix, size_t first,
                size_t last, float scale) {
  double sums[kColumns] = {};
  size_t begin = matrix * t.rows, end = begin + t.rows;
  for (size_t p = 0; p < t.pieceCount; ++p) {
    const WholePiece &piece = t.pieces[p];
    if (!piece.counts || !piece.run.count)
      continue;
    size_t low = std::max(begin, piece.first / t.columns),
           high = std::min(end,
                           (piece.first + piece.run.count - 1) / t.columns + 1);
    for (size_t row = low; row < high; ++row) {
      size_t at = row * t.columns;
      forElements(piece, at + first, at + last, 0, 1,
                  [&](size_t i, size_t element) {
                    double g = double(piece.run.gradients[i] * scale);
                    sums[element - at - first] += g * g;
                  });
    }
  }
  for (size_t i = first; i < last; ++i)
    t.columnSums[matrix * t.columns + i] = float(sums[i - first]);
}

void sumColumns(const FactoredTensor &t, float scale) {
  size_t blocks = (t.columns + kColumns - 1) / kColumns;
#pragma omp parallel for schedule(static) if (t.count > kChunk)
  for (int64_t i = 0; i < int64_t(t.matrices() * blocks); ++i) {
    size_t first = size_t(i) % blocks * kColumns;
    sumColumns(t, size_t(i) / blocks, first,
               std::min(first + kColumns, t.columns), scale);
  }
}

/// What an element moves along, if the state is this step's.
float directionOf(const Adafactor &rule, const FactoredTensor &t,
                  const WholePiece &piece, size_t i, size_t at, float scale) {
  float g = piece.run.gradients[i] * scale;
  return t.matrix ? matrixDirection(rule, t, at, g)
                  : rule.direction(g, piece.run.moments.at[0][i]);
}

template <typename F>
void forTensors(const Runs<FactoredTensor> &tensors, const Verdict *verdict,
                const F &f) {
  if (!verdict->applies)
    return;
  for (size_t i = 0; i < tensors.count; ++i)
    f(tensors.table[i], float(verdict->scale));
}

} // namespace

void factoredSums(const UpdateStep &, const Runs<FactoredTensor> &tensors,
                  const Verdict *verdict) {
  forTensors(tensors, verdict, [](const FactoredTensor &t, float scale) {
    sumLines(t, scale);
    if (t.matrix)
      sumColumns(t, scale);
  });
}

void factoredMeans(const UpdateStep &step, const Runs<FactoredTensor> &tensors,
                   const Verdict *verdict) {
  if (verdict->applies)
    awaitSnapshot();
  Adafactor rule(step);
  forTensors(tensors, verdict, [&](const FactoredTensor &t, float) {
    if (!t.matrix)
      return;
    for (size_t i = 0; i < t.lines; ++i)
      t.rowFactors[i] = rule.blend(
          t.rowFactors[i], float(double(t.rowSums[i]) / t.wholeColumns));
    for (size_t i = 0; i < t.matrices() * t.columns; ++i)
      t.columnFactors[i] = rule.blend(
          t.columnFactors[i], float(double(t.columnSums[i]) / t.wholeRows));
    for (size_t m = 0; m < t.matrices(); ++m)
      t.means[m] =
          float(double(total(t.rowFactors + m * t.rows, t.rows)) / t.wholeRows);
  });
}

void factoredSteps(const UpdateStep &step, const Runs<FactoredTensor> &tensors,
                   const Verdict *verdict) {
  Adafactor rule(step);
  forTensors(tensors, verdict, [&](const FactoredTensor &t, float scale) {
    for (size_t p = 0; p < t.pieceCount && !t.matrix; ++p) {
      const UpdateRun &run = t.pieces[p].run;
      for (size_t i = 0; i < run.count; ++i) {
        float g = run.gradients[i] * scale;
        run.moments.at[0][i] = rule.blend(run.moments.at[0][i], g * g);
      }
    }
#pragma omp parallel for schedule(static) if (t.count > kChunk)
    for (int64_t line = 0; line < int64_t(t.lines); ++line) {
      size_t begin = size_t(line) * t.columns;
      double sum = 0;
      for (size_t p = 0; p < t.pieceCount; ++p)
        if (const WholePiece &piece = t.pieces[p]; piece.counts)
          forElements(
              piece, begin, begin + t.columns, 0, 1, [&](size_t i, size_t at) {
                double u = double(directionOf(rule, t, piece, i, at, scale));
                sum += u * u;
              });
      t.steps[line] = float(sum);
    }
    *t.totalSteps = total(t.steps, t.lines);
  });
}

void factoredUpdate(const UpdateStep &step, const Runs<FactoredTensor> &tensors,
                    const Verdict *verdict) {
  Adafactor rule(step);
  float weight = float(1 - step.averageDecay);
  forTensors(tensors, verdict, [&](const FactoredTensor &t, float scale) {
    float rate = rule.rate(double(*t.totalSquares), double(*t.totalSteps),
                           t.wholeElements);
    for (size_t p = 0; p < t.pieceCount; ++p) {
      const WholePiece &piece = t.pieces[p];
      const UpdateRun &run = piece.run;
#pragma omp parallel for schedule(static) if (run.count > kChunk)
      for (int64_t n = 0; n < int64_t(run.count); ++n) {
        auto i = size_t(n);
        rule.apply(run.parameters[i],
                   directionOf(rule, t, piece, i, piece.first + i, scale),
                   rate);
        if (run.working)
          run.working[i] = run.parameters[i];
        if (run.average)
          averageElement(run.average + i, run.parameters[i], weight);
      }
    }
  });
}

} // namespace dt::rt::device

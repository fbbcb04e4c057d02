//===- Factored.cu - Adafactor on the GPU ---------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Tables are in device memory; the grid goes over one tensor after another. A
// line, a strip of columns and a tensor's total each are one block's, which
// adds in a fixed order.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Factored.h"
#include "runtime/device/cuda/Cuda.h"

#include <algorithm>

namespace dt::rt {

namespace {

using device::FactoredTensor;
using device::Runs;
using device::WholePiece;
using optimizers::Adafactor;

constexpr int kThreads = 256;
/// Enough for all processors of a GPU.
constexpr unsigned kBlocks = 1024;
/// Neighbouring columns, read together, and how many rows of them at once.
constexpr int kStrip = 32, kRows = kThreads / kStrip;

/// Adds `value` over the block in a fixed tree; all threads get the sum.
__device__ double sumOverBlock(double value) {
  __shared__ double part[kThreads];
  part[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (int(threadIdx.x) < half)
      part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  double sum = part[0];
  __syncthreads(); // the next call writes
  return sum;
}

/// Squares of gradients and of parameters by line.
__global__ void linesKernel(Runs<FactoredTensor> tensors,
                            const Verdict *verdict) {
  if (!verdict->applies)
    return;
  const float scale = float(verdict->scale);
  for (size_t n = 0; n < tensors.count; ++n) {
    const FactoredTensor t = tensors.table[n];
    for (size_t line = blockIdx.x; line < t.lines; line += gridDim.x) {
      size_t begin = line * t.columns;
      double gradients = 0, parameters = 0;
      for (size_t p = 0; p < t.pieceCount; ++p) {
        const WholePiece &piece = t.pieces[p];
        if (piece.counts)
          device::forElements(piece, begin, begin + t.columns, threadIdx.x,
                              kThreads, [&](size_t i, size_t) {
                                double g =
                                    double(piece.run.gradients[i] * scale);
                                double x = double(piece.run.parameters[i]);
                                gradients += g * g;
                                parameters += x * x;
                              });
      }
      gradients = sumOverBlock(gradients);
      parameters = sumOverBlock(parameters);
      if (threadIdx.x == 0) {
        if (t.matrix)
          t.rowSums[line] = float(gradients);
        t.squares[line] = float(parameters);
      }
    }
  }
}

/// Squares of gradients of a column, every kRows-th of the matrix's rows.
__device__ double sumColumn(const FactoredTensor &t, size_t matrix,
                            size_t column, size_t from, float scale) {
  double sum = 0;
  for (size_t p = 0; p < t.pieceCount && column < t.columns; ++p) {
    const WholePiece &piece = t.pieces[p];
    if (!piece.counts)
      continue;
    size_t begin = piece.first, end = piece.first + piece.run.count;
    for (size_t row = from; row < t.rows; row += kRows) {
      size_t at = (matrix * t.rows + row) * t.columns + column;
      if (at < begin || at >= end)
        continue;
      double g = double(piece.run.gradients[at - begin] * scale);
      sum += g * g;
    }
  }
  return sum;
}

__global__ void columnsKernel(Runs<FactoredTensor> tensors,
                              const Verdict *verdict) {
  if (!verdict->applies)
    return;
  __shared__ double part[kThreads];
  const float scale = float(verdict->scale);
  size_t lane = threadIdx.x % kStrip, from = threadIdx.x / kStrip;
  for (size_t n = 0; n < tensors.count; ++n) {
    const FactoredTensor t = tensors.table[n];
    size_t strips = (t.columns + kStrip - 1) / kStrip;
    size_t units = t.matrix ? t.matrices() * strips : 0;
    for (size_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
      size_t matrix = unit / strips, column = unit % strips * kStrip + lane;
      part[threadIdx.x] = sumColumn(t, matrix, column, from, scale);
      __syncthreads();
      if (from == 0 && column < t.columns) {
        double sum = 0;
        for (int i = 0; i < kRows; ++i)
          sum += part[i * kStrip + lane];
        t.columnSums[matrix * t.columns + column] = float(sum);
      }
      __syncthreads();
    }
  }
}

/// A tensor's lines, added up.
__global__ void totalsKernel(Runs<FactoredTensor> tensors, bool steps,
                             const Verdict *verdict) {
  if (!verdict->applies)
    return;
  for (size_t n = blockIdx.x; n < tensors.count; n += gridDim.x) {
    const FactoredTensor t = tensors.table[n];
    const float *lines = steps ? t.steps : t.squares;
    double sum = 0;
    for (size_t i = threadIdx.x; i < t.lines; i += kThreads)
      sum += double(lines[i]);
    sum = sumOverBlock(sum);
    if (threadIdx.x == 0)
      *(steps ? t.totalSteps : t.totalSquares) = float(sum);
  }
}

__global__ void factorsKernel(Adafactor rule, Runs<FactoredTensor> tensors,
                              const Verdict *verdict) {
  if (!verdict->applies)
    return;
  size_t first = blockIdx.x * size_t(kThreads) + threadIdx.x,
         by = size_t(gridDim.x) * kThreads;
  for (size_t n = 0; n < tensors.count; ++n) {
    const FactoredTensor t = tensors.table[n];
    if (!t.matrix)
      continue;
    for (size_t i = first; i < t.lines; i += by)
      t.rowFactors[i] = rule.blend(
          t.rowFactors[i], float(double(t.rowSums[i]) / t.wholeColumns));
    for (size_t i = first; i < t.matrices() * t.columns; i += by)
      t.columnFactors[i] = rule.blend(
          t.columnFactors[i], float(double(t.columnSums[i]) / t.wholeRows));
  }
}

__global__ void meansKernel(Runs<FactoredTensor> tensors,
                            const Verdict *verdict) {
  if (!verdict->applies)
    return;
  for (size_t n = 0; n < tensors.count; ++n) {
    const FactoredTensor t = tensors.table[n];
    for (size_t m = blockIdx.x; t.matrix && m < t.matrices(); m += gridDim.x) {
      double sum = 0;
      for (size_t i = threadIdx.x; i < t.rows; i += kThreads)
        sum += double(t.rowFactors[m * t.rows + i]);
      sum = sumOverBlock(sum);
      if (threadIdx.x == 0)
        t.means[m] = float(sum / t.wholeRows);
    }
  }
}

/// State of what is no matrix.
__global__ void variancesKernel(Adafactor rule, Runs<FactoredTensor> tensors,
                                const Verdict *verdict) {
  if (!verdict->applies)
    return;
  const float scale = float(verdict->scale);
  for (size_t n = 0; n < tensors.count; ++n) {
    const FactoredTensor t = tensors.table[n];
    for (size_t p = 0; p < t.pieceCount && !t.matrix; ++p) {
      const device::UpdateRun run = t.pieces[p].run;
      for (size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x;
           i < run.count; i += size_t(gridDim.x) * kThreads) {
        float g = run.gradients[i] * scale;
        run.moments.at[0][i] = rule.blend(run.moments.at[0][i], g * g);
      }
    }
  }
}

/// What an element moves along, if the state is this step's.
__device__ float directionOf(const Adafactor &rule, const FactoredTensor &t,
                             const WholePiece &piece, size_t i, size_t at,
                             float scale) {
  float g = piece.run.gradients[i] * scale;
  return t.matrix ? device::matrixDirection(rule, t, at, g)
                  : rule.direction(g, piece.run.moments.at[0][i]);
}

__global__ void stepsKernel(Adafactor rule, Runs<FactoredTensor> tensors,
                            const Verdict *verdict) {
  if (!verdict->applies)
    return;
  const float scale = float(verdict->scale);
  for (size_t n = 0; n < tensors.count; ++n) {
    const FactoredTensor t = tensors.table[n];
    for (size_t line = blockIdx.x; line < t.lines; line += gridDim.x) {
      size_t begin = line * t.columns;
      double sum = 0;
      for (size_t p = 0; p < t.pieceCount; ++p) {
        const WholePiece &piece = t.pieces[p];
        if (piece.counts)
          device::forElements(piece, begin, begin + t.columns, threadIdx.x,
                              kThreads, [&](size_t i, size_t at) {
                                double u = double(
                                    directionOf(rule, t, piece, i, at, scale));
                                sum += u * u;
                              });
      }
      sum = sumOverBlock(sum);
      if (threadIdx.x == 0)
        t.steps[line] = float(sum);
    }
  }
}

__global__ void applyKernel(Adafactor rule, float weight,
                            Runs<FactoredTensor> tensors,
                            const Verdict *verdict) {
  if (!verdict->applies)
    return;
  const float scale = float(verdict->scale);
  for (size_t n = 0; n < tensors.count; ++n) {
    const FactoredTensor t = tensors.table[n];
    const float rate = rule.rate(double(*t.totalSquares), double(*t.totalSteps),
                                 t.wholeElements);
    for (size_t p = 0; p < t.pieceCount; ++p) {
      const WholePiece piece = t.pieces[p];
      const device::UpdateRun &run = piece.run;
      for (size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x;
           i < run.count; i += size_t(gridDim.x) * kThreads) {
        rule.apply(run.parameters[i],
                   directionOf(rule, t, piece, i, piece.first + i, scale),
                   rate);
        if (run.working)
          run.working[i] = run.parameters[i];
        if (run.average)
          averageElement(run.average + i, run.parameters[i], weight);
      }
    }
  }
}

unsigned blocksOf(const Runs<FactoredTensor> &tensors) {
  return std::min(cuda::blocksFor(int64_t(tensors.longest), kThreads), kBlocks);
}

template <typename... Parameters, typename... Arguments>
void queue(const char *name, void (*kernel)(Parameters...),
           const Runs<FactoredTensor> &tensors, Arguments... arguments) {
  cuda::launch(name, kernel, blocksOf(tensors), kThreads, 0, device::stream(),
               arguments...);
}

} // namespace

namespace device {

void factoredSums(const UpdateStep &, const Runs<FactoredTensor> &tensors,
                  const Verdict *verdict) {
  queue("adafactor, rows", linesKernel, tensors, tensors, verdict);
  queue("adafactor, columns", columnsKernel, tensors, tensors, verdict);
  queue("adafactor, sizes", totalsKernel, tensors, tensors, false, verdict);
}

void factoredMeans(const UpdateStep &step, const Runs<FactoredTensor> &tensors,
                   const Verdict *verdict) {
  cuda::awaitSnapshot();
  queue("adafactor, state", factorsKernel, tensors, Adafactor(step), tensors,
        verdict);
  queue("adafactor, means", meansKernel, tensors, tensors, verdict);
}

void factoredSteps(const UpdateStep &step, const Runs<FactoredTensor> &tensors,
                   const Verdict *verdict) {
  Adafactor rule(step);
  queue("adafactor, variances", variancesKernel, tensors, rule, tensors,
        verdict);
  queue("adafactor, directions", stepsKernel, tensors, rule, tensors, verdict);
  queue("adafactor, directions' sizes", totalsKernel, tensors, tensors, true,
        verdict);
}

void factoredUpdate(const UpdateStep &step, const Runs<FactoredTensor> &tensors,
                    const Verdict *verdict) {
  queue("adafactor", applyKernel, tensors, Adafactor(step),
        float(1 - step.averageDecay), tensors, verdict);
}

} // namespace device
} // namespace dt::rt

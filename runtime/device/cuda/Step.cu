//===- Step.cu - a step's sums and the optimizer on the GPU ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Tables of runs are in device memory, so that one launch does all of them: the
// whole grid goes over one run after another. Which block adds what follows
// from the table alone. The optimizer computes with the lines of
// runtime/Optimizers.h, as on the CPU.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Fault.h"
#include "runtime/device/Device.h"
#include "runtime/device/cuda/Cuda.h"

#include <algorithm>
#include <type_traits>

namespace dt::rt {

namespace {

constexpr int kThreads = 256;
/// At most; how many, and so the order of additions, follows from the table
/// alone. Enough for all processors of a GPU.
constexpr unsigned kBlocks = 1024;

template <typename Run> unsigned blocksFor(const device::Runs<Run> &runs) {
  return std::min(cuda::blocksFor(int64_t(runs.longest), kThreads), kBlocks);
}

/// Of the blocks of squaresKernel.
__device__ double partialSums[kBlocks];

/// Adds `value` over the block in a fixed tree; thread 0 has the sum.
__device__ double blockSum(double value) {
  __shared__ double part[kThreads];
  part[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (int(threadIdx.x) < half)
      part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  return part[0];
}

__global__ void squaresKernel(device::Runs<device::FloatRun> runs) {
  double sum = 0;
  for (size_t r = 0; r < runs.count; ++r) {
    const device::FloatRun run = runs.table[r];
    for (size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x; i < run.count;
         i += size_t(gridDim.x) * kThreads)
      sum += double(run.values[i]) * double(run.values[i]);
  }
  sum = blockSum(sum);
  if (threadIdx.x == 0)
    partialSums[blockIdx.x] = sum;
}

/// One block.
__global__ void addSumsKernel(unsigned n, double *to) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < n; i += kThreads)
    sum += partialSums[i];
  sum = blockSum(sum);
  if (threadIdx.x == 0)
    *to = sum;
}

__global__ void cellsKernel(double *sums, const float *cells,
                            const CellRange *ranges, size_t n) {
  size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x;
  if (i < n)
    sums[i] = sumOf(cells, ranges[i]);
}

__global__ void seedsKernel(float *seeds, StepNumbers step,
                            const LossInfo *losses) {
  size_t l = blockIdx.x * size_t(kThreads) + threadIdx.x;
  if (l < step.losses)
    seeds[l] = seedOf(losses[l], step.denominators[l]);
}

/// One thread.
__global__ void judgeKernel(StepNumbers step, const LossInfo *losses,
                            double clipNorm, const Fault *fault) {
  judge(step, losses, clipNorm, fault->found);
}

template <size_t kept, typename Rule>
__global__ void updateKernel(Rule rule, float weight,
                             device::Runs<device::UpdateRun> runs,
                             const Verdict *verdict) {
  if (!verdict->applies)
    return;
  const float scale = float(verdict->scale);
  for (size_t r = 0; r < runs.count; ++r) {
    const device::UpdateRun run = runs.table[r];
    for (size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x; i < run.count;
         i += size_t(gridDim.x) * kThreads) {
      updateElement<kept>(rule, scale, run.parameters, run.gradients,
                          run.moments, i);
      if (run.working)
        run.working[i] = run.parameters[i];
      if (run.average)
        averageElement(run.average + i, run.parameters[i], weight);
    }
  }
}

} // namespace

namespace device {

void sumCells(double *sums, const float *cells, const CellRange *ranges,
              size_t n) {
  if (n)
    cuda::launch("sums of losses", cellsKernel, cuda::blocksFor(int64_t(n)),
                 kThreads, 0, stream(), sums, cells, ranges, n);
}

void sumOfSquares(double *sum, const Runs<FloatRun> &runs) {
  unsigned blocks = blocksFor(runs);
  cuda::launch("sum of squares", squaresKernel, blocks, kThreads, 0, stream(),
               runs);
  cuda::launch("sum of squares, end", addSumsKernel, 1, kThreads, 0, stream(),
               blocks, sum);
}

void makeSeeds(float *seeds, const StepNumbers &step, const LossInfo *losses) {
  if (step.losses)
    cuda::launch("seeds of losses", seedsKernel,
                 cuda::blocksFor(int64_t(step.losses)), kThreads, 0, stream(),
                 seeds, step, losses);
}

void judge(const StepNumbers &step, const LossInfo *losses, double clipNorm) {
  cuda::launch("verdict of a step", judgeKernel, 1, 1, 0, stream(), step,
               losses, clipNorm, faultRecord());
}

void update(OptimizerKind kind, const UpdateStep &step,
            const Runs<UpdateRun> &runs, const Verdict *verdict) {
  cuda::awaitSnapshot();
  withOptimizer(kind, step, [&](const auto &rule, auto kept) {
    using Rule = std::decay_t<decltype(rule)>;
    cuda::launch(describe(kind).name, updateKernel<decltype(kept)::value, Rule>,
                 blocksFor(runs), kThreads, 0, stream(), rule,
                 float(1 - step.averageDecay), runs, verdict);
  });
}

} // namespace device
} // namespace dt::rt

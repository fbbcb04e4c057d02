//===- Device.h - memory and bulk work of one target ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The step loop is the same for every target; what it does with blocks of
// memory goes through these functions. Each target has one implementation
// (cpu/Device.cpp, cuda/Device.cu) and a program links exactly one of them, so
// there is no table of function pointers. Work is queued on `stream()`: results
// are defined for the host after `synchronize()` or a copy to the host.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_DEVICE_H
#define DT_RUNTIME_DEVICE_DEVICE_H

#include <cmath>
#include <cstddef>

namespace dt::rt {
struct Fault;
} // namespace dt::rt

namespace dt::rt::device {

/// Prepares the target; throws Error with one line where it cannot be used (no
/// GPU, no driver). `threads`: 0 leaves the default; only the CPU looks at it.
void initialize(int threads);

/// "cpu, 8 threads" or "cuda, NVIDIA H100".
const char *describe();

/// The stream for TaskContext::stream; null on the CPU.
void *stream();
void synchronize();

/// Where generated code notes an index out of range (Fault.h). The host may
/// read it at once on the CPU, after `synchronize()` elsewhere, and puts
/// `found` back to 0.
Fault *faultRecord();

/// Zeroed memory, 64-byte aligned at least. Throws Error when there is none
/// left, naming the bytes and `what`.
void *allocate(size_t bytes, const char *what);
void release(void *memory);

void copyToDevice(void *device, const void *host, size_t bytes);
void copyToHost(void *host, const void *device,
                size_t bytes); ///< waits for what was queued before
void copy(void *to, const void *from, size_t bytes); ///< within the device
void zero(void *memory, size_t bytes);

/// sum[i] += values[i] for n elements.
void accumulate(float *sum, const float *values, size_t n);

/// Sum of squares of n floats, added in double in a fixed order: equal bits run
/// by run.
double sumOfSquares(const float *values, size_t n);

/// One optimizer step over n contiguous elements. `gradientScale` multiplies
/// the gradient first (clipping). As PyTorch (torch/optim/adamw.py, sgd.py, the
/// single-tensor forms):
///   p *= 1 - lr * weightDecay; m += (g - m) * (1 - beta1); v = beta2 * v + (1
///   - beta2) * g * g p -= lr / biasCorrection1 * m / (sqrt(v) /
///   sqrt(biasCorrection2) + eps)
struct AdamWStep {
  double lr, beta1, beta2, eps, weightDecay;
  double biasCorrection1, biasCorrection2; ///< 1 - beta^t with t counted from 1
  double gradientScale;
};
/// Computed in double and rounded once, for every target: 1 - 0.999f is off by
/// 5e-5.
struct AdamWScalars {
  explicit AdamWScalars(const AdamWStep &step)
      : scale(float(step.gradientScale)),
        keep(float(1 - step.lr * step.weightDecay)),
        weight1(float(1 - step.beta1)), beta2(float(step.beta2)),
        weight2(float(1 - step.beta2)),
        stepSize(float(step.lr / step.biasCorrection1)),
        perRoot(float(1 / std::sqrt(step.biasCorrection2))),
        eps(float(step.eps)) {}
  float scale, keep, weight1, beta2, weight2, stepSize, perRoot, eps;
};
void adamw(float *p, const float *g, float *m, float *v, size_t n,
           const AdamWStep &step);

///   g += weightDecay * p; momentum: b = first ? g : momentum * b + g, p -= lr
///   * b; else p -= lr * g
struct SgdStep {
  double lr, momentum, weightDecay;
  double gradientScale;
  bool first; ///< no buffer yet
};
void sgd(float *p, const float *g, float *buffer, size_t n,
         const SgdStep &step);

} // namespace dt::rt::device

#endif // DT_RUNTIME_DEVICE_DEVICE_H

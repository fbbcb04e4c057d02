//===- StepNumbers.h - what a step's sums come to ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Losses, the gradient norm and whether the optimizer may use the gradients:
// computed where the sums are, by these lines on every target, so that the host
// need not wait for a step before its update is queued. Sums are double.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_STEPNUMBERS_H
#define DT_RUNTIME_DEVICE_STEPNUMBERS_H

#include "runtime/HostDevice.h"
#include "runtime/Program.h"
#include "runtime/device/Scalar.h"

namespace dt::rt {

/// Cells [first, end): one for each part of a loss that this rank counts.
struct CellRange {
  size_t first, end;
};

/// One after another.
DT_HOST_DEVICE inline double sumOf(const float *cells, const CellRange &range) {
  double sum = 0;
  for (size_t i = range.first; i < range.end; ++i)
    sum += double(cells[i]);
  return sum;
}

/// What the optimizer is told.
struct Verdict {
  double loss, norm;
  double scale; ///< of clipping: gradients are multiplied with it
  bool applies; ///< false: the step leaves parameters and moments as they are
};

/// A step's numbers, one after another in one block of memory.
struct StepNumbers {
  StepNumbers(std::byte *block, size_t losses)
      : losses(losses), verdict(reinterpret_cast<Verdict *>(block)),
        terms(reinterpret_cast<double *>(verdict + 1)),
        denominators(terms + losses), numerators(denominators + losses),
        squares(numerators + losses), wishes(squares + 1) {}
  static size_t bytes(size_t losses) {
    return sizeof(Verdict) + (3 * losses + 1 + kWishes) * sizeof(double);
  }
  static constexpr size_t kWishes = 2; ///< to stop, to pause

  size_t losses;
  Verdict *verdict;
  double *terms;        ///< [losses], without weights
  double *denominators; ///< [losses], sums over parts without guards
  double *numerators;   ///< [losses], sums over parts
  double *squares;      ///< [1], of all gradients
  double *wishes;       ///< [kWishes], how many ranks have each
};

/// What a numerator is divided by.
DT_HOST_DEVICE inline double guarded(const LossInfo &loss, double sum) {
  if (!loss.denominator)
    return 1;
  return (sum < loss.atLeast ? loss.atLeast : sum) + loss.plus;
}

/// A term, for its divisor.
DT_HOST_DEVICE inline double termOf(double numerator, double divisor) {
  return divisor == 0 ? 0 : numerator / divisor;
}

/// What a backward function of the loss begins with.
DT_HOST_DEVICE inline float seedOf(const LossInfo &loss, double denominator) {
  double divisor = guarded(loss, denominator);
  return divisor == 0 ? 0.f : float(double(loss.weight) / divisor);
}

/// What gradients of this norm are multiplied with; `clipNorm` 0: no clipping.
DT_HOST_DEVICE inline double clipScale(double clipNorm, double norm) {
  if (clipNorm <= 0)
    return 1;
  double scale = clipNorm / (norm + 1e-6);
  return scale > 1 ? 1.0 : scale; // NaN goes through, as in torch.clamp
}

/// From the sums to terms and verdict. `fault`: a task came upon an index that
/// is out of range.
DT_HOST_DEVICE inline void judge(const StepNumbers &step,
                                 const LossInfo *losses, double clipNorm,
                                 bool fault) {
  Verdict verdict{0, std::sqrt(*step.squares), 1, !fault};
  for (size_t l = 0; l < step.losses; ++l) {
    double term =
        termOf(step.numerators[l], guarded(losses[l], step.denominators[l]));
    step.terms[l] = term;
    verdict.loss += double(losses[l].weight) * term;
    verdict.applies = verdict.applies && isFinite(term);
  }
  verdict.applies =
      verdict.applies && isFinite(verdict.loss) && isFinite(verdict.norm);
  verdict.scale = clipScale(clipNorm, verdict.norm);
  *step.verdict = verdict;
}

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_STEPNUMBERS_H

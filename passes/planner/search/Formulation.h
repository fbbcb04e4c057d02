//===- Formulation.h - DistTrain's orchestration problem --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The optimisation problem of DistTrain (SIGCOMM'25, section 4.2), solved
// exactly over integers. The paper enumerates TP and DP and solves a convex
// problem in the GPU counts for each, in 922 ms at 1296 GPUs. Here PP is the
// integer unknown, and the bound
//     objective >= sum over units of warmup_i / VPP + (n - 1) * work_i / GPUs
// is a sum over units, so sorted lists of (TP, DP) end the enumeration early:
// a fraction of a millisecond.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_SEARCH_FORMULATION_H
#define PASSES_PLANNER_SEARCH_FORMULATION_H

#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dt::planner {

/// Divisors, ascending.
std::vector<int64_t> divisors(int64_t n);

/// A unit as the formulation sees it. Times in any one unit, bytes in any one.
struct FormulaUnit {
  std::string name;
  /// Forward and backward of one sample on one TP group that holds the whole
  /// unit, by TP degree.
  std::map<int64_t, double> time;
  int64_t layers = 1;                   ///< most pipeline stages
  double parameters = 0, optimizer = 0; ///< with gradients; ZeRO-1 state
  double activations = 0;               ///< of one sample
};

/// Of a model and a cluster that were checked; `micro` divides the batch.
struct FormulaProblem {
  int64_t gpus = 1, batch = 1, micro = 1, vpp = 1;
  double memory = 0;      ///< of a GPU
  bool ppDivides = false; ///< stages must hold equally many layers
  FormulaUnit backbone;
  /// Encoders and generators: in front of and behind the backbone.
  std::vector<FormulaUnit> others;
};

struct FormulaLayout {
  int64_t tp = 0, dp = 0, pp = 0;
  double stageTime = 0, warmup = 0;
  int64_t gpus() const { return tp * dp * pp; }
};

struct FormulaPlan {
  double objective = 0;
  int64_t microbatches = 0;
  FormulaLayout backbone;
  std::vector<FormulaLayout> others;
};

/// Objective of a layout, whether or not it fits.
double evaluateFormula(const FormulaProblem &problem, const FormulaPlan &plan);

/// Whether every unit of a plan fits the problem's memory.
bool fitsMemory(const FormulaProblem &problem, const FormulaPlan &plan);

/// The optimum, or an error that says which unit does not fit and by how much.
llvm::Expected<FormulaPlan> solveFormula(const FormulaProblem &problem);

} // namespace dt::planner

#endif // PASSES_PLANNER_SEARCH_FORMULATION_H

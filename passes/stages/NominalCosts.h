//===- NominalCosts.h - Nominal times of functions --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What balances stages and orders tasks before anything has been measured: each
// op takes the longer of its arithmetic and its memory traffic at nominal
// rates, at the bounds of ragged dims. Only ratios matter.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_STAGES_NOMINALCOSTS_H
#define PASSES_STAGES_NOMINALCOSTS_H

#include "dialects/dist/DistOps.h"

namespace dt::stages {

/// Nominal rates: 10 GFLOP/s and 10 GB/s of a rank, messages at 1 GB/s and
/// 10 us.
inline constexpr int64_t kFlopsPerNs = 10, kBytesPerNs = 10;
inline constexpr int64_t kMessageBytesPerNs = 1, kMessageNs = 10000;

struct NominalCost {
  double flops = 0, ns = 0;
  NominalCost &operator+=(const NominalCost &other) {
    flops += other.flops;
    ns += other.ns;
    return *this;
  }
};

/// Costs of ops and functions of one module; a function is looked at once.
class NominalCosts {
public:
  explicit NominalCosts(dist::ModuleOp module) : module(module) {}

  /// Of an op, with what it calls.
  NominalCost of(mlir::Operation *op);
  NominalCost of(mlir::func::FuncOp function);
  /// Bytes of a tensor, or any polynomial, at the bounds of the module's dims;
  /// 0 where a dim has none.
  double bytesOf(mlir::Type type);
  double atBounds(const nn::DimExpr &size);

private:
  dist::ModuleOp module;
  llvm::DenseMap<mlir::Operation *, NominalCost> functions;
};

/// A double as an integer of a scheduling problem.
int64_t toInteger(double ns);

} // namespace dt::stages

#endif // PASSES_STAGES_NOMINALCOSTS_H

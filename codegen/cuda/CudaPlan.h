//===- CudaPlan.h - how many threads a kernel has ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_CUDA_CUDAPLAN_H
#define CODEGEN_CUDA_CUDAPLAN_H

#include "dialects/rt/RTBytes.h"
#include "dialects/rt/RTShape.h"

namespace dt::codegen {

constexpr unsigned kWarp = 32;

/// How a kernel is started.
struct CudaPlan {
  explicit CudaPlan(rt::KernelOp kernel);

  rt::KernelShape shape;
  bool narrow;           ///< indices fit an int
  unsigned lanes = 1;    ///< threads a point; column: no meaning
  unsigned points = 256; ///< a block; column: no meaning
  int64_t width = 0;     ///< column: cells a point has at most
  mlir::Type partial;    ///< column, all: of what parts leave

  unsigned threads() const { return lanes * points; }
};

} // namespace dt::codegen

#endif // CODEGEN_CUDA_CUDAPLAN_H

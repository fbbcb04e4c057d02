//===- CudaPlan.h - how many threads a kernel has ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_CODEGEN_CUDAPLAN_H
#define DT_RUNTIME_DEVICE_CUDA_CODEGEN_CUDAPLAN_H

#include "dialects/rt/RTAlign.h"
#include "dialects/rt/RTBytes.h"
#include "runtime/device/cuda/codegen/CudaAccess.h"

namespace dt::codegen {

constexpr unsigned kWarp = 32, kTiles = 8;

/// How a kernel is started.
struct CudaPlan {
  CudaPlan(rt::KernelOp kernel, rt::BufferAlignment &alignment);

  rt::KernelShape shape;
  bool narrow;           ///< indices fit an int
  unsigned lanes = 1;    ///< threads a point; column: no meaning
  unsigned points = 256; ///< a block; column: no meaning
  /// Elements of a row, or points, that a thread has side by side.
  unsigned vector = 1;
  /// row: how often a lane has so many; 0: it walks the row in loops, and keeps
  /// nothing from one to the next.
  unsigned steps = 0;
  int64_t shared = 0; ///< row: bytes of what a block keeps beside registers
  /// row: loops that find a largest value, and those that add up exponentials
  /// of differences to it: both are one loop, in pieces of `kPiece` elements a
  /// lane.
  llvm::DenseMap<mlir::Operation *, rt::LaneNest> online;
  static constexpr unsigned kPiece = 8;
  /// point: blocks are squares of 32 points along the last bound and this one,
  /// along which something is read that is written along the last; or none.
  std::optional<unsigned> tile;
  bool scattered = false; ///< row: rt::getScatterSum; a warp a row and point
  int64_t width = 0;      ///< column, scattered: cells a point has at most
  mlir::Type partial;     ///< column, all: of what parts leave

  llvm::DenseMap<mlir::Operation *, CudaAccess> accesses;

  unsigned threads() const {
    if (shape == rt::KernelShape::column)
      return kTiles * kWarp;
    return shape == rt::KernelShape::point ? points / vector : lanes * points;
  }
  /// As dt::rt::cuda::partsFor: into how many parts so many iterations are cut,
  /// where a part has so many blocks.
  int64_t getParts(int64_t blocks, int64_t trips) const;

  /// Whether kernels of equal bodies are printed equally.
  bool isSame(rt::KernelOp own, const CudaPlan &other,
              rt::KernelOp others) const;
  CudaAccess getAccess(mlir::Operation *access) const {
    return accesses.lookup(access);
  }
  /// column: whether a thread does this once, when its rows are added up.
  bool isCell(mlir::Operation *access) const { return cells.contains(access); }

private:
  void planCells(rt::ColumnSum &sum);
  void planAccesses(rt::KernelOp kernel, const rt::BufferBytes &bytes,
                    rt::BufferAlignment &alignment,
                    llvm::ArrayRef<rt::LaneNest> nests);

  llvm::SmallPtrSet<mlir::Operation *, 4> cells;
};

} // namespace dt::codegen

#endif // DT_RUNTIME_DEVICE_CUDA_CODEGEN_CUDAPLAN_H

//===- CudaBody.h - the body of a kernel, shared by threads -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Prints a kernel by its shape (dialects/rt/RTKernel.td). The threads that
// share a point are its lanes: a warp, or a block where loops are long. They
// stride over its lane nests and combine what they carry; all else every lane
// does for itself, and the first one stores.
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_CUDA_CUDABODY_H
#define CODEGEN_CUDA_CUDABODY_H

#include "codegen/common/KernelBody.h"
#include "codegen/cuda/CudaPlan.h"

namespace dt::codegen {

class CudaBody : public KernelBody {
public:
  CudaBody(mlir::OpBuilder &builder, NameScope &names, rt::KernelOp kernel)
      : CudaBody(builder, names, kernel, CudaPlan(kernel)) {}

  mlir::LogicalResult run();

protected:
  mlir::LogicalResult visitStore(rt::StoreOp store) override;
  mlir::LogicalResult visitFor(mlir::scf::ForOp loop) override;

private:
  CudaBody(mlir::OpBuilder &builder, NameScope &names, rt::KernelOp kernel,
           const CudaPlan &plan)
      : KernelBody(builder, names, /*simd=*/false, plan.narrow), kernel(kernel),
        plan(plan) {}
  /// Gives the kernel's indices names, from the number of the point.
  void namePoint(llvm::StringRef point);
  /// "if (point >= number) return;"
  void leaveBeyond(llvm::StringRef point);
  mlir::LogicalResult runColumns();
  mlir::LogicalResult visitRows(rt::ColumnSum &sum, llvm::StringRef total);
  mlir::LogicalResult finishColumns(rt::ColumnSum &sum, llvm::StringRef total,
                                    llvm::StringRef column);
  /// An index, and what it is made of.
  mlir::LogicalResult nameSlice(mlir::Value value);
  /// The number of iterations of a nest of loops as text.
  mlir::FailureOr<std::string>
  countTrips(llvm::ArrayRef<mlir::scf::ForOp> loops);
  /// Names the loops' variables, from the number of the iteration.
  void nameIterations(llvm::ArrayRef<mlir::scf::ForOp> loops,
                      llvm::StringRef number);
  mlir::LogicalResult visitNest(rt::LaneNest &nest);
  mlir::LogicalResult visitNestBody(rt::LaneNest &nest);
  void combineLanes(mlir::scf::ForOp loop, unsigned i, mlir::Value variable);
  /// A part of a loop leaves its value, unless it is the only one.
  void leavePart(mlir::scf::ForOp loop, mlir::Value variable);
  bool needsBarrier(mlir::Value buffer);
  bool writesShared(mlir::Operation *op);
  void barrier(mlir::Location loc);

  rt::KernelOp kernel;
  CudaPlan plan;
  std::string lane, first = "0", stride; ///< of loops that lanes share
  std::string pointName;
  bool inNest = false;
};

} // namespace dt::codegen

#endif // CODEGEN_CUDA_CUDABODY_H

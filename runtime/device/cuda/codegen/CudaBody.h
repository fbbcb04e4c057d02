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

#ifndef DT_RUNTIME_DEVICE_CUDA_CODEGEN_CUDABODY_H
#define DT_RUNTIME_DEVICE_CUDA_CODEGEN_CUDABODY_H

#include "codegen/common/KernelBody.h"
#include "runtime/device/cuda/codegen/CudaPlan.h"

namespace dt::codegen {

/// The runtime's name of how an op combines two values.
std::string combineName(mlir::Operation *op);
/// What changes nothing when it is combined.
std::string identityText(mlir::Operation *op);

/// `Add::of<type>(a, b)`, of an op that combines.
std::string combined(mlir::Operation *op, llvm::StringRef type,
                     const cpp::Code &a, const cpp::Code &b);

// The hardware's numbers.
constexpr char kBlock[] = "blockIdx.x", kThread[] = "threadIdx.x";
// The runtime's calls that move a thread's elements.
constexpr char kLoadPacks[] = "dt::rt::cuda::loadPacks",
               kStorePacks[] = "dt::rt::cuda::storePacks";

class CudaBody : public KernelBody {
public:
  CudaBody(mlir::OpBuilder &builder, NameScope &names, rt::KernelOp kernel,
           const CudaPlan &plan)
      : KernelBody(builder, names, /*simd=*/false, plan.narrow), kernel(kernel),
        plan(plan), steps(plan.steps) {}

  mlir::LogicalResult run();

protected:
  std::string nameLoad(rt::LoadOp load) override;
  mlir::LogicalResult visitStore(rt::StoreOp store) override;
  mlir::LogicalResult visitFor(mlir::scf::ForOp loop) override;

private:
  /// Gives the kernel's indices names, from the number of the point.
  void namePoint(llvm::StringRef point);
  /// A number as one of indices.
  std::string index(const cpp::Code &number) const {
    return cpp::call(indexType(), {number});
  }
  void unroll(mlir::Location loc, unsigned times = 0);
  /// Opens a loop of `count` iterations that is unrolled; gives what its
  /// variable is called.
  std::string openUnrolled(mlir::Location loc, int64_t count,
                           llvm::StringRef wanted, int64_t step = 1);
  void leaveBeyond(llvm::StringRef point);
  mlir::LogicalResult runColumns();
  // Sums into rows that data says (CudaScatter.cpp).
  mlir::LogicalResult runScattered();
  int64_t columnsOfLane() const { return (plan.width + kWarp - 1) / kWarp; }
  mlir::FailureOr<std::string> keyOf(rt::ColumnSum &sum, llvm::StringRef row);
  mlir::LogicalResult addRows(rt::ColumnSum &sum, llvm::StringRef row,
                              llvm::StringRef key, llvm::StringRef totals);
  mlir::LogicalResult addTotals(rt::ColumnSum &sum, llvm::StringRef key,
                                llvm::StringRef totals);
  /// What a lane does for its columns, of which the number is called `k`.
  mlir::LogicalResult
  visitColumns(rt::ColumnSum &sum,
               llvm::function_ref<mlir::LogicalResult(llvm::StringRef k)> body);
  mlir::LogicalResult visitRows(rt::ColumnSum &sum, llvm::StringRef total);
  mlir::LogicalResult addColumn(rt::ColumnSum &sum, llvm::StringRef total);
  mlir::LogicalResult finishColumns(rt::ColumnSum &sum, llvm::StringRef total,
                                    llvm::StringRef column);
  /// An index, and what it is made of.
  mlir::LogicalResult nameSlice(mlir::Value value);
  /// What of an index is made of the variable has no name any more.
  void forgetSlice(mlir::Value value, mlir::Value variable);
  /// The number of iterations of a nest of loops as text.
  mlir::FailureOr<std::string>
  countTrips(llvm::ArrayRef<mlir::scf::ForOp> loops);
  /// Names the loops' variables, from the number of the iteration.
  void nameIterations(llvm::ArrayRef<mlir::scf::ForOp> loops,
                      llvm::StringRef number);
  mlir::LogicalResult visitNest(rt::LaneNest &nest);
  /// All of a loop's body but what it yields and the next loop of its nest.
  mlir::LogicalResult visitStatements(mlir::scf::ForOp loop,
                                      mlir::scf::ForOp inner = {});
  mlir::LogicalResult visitNestBody(rt::LaneNest &nest,
                                    llvm::ArrayRef<mlir::Value> variables);
  /// Declares what a nest carries.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> beginNest(rt::LaneNest &nest);

  // Threads with several elements side by side (CudaPacks.cpp).
  mlir::LogicalResult runPoints(llvm::StringRef point);
  mlir::LogicalResult visitSteps(rt::LaneNest &nest,
                                 llvm::ArrayRef<mlir::Value> variables,
                                 llvm::StringRef trips);
  mlir::LogicalResult visitPart(rt::LaneNest &nest,
                                llvm::ArrayRef<mlir::Value> variables,
                                llvm::StringRef trips);
  mlir::LogicalResult visitOnline(rt::LaneNest &most, rt::LaneNest &sum);
  /// What statements around those of one element do: packs are loaded ahead of
  /// them and stored behind them.
  mlir::LogicalResult
  visitNeighbours(llvm::ArrayRef<Access> accesses, mlir::Value variable,
                  llvm::StringRef first, llvm::StringRef step,
                  llvm::function_ref<mlir::LogicalResult()> body);
  void movePacks(mlir::Location loc, llvm::StringRef callee, int64_t pack,
                 const cpp::Code &to, const cpp::Code &from);
  std::string declareArray(const Access &access, unsigned size);
  std::string elementOf(llvm::StringRef array, mlir::Operation *source) const;
  /// The address of an access where `variable` is called `first`.
  mlir::FailureOr<std::string>
  placeOf(const Access &access, mlir::Value variable, llvm::StringRef first);
  mlir::FailureOr<std::string> plusText(mlir::Value index, mlir::Value variable,
                                        llvm::StringRef first);
  // Squares of points (CudaTiles.cpp).
  mlir::LogicalResult runTiles();
  void nameSquare(mlir::Value along, mlir::Value across);
  /// What the threads of a block do for the square's points, neighbours along
  /// `along`.
  mlir::LogicalResult
  visitSquare(mlir::Value along, mlir::Value across,
              llvm::function_ref<mlir::LogicalResult()> body);

  void combineLanes(mlir::scf::ForOp loop, unsigned i, mlir::Value variable);
  /// A part of a loop leaves what it has and returns, unless it is the only
  /// one.
  void leavePart(mlir::Location loc, llvm::function_ref<void()> leave);
  /// What a part has left for the kernel's point.
  std::string partialOf(const cpp::Code &part) const;
  bool needsBarrier(mlir::Value buffer);
  bool writesShared(mlir::Operation *op);
  void barrier(mlir::Location loc);

  rt::KernelOp kernel;
  const CudaPlan &plan;
  std::string lane, first = "0", stride; ///< of loops that lanes share
  unsigned steps;                        ///< as the plan's, or of a piece
  std::string piece;                     ///< of a row: its begin
  std::string pointName, cell, sharedName;
  bool inNest = false;
  /// A thread's elements, by the access that fills the array; the subscript of
  /// an iteration's in those that are kept from one loop to the next and in
  /// others.
  llvm::DenseMap<mlir::Operation *, std::string> arrays;
  std::string kept, neighbour;
  llvm::DenseMap<mlir::Value, std::string> corners; ///< of a block's square
};

} // namespace dt::codegen

#endif // DT_RUNTIME_DEVICE_CUDA_CODEGEN_CUDABODY_H

//===- CudaAccess.h - loads and stores of a kernel's body -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_CODEGEN_CUDAACCESS_H
#define DT_RUNTIME_DEVICE_CUDA_CODEGEN_CUDAACCESS_H

#include "dialects/rt/RTShape.h"

namespace dt::codegen {

/// An rt.load or rt.store.
struct Access {
  explicit Access(mlir::Operation *op)
      : op(op), isStore(mlir::isa<rt::StoreOp>(op)) {
    auto load = mlir::dyn_cast<rt::LoadOp>(op);
    auto store = mlir::dyn_cast<rt::StoreOp>(op);
    buffer = load ? load.getBuffer() : store.getBuffer();
    indices = load ? mlir::ValueRange(load.getIndices())
                   : mlir::ValueRange(store.getIndices());
  }
  rt::BufferType type() const {
    return mlir::cast<rt::BufferType>(buffer.getType());
  }
  /// Of an element.
  int64_t bytes() const { return nn::getElementBytes(type().getElementType()); }

  mlir::Operation *op;
  bool isStore;
  mlir::Value buffer; ///< the body's argument
  mlir::ValueRange indices;
};

/// All of a kernel, from its begin to its end.
llvm::SmallVector<Access> getAccesses(rt::KernelOp kernel);
/// The same elements, in one loop or in two.
bool isSamePlace(const Access &a, const Access &b);

/// Whether the value is made of the variable.
bool dependsOn(mlir::Value value, mlir::Value variable);
/// Whether it is the variable, or that and something without it.
bool isPlus(mlir::Value value, mlir::Value variable);

/// How an access is printed.
struct CudaAccess {
  enum Kind {
    Memory,
    Register, ///< of a load: another one kept the value
    Nothing   ///< of a store: a later one overwrites it
  } kind = Memory;
  /// Register: the access that left the value.
  mlir::Operation *source = nullptr;
  bool kept = false; ///< others find the value where this one left it
  /// kept: so many of a thread's last elements are in shared memory, from here
  /// in the plan's.
  unsigned shared = 0;
  int64_t begin = 0;
  unsigned vector = 1; ///< elements at once
  bool tiled = false;  ///< memory is touched along its rows all the same
};

} // namespace dt::codegen

#endif // DT_RUNTIME_DEVICE_CUDA_CODEGEN_CUDAACCESS_H

//===- FunctionEmitter.h - one rt.func as a struct with run() ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_COMMON_FUNCTIONEMITTER_H
#define CODEGEN_COMMON_FUNCTIONEMITTER_H

#include "codegen/common/ModuleEmitter.h"

namespace dt::codegen {

/// Fields that an argument of a function has in its struct.
llvm::SmallVector<std::string> argumentNames(rt::FuncOp function,
                                             NameScope &scope);

class FunctionEmitter {
public:
  FunctionEmitter(ModuleEmitter &owner, rt::FuncOp function,
                  llvm::StringRef type)
      : owner(owner), function(function), bytes(function), type(type.str()) {}

  /// Emits the class at the end of the module's functions file.
  mlir::LogicalResult emit();

private:
  mlir::LogicalResult emitFields();
  mlir::LogicalResult emitOp(mlir::Operation *op);
  mlir::LogicalResult emitKernelCall(rt::KernelOp kernel);
  mlir::LogicalResult emitCall(rt::CallOp call);
  mlir::LogicalResult emitMatmul(rt::MatmulOp op);
  /// GroupedShape.
  template <typename OpT> cpp::Code groupedShape(OpT op, bool transB);
  template <typename OpT>
  mlir::LogicalResult emitConv(OpT op, llvm::StringRef callee,
                               mlir::ValueRange buffers);
  template <typename OpT>
  mlir::LogicalResult emitAttention(OpT op, llvm::StringRef callee,
                                    mlir::ValueRange others);
  mlir::LogicalResult emitCheckIndices(rt::CheckIndicesOp op);
  mlir::LogicalResult emitRoute(rt::RouteOp op);
  mlir::LogicalResult emitRankPlace(rt::RankPlaceOp op);
  mlir::LogicalResult emitCollective(rt::CollectiveOp op);
  mlir::LogicalResult emitEvent(llvm::StringRef callee, mlir::Value event,
                                rt::Stream stream);
  /// `dt::rt::callee(buffers…, extra…)`; a null buffer is nullptr.
  mlir::LogicalResult libraryCall(llvm::StringRef callee,
                                  mlir::ValueRange buffers, cpp::Codes extra);
  /// With text between buffers, if it is not empty.
  mlir::LogicalResult libraryCall(llvm::StringRef callee,
                                  mlir::ValueRange buffers,
                                  const cpp::Code &between,
                                  mlir::ValueRange others, cpp::Codes extra);
  /// A buffer as an EmitC value: a field or an address computed from one.
  mlir::Value value(mlir::Value buffer);
  std::string text(mlir::Value buffer) { return texts.lookup(buffer); }
  std::string size(const nn::DimExpr &dim);
  std::string sizes(nn::DimsAttr dims);

  ModuleEmitter &owner;
  rt::FuncOp function;
  rt::BufferBytes bytes;
  std::string type;
  NameScope fields;
  llvm::DenseMap<mlir::Value, std::string> texts;
  llvm::DenseMap<mlir::Value, mlir::Type>
      fieldTypes; ///< of buffers that are fields
  llvm::DenseMap<mlir::Value, std::string>
      plainNames; ///< for the kernels' pointers
};

} // namespace dt::codegen

#endif // CODEGEN_COMMON_FUNCTIONEMITTER_H

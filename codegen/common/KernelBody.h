//===- KernelBody.h - scalar code of rt.kernel as EmitC ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Turns arith, math, scf and rt.load/rt.store into EmitC. EmitC prints a
// variable for every value; so that a person can read the result, values with
// one use become part of the expression that uses them (emitc.expression), and
// indices, which are values that EmitC would name v1, v2, ..., are kept as text
// ("row * 64 + column"). The body is the same for all targets; only loop
// pragmas differ.
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_COMMON_KERNELBODY_H
#define CODEGEN_COMMON_KERNELBODY_H

#include "codegen/common/Names.h"
#include "codegen/common/Text.h"
#include "dialects/rt/RTOps.h"

#include "mlir/Dialect/EmitC/IR/EmitC.h"

namespace dt::codegen {

/// The C type of a scalar; null if there is none.
mlir::Type scalarType(mlir::Type type);
/// The C type of a buffer's element. One that C++ has no type of is the
/// runtime's: it becomes a float when it is read, and is assigned from one.
mlir::Type elementType(mlir::Type type);
/// "float", "int64_t", ... of a scalar or of an element; empty if there is
/// none.
llvm::StringRef cTypeName(mlir::Type type);
/// The runtime's type of a buffer's elements, if it has one.
std::optional<rt::DType> dtypeOf(mlir::Type element);

/// `callee<templates>(arguments)`, where "{}" stands for the next of `values`,
/// as in emitc.verbatim.
mlir::emitc::CallOpaqueOp
createCall(mlir::OpBuilder &b, mlir::Location loc, mlir::TypeRange results,
           llvm::StringRef callee, cpp::Codes arguments,
           mlir::ValueRange values = {}, cpp::Codes templates = {});

class KernelBody {
public:
  virtual ~KernelBody() = default;
  /// Emits at `builder`. With `simd`, rt.simd loops get `#pragma omp simd`.
  /// `narrow`: indices that do not come from data are `int`.
  KernelBody(mlir::OpBuilder &builder, NameScope &names, bool simd,
             bool narrow = false)
      : b(builder), names(names), simd(simd), narrow(narrow) {}

  /// What buffers and indices are called.
  void bind(mlir::Value value, llvm::StringRef text) {
    texts[value] = text.str();
  }
  /// C type of the indices.
  std::string indexType() const { return narrow ? "int" : "int64_t"; }
  /// All ops of a block but its terminator. Fails with an error at the op that
  /// has no C++ form.
  mlir::LogicalResult emit(mlir::Block &block);

  /// `for (int64_t n = lower; n < upper; n += step)`; the builder is left
  /// inside.
  mlir::emitc::ForOp openLoop(mlir::Location loc, const cpp::Code &lower,
                              const cpp::Code &upper, const cpp::Code &step);
  /// Gives the loop's variable a name inside the loop, where the builder is.
  std::string nameLoopVariable(mlir::emitc::ForOp loop, llvm::StringRef wanted);
  void line(mlir::Location loc, llvm::StringRef text,
            mlir::ValueRange args = {});

protected:
  /// An expression while it is built: leaves are operands of emitc.expression.
  struct Tree;

  mlir::LogicalResult visit(mlir::Operation *op);
  /// What a loaded value is called that does not come from memory; empty: it
  /// does.
  virtual std::string nameLoad(rt::LoadOp load) { return ""; }
  virtual mlir::LogicalResult visitStore(rt::StoreOp store);
  virtual mlir::LogicalResult visitFor(mlir::scf::ForOp loop);
  mlir::LogicalResult visitIf(mlir::scf::IfOp op);
  // Statements.cpp
  mlir::Value literal(mlir::Location loc, mlir::Type type,
                      const cpp::Code &text);
  /// Assigns a call; of arguments that are variables it gets the values.
  void assignCall(mlir::Location loc, mlir::Value variable,
                  llvm::StringRef callee, mlir::ValueRange arguments,
                  cpp::Codes templates = {});
  /// `if (condition) { body }`
  void under(mlir::Location loc, const cpp::Code &condition,
             llvm::function_ref<void()> body);
  mlir::LogicalResult
  visitUnder(mlir::Location loc, const cpp::Code &condition,
             llvm::function_ref<mlir::LogicalResult()> body);
  /// `if (condition) { return; }`
  void returnIf(mlir::Location loc, const cpp::Code &condition);
  /// The builder is left inside an emitc.if's branch; and its end.
  void openBranch(mlir::Region &branch);
  void closeBranch(mlir::Region &branch);
  mlir::LogicalResult assignYields(mlir::Operation *yield,
                                   llvm::ArrayRef<mlir::Value> variables);
  bool visitConstant(mlir::Operation *op);
  bool visitIndex(mlir::Operation *op);
  /// Whether the value can wait and be printed where it is used.
  static bool canInline(mlir::Operation *op);
  /// Emits loads that wait before something that may overwrite what they read.
  mlir::LogicalResult flushLoads();
  mlir::LogicalResult materialize(mlir::Operation *op);

  /// The value as one EmitC value that may be used once.
  mlir::FailureOr<mlir::Value> expression(mlir::Value value,
                                          bool noInline = false);
  mlir::LogicalResult collect(mlir::Value value, Tree &tree);
  mlir::Value make(mlir::Value value, Tree &tree);
  /// Pointer and subscript of an element.
  std::pair<std::string, std::string> address(mlir::Value buffer,
                                              mlir::ValueRange indices);
  /// `pointer[subscript]`
  std::string place(mlir::Value buffer, mlir::ValueRange indices);
  mlir::Value subscript(mlir::Value buffer, mlir::ValueRange indices);
  /// The value as text; named by a constant of its own if it has none yet.
  mlir::FailureOr<std::string> text(mlir::Value value,
                                    llvm::StringRef wanted = "at");
  mlir::Value variable(mlir::Location loc, mlir::Type type,
                       llvm::StringRef init);

  mlir::OpBuilder &b;
  NameScope &names;
  bool simd, narrow;
  llvm::DenseMap<mlir::Value, std::string> texts;
  llvm::DenseMap<mlir::Value, mlir::Value>
      values; ///< EmitC values, or lvalues that no longer change
  llvm::SetVector<mlir::Operation *>
      waiting; ///< ops that will be printed where they are used
};

/// The EmitC form of a scalar op on converted operands; null if there is none.
/// Creates only ops that may stand in an expression, and uses each operand
/// once: an op that names operands twice (below) gets all of them a second time
/// behind the first.
mlir::Value convertScalar(mlir::OpBuilder &b, mlir::Operation *op,
                          mlir::ValueRange operands);
/// Whether the C++ form names an operand twice, so that operands must be
/// variables.
bool repeatsOperands(mlir::Operation *op);

} // namespace dt::codegen

#endif // CODEGEN_COMMON_KERNELBODY_H

//===- ModuleEmitter.h - one rt.module as C++ -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A module becomes three files: a header with structs that name its sizes,
// parameters and arena tensors; its kernels; its functions. An rt.func is a
// struct whose fields are all buffers that it works on and whose method run()
// is the code, so that calls read as a list of named buffers.
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_COMMON_MODULEEMITTER_H
#define CODEGEN_COMMON_MODULEEMITTER_H

#include "codegen/common/Target.h"
#include "dialects/rt/RTBytes.h"

#include <map>

namespace dt::codegen {

/// C++ names of a module's things; program tables use them too.
struct ModuleNames {
  std::string module; ///< identifier, also the stem of the files
  std::string type;   ///< prefix of types
  llvm::StringMap<std::string> parameters, buffers; ///< symbol -> field
  /// Kind and callee of an entry -> function.
  std::map<std::pair<rt::TaskKind, std::string>, std::string> entries;

  /// The function of an entry; empty: there is no such entry.
  std::string getFunction(rt::TaskKind kind, llvm::StringRef callee) const {
    auto it = entries.find({kind, callee.str()});
    return it == entries.end() ? std::string() : it->second;
  }
};

/// Distinct operands of a kernel and, for each body argument, which of them it
/// is.
struct KernelOperands {
  KernelOperands(rt::KernelOp kernel, const rt::BufferBytes &bytes);
  llvm::SmallVector<mlir::Value> values;
  llvm::SmallVector<unsigned> operandOf;
  llvm::SmallVector<bool> written;
  llvm::SmallVector<bool>
      restricted; ///< what is written through one of them nobody else touches
};

/// Opens a generated file; the builder is left inside.
mlir::emitc::FileOp openFile(mlir::OpBuilder &builder, mlir::Location loc,
                             llvm::StringRef id, llvm::StringRef comment);
/// The prototype of a function that is defined in another file.
mlir::emitc::FuncOp
declareFunction(mlir::OpBuilder &builder, mlir::Location loc,
                llvm::StringRef name, mlir::FunctionType type,
                llvm::ArrayRef<llvm::StringRef> specifiers = {});
/// Of functions that run a task.
mlir::FunctionType entryType(mlir::OpBuilder &builder);

/// Removes lines that name a constant or a pointer which nothing uses:
/// compilers warn of them.
void dropUnusedNames(mlir::emitc::FuncOp function);

class ModuleEmitter {
public:
  /// Adds files to `builder`'s module. `scope` has the names of all modules'
  /// globals.
  ModuleEmitter(rt::ModuleOp module, const Target &target,
                mlir::OpBuilder &builder, NameScope &scope);

  mlir::LogicalResult emit();
  const ModuleNames &getNames() const { return names; }
  /// Adds what the emitted kernels ask of a device.
  void listKernels(std::vector<KernelRow> &rows);
  /// Stems of the files with code.
  llvm::ArrayRef<std::string> getSources() const { return sources; }

private:
  friend class FunctionEmitter;
  mlir::LogicalResult emitHeader();
  void emitSizes();
  mlir::LogicalResult emitPointers(llvm::StringRef type,
                                   llvm::StringRef comment, bool gradients);
  void emitContextFunction();
  mlir::FunctionType contextType();
  mlir::LogicalResult emitEntry(rt::EntryOp entry);
  mlir::LogicalResult emitFunctions();
  /// The function of a kernel, emitted once for equal kernels.
  mlir::FailureOr<std::string>
  kernelFunction(rt::KernelOp kernel, const KernelOperands &operands,
                 llvm::StringRef function,
                 llvm::ArrayRef<std::string> bufferNames);
  mlir::LogicalResult emitKernel(rt::KernelOp kernel,
                                 const KernelOperands &operands,
                                 llvm::StringRef name,
                                 llvm::ArrayRef<std::string> bufferNames);
  std::string constantTable(rt::ConstantOp constant);
  /// Declares names of a kernel's sizes and pointers in the scope; gives what
  /// its buffers are called.
  llvm::SmallVector<std::string>
  nameParameters(rt::KernelOp kernel, const KernelOperands &operands,
                 llvm::ArrayRef<std::string> bufferNames, NameScope &scope);

  /// Opens a file of code, `stem` with the target's extension, which has `what`
  /// of the module.
  mlir::emitc::FileOp source(llvm::StringRef stem, llvm::StringRef what);
  void include(llvm::StringRef path);
  void line(llvm::StringRef text, mlir::ValueRange args = {});
  void field(llvm::StringRef name, mlir::Type type, llvm::StringRef comment,
             llvm::StringRef init = "");
  mlir::emitc::ClassOp openClass(llvm::StringRef name, cpp::Codes comment);
  mlir::emitc::FuncOp
  openFunction(llvm::StringRef name, mlir::FunctionType type,
               llvm::ArrayRef<llvm::StringRef> specifiers = {});
  mlir::Type opaque(llvm::StringRef text) const;
  mlir::Type pointer(mlir::Type element, bool isConst) const;

  rt::ModuleOp module;
  const Target &target;
  mlir::OpBuilder &b;
  mlir::Location loc;
  NameScope &scope;
  ModuleNames names;
  llvm::SmallVector<std::string> sources;
  mlir::emitc::FileOp header, kernels, functions;
  struct EmittedKernel {
    llvm::SmallVector<rt::KernelOp, 1> uses; ///< the first is printed
    KernelOperands operands;
    std::string name;
  };
  std::vector<EmittedKernel> emittedKernels;
  llvm::DenseMap<mlir::Attribute, std::string> constants;
  llvm::StringMap<std::string> functionTypes; ///< rt.func -> class
  /// Numbers of events: functions may call each other between the two ends.
  llvm::DenseMap<mlir::Value, unsigned> events;
};

/// Symbols that a kernel needs at run time, in the module's order.
llvm::SmallVector<std::string> kernelSymbols(rt::KernelOp kernel);

} // namespace dt::codegen

#endif // CODEGEN_COMMON_MODULEEMITTER_H

//===- Target.h - what differs between CPU and CUDA programs ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Kernel bodies, functions and tables are the same for all targets. A target
// says how the points of a kernel are walked, how a kernel is started, and what
// the directory needs to build.
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_COMMON_TARGET_H
#define CODEGEN_COMMON_TARGET_H

#include "codegen/Kernels.h"
#include "codegen/common/KernelBody.h"

#include <memory>

namespace dt::codegen {

/// A call of a function: its name, its template's arguments, its arguments.
struct Call {
  std::string callee;
  llvm::SmallVector<cpp::Code> templates, arguments;
};

class Target {
public:
  virtual ~Target() = default;

  /// Of generated sources: "cpp", "cu".
  virtual llvm::StringRef extension() const = 0;
  /// Headers of the runtime that generated sources include.
  virtual llvm::ArrayRef<llvm::StringLiteral> includes() const = 0;
  /// "__global__ " in front of kernel functions, or nothing.
  virtual std::string kernelSpecifier(rt::KernelOp kernel) const { return ""; }
  /// C type of indices and sizes in a kernel.
  virtual llvm::StringRef indexType(rt::KernelOp kernel) const {
    return "int64_t";
  }
  /// Type of a parameter that the kernel's function has behind buffers and
  /// sizes, called `parts`; or nothing.
  virtual llvm::StringRef lastParameter(rt::KernelOp kernel) const {
    return "";
  }
  /// Emits the loops (or the index computation) of a kernel and in them its
  /// body, in which a buffer argument is called by its name in `buffers`.
  virtual mlir::LogicalResult
  emitPoints(rt::KernelOp kernel, mlir::OpBuilder &builder, NameScope &names,
             llvm::ArrayRef<std::string> buffers) const = 0;
  /// What starts the kernel function `callee`, with the arguments ahead of the
  /// kernel's own; sizes read as `size.x`.
  virtual Call launch(rt::KernelOp kernel, llvm::StringRef callee) const {
    return {callee.str(), {}, {}};
  }
  /// How a launch names an argument of `count` elements at `address` that the
  /// kernel writes.
  virtual std::string writtenArgument(const cpp::Code &address,
                                      const cpp::Code &count) const {
    return address;
  }
  /// Whether kernels of equal bodies are printed equally, too.
  virtual bool isSame(rt::KernelOp a, rt::KernelOp b) const { return true; }
  /// Whether kernels are launched on a device, of which they ask something.
  virtual bool launches() const { return false; }
  /// Why a product, a convolution or an attention does not run on the units
  /// that multiply fastest; empty: it does, as far as is known before the
  /// program runs, or there are none.
  virtual llvm::StringRef getSlowness(mlir::Operation *call) const {
    return "";
  }
  virtual KernelCost cost(rt::KernelOp kernel) const { return {}; }
  /// The last argument of library calls on a stream: "context.stream" or
  /// nothing, where there is one order of everything.
  virtual llvm::StringRef streamArgument(rt::Stream stream) const { return ""; }
  /// The address of a table of constants called `name`.
  virtual std::string constantAddress(llvm::StringRef name) const {
    return name.str();
  }

  /// What the emitted CMakeLists.txt says; `sources` are the generated ones.
  /// Without `ranks` (the program has one) nothing is looked for that only
  /// several need.
  virtual std::string cmakeLists(llvm::StringRef program,
                                 llvm::ArrayRef<std::string> sources,
                                 bool ranks) const = 0;
  /// Whether a file of another target's folder ("device/cpu/Conv.h") is copied
  /// beside the own ones.
  virtual bool wantsFileOf(llvm::StringRef path) const { return false; }
};

struct TargetEntry {
  llvm::StringRef name;
  std::unique_ptr<Target> (*create)();
};
using Targets = std::vector<TargetEntry>;
/// Those of all folders.
const Targets &getTargets();
/// Null if there is no such target.
std::unique_ptr<Target> createTarget(llvm::StringRef name);

/// What an emitted CMakeLists.txt says of the runtime.
std::string runtimeTarget();
/// That the runtime's option `name` is off there, unless it is asked for.
std::string optionOff(llvm::StringRef name, llvm::StringRef why);
/// The targets of a CMakeLists.txt behind the runtime: the program's own.
std::string programTargets(llvm::ArrayRef<std::string> sources);

} // namespace dt::codegen

#endif // CODEGEN_COMMON_TARGET_H

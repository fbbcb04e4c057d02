//===- Kernels.h - what generated kernels ask of a device -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Said of kernels as a target prints them, from the IR alone: nothing runs. All
// sizes are the largest ones.
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_KERNELS_H
#define CODEGEN_KERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include <optional>
#include <string>
#include <vector>

namespace dt::codegen {

/// One kernel, started once. Bytes are what its loads and stores ask of memory:
/// each of them asks for each element that it touches once, however many
/// threads share it, and for whole sectors where neighbouring threads do not
/// touch neighbours; again for each iteration that touches memory that the
/// kernel also writes, or a place that data says.
struct KernelBytes {
  int64_t read = 0, written = 0;
  /// Each element of each operand read once, if its value comes from outside,
  /// and written once.
  int64_t least = 0;
  int64_t wide = 0; ///< of read and written, by accesses of 16 bytes

  int64_t total() const { return read + written; }
  /// How often the least is touched; 1 if there is nothing to touch.
  double ratio() const { return least ? double(total()) / least : 1; }
};

struct KernelCost {
  std::string shape;
  int64_t phases = 1;              ///< launches that one call makes
  int64_t blocks = 0;              ///< of the first
  int64_t threads = 0, shared = 0; ///< of a block; bytes of static memory
  /// Absent: the number of some iterations follows from data.
  std::optional<KernelBytes> bytes;
};

struct KernelRow {
  std::string name; ///< the generated function's
  std::string module;
  int64_t launches = 0; ///< in a step, on the module's first rank
  KernelCost cost;
};

/// All kernels of the program in `module`, in the order of the generated
/// sources. Errors, of a target without launches too, go to the module's
/// diagnostics.
mlir::FailureOr<std::vector<KernelRow>> listKernels(mlir::ModuleOp module,
                                                    llvm::StringRef target);

} // namespace dt::codegen

#endif // CODEGEN_KERNELS_H

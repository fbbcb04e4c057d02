//===- Diagnostics.h - Where errors and remarks go --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What is said about an imported model stands at a name (a key of a recipe, a
// node of a graph), not at a line of a file: it is printed as
// "place: error: text". Remarks may go to a file instead.
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_OPT_DIAGNOSTICS_H
#define TOOLS_DT_OPT_DIAGNOSTICS_H

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <mutex>
#include <string>

namespace dt {

/// "file:line:column: error: text", or with the name of a place, in one line:
/// names come from files that anyone may have written.
std::string describe(const mlir::Diagnostic &diagnostic);

/// Prints "error: message", of what has no place in a file.
llvm::LogicalResult fail(const llvm::Twine &message);

/// Outlives the contexts that it is attached to.
class Diagnostics {
public:
  /// Remarks are printed if `file` is empty. Prints an error if the file cannot
  /// be written.
  llvm::LogicalResult open(llvm::StringRef file);
  /// Ends the file. Prints an error if it does not hold all remarks.
  llvm::LogicalResult close();
  /// Handles the context's remarks and, if `named`, what has no line in a file.
  void attach(mlir::MLIRContext &context, bool named);

private:
  std::unique_ptr<llvm::raw_fd_ostream> remarks;
  std::string name; ///< of their file
  std::mutex mutex; ///< passes run on several threads
};

} // namespace dt

#endif // TOOLS_DT_OPT_DIAGNOSTICS_H

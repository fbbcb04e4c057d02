//===- Import.h - ONNX graph -> nn module -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The importer goes from ONNX to the nn dialect in one step: there is no ONNX
// dialect, because nothing would be done on it. While it walks the graph it
// folds shape arithmetic and index functions (masks, positions) symbolically,
// infers every type from the operators themselves, and decides what is a
// parameter.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_IMPORT_IMPORT_H
#define MODELS_FRONTEND_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dt::models {

/// Tensors and their elements together.
struct WeightCount {
  int64_t tensors = 0, numbers = 0;
  void add(int64_t elements) { ++tensors, numbers += elements; }
};

/// An external file that weights of a graph lie in and that does not exist.
struct AbsentFile {
  std::string path;
  bool meant = false; ///< the exporter left it out on purpose, and says so
  std::vector<std::string> weights;

  /// "28 weights ('wte.weight', 'wpe.weight', ...)".
  std::string listed() const;
};

struct ImportOptions {
  /// Symbol of the dist.module; empty: the file's name without `.onnx`, made
  /// an identifier.
  std::string moduleName;
  /// File name written into `#nn.onnx` / `#nn.init`; empty: the path as given.
  std::string recordedPath;
  /// Sizes of symbolic dims by their name in the file ("batch"). A dim that is
  /// bound is a plain number in every type.
  llvm::StringMap<int64_t> dims;
  /// Other names for symbolic dims ("batch" -> "samples"), applied before
  /// `dims` is looked up by either name. Two dims may get one name: then they
  /// are one size.
  llvm::StringMap<std::string> rename;
  /// Symbols (after `rename`) that may be 0, because they count items of which
  /// a part may have none. All others are taken to be at least 1 where a size
  /// depends on it.
  llvm::StringSet<> maybeEmpty;
  /// If given, gets the names of all symbolic dims of the graph's inputs, those
  /// of the file and those after `rename`.
  llvm::StringSet<> *seenDims = nullptr;
  /// Patterns over the initializers that train; absent: those that the file
  /// marks as parameters, or, without marks, floats with a name of their own.
  std::optional<std::vector<std::string>> trainable;
  /// Patterns over "moduleName.initializer": floats that are an nn.parameter
  /// whatever else is said; if they do not train by that, they are constants.
  std::vector<std::string> kept;
  /// If given, gets what is held constant of what the file marks as parameters
  /// (requires_grad is False); no nn.parameter stands for it.
  WeightCount *fixed = nullptr;
  /// If given, gets the files that weights lie in and that do not exist; else
  /// importOnnx() says so itself.
  std::vector<AbsentFile> *absent = nullptr;
};

/// Reads the ONNX file at `path` and makes a builtin module that holds one
/// `dist.module` with its `nn.dim`s, `nn.parameter`s and `@forward`. On bad or
/// unsupported input one error is emitted, `file: node 'name' (Op): reason`,
/// and the result is null. It says so if numbers for symbolic dims would help.
/// A graph with weights that an exporter folded into constants is an error
/// unless `trainable` says what trains. Remarks say what was taken as tied, and
/// what trains otherwise than the user may think.
///
/// A parameter's value stays in the file (`#nn.onnx`); where the file says that
/// it lies in external data that do not exist, the source is
/// `#nn.init<"", file, name>`: the rule is for the recipe to give. Absent data
/// of anything but weights are an error: no rule draws a table or a mask.
mlir::OwningOpRef<mlir::ModuleOp> importOnnx(mlir::MLIRContext &context,
                                             llvm::StringRef path,
                                             const ImportOptions &options = {});

/// Loads the dialects that importOnnx makes ops of.
void loadImportDialects(mlir::MLIRContext &context);

} // namespace dt::models

#endif // MODELS_FRONTEND_IMPORT_IMPORT_H

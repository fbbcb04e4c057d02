//===- Import.cpp - ONNX graph -> nn module -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What keeps a graph from being compiled is said together with what would help.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/Importer.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
/// Keeps errors back until it is known what else there is to say.
class HeldErrors {
public:
  explicit HeldErrors(MLIRContext &context)
      : handler(&context, [this](Diagnostic &d) {
          if (d.getSeverity() != DiagnosticSeverity::Error)
            return failure();
          errors.emplace_back(d.getLocation(), d.str());
          return success();
        }) {}

  std::vector<std::pair<Location, std::string>> errors;

private:
  ScopedDiagnosticHandler handler;
};
} // namespace

/// Whether a graph that stopped behind `done` nodes gets further with `size`
/// for `dims`: one size is often a multiple of another, which a name does not
/// say.
static bool getsFurther(MLIRContext &context, StringRef path,
                        ImportOptions options, int64_t done, int64_t size,
                        ArrayRef<StringRef> dims) {
  for (StringRef dim : dims)
    options.dims[dim] = size;
  options.seenDims = nullptr;
  options.fixed = nullptr;
  options.absent = nullptr;
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) {});
  Importer importer(context, path, options);
  return importer.run() || importer.nodesDone() > done;
}

/// "; with a number for 'seq' it is handled: --dims=…", or "". Dims of first
/// axes, which mostly count items, come last.
static std::string adviseDims(MLIRContext &context, StringRef path,
                              const ImportOptions &options,
                              const Importer &stopped) {
  SmallVector<StringRef> all = llvm::to_vector(stopped.getSymbols().keys());
  llvm::sort(all, [&](StringRef l, StringRef r) {
    return std::pair(stopped.countsRows(l), l) <
           std::pair(stopped.countsRows(r), r);
  });
  if (all.empty() || stopped.nodesDone() < 0)
    return "";
  // Each try is an import: a file with many dims is not to cost one for each.
  constexpr size_t mostAlone = 8;
  SmallVector<SmallVector<StringRef>> choices;
  if (all.size() > 1 && all.size() <= mostAlone)
    for (StringRef dim : all)
      choices.push_back({dim});
  choices.push_back(all);
  for (const SmallVector<StringRef> &dims : choices)
    for (int64_t size : {64, 1024}) // multiples of most, within most tables
      if (getsFurther(context, path, options, stopped.nodesDone(), size, dims))
        return "; with a number for '" + llvm::join(dims, "' and '") +
               "' it is handled: --dims=" + llvm::join(dims, "=NUMBER,") +
               "=NUMBER, in a recipe \"dims\"";
  return "";
}

OwningOpRef<ModuleOp> models::importOnnx(MLIRContext &context, StringRef path,
                                         const ImportOptions &options) {
  loadImportDialects(context);
  Importer importer(context, path, options);
  std::vector<std::pair<Location, std::string>> errors;
  {
    HeldErrors held(context);
    if (OwningOpRef<ModuleOp> module = importer.run())
      return module;
    errors = std::move(held.errors);
  }
  std::string advice = adviseDims(context, path, options, importer);
  for (auto &[location, text] : errors)
    emitError(location) << text << advice;
  return {};
}

void models::loadImportDialects(MLIRContext &context) {
  context.loadDialect<nn::NNDialect, dist::DistDialect, func::FuncDialect,
                      arith::ArithDialect, math::MathDialect>();
}

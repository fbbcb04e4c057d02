//===- dt-import.cpp - Prints what an ONNX file imports as ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// For tests of the importer alone: dt-import FILE [--dim NAME=N]... [--rename
// NAME=NAME]... [--trainable PATTERN]... [--summary | --generic] [--locations].
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#include "models/frontend/import/Import.h"

#include "mlir/IR/AsmState.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace dt;

namespace {
/// "batch 2 symbols, 1234 trainable, 5 frozen, largest constant 8"
void printSummary(ModuleOp module) {
  int64_t trainable = 0, frozen = 0, largest = 0, ops = 0;
  module.walk([&](nn::ParameterOp p) {
    int64_t n = cast<RankedTensorType>(p.getType()).getNumElements();
    (p.getTrainable() ? trainable : frozen) += n;
  });
  module.walk([&](Operation *op) {
    ++ops;
    if (auto c = dyn_cast<nn::ConstantOp>(op))
      if (!c.getValue().isSplat())
        largest = std::max<int64_t>(largest, c.getValue().getNumElements());
  });
  llvm::outs() << "trainable " << trainable << " frozen " << frozen
               << " largest-constant " << largest << " ops " << ops << "\n";
}
} // namespace

int main(int argc, char **argv) {
  llvm::cl::opt<std::string> path(llvm::cl::Positional, llvm::cl::Required);
  llvm::cl::list<std::string> dims("dim"), renames("rename"),
      trainable("trainable");
  llvm::cl::opt<bool> summary("summary"), locations("locations"),
      generic("generic");
  llvm::cl::ParseCommandLineOptions(argc, argv);
  models::ImportOptions options;
  for (const std::string &d : dims) {
    auto [name, text] = StringRef(d).split('=');
    int64_t n;
    if (text.getAsInteger(10, n)) {
      llvm::errs() << "--dim " << d << " is not NAME=NUMBER\n";
      return 2;
    }
    options.dims[name] = n;
  }
  for (const std::string &r : renames) {
    auto [from, to] = StringRef(r).split('=');
    options.rename[from] = to.str();
  }
  if (trainable.getNumOccurrences())
    options.trainable = std::vector<std::string>(trainable);
  options.recordedPath = StringRef(path).rsplit('/').second.str();
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler handler(&context, [](Diagnostic &d) {
    StringRef kind = d.getSeverity() == DiagnosticSeverity::Error ? "error"
                     : d.getSeverity() == DiagnosticSeverity::Warning
                         ? "warning"
                         : "remark";
    llvm::errs() << kind << ": " << d.str() << "\n";
    return success();
  });
  OwningOpRef<ModuleOp> module = models::importOnnx(context, path, options);
  if (!module)
    return 1;
  if (summary) {
    printSummary(*module);
    return 0;
  }
  OpPrintingFlags flags;
  if (locations)
    flags.enableDebugInfo(true, /*prettyForm=*/true);
  if (generic)
    flags.printGenericOpForm();
  module->print(llvm::outs(), flags);
  llvm::outs() << "\n";
  return 0;
}

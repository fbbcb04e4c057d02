//===- Kernels.cpp - --emit=kernels: what kernels ask of a device ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Output.h"

#include "codegen/Kernels.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace dt;
using codegen::KernelBytes;
using codegen::KernelRow;

namespace {

double wideShare(const KernelBytes &bytes) {
  return bytes.total() ? double(bytes.wide) / bytes.total() : 0;
}

void printText(ArrayRef<KernelRow> rows, llvm::raw_ostream &os) {
  os << llvm::formatv(
      "{0,8} {1,9} {2,7} {3,14} {4,14} {5,14} {6,6} {7,7} {8,6}  {9,-6} {10}\n",
      "launches", "blocks", "threads", "read", "written", "least", "ratio",
      "16-byte", "shared", "shape", "kernel");
  for (const KernelRow &row : rows) {
    os << llvm::formatv("{0,8:N} {1,9:N} {2,7} ", row.launches, row.cost.blocks,
                        row.cost.threads);
    if (const auto &bytes = row.cost.bytes)
      os << llvm::formatv("{0,14:N} {1,14:N} {2,14:N} {3,6:F2} {4,7:P0} ",
                          bytes->read, bytes->written, bytes->least,
                          bytes->ratio(), wideShare(*bytes));
    else
      os << llvm::formatv("{0,14} {0,14} {0,14} {0,6} {0,7} ", "-");
    os << llvm::formatv("{0,6:N}  {1,-6} {2}\n", row.cost.shared,
                        row.cost.shape, row.name);
  }
}

void printJson(ArrayRef<KernelRow> rows, llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 1);
  json.object([&] {
    json.attributeArray("kernels", [&] {
      for (const KernelRow &row : rows)
        json.object([&] {
          json.attribute("name", row.name);
          json.attribute("module", row.module);
          json.attribute("shape", row.cost.shape);
          json.attribute("launches", row.launches);
          json.attribute("blocks", row.cost.blocks);
          json.attribute("threads", row.cost.threads);
          json.attribute("shared", row.cost.shared);
          if (const auto &bytes = row.cost.bytes) {
            json.attribute("read", bytes->read);
            json.attribute("written", bytes->written);
            json.attribute("least", bytes->least);
            json.attribute("wide", bytes->wide);
          }
        });
    });
  });
  os << "\n";
}

} // namespace

LogicalResult dt::emitKernels(mlir::ModuleOp program,
                              const OutputOptions &options) {
  auto rows = codegen::listKernels(program, options.target);
  if (failed(rows))
    return failure();
  return writeText(options.output, [&](llvm::raw_ostream &os) {
    if (StringRef(options.output).ends_with(".json"))
      printJson(*rows, os);
    else
      printText(*rows, os);
  });
}

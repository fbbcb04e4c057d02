//===- Onnx.cpp - fuzz target of the ONNX importer --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What is imported is valid IR that can be printed and read again.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/Import.h"
#include "test/fuzz/readers/Context.h"
#include "test/fuzz/readers/Fuzz.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace dt;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::Context context;
  std::string path = fuzz::writeInput("input.onnx", data, size);
  OwningOpRef<ModuleOp> module = models::importOnnx(*context, path);
  if (!module) {
    fuzz::expectRefusal(context.error());
    return 0;
  }
  if (failed(verify(*module)))
    fuzz::fail("what is imported is not valid: " + context.error());
  fuzz::countOps(*module);
  std::string text = fuzz::print(*module);
  OwningOpRef<ModuleOp> again =
      parseSourceString<ModuleOp>(text, fuzz::parserConfig(*context));
  if (!again)
    fuzz::fail("what is imported cannot be read: " + context.error());
  fuzz::expect(fuzz::print(*again) == text, "IR changes in a round trip");
  return 0;
}

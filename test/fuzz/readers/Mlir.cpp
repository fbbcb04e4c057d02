//===- Mlir.cpp - fuzz target of IR as text and bytecode --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Types, attributes, operators and verifiers of the dialects. What is accepted
// is printed, read again and printed: the same text; then once more as
// bytecode.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/readers/Context.h"
#include "test/fuzz/readers/Fuzz.h"
#include "tools/dt-opt/Nesting.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace dt;

static void expectSame(fuzz::Context &context, StringRef source,
                       StringRef expected, const char *what) {
  OwningOpRef<ModuleOp> again =
      parseSourceString<ModuleOp>(source, fuzz::parserConfig(*context));
  if (!again)
    fuzz::fail(std::string(what) + " cannot be read: " + context.error());
  fuzz::expect(fuzz::print(*again) == expected, what);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::Context context;
  // MLIR's lexer stops at a zero behind the text.
  std::string input(reinterpret_cast<const char *>(data), size);
  // MLIR's reader of bytecode believes counts and ends the process with those
  // that no memory holds: bytecode is only read as it was written (below).
  if (StringRef(input).starts_with("ML\xEFR"))
    return 0;
  if (llvm::Error deep = checkNesting(input, "input.mlir")) {
    fuzz::expectRefusal(llvm::toString(std::move(deep)));
    return 0;
  }
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(input, fuzz::parserConfig(*context));
  if (!module) {
    fuzz::expectRefusal(context.error());
    return 0;
  }
  fuzz::countOps(*module);
  std::string text = fuzz::print(*module);
  expectSame(context, text, text, "the text of accepted IR");
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  if (failed(writeBytecodeToFile(*module, os)))
    fuzz::fail("accepted IR cannot be written as bytecode");
  expectSame(context, bytes, text, "the bytecode of accepted IR");
  return 0;
}

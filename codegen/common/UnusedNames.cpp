//===- UnusedNames.cpp - names that a kernel does not use -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/ModuleEmitter.h"

#include "mlir/IR/Iterators.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace dt::codegen {

namespace {

/// Calls `found` for each identifier in a text of C++ but members' names.
void forIdentifiers(StringRef text, llvm::function_ref<void(StringRef)> found) {
  auto isPart = [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; };
  while (!(text = text.drop_until(isPart)).empty()) {
    StringRef word = text.take_while(isPart);
    found(word.split('.').first);
    text = text.drop_front(word.size());
  }
}

/// The same for all texts of an op.
void forIdentifiers(Operation *op, llvm::function_ref<void(StringRef)> found) {
  op->getAttrDictionary().walk(
      [&](StringAttr text) { forIdentifiers(text.getValue(), found); },
      [&](emitc::OpaqueAttr text) { forIdentifiers(text.getValue(), found); });
}

/// The name that a line gives to what has no effect, or an empty text.
StringRef nameGiven(emitc::VerbatimOp line) {
  StringRef text = line.getValue();
  auto [left, right] = text.split(" = ");
  if (!left.contains("const ") || left.contains('(') || right.contains(" = ") ||
      !llvm::all_of(line.getFmtArgs(),
                    [](Value v) { return isa<BlockArgument>(v); }))
    return "";
  return left.take_back(left.size() - left.rfind(' ') - 1);
}

} // namespace

void dropUnusedNames(emitc::FuncOp function) {
  llvm::StringMap<unsigned> uses;
  function.walk([&](Operation *op) {
    forIdentifiers(op, [&](StringRef name) { ++uses[name]; });
  });
  // Users first.
  function.walk<WalkOrder::PostOrder, ReverseIterator>(
      [&](emitc::VerbatimOp line) {
        if (uses.lookup(nameGiven(line)) != 1)
          return;
        forIdentifiers(line, [&](StringRef name) { --uses[name]; });
        line.erase();
      });
}

} // namespace dt::codegen

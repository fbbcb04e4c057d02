//===- DistDialect.cpp - Registration and look-ups of the dist dialect ----===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/DistOps.h"

#include "dialects/nn/NNOps.h"

using namespace mlir;

#include "dialects/dist/DistDialect.cpp.inc"
#include "dialects/dist/DistEnums.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/dist/DistOps.cpp.inc"

namespace dt::dist {

void DistDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/dist/DistOps.cpp.inc"
      >();
}

void ModuleOp::build(OpBuilder &builder, OperationState &state,
                     StringRef name) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addRegion()->emplaceBlock();
}

func::FuncOp ModuleOp::getForward() {
  return lookupSymbol<func::FuncOp>("forward");
}

StringRef ModuleOp::getArgumentName(func::FuncOp function, unsigned index) {
  auto name = function.getArgAttrOfType<StringAttr>(index, nn::kNameAttr);
  return name ? name.getValue() : StringRef();
}

StringRef ModuleOp::getResultName(func::FuncOp function, unsigned index) {
  auto name = function.getResultAttrOfType<StringAttr>(index, nn::kNameAttr);
  return name ? name.getValue() : StringRef();
}

std::optional<unsigned> ModuleOp::findArgument(func::FuncOp function,
                                               StringRef name) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (getArgumentName(function, i) == name)
      return i;
  return std::nullopt;
}

std::optional<unsigned> ModuleOp::findResult(func::FuncOp function,
                                             StringRef name) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (getResultName(function, i) == name)
      return i;
  return std::nullopt;
}

std::optional<int64_t> getItemMax(mlir::ModuleOp program, StringRef kind) {
  if (kind == kSample)
    return 1;
  for (auto item : program.getOps<ItemOp>())
    if (item.getName() == kind)
      return item.getMax();
  return std::nullopt;
}

int64_t getNumMicrobatches(mlir::ModuleOp program) {
  auto batch = getOnly<BatchOp>(program);
  if (!batch)
    return 1;
  return (batch.getGlobal() + batch.getMicro() - 1) / batch.getMicro();
}

} // namespace dt::dist

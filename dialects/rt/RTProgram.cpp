//===- RTProgram.cpp - Verifiers of the program's tables
//--------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTOps.h"

using namespace mlir;
using namespace dt::rt;

LogicalResult StageOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto callee = tables.lookupNearestSymbolFrom<FuncOp>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError() << "names no rt.func: " << getCalleeAttr();
  if (callee.getNumArguments() != getBuffers().size())
    return emitOpError() << "gives " << getBuffers().size() << " buffers to "
                         << getCalleeAttr() << ", which takes "
                         << callee.getNumArguments();
  for (auto [i, attribute] : llvm::enumerate(getBuffers())) {
    auto name = dyn_cast<FlatSymbolRefAttr>(attribute);
    if (!name)
      return emitOpError("buffers are given by name");
    auto decl = tables.lookupNearestSymbolFrom<BufferDeclOp>(*this, name);
    if (!decl)
      return emitOpError() << "names no rt.buffer_decl: " << name;
    if (decl.getType() != callee.getArgumentTypes()[i]) {
      InFlightDiagnostic diagnostic =
          emitOpError() << "gives " << name << " of type " << decl.getType()
                        << " for argument " << i << " of type "
                        << callee.getArgumentTypes()[i];
      diagnostic.attachNote(decl.getLoc()) << "declared here";
      return diagnostic;
    }
  }
  return success();
}

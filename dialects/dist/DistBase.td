//===- DistBase.td - The dist dialect and its base classes -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_DIST_DISTBASE
#define DIALECTS_DIST_DISTBASE

include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::dt::dist";
  let summary = "Who runs what: modules of a model, their edges, losses, data";
  let description = [{
    A recipe as IR. The top-level module holds one `dist.module` a part of the model and, beside them, what connects and trains them. Nothing here is a
    tensor computation; that is `nn`, inside the modules. From here on the recipe file is not needed any more.

    Discardable attributes of the dialect, left by the shard phase (docs/sharding.md): `dist.layout` on `nn.parameter`, arguments and results; `dist.partial_gradient` on `nn.parameter`; `dist.unjoined` on results of `@forward`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, traits>;

#endif // DIALECTS_DIST_DISTBASE

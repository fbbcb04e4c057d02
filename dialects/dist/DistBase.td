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

    Discardable attributes of the dialect: on `nn.parameter`, what the optimizer does otherwise than with the others: `dist.no_decay` (unit): weight decay leaves this parameter alone;
    `dist.lr_factor` (f64): its learning rate is that of the step times this; `dist.weight_decay` (f64): in place of the optimizer's.
    On `dist.module`, read by the shard phase (docs/sharding.md): `dist.tp`, `dist.sequence_parallel`, `dist.overlap`, `dist.memory_price`. Left by it: `dist.strips` on collectives, `dist.layout` on `nn.parameter`, arguments and results,
    `dist.partial_gradient` on `nn.parameter`.
    What a module multiplies in (docs/precision.md): `dist.precision`, "bf16", "tf32" or absent for float32.
    Who runs a module (docs/parallel.md): `dist.unit`, `dist.stage`, `dist.dp`, `dist.sub`, `dist.ranks`, `dist.zero`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, traits>;

#endif // DIALECTS_DIST_DISTBASE

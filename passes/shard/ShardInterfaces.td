//===- ShardInterfaces.td - Ops that must know their place ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_INTERFACES
#define PASSES_SHARD_INTERFACES

include "mlir/IR/OpBase.td"

def LocalizeOpInterface : OpInterface<"LocalizeOpInterface"> {
  let cppNamespace = "::dt::shard";
  let description = [{
    An op whose local form is not simply itself on smaller tensors: attributes or operands depend on the cut. Attached from outside (Localize*.cpp), so that the nn dialect knows nothing of ranks.
  }];
  let methods = [
    InterfaceMethod<"Whether a factor of kind `blocked` may be cut.",
      "bool", "canCut", (ins "const ::dt::shard::FactorCut &":$cut), "", [{ return false; }]>,
    InterfaceMethod<[{
      Emits the local form for a cut factor. `operands` are local; `types` those of the local results. A result without the factor is left as its kind says (partial sum, maximum).
      }],
      "::llvm::SmallVector<::mlir::Value>", "localize",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands, "::mlir::TypeRange":$types, "const ::dt::shard::FactorCut &":$cut)>
  ];
}

#endif // PASSES_SHARD_INTERFACES

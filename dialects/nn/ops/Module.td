//===- Module.td - Symbols of a module: its dims and parameters -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_MODULE
#define DIALECTS_NN_OPS_MODULE

include "dialects/nn/NNBase.td"

def NN_DimOp : NN_Op<"dim", [Symbol]> {
  let summary = "a symbol that sizes of this module are made of";
  let description = [{
    `nn.dim @images of "image" max 6`: in a part, the number of items of that kind; `max` is the bound that memory is planned for. Without `of` the symbol is not bound yet and no program can be emitted.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$item, OptionalAttr<I64Attr>:$max);
  let assemblyFormat = "$sym_name (`of` $item^)? (`max` $max^)? attr-dict";
}
def NN_ParameterOp : NN_Op<"parameter", [Symbol]> {
  let summary = "a weight of the module, kept outside the IR";
  let description = [{
    `source` is #nn.onnx (value in a file), or #nn.init (drawn by rule). `trainable` absent: a constant of the model (frozen parameter or buffer). `working bf16`: functions read it in that type, which is what a rank stores
    of it; the optimizer keeps a trained one in `type` too (docs/precision.md).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<NN_Tensor>:$type, AnyAttr:$source, UnitAttr:$trainable, UnitAttr:$buffer, OptionalAttr<TypeAttrOf<AnyFloat>>:$working);
  let extraClassDeclaration = [{
    /// What nn.read gives.
    ::mlir::RankedTensorType getStoredType();
  }];
  let assemblyFormat = "$sym_name `:` $type (`working` $working^)? (`trainable` $trainable^)? (`buffer` $buffer^)? `from` $source attr-dict";
}
def NN_ReadOp : NN_Op<"read", [MemoryEffects<[MemRead]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>, NN_Recomputable]> {
  let summary = "current value of a parameter";
  let description = [{
    Reads of one parameter in one function may be merged: nothing in a module function writes parameters. `{nn.beside = [@b, @c]}`: the value of more parameters, too, joined along the first axis; each has its place
    right behind the one before it, so nothing is copied. nn.accumulate says it the same way.
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$parameter attr-dict `:` type($result)";
}
def NN_AccumulateOp : NN_Op<"accumulate", [MemoryEffects<[MemRead, MemWrite]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "adds to the gradient of a parameter";
  let arguments = (ins FlatSymbolRefAttr:$parameter, NN_FloatTensor:$grad);
  let assemblyFormat = "$parameter `,` $grad attr-dict `:` type($grad)";
}

#endif // DIALECTS_NN_OPS_MODULE

//===- Module.td - Symbols of a module: its dims and parameters -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_MODULE
#define DIALECTS_NN_OPS_MODULE

include "dialects/nn/NNBase.td"

/// More parameters of the module, that lie right behind the one that the op names, each behind the one before it. The op's tensor is all of them, joined along the first axis.
def NN_Beside : OptionalAttr<FlatSymbolRefArrayAttr>;

def NN_DimOp : NN_Op<"dim", [Symbol]> {
  let summary = "a symbol that sizes of this module are made of";
  let description = [{
    `nn.dim @images of "image" max 6`: in a part, the number of items of that kind; `max` is the bound that memory is planned for. Without `of` the symbol is not bound yet and no program can be emitted.
    `nn.dim @patches of "image" measure "patches" largest 64 max 384`: the sum of that measure over the items, of which each has at most 64 (docs/sizes.md).
    With `multiple 128` the sum is rounded up to a multiple of that, and the symbol counts how many: a size of as many rows is `128*patches`, `max` is in that unit too. Items that are counted are a multiple already.
    `limit`: the largest value for which the graph means anything, since it reads so many rows of a table (NNLimits.h); `limited_by` names the node, for errors. `cost`: predicted ns of forward and backward of one of its items, or of each 1 of the measure; `square_cost`: what is more for the square of an item's measure (attention).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$item, OptionalAttr<StrAttr>:$measure, OptionalAttr<I64Attr>:$largest, DefaultValuedAttr<I64Attr, "1">:$multiple, OptionalAttr<I64Attr>:$max, OptionalAttr<I64Attr>:$limit, OptionalAttr<StrAttr>:$limited_by, OptionalAttr<F64Attr>:$cost, OptionalAttr<F64Attr>:$square_cost);
  let builders = [OpBuilder<(ins "::mlir::StringAttr":$name, "::mlir::StringAttr":$item, "::mlir::IntegerAttr":$max), [{
    build($_builder, $_state, name, item, ::mlir::StringAttr(), ::mlir::IntegerAttr(), 1, max, ::mlir::IntegerAttr(), ::mlir::StringAttr(), ::mlir::FloatAttr(), ::mlir::FloatAttr());
  }]>];
  let extraClassDeclaration = [{
    /// What the symbol adds up, "image" or "image.patches"; "" if it is unbound.
    std::string getQuantity();
    /// The bound of what is added up: `max` times `multiple`.
    std::optional<int64_t> getBound();
    void setBound(int64_t bound);
    /// The value of a sum.
    int64_t count(int64_t sum);
  }];
  let hasVerifier = 1;
  let assemblyFormat = "$sym_name (`of` $item^)? (`measure` $measure^ `largest` $largest)? (`multiple` $multiple^)? (`max` $max^)? attr-dict";
}
def NN_ParameterOp : NN_Op<"parameter", [Symbol]> {
  let summary = "a weight of the module, kept outside the IR";
  let description = [{
    `source` is #nn.onnx (value in a file), or #nn.init (drawn by rule). `trainable` absent: a constant of the model (frozen parameter or buffer). `working bf16`: functions read it in that type, which is what a rank stores
    of it; the optimizer keeps a trained one in `type` too (docs/precision.md). `narrow_gradient`: its gradient is stored in that type, too. `no_gradient`: trainable, but nothing accumulates into its gradient.
    What the optimizer does otherwise than with the others: with `no_decay` weight decay leaves it alone; its learning rate is that of the step times `lr_factor`; `weight_decay` stands in place of the optimizer's.
    `routing_rate`: a router's bias that no gradient changes; a step moves it by so much against the sign of how the choices deviate (nn.balance, docs/routers.md).
    `matrix`: an optimizer of matrices sees the last two axes as those of a matrix, or of several (docs/optimizers.md); `by_element`: it must not.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<NN_Tensor>:$type, AnyAttr:$source, UnitAttr:$trainable, UnitAttr:$buffer, OptionalAttr<TypeAttrOf<AnyFloat>>:$working,
    UnitAttr:$no_gradient, UnitAttr:$no_decay, OptionalAttr<NN_NotNegative>:$lr_factor, OptionalAttr<NN_NotNegative>:$weight_decay, UnitAttr:$matrix, UnitAttr:$by_element, OptionalAttr<NN_NotNegative>:$routing_rate, UnitAttr:$narrow_gradient);
  let extraClassDeclaration = [{
    /// What nn.read gives.
    ::mlir::RankedTensorType getStoredType();
    /// What nn.accumulate adds.
    ::mlir::RankedTensorType getGradientType();
  }];
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::RankedTensorType":$type, "::mlir::Attribute":$source, "bool":$trainable, "bool":$buffer), [{
    build($_builder, $_state, name, type, source, trainable, buffer, ::mlir::TypeAttr(), false, false, ::mlir::FloatAttr(), ::mlir::FloatAttr(), false, false, ::mlir::FloatAttr(), false);
  }]>];
  let assemblyFormat = "$sym_name `:` $type (`working` $working^)? (`trainable` $trainable^)? (`buffer` $buffer^)? `from` $source attr-dict";
}
def NN_AdapterOp : NN_Op<"adapter", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "what trains beside the products of a frozen weight (LoRA)";
  let description = [{
    `nn.adapter @"q.weight" down @"q.lora_A.weight" up @"q.lora_B.weight" scale 2.0`: each product x W^T of the parameter `base`, a matrix [out, in] or [in, out], becomes x W^T + scale (x down^T) up^T, with
    `down` [rank, in] and `up` [out, rank]. It stands in front of the import phase only: `--nn-apply-adapters` makes ops of it.
  }];
  let arguments = (ins FlatSymbolRefAttr:$base, FlatSymbolRefAttr:$down, FlatSymbolRefAttr:$up, F64Attr:$scale);
  let hasVerifier = 1;
  let assemblyFormat = "$base `down` $down `up` $up `scale` $scale attr-dict";
}
def NN_ReadOp : NN_Op<"read", [MemoryEffects<[MemRead]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>, NN_Recomputable]> {
  let summary = "current value of a parameter";
  let description = [{
    Reads of one parameter in one function may be merged: nothing in a module function writes parameters. `{beside = [@b, @c]}`: the value of more parameters, too, joined along the first axis; each has its place
    right behind the one before it, so nothing is copied. nn.accumulate says it the same way.
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter, NN_Beside:$beside);
  let results = (outs NN_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::FlatSymbolRefAttr":$parameter), [{
    build($_builder, $_state, result, parameter, ::mlir::ArrayAttr());
  }]>,
    OpBuilder<(ins "::mlir::Type":$result, "::llvm::StringRef":$parameter), [{
    build($_builder, $_state, result, parameter, ::mlir::ArrayAttr());
  }]>];
  let assemblyFormat = "$parameter attr-dict `:` type($result)";
}
def NN_AccumulateOp : NN_Op<"accumulate", [MemoryEffects<[MemRead, MemWrite]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "adds to the gradient of a parameter";
  let arguments = (ins FlatSymbolRefAttr:$parameter, NN_FloatTensor:$grad, NN_Beside:$beside);
  let builders = [OpBuilder<(ins "::mlir::FlatSymbolRefAttr":$parameter, "::mlir::Value":$grad), [{
    build($_builder, $_state, parameter, grad, ::mlir::ArrayAttr());
  }]>];
  let assemblyFormat = "$parameter `,` $grad attr-dict `:` type($grad)";
}

#endif // DIALECTS_NN_OPS_MODULE

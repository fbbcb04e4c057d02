//===- RTOps.td - Functions and buffers -------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTOPS
#define DIALECTS_RT_RTOPS

include "dialects/rt/RTProgram.td"

def RT_FuncOp : RT_Op<"func", [IsolatedFromAbove, SingleBlock, NoTerminator, FunctionOpInterface]> {
  let summary = "straight-line code over buffers";
  let description = [{
    Arguments are buffers, results are arguments that are written (`rt.access`). Locals (`rt.alloc`) live in the function's scratch, which the caller
    provides: `scratch_bytes` (64-byte aligned), known after planning.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type, OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs, OptionalAttr<I64Attr>:$scratch_bytes);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type)>];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// "in", "out" or "inout"; "in" where nothing is said.
    ::llvm::StringRef getAccess(unsigned argument);
  }];
}
def RT_CallOp : RT_Op<"call", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "calls an rt.func; `scratch` is where its locals live, after planning";
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<RT_BufferType>:$arguments, Optional<RT_BufferType>:$scratch);
  let assemblyFormat = "$callee `(` $arguments `)` (`scratch` $scratch^)? attr-dict `:` type(operands)";
}
def RT_AllocOp : RT_Op<"alloc"> {
  let summary = "a local; `offset` in the function's scratch after planning";
  let arguments = (ins OptionalAttr<StrAttr>:$name, OptionalAttr<I64Attr>:$offset);
  let results = (outs Res<RT_BufferType, "", [MemAlloc]>:$result);
  let hasVerifier = 1;
  let assemblyFormat = "($name^)? (`at` $offset^)? attr-dict `:` type($result)";
}
def RT_ViewOp : RT_Op<"view", [Pure, DeclareOpInterfaceMethods<ViewLikeOpInterface>]> {
  let summary = "the same bytes, or a contiguous part of them, with other dims";
  let description = [{ `offset`: elements from the beginning of the source. }];
  let arguments = (ins RT_BufferType:$source, DefaultValuedAttr<NN_Dim, "0">:$offset);
  let results = (outs RT_BufferType:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
  let assemblyFormat = "$source attr-dict `:` type($source) `to` type($result)";
}
def RT_ParameterOp : RT_Op<"parameter", [Pure]> {
  let summary = "address of a parameter of the module";
  let description = [{ `{beside = [@b, @c]}`: the buffer also covers these parameters, which are placed directly behind it, one behind another (docs/joined-products.md). rt.gradient has the same attribute. }];
  let arguments = (ins FlatSymbolRefAttr:$parameter, OptionalAttr<FlatSymbolRefArrayAttr>:$beside);
  let results = (outs RT_BufferType:$result);
  let assemblyFormat = "$parameter attr-dict `:` type($result)";
}
def RT_GradientOp : RT_Op<"gradient", [Pure]> {
  let summary = "address of a parameter's gradient accumulator (zero when a step begins)";
  let arguments = (ins FlatSymbolRefAttr:$parameter, OptionalAttr<FlatSymbolRefArrayAttr>:$beside);
  let results = (outs RT_BufferType:$result);
  let assemblyFormat = "$parameter attr-dict `:` type($result)";
}
def RT_GradientsReadyOp : RT_Op<"gradients_ready", [HasParent<"FuncOp">]> {
  let summary = "gradients of the first parameters are complete, in the last microbatch";
  let description = [{
    `rt.gradients_ready 0 to 4096`: after this op, nothing in the function adds to the gradients in bytes [begin, end) of the module's gradient region. Parameters are placed in the order in which the function completes their
    gradients, so the ranges of a function follow one another from 0. Only in a module's `backward` or `backward_weight` function. The runtime sums these bytes over the replicas while the rest of the function runs
    (docs/parallel.md). The op has an effect in the last microbatch of a step only.
  }];
  let arguments = (ins I64Attr:$begin, I64Attr:$end);
  let assemblyFormat = "$begin `to` $end attr-dict";
  let hasVerifier = 1;
}
def RT_ConstantOp : RT_Op<"constant", [Pure]> {
  let summary = "address of a table of constants; never written";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs RT_BufferType:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$value attr-dict `:` type($result)";
}
def RT_SeedOp : RT_Op<"seed"> {
  let summary = "*buffer = seed of a loss (TaskContext::seeds): its weight divided by the step's denominator";
  let arguments = (ins FlatSymbolRefAttr:$loss, RT_Out<"buffer">:$buffer);
  let assemblyFormat = "$loss `to` $buffer attr-dict `:` type($buffer)";
}
def RT_FillOp : RT_Op<"fill"> {
  let summary = "every element = value";
  let arguments = (ins TypedAttrInterface:$value, RT_Out<"buffer">:$buffer);
  let hasVerifier = 1;
  let assemblyFormat = "$buffer `with` $value attr-dict `:` type($buffer)";
}
def RT_CopyOp : RT_Op<"copy"> {
  let summary = "copies all elements";
  let arguments = (ins RT_In<"source">:$source, RT_Out<"target">:$target);
  let hasVerifier = 1;
  let assemblyFormat = "$source `to` $target attr-dict `:` type(operands)";
}

#endif // DIALECTS_RT_RTOPS

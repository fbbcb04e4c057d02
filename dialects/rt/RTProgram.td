//===- RTProgram.td - The tables of runtime/Program.h as IR ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTPROGRAM
#define DIALECTS_RT_RTPROGRAM

include "dialects/rt/RTCollectives.td"
include "dialects/rt/RTLibrary.td"
include "dialects/rt/RTKernel.td"

def RT_ProgramOp : RT_Op<"program", [IsolatedFromAbove, SymbolTable, Symbol, SingleBlock, NoTerminator]> {
  let summary = "everything that code generation needs: ProgramInfo";
  let description = [{
    Holds rt.module (topological order), rt.loss, rt.optimizer (one), rt.task (one step, in order). Offsets and sizes are bytes.
    `scratch`: offset in the arena of the scratch that all tasks share.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$arena_bytes, I64Attr:$parameter_bytes, I64Attr:$scratch, I64Attr:$global_batch, I64Attr:$micro_batch, I64Attr:$seed);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `arena` $arena_bytes `parameters` $parameter_bytes `scratch` $scratch `batch` $global_batch `micro` $micro_batch `seed` $seed attr-dict-with-keyword $body";
}
def RT_ModuleOp : RT_Op<"module", [IsolatedFromAbove, SymbolTable, Symbol, SingleBlock, NoTerminator]> {
  let summary = "one module: ModuleInfo and its functions";
  let description = [{ Holds rt.symbol, rt.parameter_decl, rt.buffer_decl, rt.input, rt.output, rt.stage, rt.func. Order of symbols, inputs, outputs is that of the tables. `origin`: as of dist.module. }];
  let arguments = (ins SymbolNameAttr:$sym_name, UnitAttr:$whole_batch, OptionalAttr<StrAttr>:$origin);
  let regions = (region SizedRegion<1>:$body);
  let extraClassDeclaration = [{
    /// The name that files and the command line know the module by: "origin.tensor".
    ::llvm::StringRef getExternalName() { return getOrigin().value_or(getSymName()); }
  }];
  let assemblyFormat = "$sym_name (`whole_batch` $whole_batch^)? (`origin` $origin^)? attr-dict-with-keyword $body";
}
def RT_SymbolOp : RT_Op<"symbol", [Symbol]> {
  let summary = "SymbolInfo";
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$item, I64Attr:$max);
  let assemblyFormat = "$sym_name (`of` $item^)? `max` $max attr-dict";
}
def RT_ParameterDeclOp : RT_Op<"parameter_decl", [Symbol]> {
  let summary = "ParameterInfo; offsets ascend over the program, trainable ones first";
  let description = [{ `onnx`: array of #nn.onnx, where the tensor stands in ONNX files (several when tied). `init`: the rule, absent when the value comes from the file. `index`: row in the program's table; a tied parameter has
    one declaration a module, all with the same index and offset. }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<RT_BufferType>:$type, I64Attr:$index, I64Attr:$offset, UnitAttr:$trainable, UnitAttr:$gradient, UnitAttr:$decay, OptionalAttr<StrAttr>:$init, ArrayAttr:$onnx);
  let assemblyFormat = "$sym_name `:` $type `index` $index `at` $offset (`trainable` $trainable^)? (`gradient` $gradient^)? (`decay` $decay^)? (`init` $init^)? `from` $onnx attr-dict";
}
def RT_BufferDeclOp : RT_Op<"buffer_decl", [Symbol]> {
  let summary = "BufferInfo: a tensor in the arena that outlives a task";
  let description = [{ In slot s at offset + s * stride + (rows: first row of this part in the global batch, see BufferInfo::rowSymbol). }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<RT_BufferType>:$type, I64Attr:$offset, I64Attr:$stride, OptionalAttr<FlatSymbolRefAttr>:$rows);
  let assemblyFormat = "$sym_name `:` $type `at` $offset `stride` $stride (`rows` $rows^)? attr-dict";
}
def RT_InputOp : RT_Op<"input"> {
  let summary = "InputInfo: from the batch, or output `output` (index) of module `from`";
  let arguments = (ins StrAttr:$name, FlatSymbolRefAttr:$buffer, OptionalAttr<FlatSymbolRefAttr>:$from, DefaultValuedAttr<I64Attr, "-1">:$output);
  let assemblyFormat = "$name $buffer (`from` $from^)? attr-dict";
}
def RT_OutputOp : RT_Op<"output"> {
  let summary = "an output of a module: what --save-outputs writes";
  let arguments = (ins StrAttr:$name, FlatSymbolRefAttr:$buffer);
  let assemblyFormat = "$name $buffer attr-dict";
}
def RT_StageKind : I32EnumAttr<"StageKind", "when a stage function runs", [I32EnumAttrCase<"denominator", 0>, I32EnumAttrCase<"forward", 1>, I32EnumAttrCase<"backward", 2>]> {
  let cppNamespace = "::dt::rt";
}
def RT_StageOp : RT_Op<"stage", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a TaskFn: calls `callee` with the module's buffers in the task's slot";
  let description = [{ `rt.stage forward @forward.fwd(@input_ids, @hidden, @saved0)`: one buffer_decl an argument; the callee's scratch is the program's. }];
  let arguments = (ins RT_StageKind:$kind, FlatSymbolRefAttr:$callee, ArrayAttr:$buffers);
  let assemblyFormat = "$kind $callee $buffers attr-dict";
}
def RT_LossOp : RT_Op<"loss", [Symbol]> {
  let summary = "LossInfo";
  let description = [{ `numerator` a buffer_decl of `module`. `denominator`: the rt.stage's callee that computes the part's, into `denominator_out`; `denominator_inputs`: indices of the inputs it reads. }];
  let arguments = (ins SymbolNameAttr:$sym_name, F64Attr:$weight, FlatSymbolRefAttr:$module, FlatSymbolRefAttr:$numerator, OptionalAttr<FlatSymbolRefAttr>:$denominator,
                       OptionalAttr<FlatSymbolRefAttr>:$denominator_out, DenseI32ArrayAttr:$denominator_inputs);
  let assemblyFormat = "$sym_name `weight` $weight `of` $module $numerator (`over` $denominator^ $denominator_out)? `reads` $denominator_inputs attr-dict";
}
def RT_OptimizerOp : RT_Op<"optimizer"> {
  let summary = "OptimizerInfo: a dictionary with its fields' names";
  let arguments = (ins DictionaryAttr:$fields);
  let assemblyFormat = "$fields attr-dict";
}
def RT_TaskOp : RT_Op<"task"> {
  let summary = "TaskRow: `rt.task forward @llm microbatch 0 slot 0`; subject is the loss for a denominator, else the module";
  let arguments = (ins RT_StageKind:$kind, FlatSymbolRefAttr:$subject, I64Attr:$microbatch, I64Attr:$slot);
  let assemblyFormat = "$kind $subject `microbatch` $microbatch `slot` $slot attr-dict";
}

#endif // DIALECTS_RT_RTPROGRAM

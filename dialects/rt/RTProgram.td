//===- RTProgram.td - The tables of runtime/Tables.def as IR -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTPROGRAM
#define DIALECTS_RT_RTPROGRAM

include "dialects/rt/RTCollectives.td"
include "dialects/rt/RTLibrary.td"
include "dialects/rt/RTKernel.td"
include "dialects/rt/RTStreams.td"

/// An attribute of the dist dialect.
class RT_DistAttr<string name, string what> : Attr<CPred<"::llvm::isa<::dt::dist::" # name # "Attr>($_self)">, what> {
  let storageType = "::dt::dist::" # name # "Attr";
  let returnType = storageType;
  let convertFromStorage = "$_self";
}
def RT_LayoutAttr : RT_DistAttr<"Layout", "#dist.layout">;
def RT_WorkAttr : RT_DistAttr<"Work", "#dist.work">;
def RT_CutsAttr : TypedArrayAttrBase<RT_DistAttr<"Cut", "#dist.cut">, "array of #dist.cut">;

def RT_ProgramOp : RT_Op<"program", [IsolatedFromAbove, SymbolTable, Symbol, SingleBlock, NoTerminator]> {
  let summary = "everything that code generation needs: ProgramInfo";
  let description = [{
    Holds rt.module (topological order), rt.edge, rt.loss, rt.optimizer (one), and rt.rank for every rank. Offsets and sizes are in bytes. `narrow_sums`: gradients are summed over replicas in bf16. `pace`: the module whose replicas together hold a microbatch's samples. `parts`: as in dist.batch, of `part_tokens` tokens.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$global_batch, I64Attr:$micro_batch, I64Attr:$seed, FlatSymbolRefAttr:$pace, DefaultValuedAttr<StrAttr, "\"accumulate\"">:$schedule,
                       DefaultValuedAttr<StrAttr, "\"none\"">:$reorder, DefaultValuedAttr<I64Attr, "4194304">:$bucket, UnitAttr:$narrow_sums,
                       OptionalAttr<I64Attr>:$parts, OptionalAttr<I64Attr>:$part_tokens);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `batch` $global_batch `micro` $micro_batch `seed` $seed `pace` $pace (`schedule` $schedule^)? (`reorder` $reorder^)? (`bucket` $bucket^)? (`narrow_sums` $narrow_sums^)? (`parts` $parts^ `of` $part_tokens)? attr-dict-with-keyword $body";
  let extraClassDeclaration = [{
    /// By rank: the op with its rows.
    ::llvm::SmallVector<::dt::rt::RankOp, 0> getRanks();
  }];
  let hasRegionVerifier = 1;
}
def RT_ModuleOp : RT_Op<"module", [IsolatedFromAbove, SymbolTable, Symbol, SingleBlock, NoTerminator]> {
  let summary = "one module: ModuleInfo and its functions";
  let description = [{
    Holds rt.symbol, rt.parameter_decl, rt.buffer_decl, rt.input, rt.output, rt.entry, rt.func. Symbols, inputs and outputs have the order of the tables. `origin`: as in dist.module. `tf32`: products and convolutions of f32 may round their operands to TF32. `arena`, `scratch`, `parameters`,
    `trainable`: bytes of its regions on a rank; `trainable` is the region of gradients. `unit` (absent: its own name), `stage`, `item`, `tp`, `dp`, `ranks`, `sub`, `span`, `zero`, `speeds`: as in ModuleInfo (`tp`: all ranks of a replica); `work`: as in dist.module.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, UnitAttr:$whole_batch, UnitAttr:$tf32, OptionalAttr<StrAttr>:$origin, OptionalAttr<StrAttr>:$unit, DefaultValuedAttr<I64Attr, "0">:$stage, DefaultValuedAttr<StrAttr, "\"sample\"">:$item,
                       DefaultValuedAttr<I64Attr, "1">:$tp, DefaultValuedAttr<I64Attr, "1">:$dp, DenseI64ArrayAttr:$ranks, DefaultValuedAttr<I64Attr, "1">:$sub, DefaultValuedAttr<I64Attr, "1">:$span, DefaultValuedAttr<I64Attr, "0">:$zero, OptionalAttr<DenseI64ArrayAttr>:$speeds,
                       I64Attr:$arena, I64Attr:$scratch, I64Attr:$parameters, I64Attr:$trainable, OptionalAttr<RT_WorkAttr>:$work);
  let regions = (region SizedRegion<1>:$body);
  let extraClassDeclaration = [{
    /// The name that files and the command line know the module by: "origin.tensor".
    ::llvm::StringRef getExternalName() { return getOrigin().value_or(getSymName()); }
    ::llvm::StringRef getUnitName() { return getUnit().value_or(getSymName()); }
  }];
  let hasRegionVerifier = 1;
  let assemblyFormat = [{
    $sym_name (`whole_batch` $whole_batch^)? (`tf32` $tf32^)? (`origin` $origin^)? (`unit` $unit^)? (`stage` $stage^)? (`item` $item^)? (`tp` $tp^)? (`dp` $dp^)? `ranks` $ranks (`sub` $sub^)? (`span` $span^)? (`zero` $zero^)? (`speeds` $speeds^)?
    `arena` $arena `scratch` $scratch `parameters` $parameters `trainable` $trainable (`work` $work^)? attr-dict-with-keyword $body
  }];
}
def RT_SymbolOp : RT_Op<"symbol", [Symbol]> {
  let summary = "SymbolInfo";
  let description = [{ `cost`: predicted ns of forward and backward for each of its items, or for each 1 of what it adds up of them; `square_cost`: what is more for the square of an item's measure. `multiple`: as in nn.dim; `max` is in that unit. }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$item, OptionalAttr<StrAttr>:$measure, OptionalAttr<I64Attr>:$largest, DefaultValuedAttr<I64Attr, "1">:$multiple, I64Attr:$max, DefaultValuedAttr<F64Attr, "0.0">:$cost, DefaultValuedAttr<F64Attr, "0.0">:$square_cost);
  let assemblyFormat = "$sym_name (`of` $item^)? (`measure` $measure^ `largest` $largest)? (`multiple` $multiple^)? `max` $max (`cost` $cost^)? (`square_cost` $square_cost^)? attr-dict";
}
def RT_ParameterDeclOp : RT_Op<"parameter_decl", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "ParameterInfo; places in the module's regions, trainable ones first";
  let description = [{ 
    | attribute | meaning |
    | --- | --- |
    | `type` | what is stored |
    | `index` | the row in the program's table; names of one parameter (tied within the module) have the same index and places |
    | `at` | the place of the value in the region of parameters; behind `trainable`, the place of the gradient in the region of gradients (the same if absent) |
    | `narrow_gradient` | the gradient has the element type of `type`; without it, it is f32 |
    | `onnx` | array of #nn.onnx: where the tensor is in ONNX files (several if tied) |
    | `init` | the rule; absent if the value comes from the file |
    | `layout` | #dist.layout, if `type` is a shard |
    | `partial` | axes (#dist.cut) over which gradients are partial sums |
    | `tied` | the parameter of another module of which this is a copy |
    | `decay` | weight decay applies; `by`: its value in place of the optimizer's |
    | `lr_factor` | a factor of the learning rate |
    | `routing` | a router's bias, which a step moves by so much against the sign of its gradient (nn.balance) |
    | `matrix` | the optimizer sees the last two axes as those of a matrix, or of several |
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<RT_BufferType>:$type, I64Attr:$index, I64Attr:$offset, UnitAttr:$trainable, UnitAttr:$gradient, UnitAttr:$decay, OptionalAttr<StrAttr>:$init, ArrayAttr:$onnx,
                       OptionalAttr<RT_LayoutAttr>:$layout, OptionalAttr<RT_CutsAttr>:$partial, OptionalAttr<SymbolRefAttr>:$tied, OptionalAttr<F64Attr>:$weight_decay, OptionalAttr<F64Attr>:$lr_factor,
                       OptionalAttr<I64Attr>:$gradient_offset, UnitAttr:$matrix, OptionalAttr<F64Attr>:$routing, UnitAttr:$narrow_gradient);
  let extraClassDeclaration = [{
    /// Bytes from the begin of the module's gradients.
    int64_t getGradientPlace() { return getGradientOffset().value_or(getOffset()); }
    /// The buffer of the gradient.
    BufferType getGradientType();
  }];
  let assemblyFormat = [{
    $sym_name `:` $type `index` $index `at` $offset (`trainable` $trainable^ (`at` $gradient_offset^)?)? (`gradient` $gradient^)? (`narrow_gradient` $narrow_gradient^)? (`decay` $decay^ (`by` $weight_decay^)?)? (`lr_factor` $lr_factor^)? (`routing` $routing^)? (`matrix` $matrix^)? (`init` $init^)? `from` $onnx (`layout` $layout^)? (`partial` $partial^)? (`tied` $tied^)? attr-dict
  }];
}
def RT_BufferDeclOp : RT_Op<"buffer_decl", [Symbol]> {
  let summary = "BufferInfo: a tensor in the module's arena that outlives a task";
  let description = [{ In slot s at offset + s * stride. `received`, `early` or `late`: the kind of the slot (SlotKind of runtime/Enums.h); without one it is `whole`. `unjoined`: rows of several parts are not those of the batch. `layout`: #dist.layout, if `type` is padded or a part. }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<RT_BufferType>:$type, I64Attr:$offset, I64Attr:$stride, DefaultValuedAttr<Dist_SlotKind, "::dt::rt::SlotKind::Whole">:$slots, UnitAttr:$unjoined, OptionalAttr<RT_LayoutAttr>:$layout);
  let assemblyFormat = "$sym_name `:` $type `at` $offset `stride` $stride (custom<OptionalRuntimeEnum>($slots)^)? (`unjoined` $unjoined^)? (`layout` $layout^)? attr-dict";
  let hasVerifier = 1;
}
def RT_InputOp : RT_Op<"input"> {
  let summary = "InputInfo: from the batch, or output `output` (index) of module `from`";
  let description = [{ `apart`: its numbers keep the rows of items apart (dist.segments), together with those of inputs that say the same name. `padding`: what it has in rows behind those of the last item (dist.padding). }];
  let arguments = (ins StrAttr:$name, FlatSymbolRefAttr:$buffer, OptionalAttr<FlatSymbolRefAttr>:$from, DefaultValuedAttr<I64Attr, "-1">:$output, OptionalAttr<StrAttr>:$apart, DefaultValuedAttr<I64Attr, "0">:$padding);
  let assemblyFormat = "$name $buffer (`from` $from^)? (`apart` $apart^)? (`padding` $padding^)? attr-dict";
}
def RT_OutputOp : RT_Op<"output"> {
  let summary = "an output of a module: what --save-outputs writes";
  let arguments = (ins StrAttr:$name, FlatSymbolRefAttr:$buffer);
  let assemblyFormat = "$name $buffer attr-dict";
}
def RT_EntryKind : Dist_RuntimeEnum<"TaskKind", "when a module function runs"> {
  let predicate = And<[Dist_TaskKind.predicate, CPred<"::dt::rt::runsFunction(::llvm::cast<::dt::rt::TaskKindAttr>($_self).getValue())">]>;
}
def RT_EntryOp : RT_Op<"entry", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a TaskFn: calls `callee` with the module's buffers in the task's slot";
  let description = [{ `rt.entry forward @forward.fwd [@input_ids, @hidden, @saved0]`: one buffer_decl for each argument; the callee's scratch is the rank's. `kind`: a kind of task that runs a function (denominator, forward, backward,
    backward_input, backward_weight). }];
  let arguments = (ins RT_EntryKind:$kind, FlatSymbolRefAttr:$callee, ArrayAttr:$buffers);
  let assemblyFormat = "custom<RuntimeEnum>($kind) $callee $buffers attr-dict";
}
def RT_EdgeOp : RT_Op<"edge", [HasParent<"ProgramOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "EdgeInfo: output `output` of `source` is input `input` of `target` (indices)";
  let description = [{ `rt.edge @vision 0 to @llm 1 gradient @grad.embeds to @grad.llm.embeds`: the gradient is written to a buffer of the target and read from one of the source. `cut`: as that of `dist.edge`. }];
  let arguments = (ins FlatSymbolRefAttr:$source, I64Attr:$output, FlatSymbolRefAttr:$target, I64Attr:$input, OptionalAttr<FlatSymbolRefAttr>:$produced, OptionalAttr<FlatSymbolRefAttr>:$consumed, UnitAttr:$cut);
  let assemblyFormat = "$source $output `to` $target $input (`cut` $cut^)? (`gradient` $produced^ `to` $consumed)? attr-dict";
}
def RT_LossOp : RT_Op<"loss", [Symbol]> {
  let summary = "LossInfo";
  let description = [{ `numerator`: a buffer_decl of `module`. `denominator`: the rt.entry's callee that computes the denominator of a part, into `denominator_out`. `denominator_inputs`: indices of the inputs that it reads. }];
  let arguments = (ins SymbolNameAttr:$sym_name, F64Attr:$weight, FlatSymbolRefAttr:$module, FlatSymbolRefAttr:$numerator, OptionalAttr<FlatSymbolRefAttr>:$denominator,
                       OptionalAttr<FlatSymbolRefAttr>:$denominator_out, DenseI32ArrayAttr:$denominator_inputs, OptionalAttr<F64Attr>:$at_least, OptionalAttr<F64Attr>:$plus);
  let assemblyFormat = "$sym_name `weight` $weight `of` $module $numerator (`over` $denominator^ $denominator_out)? `reads` $denominator_inputs attr-dict";
}
def RT_OptimizerOp : RT_Op<"optimizer"> {
  let summary = "OptimizerInfo: a dictionary by the names of its fields; `settings` is a dictionary, too, by the names of the settings";
  let arguments = (ins DictionaryAttr:$fields);
  let assemblyFormat = "$fields attr-dict";
}
def RT_RankOp : RT_Op<"rank", [HasParent<"ProgramOp">, NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "RankInfo: the rows of a rank's step, in order; of several ranks that do the same";
  let description = [{ `rt.rank 0, 1, 2, 3 peak 9.894e14 { ... }`. `peak`: FLOP/s that a device of these can do at most, where somebody knows. }];
  let arguments = (ins DenseI64ArrayAttr:$ranks, OptionalAttr<F64Attr>:$peak);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "custom<RankList>($ranks) (`peak` $peak^)? attr-dict-with-keyword $body";
}
def RT_TaskOp : RT_Op<"task", [HasParent<"RankOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "TaskRow: `rt.task backward_input @llm microbatch 0 slot 1 received 0 early 2 late 1`";
  let description = [{
    `kind`: TaskKind of runtime/Enums.h (the table in docs/program.md). The subject is the loss of a denominator, and the module of a row that computes or of `reduce`. Rows that move data name the edge by its number: `rt.task send edge 0 microbatch 3 slot 1 peer 0 gradient`.
    `piece`: the slice of the replica's share of the microbatch. `waits [2, 5]`: rows of the rank that send or receive, and that must have ended when this one begins, because it touches their bytes (docs/streams.md).
  }];
  let arguments = (ins Dist_TaskKind:$kind, OptionalAttr<FlatSymbolRefAttr>:$subject, OptionalAttr<I64Attr>:$edge, I64Attr:$microbatch, I64Attr:$slot, DefaultValuedAttr<I64Attr, "0">:$received,
                       DefaultValuedAttr<I64Attr, "0">:$early, DefaultValuedAttr<I64Attr, "0">:$late,
                       DefaultValuedAttr<I64Attr, "0">:$peer, UnitAttr:$gradient, DefaultValuedAttr<I64Attr, "0">:$piece, OptionalAttr<DenseI32ArrayAttr>:$waits);
  let extraClassDeclaration = [{
    /// That the module at this end of a row has the row's piece.
    ::llvm::LogicalResult verifyPiece(::mlir::Operation *module);
    /// Of a row that runs a function.
    int64_t getSlotOf(::dt::rt::SlotKind kind);
  }];
  let assemblyFormat = "custom<RuntimeEnum>($kind) ($subject^)? (`edge` $edge^)? `microbatch` $microbatch (`piece` $piece^)? `slot` $slot (`received` $received^)? (`early` $early^)? (`late` $late^)? (`peer` $peer^)? (`gradient` $gradient^)? (`waits` $waits^)? attr-dict";
}

#endif // DIALECTS_RT_RTPROGRAM

//===- DistOps.td - The dist dialect: modules, edges, losses, batch ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_DIST_DISTOPS
#define DIALECTS_DIST_DISTOPS

include "dialects/dist/DistCollectives.td"

/// An op beside the modules, in the top-level module.
class Dist_TopOp<string mnemonic, list<Trait> traits = []> : Dist_Op<mnemonic, traits # [HasParent<"::mlir::ModuleOp">]>;

def Dist_Role : I32EnumAttr<"Role", "what a module is for", [
  I32EnumAttrCase<"encoder", 0>, I32EnumAttrCase<"backbone", 1>, I32EnumAttrCase<"generator", 2>, I32EnumAttrCase<"tower", 3>, I32EnumAttrCase<"head", 4>]> {
  let cppNamespace = "::dt::dist";
}

/// What float32 products of a module may be computed in; without it all is float32.
def Dist_Precision : I32EnumAttr<"Precision", "what a module multiplies in", [I32EnumAttrCase<"bf16", 0>, I32EnumAttrCase<"tf32", 1>]> {
  let cppNamespace = "::dt::dist";
}
/// How rows of an edge find their replica (docs/parallel.md).
def Dist_Broker : I32EnumAttr<"Broker", "how rows find their replica", [
  I32EnumAttrCase<"copy", 0>, I32EnumAttrCase<"direct", 1>, I32EnumAttrCase<"items", 2>, I32EnumAttrCase<"all", 3>]> {
  let cppNamespace = "::dt::dist";
}
/// Bounded, so that products of a few of them are no overflow.
def Dist_Count : ConfinedAttr<I64Attr, [IntPositive, IntMaxValue<1048576>]>;
def Dist_Index : ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<1048576>]>;
def Dist_Nanoseconds : ConfinedAttr<I64Attr, [IntNonNegative]>;
/// 1 if absent.
def Dist_CountOrOne : DefaultValuedOptionalAttr<Dist_Count, "1">;
def Dist_Finite : ConfinedAttr<F64Attr, [AttrConstraint<CPred<"::llvm::cast<::mlir::FloatAttr>($_self).getValue().isFinite()">, "which is finite">]>;
/// Ranks, each once.
def Dist_RankList : ConfinedAttr<DenseI64ArrayAttr, [AttrConstraint<CPred<"::dt::dist::areRanks(::llvm::cast<::mlir::DenseI64ArrayAttr>($_self))">, "of ranks, at least one, each once and none below 0">]>;
def Dist_PositiveList : ConfinedAttr<DenseI64ArrayAttr, [AttrConstraint<CPred<"::llvm::all_of(::llvm::cast<::mlir::DenseI64ArrayAttr>($_self).asArrayRef(), [](int64_t n) { return n > 0; })">, "whose elements are positive">]>;
def Dist_ModuleOp : Dist_TopOp<"module", [Symbol, SymbolTable, IsolatedFromAbove, NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "a part of the model that is planned and run as one";
  let description = [{
    Holds its own symbols (`nn.dim`), parameters (`nn.parameter`) and functions; `@forward` is the module's computation. The names of arguments and
    results are their `nn.name` attributes. `of` names the kind of item that the module's work is divided by ("sample", "image"). With `whole_batch` the module runs once a step over
    the global batch; all others run once a microbatch. `origin` names the recipe's module that this one was cut from: its parameters, inputs and outputs are known outside
    (files, command line) by that name. `split`: it may hold several modules, which the modules phase tells apart (docs/modules.md). `save`: the saved set of its functions.

    How it computes (docs/sharding.md, docs/precision.md): `precision` (absent: float32); `narrow_residual`: values that layers hand on are stored in bf16; `narrow_gradients`: so are gradients of parameters that have working copies; `tp`: ranks of the tensor-parallel group; `cp`: of the context-parallel group, over which tokens are cut (docs/context.md); `context_keys`: how queries come by the keys of the others of these (absent: what sends fewer bytes); `token_block`: tokens go round these in blocks of so many (absent: as the module's own attention wants it); `joined`: so many of the plan's replicas are one here, whose ranks have samples of their own, as they share out experts; `ep`: how many ranks share out experts (docs/expert-parallelism.md); `sequence_parallel`: activations between layers are cut along the tokens; `overlap`: strips of
    collectives and the products beside them; `memory_price`: bytes of traffic that a stored element of a parameter is worth. `expert_capacity`: of each sample an expert takes at most so many times its even share of rows (docs/experts.md); gone after nn-limit-choices. `show_choices`: which experts rows chose are outputs; gone after nn-show-choices.

    Who runs it (docs/parallel.md; `Placement` has the values of absent ones): `unit`: the plan's unit that the module is a `stage` of; `dp`: replicas, with their `ranks` (replica d's from d * joined * cp * tp on) and `speeds` (only ratios count);
    `sub`: pieces of a replica's share of a microbatch; `span`: microbatches that a task works on at once; `zero`: 1 if optimizer state is sharded over replicas and ranks with other tokens; `split_backward`: gradients of inputs and of parameters are tasks of
    their own; `run_ahead`: microbatches that its forwards run ahead; `times`: what its tasks take; `work`: FLOPs of the model in a part, forward and backward, on all ranks of a replica together (dist-count-work).

    From dist-apply-plan to dist-cut-stages: `pp` pipeline stages with `vpp` virtual stages a rank; `stages`: names of pieces for every stage; `saves`: `save` of every stage; `unit_ranks`: ranks of (pp, dp, cp, tp) at ((pp * DP + dp) * CP + cp) * TP + tp, with the joined replicas among DP.
    ```mlir
    dist.module @vision of "image" role encoder { nn.dim @images of "image" max 6  …  func.func @forward(…) }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$item, OptionalAttr<Dist_Role>:$role, UnitAttr:$whole_batch, OptionalAttr<StrAttr>:$origin,
    UnitAttr:$split, OptionalAttr<Dist_Save>:$save,
    OptionalAttr<Dist_Precision>:$precision, UnitAttr:$narrow_residual, UnitAttr:$narrow_gradients, Dist_CountOrOne:$tp, Dist_CountOrOne:$cp, OptionalAttr<Dist_ContextKeys>:$context_keys, OptionalAttr<Dist_Count>:$token_block, Dist_CountOrOne:$joined, Dist_CountOrOne:$ep, UnitAttr:$sequence_parallel, Dist_CountOrOne:$overlap, OptionalAttr<NN_NotNegative>:$memory_price, OptionalAttr<NN_Positive>:$expert_capacity, UnitAttr:$show_choices,
    OptionalAttr<StrAttr>:$unit, DefaultValuedOptionalAttr<Dist_Index, "0">:$stage, Dist_CountOrOne:$dp, OptionalAttr<Dist_RankList>:$ranks, OptionalAttr<Dist_PositiveList>:$speeds,
    DefaultValuedOptionalAttr<ConfinedAttr<I64Attr, [IntPositive, IntMaxValue<32767>]>, "1">:$sub, Dist_CountOrOne:$span, DefaultValuedOptionalAttr<ConfinedAttr<I64Attr, [IntMinValue<0>, IntMaxValue<1>]>, "0">:$zero, UnitAttr:$split_backward, OptionalAttr<Dist_Index>:$run_ahead,
    OptionalAttr<Dist_TimesAttr>:$times, OptionalAttr<Dist_WorkAttr>:$work,
    Dist_CountOrOne:$pp, Dist_CountOrOne:$vpp, OptionalAttr<TypedArrayAttrBase<StrArrayAttr, "names of pieces for each stage">>:$stages, OptionalAttr<TypedArrayAttrBase<Dist_Save, "saved sets of stages">>:$saves, OptionalAttr<Dist_RankList>:$unit_ranks);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let assemblyFormat = "$sym_name (`of` $item^)? (`role` $role^)? (`whole_batch` $whole_batch^)? (`origin` $origin^)? (`precision` $precision^)? (`narrow_residual` $narrow_residual^)? (`narrow_gradients` $narrow_gradients^)? (`save` custom<RuntimeEnum>($save)^)? (`saves` custom<Saves>($saves)^)? attr-dict-with-keyword $body";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name)>];
  let extraClassDeclaration = [{
    /// The name that files and the command line know the module by: "origin.tensor".
    ::llvm::StringRef getExternalName() { return getOrigin().value_or(getSymName()); }
    /// Its work is divided by what the rows of the first output count that counts any; of a module that returns only losses by what those of its
    /// inputs count, samples before other kinds. Sets `item`, or removes it.
    void setItemOfRows();
    /// Whether it multiplies in bfloat16.
    bool isBF16() { return getPrecision() == Precision::bf16; }
    /// The function @forward, or null (it is gone after differentiation).
    ::mlir::func::FuncOp getForward();
    /// Index of the argument (result) of `function` that is called `name`.
    static std::optional<unsigned> findArgument(::mlir::func::FuncOp function, ::llvm::StringRef name);
    static std::optional<unsigned> findResult(::mlir::func::FuncOp function, ::llvm::StringRef name);
    /// The `nn.name` of an argument (result); "" without one.
    static ::llvm::StringRef getArgumentName(::mlir::func::FuncOp function, unsigned index);
    static ::llvm::StringRef getResultName(::mlir::func::FuncOp function, unsigned index);
  }];
}

def Dist_ForwardOp : Dist_Op<"forward", [HasParent<"ModuleOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "functions of a module that belong together";
  let description = [{
    `dist.forward @layer.fwd backward @layer.bwd of @layer`: what differentiation makes of a function. `backward` computes the gradients; or `input` those of inputs and `weight` those of parameters. `of`: the function as it was, while
    something calls it. That of functions that are not private is the module's own; layers have others.
  }];
  let arguments = (ins FlatSymbolRefAttr:$forward, OptionalAttr<FlatSymbolRefAttr>:$backward, OptionalAttr<FlatSymbolRefAttr>:$input, OptionalAttr<FlatSymbolRefAttr>:$weight, OptionalAttr<FlatSymbolRefAttr>:$plain);
  let assemblyFormat = "$forward (`backward` $backward^)? (`input` $input^)? (`weight` $weight^)? (`of` $plain^)? attr-dict";
}

def Dist_ItemOp : Dist_TopOp<"item"> {
  let summary = "a kind of thing that a sample has several of";
  let description = [{ `dist.item "image" max 3`: a sample holds 0 to 3 images. The kind "sample" always exists and is not declared. }];
  let arguments = (ins StrAttr:$name, I64Attr:$max);
  let hasVerifier = 1;
  let assemblyFormat = "$name `max` $max attr-dict";
}

def Dist_MeasureOp : Dist_TopOp<"measure"> {
  let summary = "a number that items of a kind have, known before they are decoded";
  let description = [{
    `dist.measure "patches" of "image" max 4096 part 16384`: an image has 0 to 4096 patches, and a part's images have at most 16384 together (absent: as many as the part may hold, each of
    the largest size). `multiple 128`: rows of a part are rounded up to a multiple of that. The kind may be "sample". A `nn.dim` adds it up (docs/sizes.md).
  }];
  let arguments = (ins StrAttr:$name, StrAttr:$kind, I64Attr:$max, OptionalAttr<I64Attr>:$part, DefaultValuedAttr<I64Attr, "1">:$multiple);
  let hasVerifier = 1;
  let assemblyFormat = "$name `of` $kind `max` $max (`part` $part^)? (`multiple` $multiple^)? attr-dict";
}

def Dist_SegmentsOp : Dist_TopOp<"segments"> {
  let summary = "a raw input whose numbers keep the rows of items apart";
  let description = [{
    `dist.segments "llm" "segments"`: attention of that module compares the numbers, one for each row of its items, which no other rule keeps apart. So no number may be of two items: the program checks every
    batch (docs/sizes.md). `with "pictures"`: they are compared with those of that input, so that what is of one item there is of no other here. The module is named as files name it.
  }];
  let arguments = (ins StrAttr:$module, StrAttr:$input, OptionalAttr<StrAttr>:$with);
  let assemblyFormat = "$module $input (`with` $with^)? attr-dict";
}

def Dist_PaddingOp : Dist_TopOp<"padding"> {
  let summary = "what a raw input has in rows behind those of the last item";
  let description = [{
    `dist.padding "llm" "labels" = -100`: where rows of a part are rounded up to a multiple (docs/sizes.md), the rows behind them have that number; other inputs have 0. The module is named as files name it.
  }];
  let arguments = (ins StrAttr:$module, StrAttr:$input, I64Attr:$value);
  let assemblyFormat = "$module $input `=` $value attr-dict";
}

def Dist_InputOp : Dist_TopOp<"input"> {
  let summary = "what a raw input is made of";
  let description = [{
    `dist.input "llm.input_ids" = {tokens = "ids"}`: an entry of the recipe's `inputs` (docs/data-recipe.md), carried to the program's data.json. The name is `module.input`, or plain `input`
    where a loss or several modules share it.
  }];
  let arguments = (ins StrAttr:$name, DictionaryAttr:$description);
  let hasVerifier = 1;
  let assemblyFormat = "$name `=` $description attr-dict";
}

def Dist_DataOp : Dist_TopOp<"data"> {
  let summary = "how samples become tokens and items (the recipe's `data`)";
  let arguments = (ins DictionaryAttr:$description);
  let hasVerifier = 1;
  let assemblyFormat = "$description attr-dict";
}

def Dist_DimsOp : Dist_TopOp<"dims"> {
  let summary = "what the recipe's dims are: numbers or item kinds";
  let description = [{ `dist.dims {batch = "sample", seq = 44}`: the types have it already; `data` and `inputs` name dims, hence data.json needs it. }];
  let arguments = (ins DictionaryAttr:$description);
  let hasVerifier = 1;
  let assemblyFormat = "$description attr-dict";
}

def Dist_EdgeOp : Dist_TopOp<"edge", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "an output of one module is an input of another";
  let description = [{
    `dist.edge @vision "image_embeds" to @llm "image_embeds"`. Both ends have one element type and equal dims: numbers are equal, symbols count the same kind of item. Into a `whole_batch` module
    the rows of all microbatches go one after another. `depth`: as that of `dist.plan`, of this edge. `broker`: how rows find their replica. `message`: ns of a message.
    `cut`: between stages of a unit; each rank of a replica has a block of its own, and sends it to the rank at its place in the other stage's; without it the value is whole on each rank (docs/parallel.md).
  }];
  let arguments = (ins FlatSymbolRefAttr:$source, StrAttr:$output, FlatSymbolRefAttr:$target, StrAttr:$input, OptionalAttr<Dist_Count>:$depth, OptionalAttr<Dist_Broker>:$broker, OptionalAttr<Dist_Nanoseconds>:$message, UnitAttr:$cut);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$source, "::llvm::StringRef":$output, "::llvm::StringRef":$target, "::llvm::StringRef":$input), [{
    build($_builder, $_state, source, output, target, input, ::mlir::IntegerAttr(), BrokerAttr(), ::mlir::IntegerAttr(), false);
  }]>];
  let assemblyFormat = "$source $output `to` $target $input (`cut` $cut^)? (`depth` $depth^)? (`broker` $broker^)? (`message` $message^)? attr-dict";
}

def Dist_TieOp : Dist_TopOp<"tie", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "two parameters are one";
  let description = [{ `dist.tie @gpt::@head = @gpt::@wte`: the left one has no storage of its own; value and gradient are the right one's. }];
  let arguments = (ins SymbolRefAttr:$alias, SymbolRefAttr:$parameter);
  let assemblyFormat = "$alias `=` $parameter attr-dict";
}

def Dist_LossOp : Dist_TopOp<"loss", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a term of the loss: weight * sum of numerators / sum of denominators";
  let description = [{
    `dist.loss "text" in @llm numerator "loss.text" denominator @"text.denominator" weight 1.0`. The numerator is the result of `@forward` of that name, a `tensor<f32>` for the part at hand. The denominator is a
    function of the module from raw inputs to `tensor<f32>`, run for all parts of the global batch before the first forward. Without one the term is the
    sum of its numerators. `ignores_padding`: rows that are no item's (dist.padding) add nothing to it. Graphs divide by max(count, 1) or count + 1e-8; the count is summed over all parts, so the guard is applied to the sum, once: the term is numerators / (max(denominators, `at_least`) + `plus`).
  }];
  let arguments = (ins StrAttr:$name, FlatSymbolRefAttr:$module, StrAttr:$numerator, OptionalAttr<FlatSymbolRefAttr>:$denominator, F64Attr:$weight,
    OptionalAttr<Dist_Finite>:$at_least, OptionalAttr<Dist_Finite>:$plus, UnitAttr:$ignores_padding);
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::StringAttr":$name, "::mlir::FlatSymbolRefAttr":$module, "::mlir::StringAttr":$numerator, "::mlir::FlatSymbolRefAttr":$denominator, "::mlir::FloatAttr":$weight), [{
    build($_builder, $_state, name, module, numerator, denominator, weight, ::mlir::FloatAttr(), ::mlir::FloatAttr(), ::mlir::UnitAttr());
  }]>];
  let assemblyFormat = "$name `in` $module `numerator` $numerator (`denominator` $denominator^)? `weight` $weight attr-dict";
}

def Dist_OptimizerOp : Dist_TopOp<"optimizer"> {
  let summary = "how parameters are updated";
  let description = [{
    `dist.optimizer adamw {beta2 = 0.95} lr 1.0e-3 {clip = 1.0}`. The kinds and the settings of each (f64; one that is not said has the kind's own value) are those of runtime/Optimizers.h; the other fields mean what
    those of `dt::rt::OptimizerInfo` (runtime/Tables.def) mean. Schedules (constant, linear, cosine) are those of runtime/Enums.h. `total_steps` 0: the number of steps given to the program.
  }];
  let arguments = (ins Dist_OptimizerKind:$kind, OptionalAttr<DictionaryAttr>:$settings, F64Attr:$lr,
    DefaultValuedAttr<F64Attr, "0.0">:$weight_decay, DefaultValuedAttr<F64Attr, "0.0">:$clip,
    DefaultValuedAttr<I64Attr, "0">:$warmup, DefaultValuedAttr<Dist_ScheduleKind, "::dt::rt::ScheduleKind::Constant">:$schedule, DefaultValuedAttr<I64Attr, "0">:$total_steps,
    DefaultValuedAttr<F64Attr, "0.0">:$decay_from, DefaultValuedAttr<F64Attr, "0.0">:$final_fraction, DefaultValuedAttr<F64Attr, "0.0">:$average_decay);
  let hasVerifier = 1;
  let assemblyFormat = "custom<RuntimeEnum>($kind) ($settings^)? `lr` $lr (`schedule` custom<RuntimeEnum>($schedule)^)? attr-dict";
}

def Dist_BatchOp : Dist_TopOp<"batch"> {
  let summary = "samples of a step and of a microbatch";
  let description = [{ A step is ceil(global / micro) microbatches; the last may have fewer samples. `local_statistics`: batch normalisation in training form takes each part's statistics
    (otherwise it is an error if there are several microbatches). `open_micro`: the recipe does not say `micro`; a plan may, until then it is all.
    `parts 4 of 8192`: a step is as many samples as fit into so many parts of so many tokens, `global` at most (docs/sizes.md). }];
  let arguments = (ins I64Attr:$global, I64Attr:$micro, UnitAttr:$local_statistics, UnitAttr:$open_micro, OptionalAttr<I64Attr>:$parts, OptionalAttr<I64Attr>:$tokens);
  let hasVerifier = 1;
  let assemblyFormat = "`global` $global `micro` $micro (`parts` $parts^ `of` $tokens)? (`local_statistics` $local_statistics^)? (`open_micro` $open_micro^)? attr-dict";
}

def Dist_SeedOp : Dist_TopOp<"seed"> {
  let summary = "key of every random draw: initial weights, data order, noise";
  let arguments = (ins I64Attr:$value);
  let hasVerifier = 1;
  let assemblyFormat = "$value attr-dict";
}

def Dist_PlanOp : Dist_TopOp<"plan", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "ranks, schedule and batch order of a step on many ranks";
  let description = [{
    `dist.plan ranks 12 schedule "1f1b" pace @llm reorder "both" bucket 4194304 depth 2`. `pace`: the module or unit whose replicas together hold a microbatch's samples. `reorder`: "none", "intra", "inter" or "both".
    `bucket`: bytes of a gradient reduction. `narrow_sums`: in bf16. `depth`: microbatches whose forward messages a receiver has posted. Attributes of the modules say who runs what (docs/parallel.md).
    `cluster`: whose devices run what has no times. `memory`: bytes of every rank. `peaks`: FLOP/s that the device of every rank can do at most.
  }];
  let arguments = (ins I64Attr:$ranks, StrAttr:$schedule, FlatSymbolRefAttr:$pace, StrAttr:$reorder, I64Attr:$bucket, I64Attr:$depth, UnitAttr:$narrow_sums, OptionalAttr<StrAttr>:$cluster, OptionalAttr<DenseI64ArrayAttr>:$memory, OptionalAttr<DenseF64ArrayAttr>:$peaks);
  let hasVerifier = 1;
  let assemblyFormat = "`ranks` $ranks `schedule` $schedule `pace` $pace `reorder` $reorder `bucket` $bucket `depth` $depth (`narrow_sums` $narrow_sums^)? (`cluster` $cluster^)? attr-dict";
}

#endif // DIALECTS_DIST_DISTOPS

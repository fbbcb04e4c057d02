//===- NNShapeOps.td - Creation, data movement, indexing ---------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNSHAPEOPS
#define DIALECTS_NN_NNSHAPEOPS

include "dialects/nn/NNNorm.td"

def NN_ConstantOp : NN_PureOp<"constant", [ConstantLike, NN_Recomputable, NN_ZeroGradient, CostOpInterface,
                                         DeclareOpInterfaceMethods<ShardingOpInterface, ["getShardingRule"]>, AllTypesMatch<["value", "result"]>]> {
  let summary = "a tensor known at compile time (at most 64 Ki elements; splats of any static size)";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs NN_Tensor:$result);
  let hasFolder = 1;
  let hasVerifier = 1;
  let assemblyFormat = "attr-dict $value";
}
def NN_GenerateOp : NN_PureOp<"generate", [IsolatedFromAbove, NN_Recomputable, NN_ZeroGradient, SingleBlock, CostOpInterface, DeclareOpInterfaceMethods<ShardingOpInterface, ["getShardingRule"]>]> {
  let summary = "a tensor whose element is a function of its indices";
  let description = [{
    The region has one `index` argument a dim, holds arith/math ops (and `nn.size` for symbols) and yields the element. Masks, position ids and ranges end here: nothing of their size is
    stored, and later passes read the function (e.g. `j <= i` is causal).
    ```mlir
    %mask = nn.generate : tensor<40x40xi1> { ^bb0(%i: index, %j: index): %0 = arith.cmpi sle, %j, %i : index   nn.yield %0 : i1 }
    ```
  }];
  let arguments = (ins);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "attr-dict `:` type($result) $body";
}
def NN_SizeOp : NN_PureOp<"size"> {
  let summary = "value of a size expression at run time";
  let arguments = (ins StrAttr:$expr);
  let results = (outs Index:$result);
  let assemblyFormat = "$expr attr-dict";
}
def NN_YieldOp : NN_PureOp<"yield", [Terminator]> {
  let summary = "ends a region of generate or fused";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
}
def NN_FusedOp : NN_PureOp<"fused", [IsolatedFromAbove, SingleBlock, CostOpInterface, ShardingOpInterface]> {
  let summary = "elementwise ops that become one kernel";
  let description = [{
    Operands broadcast to the common shape of the results. Block arguments and values inside are *scalars*: the body is what `buildScalar` of the fused ops emitted (arith/math), its terminator `nn.yield`
    gives one element a result.
  }];
  let arguments = (ins Variadic<NN_Tensor>:$inputs);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<NN_Tensor>:$results);
  let hasVerifier = 1;
  let assemblyFormat = "$inputs attr-dict `:` functional-type($inputs, $results) $body";
}

class NN_MovementTyped<string mnemonic, string what> : NN_SmoothTypedOp<mnemonic, [NN_Recomputable]> {
  let summary = what;
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
}
def NN_ReshapeOp : NN_MovementTyped<"reshape", "same elements in row-major order, other dims"> {
  let description = [{ Costs nothing. `getReassociation` (NNShape.h) tells which dims split and merge; where it cannot, the rule for sharding treats dims as opaque. }];
  let hasFolder = 1;
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}
def NN_BroadcastOp : NN_MovementTyped<"broadcast", "repeats along dims of size 1 (and new leading dims), as ONNX Expand"> {
  let hasFolder = 1;
  let hasVerifier = 1;
}
def NN_TransposeOp : NN_SmoothOp<"transpose", [NN_Recomputable]> {
  let summary = "result axis i is input axis permutation[i]";
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs NN_Tensor:$result);
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
  let assemblyFormat = "$input $permutation attr-dict `:` type($input)";
}
def NN_SliceOp : NN_SmoothTypedOp<"slice", [NN_Recomputable]> {
  let summary = "elements starts[i], starts[i] + steps[i], … of each axis";
  let description = [{
    A step may be negative. The result's dims say how many elements are taken; where the input's dim is not a number, starts count from its begin, or with `from_end` (a bool an axis) back from its end.
  }];
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$steps, DefaultValuedAttr<DenseBoolArrayAttr, "{}">:$from_end);
  let results = (outs NN_Tensor:$result);
  let hasFolder = 1;
  let hasVerifier = 1;
  let assemblyFormat = "$input $starts `step` $steps attr-dict `:` type($input) `to` type($result)";
}
def NN_PadOp : NN_SmoothTypedOp<"pad"> {
  let summary = "places the input into a tensor of `value`";
  let description = [{
    Element i of an axis goes to low + i * (interior + 1). The result's dims are given; negative `low` is not allowed. With `reverse` (a bool an axis) the input's order on it is turned (gradient of a slice with a
    negative step).
  }];
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$interior, DefaultValuedAttr<DenseBoolArrayAttr, "{}">:$reverse, DefaultValuedAttr<F64Attr, "0.0">:$value);
  let results = (outs NN_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$input `low` $low `interior` $interior attr-dict `:` type($input) `to` type($result)";
}
def NN_ConcatOp : NN_SmoothOp<"concat"> {
  let summary = "inputs one after another along `axis`";
  let arguments = (ins Variadic<NN_Tensor>:$inputs, I64Attr:$axis);
  let results = (outs NN_Tensor:$result);
  let hasFolder = 1;
  let assemblyFormat = "$inputs attr-dict `:` type($inputs)";
}
def NN_GatherOp : NN_SmoothOp<"gather"> {
  let summary = "input's slices along `axis` at `indices` (ONNX Gather; an embedding is axis 0)";
  let description = [{
    Result dims: input's before the axis, those of the indices, input's after it. Negative indices count from the end. With `zero_out_of_range` an index outside [0, size) gives zeros (no wrap-around).
  }];
  let arguments = (ins NN_Tensor:$input, NN_IntTensor:$indices, I64Attr:$axis, UnitAttr:$zero_out_of_range);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input `at` $indices attr-dict `:` type(operands)";
}
def NN_GatherGradOp : NN_GradTypedOp<"gather_grad"> {
  let summary = "zeros of the result's shape with the slices of `grad` added at `indices` along `axis`, in index order";
  let arguments = (ins NN_FloatTensor:$grad, NN_IntTensor:$indices, I64Attr:$axis, UnitAttr:$zero_out_of_range);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$grad `at` $indices attr-dict `:` functional-type(operands, results)";
}
def NN_GatherElementsOp : NN_SmoothOp<"gather_elements"> {
  let summary = "result[.., i, ..] = input[.., indices[.., i, ..], ..] along `axis`";
  let arguments = (ins NN_Tensor:$input, NN_IntTensor:$indices, I64Attr:$axis);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input `at` $indices attr-dict `:` type(operands)";
}
def NN_GatherElementsGradOp : NN_GradTypedOp<"gather_elements_grad"> {
  let summary = "gradient of gather_elements' input";
  let arguments = (ins NN_FloatTensor:$grad, NN_IntTensor:$indices, I64Attr:$axis);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$grad `at` $indices attr-dict `:` functional-type(operands, results)";
}
def NN_GatherNdOp : NN_SmoothOp<"gather_nd"> {
  let summary = "slices of input at index tuples (ONNX GatherND)";
  let description = [{ indices [..., k]: the last axis addresses the k axes of the input after the `batch_dims` first ones, which both share. }];
  let arguments = (ins NN_Tensor:$input, NN_IntTensor:$indices, DefaultValuedOptionalAttr<I64Attr, "0">:$batch_dims);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input `at` $indices attr-dict `:` type(operands)";
}
def NN_ScatterKind : I32EnumAttr<"ScatterKind", "how an update meets what is there", [
  I32EnumAttrCase<"set", 0>, I32EnumAttrCase<"add", 1>, I32EnumAttrCase<"mul", 2>, I32EnumAttrCase<"max", 3>, I32EnumAttrCase<"min", 4>]> {
  let cppNamespace = "::dt::nn";
}
def NN_ScatterNdOp : NN_SmoothOp<"scatter_nd"> {
  let summary = "input with slices at index tuples replaced by updates, or combined with them (ONNX ScatterND)";
  let description = [{
    indices [..., k], updates [..., input dims after k]. Updates come in index order: a place named twice keeps the last with `set`, and combines all otherwise. On bool `add` and `max` are or, `mul` and
    `min` are and. Of the equals that are the largest (smallest) at a place, the input's among them, each gets an equal share of the gradient, as in PyTorch's scatter_reduce.
  }];
  let arguments = (ins NN_ScatterKind:$kind, NN_Tensor:$input, NN_IntTensor:$indices, NN_Tensor:$updates);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$kind $input `at` $indices `,` $updates attr-dict `:` type(operands)";
}

#endif // DIALECTS_NN_NNSHAPEOPS

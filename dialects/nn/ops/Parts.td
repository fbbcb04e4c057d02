//===- Parts.td - Slice, pad and concat -----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_PARTS
#define DIALECTS_NN_OPS_PARTS

include "dialects/nn/NNBase.td"

def NN_SliceOp : NN_MovementOp<"slice", [NN_Recomputable], NN_TypeGiven, "View"> {
  let summary = "elements starts[i], starts[i] + steps[i], … of each axis";
  let description = [{
    A step may be negative. The result's dims say how many elements are taken; where the input's dim is not a number, starts count from its begin, or with `from_end` (a bool an axis) back from its end.
  }];
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$steps, DefaultValuedAttr<DenseBoolArrayAttr, "{}">:$from_end);
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = declarations # "::dt::nn::DimExpr getBytes();";
  let assemblyFormat = "$input $starts `step` $steps attr-dict `:` type($input) `to` type($result)";
}
def NN_PadOp : NN_MovementOp<"pad", [], NN_TypeGiven> {
  let summary = "places the input into a tensor of `value`";
  let description = [{
    Element i of an axis goes to low + i * (interior + 1). The result's dims are given; negative `low` is not allowed. With `reverse` (a bool an axis) the input's order on it is turned (gradient of a slice with a
    negative step).
  }];
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$interior, DefaultValuedAttr<DenseBoolArrayAttr, "{}">:$reverse, DefaultValuedAttr<F64Attr, "0.0">:$value);
  let hasVerifier = 1;
  let assemblyFormat = "$input `low` $low `interior` $interior attr-dict `:` type($input) `to` type($result)";
}
def NN_ConcatOp : NN_MovementOp<"concat"> {
  let summary = "inputs one after another along `axis`";
  let arguments = (ins Variadic<NN_Tensor>:$inputs, I64Attr:$axis);
  let hasFolder = 1;
  let extraClassDeclaration = declarations # "::dt::nn::DimExpr getBytes();";
  let assemblyFormat = "$inputs attr-dict `:` type($inputs)";
}

#endif // DIALECTS_NN_OPS_PARTS

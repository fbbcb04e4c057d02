//===- Reduction.td - Reductions, running sums, the largest elements ------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_REDUCTION
#define DIALECTS_NN_OPS_REDUCTION

include "dialects/nn/NNBase.td"

def NN_ReduceKind : I32EnumAttr<"ReduceKind", "how elements are combined", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"mean", 1>, I32EnumAttrCase<"max", 2>, I32EnumAttrCase<"min", 3>, I32EnumAttrCase<"prod", 4>]> {
  let cppNamespace = "::dt::nn";
}
def NN_ReduceOp : NN_SmoothOp<"reduce"> {
  let summary = "combines elements along `axes`, which stay as 1 with `keepdims`";
  let description = [{
    Floats and integers; on bool max is any, min is all. No axes: the value itself. A sum over no element is 0. Equal elements share the gradient of a max or min, as in PyTorch's `amax`; with `first`
    the first of them in the order of memory has it, as in `max(dim)`.
  }];
  let arguments = (ins NN_ReduceKind:$kind, NN_Tensor:$input, DenseI64ArrayAttr:$axes, UnitAttr:$keepdims, UnitAttr:$first);
  let results = (outs NN_Tensor:$result);
  let hasFolder = 1;
  let assemblyFormat = "$kind $input attr-dict `:` type($input)";
}
def NN_ArgMaxOp : NN_PureOp<"arg_max", [NN_ZeroGradient, CostOpInterface, NN_Items, NN_Sharded, NN_InferTypes]> {
  let summary = "index of the largest element along `axis` (smallest with `min`; last of equals with `last`)";
  let arguments = (ins NN_Tensor:$input, I64Attr:$axis, UnitAttr:$keepdims, UnitAttr:$min, UnitAttr:$last);
  let results = (outs RankedTensorOf<[I64]>:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}
def NN_TopKOp : NN_SmoothOp<"top_k", [], NN_TypeGiven> {
  let summary = "the k largest elements along `axis` in order, and where they were (`smallest`: the smallest)";
  let description = [{
    Both results have the input's dims, but k along `axis`, which is the number of elements taken; where it is the size of the axis, this is a sort. Of equal elements the one with the lower index comes
    first. Not-a-number counts as larger than all numbers (as in PyTorch), so that the order is total.
  }];
  let arguments = (ins NN_Tensor:$input, I64Attr:$axis, UnitAttr:$smallest);
  let results = (outs NN_Tensor:$values, RankedTensorOf<[I64]>:$indices);
  let hasVerifier = 1;
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}
def NN_CumsumOp : NN_SmoothOp<"cumsum", [], NN_TypeOfFirst> {
  let summary = "running sum along `axis`";
  let arguments = (ins NN_Tensor:$input, I64Attr:$axis, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

#endif // DIALECTS_NN_OPS_REDUCTION

//===- Creation.td - Tensors from nothing, and regions of scalars ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_CREATION
#define DIALECTS_NN_OPS_CREATION

include "dialects/nn/NNBase.td"

def NN_ConstantOp : NN_PureOp<"constant", [ConstantLike, NN_Recomputable, NN_ZeroGradient, CostOpInterface, ItemOpInterface,
                                         NN_Sharded, AllTypesMatch<["value", "result"]>]> {
  let summary = "a tensor known at compile time (at most 64 Ki elements; splats of any static size)";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs NN_Tensor:$result);
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = NN_Work<"None">.declaration;
  let assemblyFormat = "attr-dict $value";
}
def NN_GenerateOp : NN_PureOp<"generate", [IsolatedFromAbove, NN_Recomputable, NN_ZeroGradient, SingleBlock, CostOpInterface, NN_Items, NN_Sharded]> {
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
  let arguments = (ins NN_Dim:$size);
  let results = (outs Index:$result);
  let assemblyFormat = "$size attr-dict";
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
    gives one element a result. `kernel`: what the kernel is called.
  }];
  let arguments = (ins Variadic<NN_Tensor>:$inputs, OptionalAttr<StrAttr>:$kernel);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs Variadic<NN_Tensor>:$results);
  let hasVerifier = 1;
  let assemblyFormat = "$inputs attr-dict `:` functional-type($inputs, $results) $body";
}

#endif // DIALECTS_NN_OPS_CREATION

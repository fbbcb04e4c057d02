//===- Indexing.td - Gather, scatter and their gradients ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_INDEXING
#define DIALECTS_NN_OPS_INDEXING

include "dialects/nn/NNBase.td"

def NN_GatherOp : NN_MovementOp<"gather", [IndexedOpInterface]> {
  let summary = "input's slices along `axis` at `indices` (ONNX Gather; an embedding is axis 0)";
  let description = [{
    Result dims: input's before the axis, those of the indices, input's after it. Negative indices count from the end. With `zero_out_of_range` an index outside [0, size) gives zeros (no wrap-around).
    `in_order` beside it: the indices number places that the rows fill one after another, from 0 on (-1 before the first place). When the program runs there must be as many places as rows: in each item, where both follow the same one. Rows of a fixed number may be more.
  }];
  let extraClassDeclaration = declarations # "bool picksItems(::dt::nn::ItemStates operands);";
  let arguments = !con((ins NN_Tensor:$input, NN_IntTensor:$indices, I64Attr:$axis, UnitAttr:$zero_out_of_range, UnitAttr:$in_order), NN_IndexNotes);
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::Value":$indices, "uint64_t":$axis, CArg<"bool", "false">:$zero_out_of_range, CArg<"bool", "false">:$in_order), [{
    build($_builder, $_state, input, indices, axis, zero_out_of_range, in_order, ::dt::nn::BlockAttr(), ::mlir::IntegerAttr(), false);
  }]>];
  let assemblyFormat = "$input `at` $indices attr-dict `:` type(operands)";
}
def NN_GatherGradOp : NN_GradOp<"gather_grad", [IndexedOpInterface], NN_TypeGiven> {
  let summary = "zeros of the result's shape with the slices of `grad` added at `indices` along `axis`, in index order";
  let arguments = !con((ins NN_FloatTensor:$grad, NN_IntTensor:$indices, I64Attr:$axis, UnitAttr:$zero_out_of_range), NN_IndexNotes);
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$grad, "::mlir::Value":$indices, "uint64_t":$axis, CArg<"bool", "false">:$zero_out_of_range), [{
    build($_builder, $_state, result, grad, indices, axis, zero_out_of_range, ::dt::nn::BlockAttr(), ::mlir::IntegerAttr(), false);
  }]>];
  let assemblyFormat = "$grad `at` $indices attr-dict `:` functional-type(operands, results)";
}
def NN_GatherElementsOp : NN_MovementOp<"gather_elements", [IndexedOpInterface]> {
  let summary = "result[.., i, ..] = input[.., indices[.., i, ..], ..] along `axis`";
  let arguments = !con((ins NN_Tensor:$input, NN_IntTensor:$indices, I64Attr:$axis), NN_IndexNotes);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::mlir::Value":$indices, "uint64_t":$axis), [{
    build($_builder, $_state, input, indices, axis, ::dt::nn::BlockAttr(), ::mlir::IntegerAttr(), false);
  }]>];
  let assemblyFormat = "$input `at` $indices attr-dict `:` type(operands)";
}
def NN_GatherElementsGradOp : NN_GradOp<"gather_elements_grad", [], NN_TypeGiven> {
  let summary = "gradient of gather_elements' input";
  let arguments = (ins NN_FloatTensor:$grad, NN_IntTensor:$indices, I64Attr:$axis);
  let assemblyFormat = "$grad `at` $indices attr-dict `:` functional-type(operands, results)";
}
def NN_GatherNdOp : NN_MovementOp<"gather_nd"> {
  let summary = "slices of input at index tuples (ONNX GatherND)";
  let description = [{ indices [..., k]: the last axis addresses the k axes of the input after the `batch_dims` first ones, which both share. }];
  let extraClassDeclaration = declarations # "bool picksItems(::dt::nn::ItemStates operands);";
  let arguments = (ins NN_Tensor:$input, NN_IntTensor:$indices, DefaultValuedOptionalAttr<I64Attr, "0">:$batch_dims);
  let assemblyFormat = "$input `at` $indices attr-dict `:` type(operands)";
}

def NN_ScatterKind : I32EnumAttr<"ScatterKind", "how an update meets what is there", [
  I32EnumAttrCase<"set", 0>, I32EnumAttrCase<"add", 1>, I32EnumAttrCase<"mul", 2>, I32EnumAttrCase<"max", 3>, I32EnumAttrCase<"min", 4>]> {
  let cppNamespace = "::dt::nn";
}
def NN_ScatterNdOp : NN_SmoothOp<"scatter_nd", [], NN_TypeOfFirst> {
  let summary = "input with slices at index tuples replaced by updates, or combined with them (ONNX ScatterND)";
  let description = [{
    indices [..., k], updates [..., input dims after k]. Updates come in index order: a place named twice keeps the last with `set`, and combines all otherwise. On bool `add` and `max` are or, `mul` and
    `min` are and. Of the equals that are the largest (smallest) at a place, the input's among them, each gets an equal share of the gradient, as in PyTorch's scatter_reduce.
  }];
  let extraClassDeclaration = "bool picksItems(::dt::nn::ItemStates operands);";
  let arguments = (ins NN_ScatterKind:$kind, NN_Tensor:$input, NN_IntTensor:$indices, NN_Tensor:$updates);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$kind $input `at` $indices `,` $updates attr-dict `:` type(operands)";
}

#endif // DIALECTS_NN_OPS_INDEXING

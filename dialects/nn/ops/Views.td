//===- Views.td - Reshape, broadcast and transpose ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_VIEWS
#define DIALECTS_NN_OPS_VIEWS

include "dialects/nn/NNBase.td"

class NN_View<string mnemonic, string what, string work = "View", list<Trait> traits = []> : NN_MovementOp<mnemonic, [NN_Recomputable] # traits, NN_TypeGiven, work> {
  let summary = what;
  let arguments = (ins NN_Tensor:$input);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
}
def NN_ReshapeOp : NN_View<"reshape", "same elements in row-major order, other dims", "None", [NN_KeepsCount]> {
  let description = [{ Costs nothing. `getReassociation` (NNShape.h) tells which dims split and merge; where it cannot, the rule for sharding treats dims as opaque. }];
  let hasFolder = 1;
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}
def NN_BroadcastOp : NN_View<"broadcast", "repeats along dims of size 1 (and new leading dims), as ONNX Expand"> {
  let hasFolder = 1;
  let hasVerifier = 1;
}
def NN_TransposeOp : NN_MovementOp<"transpose", [NN_Recomputable], NN_InferTypes, "View"> {
  let summary = "result axis i is input axis permutation[i]";
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
  let assemblyFormat = "$input $permutation attr-dict `:` type($input)";
}

#endif // DIALECTS_NN_OPS_VIEWS

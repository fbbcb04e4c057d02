//===- Softmax.td - Softmax, its logarithm and their gradients ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_SOFTMAX
#define DIALECTS_NN_OPS_SOFTMAX

include "dialects/nn/NNBase.td"

class NN_SoftmaxLike<string mnemonic, string what> : NN_SmoothOp<mnemonic, [], NN_TypeOfFirst> {
  let summary = what;
  let arguments = (ins NN_FloatTensor:$input, I64Attr:$axis);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}
def NN_SoftmaxOp : NN_SoftmaxLike<"softmax", "exp(x - max) / sum along `axis`; a row of -inf gives not-a-number, as in ONNX">;
def NN_LogSoftmaxOp : NN_SoftmaxLike<"log_softmax", "x - log(sum(exp(x))) along `axis`">;

class NN_SoftmaxGrad<string mnemonic, string what> : NN_GradOp<mnemonic, [], NN_TypeOfBoth> {
  let summary = what;
  let arguments = (ins NN_FloatTensor:$output, NN_FloatTensor:$grad, I64Attr:$axis);
  let assemblyFormat = "$output `,` $grad attr-dict `:` type(operands)";
}
def NN_SoftmaxGradOp : NN_SoftmaxGrad<"softmax_grad", "y * (dy - sum(y * dy)) with y softmax's result">;
def NN_LogSoftmaxGradOp : NN_SoftmaxGrad<"log_softmax_grad", "dy - exp(y) * sum(dy) with y log_softmax's result">;

#endif // DIALECTS_NN_OPS_SOFTMAX

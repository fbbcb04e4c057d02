//===- Loss.td - Losses of classification ---------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_LOSS
#define DIALECTS_NN_OPS_LOSS

include "dialects/nn/NNBase.td"

def NN_CrossEntropyOp : NN_SmoothOp<"cross_entropy", [IndexedOpInterface]> {
  let summary = "-log softmax(logits)[label], 0 where the label is `ignore_index`";
  let description = [{
    logits [..., v], labels [...] (class index); result [...] a loss a row. Sums and means are explicit ops around it. Labels outside [0, v) other than `ignore_index` count as ignored. `classes`, one number: logits of a row
    from there on are padding and count as none.
  }];
  let arguments = !con((ins NN_FloatTensor:$logits, NN_IntTensor:$labels, Optional<NN_IntTensor>:$classes, DefaultValuedAttr<I64Attr, "-100">:$ignore_index), NN_IndexNotes);
  let builders = [OpBuilder<(ins "::mlir::Value":$logits, "::mlir::Value":$labels, "::mlir::Value":$classes, "uint64_t":$ignore_index), [{
    build($_builder, $_state, logits, labels, classes, ignore_index, ::dt::nn::BlockAttr(), ::mlir::IntegerAttr(), false);
  }]>];
  let assemblyFormat = "$logits `,` $labels (`classes` $classes^)? attr-dict `:` type(operands)";
}
def NN_CrossEntropyGradOp : NN_GradOp<"cross_entropy_grad", [AttrSizedOperandSegments, IndexedOpInterface], NN_TypeOfFirst> {
  let summary = "gradient of the logits: (softmax(logits) - onehot(label)) * dy a row";
  let description = [{
    `loss` is what `nn.cross_entropy` gave: with the label's logit it makes a row's log-sum-exp, so that logits are read once. Without it rows are summed up again. The gradient of padding is 0.
  }];
  let arguments = !con((ins NN_FloatTensor:$logits, NN_IntTensor:$labels, NN_FloatTensor:$grad, Optional<NN_FloatTensor>:$loss, Optional<NN_IntTensor>:$classes, DefaultValuedAttr<I64Attr, "-100">:$ignore_index), NN_IndexNotes);
  let builders = [OpBuilder<(ins "::mlir::Value":$logits, "::mlir::Value":$labels, "::mlir::Value":$grad, "::mlir::Value":$loss, "::mlir::Value":$classes, "uint64_t":$ignore_index), [{
    build($_builder, $_state, logits, labels, grad, loss, classes, ignore_index, ::dt::nn::BlockAttr(), ::mlir::IntegerAttr(), false);
  }]>];
  let assemblyFormat = "$logits `,` $labels `,` $grad (`,` $loss^)? (`classes` $classes^)? attr-dict `:` type(operands)";
}

#endif // DIALECTS_NN_OPS_LOSS

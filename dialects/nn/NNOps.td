//===- NNOps.td - All operators of the nn dialect ---------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A file of ops/ is a family of operators; its .cpp has what they answer to the
// interfaces, op by op.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNOPS
#define DIALECTS_NN_NNOPS

include "dialects/nn/ops/Attention.td"
include "dialects/nn/ops/Convolution.td"
include "dialects/nn/ops/Creation.td"
include "dialects/nn/ops/Elementwise.td"
include "dialects/nn/ops/Experts.td"
include "dialects/nn/ops/Indexing.td"
include "dialects/nn/ops/Linear.td"
include "dialects/nn/ops/Loss.td"
include "dialects/nn/ops/Module.td"
include "dialects/nn/ops/Norm.td"
include "dialects/nn/ops/Parts.td"
include "dialects/nn/ops/Reduction.td"
include "dialects/nn/ops/Softmax.td"
include "dialects/nn/ops/Views.td"

#endif // DIALECTS_NN_NNOPS

//===- NNOps.h - Operators of the nn dialect --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNOPS_H
#define DIALECTS_NN_NNOPS_H

#include "dialects/nn/NNDialect.h"

#define GET_OP_CLASSES
#include "dialects/nn/NNOps.h.inc"

#endif // DIALECTS_NN_NNOPS_H

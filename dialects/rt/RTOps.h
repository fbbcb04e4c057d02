//===- RTOps.h - Operators of the rt dialect ----------------------*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTOPS_H
#define DIALECTS_RT_RTOPS_H

#include "dialects/dist/DistOps.h"
#include "dialects/rt/RTDialect.h"

#define GET_OP_CLASSES
#include "dialects/rt/RTOps.h.inc"

#endif // DIALECTS_RT_RTOPS_H

//===- Combine.h - reductions of what MPI has no type for -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_COMBINE_H
#define DT_RUNTIME_COMM_COMBINE_H

#include "runtime/Enums.h"
#include "runtime/device/BFloat16.h"

namespace dt::rt {

/// `blocks` has `count` blocks of n elements, one after another; out[i] is what
/// their i-th elements give, combined in float32 in this order and rounded
/// once. `out` is none of the blocks.
void combine(Reduction kind, const bf16 *blocks, int count, bf16 *out,
             int64_t n);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_COMBINE_H

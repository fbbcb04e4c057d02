//===- Combine.h - what elements of several ranks give ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_COMBINE_H
#define DT_RUNTIME_COMM_COMBINE_H

#include "runtime/Enums.h"

#include <cstdint>

namespace dt::rt {

/// Throws Error for a type that ranks do not combine.
void expectCombined(DType type);

/// `blocks` has `count` blocks of n elements, one after another; out[i] is what
/// their i-th elements give, combined in this order; bf16 in float32, rounded
/// once. `out` is none of the blocks.
void combine(Reduction kind, DType type, const void *blocks, int count,
             void *out, int64_t n);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_COMBINE_H

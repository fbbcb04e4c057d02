//===- PadVocabulary.h - Tables that the ranks do not divide ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_SHARD_PADVOCABULARY_H
#define PASSES_SHARD_PADVOCABULARY_H

#include "dialects/dist/DistOps.h"

namespace dt::shard {

/// Pads each vocabulary (a dim that is looked up or holds class scores), with a
/// remark: class scores to a multiple of 64 times `ranks` (as Megatron-LM's
/// make_vocab_size_divisible_by), or 8 times where that is too much for them;
/// what is only looked up until `ranks` divide it. Parameters and outputs say
/// in their `dist.layout` what they are without. Where something else needs the
/// dim as it is, nothing is done.
void padVocabulary(dist::ModuleOp module, int64_t ranks);

} // namespace dt::shard

#endif // PASSES_SHARD_PADVOCABULARY_H

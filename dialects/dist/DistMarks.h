//===- DistMarks.h - Attributes that passes leave for later -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_DIST_DISTMARKS_H
#define DIALECTS_DIST_DISTMARKS_H

#include "llvm/ADT/StringRef.h"

namespace dt::dist {

// Graphs divide by max(count, 1) or count + 1e-8. The count is summed over all
// parts, so the guard must be applied to the sum, once: it is written on the
// loss (dist.loss, then rt.loss), not into the denominator's function. Numbers
// (f64): the term is numerators / (max(denominators, at_least) + plus).
inline constexpr llvm::StringLiteral kAtLeastAttr = "dist.at_least";
inline constexpr llvm::StringLiteral kPlusAttr = "dist.plus";

/// On a result of @forward in a batch that is cut: rows of parts put together
/// are not those of the whole, so --save-outputs leaves it out.
inline constexpr llvm::StringLiteral kUnjoinedAttr = "dist.unjoined";

} // namespace dt::dist

#endif // DIALECTS_DIST_DISTMARKS_H

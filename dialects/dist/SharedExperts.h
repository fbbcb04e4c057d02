//===- SharedExperts.h - Which ranks share out experts ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Without IR, as readers of plans know none.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_DIST_SHAREDEXPERTS_H
#define DIALECTS_DIST_SHAREDEXPERTS_H

#include <cstdint>

namespace dt::dist {

/// Whether `ep` ranks of a replica share out experts: a divisor of `tp`, or
/// `tp` times one of `cp` (docs/experts.md).
inline bool canShareExperts(int64_t ep, int64_t tp, int64_t cp) {
  return tp % ep == 0 || (ep % tp == 0 && tp * cp % ep == 0);
}

} // namespace dt::dist

#endif // DIALECTS_DIST_SHAREDEXPERTS_H

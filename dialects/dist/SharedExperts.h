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
#include <string>

namespace dt::dist {

/// Whether `ep` ranks share out experts: a divisor of `tp`, or `tp` times one
/// of `cp`, or `tp * cp` times one of `dp` (docs/expert-parallelism.md).
inline bool canShareExperts(int64_t ep, int64_t tp, int64_t cp, int64_t dp) {
  int64_t group = tp * cp;
  return tp % ep == 0 || (ep % tp == 0 && group % ep == 0) ||
         (ep % group == 0 && group * dp % ep == 0);
}

/// What is said where they do not.
inline std::string expectSharing(int64_t ep, int64_t tp, int64_t cp,
                                 int64_t dp) {
  return "expected a divisor of tp = " + std::to_string(tp) +
         ", whose ranks share out experts, or tp times a divisor of cp = " +
         std::to_string(cp) +
         ", or tp * cp times a divisor of dp = " + std::to_string(dp) +
         ", not " + std::to_string(ep);
}

/// Replicas that share out experts among them: so many are one for all but
/// their samples.
inline int64_t countJoined(int64_t ep, int64_t tp, int64_t cp) {
  return ep > tp * cp ? ep / (tp * cp) : 1;
}

} // namespace dt::dist

#endif // DIALECTS_DIST_SHAREDEXPERTS_H

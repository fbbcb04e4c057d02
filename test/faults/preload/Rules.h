//===- Rules.h - which system calls go wrong, and how -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What DT_FAULTS says (test/faults/README.md): rules separated by `;`, each
// `CALL:PATTERN:KEY=VALUE:…`. Calls.cpp asks before every call that it wraps.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_FAULTS_RULES_H
#define DT_TEST_FAULTS_RULES_H

#include <cstddef>

namespace faults {

/// What is to become of one call.
struct Verdict {
  int error = 0;            ///< not 0: it fails with this errno
  size_t most = size_t(-1); ///< it moves at most so many bytes
  long flip = -1;           ///< not negative: this byte of it has another bit
};

/// Whether a rule names this call at all; cheap.
bool concerns(const char *call);

/// Delays, hangs, ends or stops the caller as the rules say. `path`: of the
/// file; null: that of `descriptor`. `bytes`: what the call is to move.
Verdict judge(const char *call, const char *path, int descriptor,
              size_t bytes = 0);

} // namespace faults

#endif // DT_TEST_FAULTS_RULES_H

//===- Ranks.h - the ranks that the tests run on ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Every rank runs all tests. Values are functions of the rank and the index, so
// that each rank knows what the others had.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_RUNTIME_MPI_RANKS_H
#define DT_TEST_RUNTIME_MPI_RANKS_H

#include "runtime/comm/Comm.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

#include <memory>

/// Of this process; made by main().
dt::rt::Comm &ranks();

/// What rank `rank` has at `i`: small numbers whose sums are exact.
inline float valueOf(int rank, int64_t i) {
  return float((rank * 31 + i * 7) % 101) - 50;
}
/// The same with sums that depend on their order.
inline float roughOf(int rank, int64_t i) {
  return 1.f / float(1 + (rank * 7919 + i * 104729) % 1000003);
}

inline std::vector<float> valuesOf(int rank, int64_t n,
                                   float (*value)(int, int64_t) = valueOf) {
  std::vector<float> values(n);
  for (int64_t i = 0; i < n; ++i)
    values[i] = value(rank, i);
  return values;
}

/// A folder that all ranks see.
class SharedFolder {
public:
  /// `fill` is called by one rank.
  explicit SharedFolder(void (*fill)(const TemporaryFolder &)) {
    std::string name;
    if (ranks().rank() == 0) {
      own = std::make_unique<TemporaryFolder>();
      fill(*own);
      name = own->path;
    }
    path = ranks().allGatherText(name)[0];
  }
  ~SharedFolder() { ranks().world().barrier(); }
  std::string operator/(const std::string &name) const {
    return path + "/" + name;
  }
  std::string path;

private:
  std::unique_ptr<TemporaryFolder> own;
};

#endif // DT_TEST_RUNTIME_MPI_RANKS_H

//===- Tournament.h - the group with the least load -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_REORDER_TOURNAMENT_H
#define DT_RUNTIME_REORDER_TOURNAMENT_H

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace dt::reorder {

/// Which of some groups has the least load, the first of equal ones: rounds of
/// pairs, whose winners stand before them.
class Tournament {
public:
  static constexpr int64_t kOut = std::numeric_limits<int64_t>::max() - 1;

  explicit Tournament(int64_t slowness) : slowness(slowness) {}
  void add(int32_t group) { groups.push_back(group); }
  void begin() {
    while (leaves < groups.size())
      leaves *= 2;
    loads.assign(2 * leaves, kOut);
    winners.assign(2 * leaves, 0);
    for (size_t i = 0; i < groups.size(); ++i)
      loads[leaves + i] = 0, winners[leaves + i] = int32_t(i);
    for (size_t i = leaves; i-- > 1;) {
      loads[i] = loads[2 * i];
      winners[i] = winners[2 * i];
    }
  }

  int64_t load() const { return loads[1]; }
  int32_t group() const { return groups[size_t(winners[1])]; }
  /// Of the one with the least. Without branches, as nothing predicts them.
  void setLoad(int64_t load) {
    size_t i = leaves + size_t(winners[1]);
    loads[i] = load;
    for (; i > 1; i /= 2) {
      size_t loses = loads[i ^ 1] < load + int64_t(i & 1);
      load = std::min(load, loads[i ^ 1]);
      loads[i / 2] = load;
      winners[i / 2] = winners[i ^ loses];
    }
  }

  int64_t slowness;

private:
  std::vector<int32_t> groups;
  size_t leaves = 1;
  /// Entry 1 is the winner, 2 i and 2 i + 1 play for entry i.
  std::vector<int64_t> loads;
  std::vector<int32_t> winners;
};

} // namespace dt::reorder

#endif // DT_RUNTIME_REORDER_TOURNAMENT_H

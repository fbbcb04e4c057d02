//===- Chain.h - three modules that share a batch out -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Images, samples and targets as tests of assignments give them, and the
// program that works on them.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_RUNTIME_DATA_CHAIN_H
#define DT_TEST_RUNTIME_DATA_CHAIN_H

#include "test/runtime/data/Fixture.h"
#include "test/runtime/data/TestProgram.h"

#include "runtime/data/BatchSource.h"

#include <algorithm>
#include <numeric>

namespace dt::test {

using namespace rt;

using Counts = std::vector<int>;
inline constexpr Reorder kModes[] = {Reorder::None, Reorder::Intra,
                                     Reorder::Inter, Reorder::Both};

/// from, from + 1, … to - 1.
inline Items range(int64_t from, int64_t to) {
  Items out(static_cast<size_t>(to - from));
  std::iota(out.begin(), out.end(), from);
  return out;
}

inline StepItems stepItems(int64_t samples,
                           std::vector<StepItems::Kind> kinds) {
  StepItems items;
  items.samples = samples;
  items.kinds = std::move(kinds);
  items.where = "step 3";
  return items;
}

/// vision (image) -> llm (sample, knows its images) -> generator (target).
struct Chain : TestProgram {
  Chain(int64_t global, int64_t micro, int32_t vision, int32_t llm,
        int32_t generator, int64_t most = 1000)
      : TestProgram(global, micro) {
    add("vision", "image", vision, most);
    add("llm", "sample", llm, most, vision)
        .symbols.push_back({"images", "image", most});
    add("generator", "target", generator, most, vision + llm);
    edge(0, 1), edge(1, 2);
    info.pace = 1;
    rows1F1B();
    finish();
  }
};

/// Symbol `symbol` of all parts of a module, joined and sorted.
inline Items joined(const Assignment &a, size_t module, size_t symbol = 0) {
  Items all;
  for (const auto &replicas : a.modules[module])
    for (const PartItems &part : replicas) {
      const Items &own = part.symbols[symbol];
      EXPECT_TRUE(std::is_sorted(own.begin(), own.end()));
      all.insert(all.end(), own.begin(), own.end());
    }
  std::sort(all.begin(), all.end());
  return all;
}

} // namespace dt::test

#endif // DT_TEST_RUNTIME_DATA_CHAIN_H

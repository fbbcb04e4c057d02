//===- TestProgram.h - tables of units, replicas and rows -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Programs with any modules and replicas for the tests of assignments and
// batches; nothing in them runs. Modules are in the order of a chain.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_DATA_TESTPROGRAM_H
#define DT_TEST_DATA_TESTPROGRAM_H

#include "runtime/data/Assignment.h"

#include <deque>
#include <string>
#include <vector>

namespace dt::test {

/// Tables that grow; strings and shapes live as long as the program.
struct TestProgram {
  struct Module {
    rt::ModuleInfo info{};
    std::vector<rt::SymbolInfo> symbols;
    std::vector<rt::InputInfo> inputs;
    std::vector<int32_t> ranks;
  };

  std::deque<Module> modules;
  std::deque<std::vector<rt::Extent>> shapes;
  std::vector<rt::ModuleInfo> table;
  std::vector<rt::EdgeInfo> edges;
  std::vector<std::vector<rt::TaskRow>> rows;
  std::vector<rt::RankInfo> ranks;
  rt::ProgramInfo info{};

  TestProgram(int64_t global, int64_t micro) {
    info.globalBatch = global, info.microBatch = micro;
  }
  TestProgram(const TestProgram &) = delete;

  /// A module on `dp * tp` ranks from `first` on; its first symbol counts its
  /// own items.
  Module &add(const char *name, const char *item, int32_t dp, int64_t max,
              int32_t first = 0, int32_t tp = 1) {
    modules.emplace_back();
    Module &m = modules.back();
    m.info.name = m.info.origin = m.info.unit = name;
    m.info.item = item;
    m.info.dp = dp, m.info.tp = tp;
    m.symbols.push_back({item, item, max, 1});
    for (int32_t r = 0; r < dp * tp; ++r)
      m.ranks.push_back(first + r);
    return m;
  }
  /// A raw input; `dims`: symbol numbers, or -n for the number n.
  void input(Module &m, const char *name, rt::DType type,
             const std::vector<int> &dims) {
    shapes.emplace_back();
    for (int d : dims)
      shapes.back().push_back(d < 0 ? rt::Extent{0, -1, -d}
                                    : rt::Extent{1, d, 0});
    rt::InputInfo in{};
    in.buffer.tensor = {name, type, int32_t(dims.size()), shapes.back().data()};
    m.inputs.push_back(in);
  }
  void edge(int32_t from, int32_t to) {
    rt::EdgeInfo e{};
    e.from = from, e.to = to, e.gradient = true;
    edges.push_back(e);
  }
  void row(int32_t rank, rt::TaskKind kind, int index, int64_t microbatch) {
    if (rows.size() <= size_t(rank))
      rows.resize(size_t(rank) + 1);
    rows[size_t(rank)].push_back(
        {kind, uint16_t(index), uint32_t(microbatch), 0});
  }
  /// 1F1B with each module a stage: warm-up by the distance from the last.
  void rows1F1B() {
    using rt::TaskKind;
    int64_t n = rt::microbatchCount(info);
    int count = int(modules.size());
    for (int m = 0; m < count; ++m)
      for (int32_t rank : modules[size_t(m)].ranks) {
        int32_t span = rt::spanOf(modules[size_t(m)].info);
        int64_t warm = std::min<int64_t>(n, count - 1 - m), f = 0;
        auto forward = [&] {
          if (f % span == 0)
            row(rank, TaskKind::Forward, m, f);
          ++f;
        };
        while (f < warm)
          forward();
        for (int64_t b = 0; b < n; ++b) {
          if (f < n)
            forward();
          if (b % span == span - 1 || b == n - 1)
            row(rank, TaskKind::Backward, m, b - b % span);
        }
      }
  }
  const rt::ProgramInfo &finish() {
    table.clear(), ranks.clear();
    for (Module &m : modules) {
      m.info.symbols = {m.symbols.data(), m.symbols.size()};
      m.info.inputs = {m.inputs.data(), m.inputs.size()};
      m.info.ranks = {m.ranks.data(), m.ranks.size()};
      table.push_back(m.info);
    }
    for (auto &list : rows)
      ranks.push_back({{list.data(), list.size()}});
    info.modules = {table.data(), table.size()};
    info.edges = {edges.data(), edges.size()};
    info.ranks = {ranks.data(), ranks.size()};
    return info;
  }
};

/// Items of a kind, `counts` by sample.
inline rt::StepItems::Kind kindOf(const char *name,
                                  const std::vector<int> &counts) {
  rt::StepItems::Kind kind;
  kind.name = name;
  for (size_t s = 0; s < counts.size(); ++s)
    kind.owner.insert(kind.owner.end(), size_t(counts[s]), int64_t(s));
  kind.count = int64_t(kind.owner.size());
  return kind;
}

} // namespace dt::test

#endif // DT_TEST_DATA_TESTPROGRAM_H

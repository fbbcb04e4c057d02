//===- PartGroups.cpp - modules whose shares are cut together -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/PartGroups.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

namespace dt::rt {

namespace {

/// Sets of modules, each known by its first member.
class Sets {
public:
  explicit Sets(size_t size) : parent(size) {
    std::iota(parent.begin(), parent.end(), 0);
  }
  int32_t first(int32_t m) const {
    while (parent[size_t(m)] != m)
      m = parent[size_t(m)];
    return m;
  }
  void join(int32_t a, int32_t b) {
    a = first(a), b = first(b);
    parent[size_t(std::max(a, b))] = std::min(a, b);
  }

private:
  std::vector<int32_t> parent;
};

bool same(const char *a, const char *b) {
  return a == b || (a && b && std::strcmp(a, b) == 0);
}

/// Modules between which no rows leave their rank: their shares must be of the
/// same samples.
void joinColocated(const ProgramInfo &program, Sets &sets) {
  for (const EdgeInfo &edge : program.edges) {
    const ModuleInfo &a = program.modules[size_t(edge.from)],
                     &b = program.modules[size_t(edge.to)];
    if (!a.wholeBatch && !b.wholeBatch && a.tp == b.tp && a.dp == b.dp &&
        speedsOf(a) == speedsOf(b) &&
        std::equal(a.ranks.begin(), a.ranks.end(), b.ranks.begin(),
                   b.ranks.end()))
      sets.join(edge.from, edge.to);
  }
}

/// Rows of several kinds belong together by their samples.
bool hasOtherItems(const ModuleInfo &module) {
  return std::any_of(module.symbols.begin(), module.symbols.end(),
                     [&](const SymbolInfo &symbol) {
                       return symbol.item && !same(symbol.item, itemOf(module));
                     });
}

} // namespace

const char *itemOf(const ModuleInfo &module) {
  return module.item ? module.item : kSample;
}

std::vector<int32_t> speedsOf(const ModuleInfo &module) {
  return {module.speeds.begin(), module.speeds.end()};
}

std::vector<PartGroup> partGroups(const ProgramInfo &program) {
  int32_t count = int32_t(program.modules.size);
  Sets sets(program.modules.size);
  for (int32_t a = 0; a < count; ++a)
    for (int32_t b = a + 1; b < count; ++b) {
      const ModuleInfo &x = program.modules[size_t(a)],
                       &y = program.modules[size_t(b)];
      if (x.wholeBatch || y.wholeBatch || x.dp != y.dp ||
          !same(itemOf(x), itemOf(y)) || speedsOf(x) != speedsOf(y))
        continue;
      if (same(itemOf(x), kSample) || (x.unit && same(x.unit, y.unit)))
        sets.join(a, b);
    }
  joinColocated(program, sets);
  std::map<int32_t, PartGroup> groups;
  for (int32_t m = 0; m < count; ++m) {
    const ModuleInfo &module = program.modules[size_t(m)];
    if (module.wholeBatch)
      continue;
    PartGroup &group = groups[sets.first(m)];
    group.dp = replicasOf(module);
    group.speeds = speedsOf(module);
    if (group.modules.empty())
      group.item = itemOf(module);
    else if (group.item != itemOf(module))
      group.item = kSample; // samples decide over the items of both
    if (group.dp > 1 && piecesOf(module) == 1 && hasOtherItems(module))
      group.item = kSample;
    group.modules.push_back(m);
  }
  std::vector<PartGroup> result;
  for (auto &entry : groups)
    result.push_back(std::move(entry.second));
  return result;
}

bool hasSamples(const ModuleInfo &module, const PartGroup &group) {
  return same(itemOf(module), kSample) ||
         (piecesOf(module) == 1 && (group.item == kSample || group.dp == 1));
}

} // namespace dt::rt

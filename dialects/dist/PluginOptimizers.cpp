//===- PluginOptimizers.cpp - Optimizers of plugins -----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/PluginOptimizers.h"

#include <deque>
#include <iterator>
#include <vector>

namespace dt::dist {

namespace {

struct Added {
  std::string rule, header;
};

/// All optimizers by number, and what plugins have added to them.
struct Table {
  std::vector<rt::OptimizerDescription> descriptions{
      std::begin(rt::kOptimizers), std::end(rt::kOptimizers)};
  std::vector<rt::EnumCase> cases{std::begin(rt::kOptimizerCases),
                                  std::end(rt::kOptimizerCases)};
  std::deque<Added> added; ///< cases point at their names
};

Table &getTable() {
  static Table table;
  return table;
}

} // namespace

void addOptimizer(const rt::OptimizerDescription &description,
                  llvm::StringRef rule, llvm::StringRef header) {
  Table &table = getTable();
  table.added.push_back({rule.str(), header.str()});
  table.descriptions.push_back(description);
  table.cases.push_back({table.added.back().rule.c_str(), description.name});
  rt::knownOptimizers = {table.descriptions.data(), table.descriptions.size()};
  rt::EnumTable<rt::OptimizerKind>::cases = {table.cases.data(),
                                             table.cases.size()};
}

std::string writePluginOptimizers(rt::OptimizerKind kind) {
  if (size_t(kind) < std::size(rt::kOptimizers))
    return "";
  std::string text = "// Optimizers of the compiler's plugins.\n\n#ifndef "
                     "DT_RUNTIME_PLUGINOPTIMIZERS_H\n#define "
                     "DT_RUNTIME_PLUGINOPTIMIZERS_H\n\n",
              all;
  for (const Added &one : getTable().added) {
    text += one.header + "\n";
    all += " OPTIMIZER(" + one.rule + ")";
  }
  return text + "#define DT_PLUGIN_OPTIMIZERS(OPTIMIZER)" + all +
         "\n\n#endif // DT_RUNTIME_PLUGINOPTIMIZERS_H\n";
}

} // namespace dt::dist

//===- Plugin.h - What a plugin of the compiler says ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A plugin is a shared library with one DIST_TRAIN_PLUGIN in it (docs/sdk.md).
// It links nothing: dialects, passes and MLIR are those of the tool that loads
// it, hence it must be built against the headers of that very tool.
//
//   static void registerAll(dt::Plugin &plugin) {
//     plugin.addDialect<ExampleDialect>();
//     plugin.addPass<CountCost>();
//     addEager(plugin.schedules);
//   }
//   DIST_TRAIN_PLUGIN("Example", registerAll)
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_PLUGIN_PLUGIN_H
#define TOOLS_PLUGIN_PLUGIN_H

#include "dialects/dist/PluginOptimizers.h"
#include "runtime/EnumTexts.h"
#include "tools/plugin/Version.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassRegistry.h"

#include <memory>
#include <string>
#include <vector>

namespace dt::scheduler {
class Registry;
} // namespace dt::scheduler
namespace dt::planner {
struct ClusterFile;
struct Policy;
} // namespace dt::planner
namespace dt::models {
struct LossRule;
} // namespace dt::models

namespace dt {

/// Where a plugin puts what it has. What is a file of the compiler's own tree
/// adds itself to the same registries by the same functions.
class Plugin {
public:
  explicit Plugin(mlir::DialectRegistry &dialects);

  /// Schedules: passes/scheduler/core/Schedule.h.
  scheduler::Registry &schedules;
  /// Policies of the planner: passes/planner/policies/Policy.h.
  std::vector<planner::Policy> &policies;
  /// Clusters by name: passes/planner/describe/Shipped.h.
  std::vector<planner::ClusterFile> &clusters;
  /// Kinds of losses: models/frontend/recipe/losses/LossRule.h.
  std::vector<models::LossRule> &losses;
  /// For extensions: interfaces of ops that exist already.
  mlir::DialectRegistry &dialects;

  template <typename Dialect> void addDialect() {
    llvm::StringRef name = Dialect::getDialectNamespace();
    if (dialects.getDialectAllocator(name))
      taken.push_back(("dialect '" + name + "'").str());
    else
      dialects.insert<Dialect>();
  }
  /// `NewPass` has a default constructor.
  template <typename NewPass> void addPass() {
    auto pass = std::make_unique<NewPass>();
    llvm::StringRef name = pass->getArgument();
    if (mlir::PassInfo::lookup(name) || mlir::PassPipelineInfo::lookup(name))
      taken.push_back(("pass '--" + name + "'").str());
    else
      mlir::PassRegistration<NewPass>();
  }

  /// `Rule` is a struct of dt::rt::optimizers (runtime/OptimizerRule.h), `name`
  /// what it is called there, `header` the text of the header that defines it:
  /// programs with this optimizer get it, and need nothing else of the plugin.
  template <typename Rule>
  void addOptimizer(const char *name, const char *header) {
    if (rt::fromText<rt::OptimizerKind>(Rule::name))
      taken.push_back(std::string("optimizer '") + Rule::name + "'");
    else
      dist::addOptimizer(
          {Rule::name, Rule::settings, Rule::moments, Rule::countMoments}, name,
          header);
  }

  /// Names of what it brings that were taken before.
  std::vector<std::string> taken;
};

/// What a tool looks for in a plugin's file before it runs any of its code.
struct PluginInfo {
  const char *version; ///< DIST_TRAIN_PLUGIN_MARK and the version
  const char *name;
  void (*registerAll)(Plugin &);
};

} // namespace dt

#define DIST_TRAIN_PLUGIN_MARK "DistTrain plugin of version "

/// Once in a plugin, outside of namespaces: its name in errors, a string
/// literal, and a function of a dt::Plugin &.
#define DIST_TRAIN_PLUGIN(name, registerAll)                                   \
  extern "C" {                                                                 \
  extern __attribute__((visibility("default")))                                \
  const dt::PluginInfo distTrainPlugin;                                        \
  const dt::PluginInfo distTrainPlugin = {                                     \
      DIST_TRAIN_PLUGIN_MARK DIST_TRAIN_VERSION, name, registerAll};           \
  }

#endif // TOOLS_PLUGIN_PLUGIN_H

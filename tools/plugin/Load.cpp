//===- Load.cpp - Tools load plugins --------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/plugin/Load.h"
#include "tools/plugin/Plugin.h"

#include "models/frontend/recipe/losses/LossRule.h"
#include "passes/planner/describe/Shipped.h"
#include "passes/planner/policies/Policy.h"
#include "passes/scheduler/core/Schedule.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <dlfcn.h>

using namespace llvm;

namespace dt {

namespace {

cl::OptionCategory pluginOptions("DistTrain plugins");
cl::list<std::string>
    loadOption("load-plugin", cl::cat(pluginOptions), cl::value_desc("file.so"),
               cl::desc("Load a plugin: ops, passes, schedules, policies, "
                        "clusters, losses, optimizers (docs/sdk.md)"));

/// Names that stand twice, as "schedule 'gpipe'".
template <typename Range, typename NameOf>
void findTwice(const char *what, const Range &entries, NameOf nameOf,
               std::vector<std::string> &found) {
  StringSet<> seen;
  for (const auto &entry : entries)
    if (StringRef name = nameOf(entry); !seen.insert(name).second)
      found.push_back((Twine(what) + " '" + name + "'").str());
}

void findTwice(const Plugin &plugin, std::vector<std::string> &found) {
  findTwice(
      "schedule", plugin.schedules.getEntries(),
      [](auto &entry) -> StringRef { return entry.name; }, found);
  findTwice(
      "policy", plugin.policies,
      [](auto &policy) -> StringRef { return policy.name; }, found);
  std::vector<std::string> clusters = planner::getShippedClusters();
  clusters.push_back(planner::kHere.str());
  findTwice(
      "cluster", clusters, [](auto &name) -> StringRef { return name; }, found);
  findTwice("loss", plugin.losses, [](auto &rule) { return rule.kind; }, found);
}

/// What the file says before any of its code runs: a plugin for other headers
/// might not even load.
Error checkVersion(StringRef file, StringRef content) {
  constexpr StringLiteral mark(DIST_TRAIN_PLUGIN_MARK);
  size_t at = content.find(mark);
  StringRef version;
  if (at != StringRef::npos)
    version = content.substr(at + mark.size()).split('\0').first;
  // Tools hold the mark alone.
  if (!content.starts_with("\x7f"
                           "ELF") ||
      version.empty())
    return createStringError(file + ": is no plugin of DistTrain: a shared "
                                    "library with DIST_TRAIN_PLUGIN in it was "
                                    "expected");
  if (version != DIST_TRAIN_VERSION)
    return createStringError(
        file + ": was built against DistTrain " + version +
        ", and this is DistTrain " DIST_TRAIN_VERSION
        "; build it against the headers of this installation");
  return Error::success();
}

class Loader {
public:
  explicit Loader(mlir::DialectRegistry &dialects) : plugin(dialects) {}

  Error load(StringRef file) {
    if (file.empty())
      return createStringError("expected a file");
    auto content = MemoryBuffer::getFile(file, /*IsText=*/false,
                                         /*RequiresNullTerminator=*/false);
    if (!content)
      return createStringError(file + ": " + content.getError().message());
    if (Error error = checkVersion(file, (*content)->getBuffer()))
      return error;
    // The dynamic linker looks for a plain name in folders of its own. Plugins
    // see the tool's names, never those of one another.
    SmallString<256> path(file);
    sys::fs::make_absolute(path);
    void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return createStringError(::dlerror());
    auto *info =
        static_cast<const PluginInfo *>(::dlsym(library, "distTrainPlugin"));
    if (!info)
      return createStringError(file + ": has no symbol distTrainPlugin; was it "
                                      "stripped?");
    if (!names.insert(info->name).second)
      return createStringError(file + ": a plugin '" + info->name +
                               "' is loaded already");
    info->registerAll(plugin);
    std::vector<std::string> taken = plugin.taken;
    findTwice(plugin, taken);
    if (taken.empty())
      return Error::success();
    return createStringError(file + ": plugin '" + info->name + "' brings " +
                             join(taken, ", ") +
                             (taken.size() > 1 ? ", names that are taken"
                                               : ", a name that is taken"));
  }

  Error checkOwn() {
    std::vector<std::string> twice;
    findTwice(plugin, twice);
    if (twice.empty())
      return Error::success();
    return createStringError("the compiler has two of " + join(twice, ", "));
  }

private:
  Plugin plugin;
  StringSet<> names;
};

} // namespace

Plugin::Plugin(mlir::DialectRegistry &dialects)
    : schedules(scheduler::Registry::get()), policies(planner::getPolicies()),
      clusters(planner::getClusterFiles()), losses(models::getLossRules()),
      dialects(dialects) {}

std::vector<std::string> valuesOf(StringRef option,
                                  ArrayRef<char *> arguments) {
  std::vector<std::string> values;
  for (size_t i = 0; i < arguments.size(); ++i) {
    StringRef argument = arguments[i];
    if (!argument.starts_with("-"))
      continue;
    argument = argument.ltrim('-');
    if (!argument.consume_front(option))
      continue;
    if (argument.empty() && i + 1 < arguments.size())
      values.push_back(arguments[i + 1]);
    else if (argument.consume_front("="))
      values.push_back(argument.str());
  }
  return values;
}

Error loadPlugins(ArrayRef<char *> arguments, mlir::DialectRegistry &dialects) {
  Loader loader(dialects);
  if (Error error = loader.checkOwn())
    return error;
  for (const std::string &file : valuesOf("load-plugin", arguments))
    if (Error error = loader.load(file))
      return createStringError("--load-plugin: " + toString(std::move(error)));
  return Error::success();
}

cl::OptionCategory &getPluginOptions() { return pluginOptions; }

} // namespace dt

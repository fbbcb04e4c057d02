//===- Targets.cpp - whether what a run is to write can be written --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Targets.h"
#include "runtime/base/Files.h"
#include "runtime/save/Outputs.h"

#include <filesystem>
#include <map>

namespace dt::rt {

namespace {

namespace fs = std::filesystem;

struct Target {
  const char *flag;
  const std::string &path;
  bool ranks; ///< every rank writes a part of its own beside it
};

std::vector<Target> targetsOf(const Options &options) {
  return {{"--metrics", options.metrics, false},
          {"--trace", options.trace, true},
          {"--save-outputs", options.saveOutputs, true},
          {"--save-gradients", options.saveGradients, true},
          {"--report", options.report, false},
          {"--traffic", options.traffic, false},
          {"--profile", options.profile, false}};
}

/// Where a path leads; pipes and devices may be named twice.
std::string placeOf(const std::string &path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error))
    return {};
  // What is not there yet would stay relative.
  fs::path whole = fs::current_path(error) / path,
           place = fs::weakly_canonical(whole, error);
  return (error ? whole.lexically_normal() : place).string();
}

} // namespace

std::vector<OutputClaim> checkTargets(const Options &options,
                                      const Comm &comm) {
  std::vector<OutputClaim> claims;
  auto claim = [&](const char *flag, const std::string &path) {
    if (path.empty() || comm.rank() != 0)
      return;
    if (std::string taken = claims.emplace_back().take(path); !taken.empty())
      throw Error(flag + (" " + taken));
  };
  claim("--export", options.exportTo);
  claim("--export-ema", options.exportAverages);
  if (!options.tensorboard.empty() && comm.rank() == 0)
    expectFolder("--tensorboard", options.tensorboard);
  std::map<std::string, const char *> taken;
  for (const Target &target : targetsOf(options)) {
    if (target.path.empty())
      continue;
    if (std::string place = placeOf(target.path); !place.empty()) {
      auto [other, fresh] = taken.emplace(place, target.flag);
      if (!fresh)
        throw Error(std::string(target.flag) + " and " + other->second +
                    " name the same file, " + target.path);
    }
    if (comm.rank() == 0)
      expectWritable(target.flag, target.path);
    claim(target.flag, target.path);
    if (target.ranks)
      expectWritable(target.flag,
                     rankFiles(target.path, comm.size())[size_t(comm.rank())]);
  }
  return claims;
}

void expectSharedTargets(const Options &options, Comm &comm) {
  for (const Target &target : targetsOf(options))
    if (target.ranks && !target.path.empty()) {
      std::string folder = fs::path(target.path).parent_path().string();
      expectShared(comm, target.flag, folder.empty() ? "." : folder);
    }
}

} // namespace dt::rt

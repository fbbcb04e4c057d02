//===- Profile.h - Measured times of layers ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Seconds of layer functions as measured on the target, by module, layer kind,
// TP degree and size of the part (docs/profile.schema.json). They are used
// instead of the model's: exactly at measured points, and between them through
// the ratio of measured to modelled time, which varies far less than the time
// itself. So a profile of a few sizes serves all parts.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_COST_PROFILE_H
#define PASSES_PLANNER_COST_PROFILE_H

#include "passes/planner/describe/Model.h"
#include "passes/planner/hardware/Cluster.h"

#include "llvm/Support/Error.h"

#include <map>
#include <optional>

namespace dt::planner {

/// One measurement: a part of `rows` equal items that hold `tokens` together.
/// Without the collectives of a TP group.
struct ProfilePoint {
  double rows = 1, tokens = 0;
  double forward = 0, backward = 0; ///< seconds
  /// Of weight gradients; not set: `backward` has both.
  std::optional<double> weight;
  TokenSums getPart() const {
    return {rows, tokens, rows > 0 ? tokens * tokens / rows : 0};
  }
};

/// Of a layer, by TP degree; points by tokens, ascending.
using LayerProfile = std::map<int, std::vector<ProfilePoint>>;

struct Profile {
  std::string device;
  /// What the backward was measured with.
  Save save = Save::Vjp;
  /// Layer kinds by module.
  std::map<std::string, std::map<std::string, LayerProfile>> modules;
  /// Seconds a parameter that a rank trains, once a step: its gradient is
  /// cleared, its norm taken, it is updated.
  std::optional<double> update;
  /// Between two devices of a node, and what sums of all ranks reach there.
  std::optional<Link> inside, reduce;

  /// By module, of each of its layers with experts, rows of every expert; or,
  /// alone, those of the one with most over the mean.
  std::map<std::string, std::vector<std::vector<double>>> routing;

  /// Rows of the rank that has most of them over the mean, where `ep` ranks
  /// share out experts: the mean over the module's layers of a kind, all of
  /// which wait for their slowest rank. 1 where nothing was counted.
  double getSlowest(const Module &module, int kind, int ep) const;
  /// Null if it was not measured.
  const LayerProfile *find(llvm::StringRef module, llvm::StringRef kind) const;
  /// Names that the model does not have are errors.
  llvm::Error check(const Model &model) const;
  /// Puts the links in the place of the cluster's, where the device is.
  void setLinks(Cluster &cluster) const;
};

/// Errors: unknown keys, figures that are no finite numbers of at least 0,
/// points that are not ascending, layers without rows, nothing measured.
llvm::Expected<Profile> parseProfile(llvm::StringRef json,
                                     llvm::StringRef file);
llvm::Expected<Profile> readProfile(llvm::StringRef file);

} // namespace dt::planner

#endif // PASSES_PLANNER_COST_PROFILE_H

//===- Shipped.h - Models and clusters by name ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Models are full-size networks as the compiler partitions, differentiates and
// fuses them, described at several sizes (Sizes.h): `tools/plan-models` makes
// them of exported graphs, passes/planner/describe/models has them. Clusters
// are those of passes/planner/clusters. Both are compiled in, so that a name is
// enough wherever the program runs.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_DESCRIBE_SHIPPED_H
#define PASSES_PLANNER_DESCRIBE_SHIPPED_H

#include "passes/planner/describe/Model.h"
#include "passes/planner/hardware/Cluster.h"

namespace dt::planner {

/// DistTrain's "mllm-9b", "mllm-15b", "mllm-72b" and their parts, in order.
std::vector<std::string> getShippedModels();
/// "a100-80g", …, in order.
std::vector<std::string> getShippedClusters();

/// A cluster by name: the text of its file (docs/cluster.schema.json).
struct ClusterFile {
  std::string name, json;
};
using ClusterFiles = std::vector<ClusterFile>;
/// All that there are. Plugins add theirs (tools/plugin/Plugin.h) before
/// anybody asks for one; of two with one name tools/plugin/Load.h makes an
/// error.
ClusterFiles &getClusterFiles();
/// The name of this machine, which is no file's.
inline constexpr llvm::StringLiteral kHere = "here";

/// A shipped model by its name, or a file (docs/plan-model.schema.json) if it
/// ends in ".json". Error: neither, with the names that there are, or what is
/// wrong with the file.
llvm::Expected<Model> openModel(llvm::StringRef nameOrFile);

/// What openCluster() takes, for help and errors: "a100-80g, …, here (this
/// machine; here:N: as N devices), or a file (docs/cluster.schema.json)".
std::string listClusters();
/// A shipped cluster by its name, this machine ("here", "here:4": Machine.h),
/// or a file (docs/cluster.schema.json). Errors as openModel()'s.
llvm::Expected<Cluster> openCluster(llvm::StringRef nameOrFile);

} // namespace dt::planner

#endif // PASSES_PLANNER_DESCRIBE_SHIPPED_H

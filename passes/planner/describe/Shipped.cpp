//===- Shipped.cpp - Models and clusters by name --------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/describe/Shipped.h"

#include "models/frontend/json/JsonReader.h"
#include "passes/planner/hardware/Machine.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

using namespace llvm;

namespace dt::planner {

namespace {

struct ShippedFile {
  StringLiteral name, json;
};

// Made by CMake of passes/planner/describe/models/*.json and
// passes/planner/hardware/clusters/*.json.
constexpr ShippedFile kModels[] = {
#include "passes/planner/describe/models.inc"
};

template <typename Files> std::vector<std::string> namesOf(const Files &files) {
  std::vector<std::string> names;
  for (auto &file : files)
    names.push_back(StringRef(file.name).str());
  return names;
}

/// Null: there is none of this name.
template <typename Files>
auto findFile(const Files &files, StringRef name) -> decltype(&files[0]) {
  for (auto &file : files)
    if (file.name == name)
      return &file;
  return nullptr;
}

Error unknown(StringRef what, StringRef name, ArrayRef<std::string> known) {
  std::vector<StringRef> names(known.begin(), known.end());
  std::string hint = models::didYouMean(name, names);
  // "h100" is nearer to "h100-80g" than the letters that differ tell.
  if (hint.empty() && !name.empty())
    for (StringRef other : names)
      if (other.starts_with_insensitive(name)) {
        hint = ("; did you mean '" + other + "'?").str();
        break;
      }
  return createStringError(what + " '" + name + "' is not one of " +
                           join(known, ", ") + ", nor a .json file" + hint);
}

Expected<Model> openPart(StringRef name) {
  StringRef stem = name;
  if (stem.consume_back(".json"))
    if (const ShippedFile *file = findFile(kModels, stem))
      return parseModel(file->json, name);
  return createStringError("'" + name + "' does not come with the planner");
}

/// `devices`: "" or ":N".
Expected<Cluster> openHere(StringRef devices) {
  // More ranks than this on one machine are a mistake.
  constexpr int kMost = 4096;
  int count = 0;
  if (devices.consume_front(":") &&
      (devices.getAsInteger(10, count) || count < 1 || count > kMost))
    return createStringError(
        "cluster 'here:" + devices +
        "': expected how many devices this machine is, from 1 to " +
        Twine(kMost));
  const ClusterFile &like = *findFile(getClusterFiles(), "cpu-2");
  return describeMachine(getThisMachine(),
                         cantFail(parseCluster(like.json, like.name)), count);
}

} // namespace

std::vector<std::string> getShippedModels() { return namesOf(kModels); }

ClusterFiles &getClusterFiles() {
  static ClusterFiles files = {
#include "passes/planner/hardware/clusters.inc"
  };
  return files;
}

std::vector<std::string> getShippedClusters() {
  return namesOf(getClusterFiles());
}

Expected<Model> openModel(StringRef name) {
  if (name.ends_with(".json"))
    return readModel(name);
  if (const ShippedFile *file = findFile(kModels, name))
    return parseModel(file->json, (name + ".json").str(), openPart);
  return unknown("model", name, getShippedModels());
}

std::string listClusters() {
  return join(getShippedClusters(), ", ") + ", " + kHere.str() +
         " (this machine; here:N: as N devices), or a file "
         "(docs/cluster.schema.json)";
}

Expected<Cluster> openCluster(StringRef name) {
  if (const ClusterFile *file = findFile(getClusterFiles(), name))
    return parseCluster(file->json, (name + ".json").str());
  if (name == kHere || name.starts_with(kHere.str() + ":"))
    return openHere(name.drop_front(kHere.size()));
  if (name.ends_with(".json") || name.contains('/') || sys::fs::exists(name))
    return readCluster(name);
  std::vector<std::string> known = getShippedClusters();
  known.push_back(kHere.str());
  return unknown("cluster", name, known);
}

} // namespace dt::planner

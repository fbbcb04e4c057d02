//===- WeightFiles.cpp - which files hold a model's weights ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/WeightFiles.h"
#include "runtime/base/ReadJson.h"
#include "runtime/comm/Agreement.h"
#include "runtime/save/CheckpointFolder.h"
#include "runtime/save/WholeCheckpoint.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <set>

namespace dt::rt {

namespace {

namespace fs = std::filesystem;

constexpr const char *kEnding = ".safetensors";
constexpr const char *kIndexEnding = ".safetensors.index.json";

std::vector<std::string> namesEnding(const std::string &folder,
                                     const std::string &ending) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error))
    if (endsWith(it->path().filename().string(), ending))
      names.push_back(it->path().filename().string());
  if (error)
    failedCall(folder, "read the folder", error.value());
  std::sort(names.begin(), names.end());
  return names;
}

/// What Hugging Face writes beside files that hold parts of a model. It is
/// anybody's: it names files of its own folder only.
void readIndex(const std::string &path, WeightFiles &out) {
  nlohmann::json json = readJson(readText(path, kIndexLimit), path);
  if (!json.is_object() || !json.contains("weight_map") ||
      !json["weight_map"].is_object() || json["weight_map"].empty())
    throw Error(path + ": expected a JSON object with \"weight_map\", a table "
                       "of tensors and their files");
  std::string folder = fs::path(path).parent_path().string();
  std::set<std::string> files;
  for (auto &[tensor, file] : json["weight_map"].items()) {
    std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name == ".." || name == "." ||
        name.find('/') != std::string::npos)
      throw Error(path + ": the file of tensor '" + printable(tensor) +
                  "' is no name of a file beside it");
    files.insert(name);
    out.promised.push_back(tensor);
  }
  for (const std::string &name : files)
    out.paths.push_back(folder.empty() ? name : folder + "/" + name);
}

/// Of a folder that is no checkpoint and has none; none if it has no files.
void findInFolder(const std::string &folder, WeightFiles &out) {
  std::vector<std::string> indices = namesEnding(folder, kIndexEnding);
  if (indices.size() > 1)
    throw Error(folder + ": has the indices " + indices[0] + " and " +
                indices[1] + "; name one of them");
  if (!indices.empty())
    return readIndex(folder + "/" + indices[0], out);
  for (const std::string &name : namesEnding(folder, kEnding))
    out.paths.push_back(folder + "/" + name);
}

enum class Kind { Files, Checkpoint, Checkpoints };

/// Rank 0's view, for all: ranks must not look in different ways.
Kind kindOf(Comm &comm, const std::string &path) {
  std::string mine;
  std::string failure = failureOf([&] {
    if (comm.rank() != 0)
      return;
    std::error_code error;
    fs::file_status status = fs::status(path, error);
    if (error)
      failedCall(path, "open", error.value());
    if (status.type() != fs::file_type::directory)
      mine = "f";
    else if (fs::exists(path + "/index.json", error))
      mine = "c";
    else
      mine = checkpointSteps(path).empty() ? "f" : "d";
  });
  comm.agree(failure);
  std::string kind = comm.allGatherText(mine)[0];
  return kind == "c"   ? Kind::Checkpoint
         : kind == "d" ? Kind::Checkpoints
                       : Kind::Files;
}

} // namespace

WeightFiles findWeights(Comm &comm, const std::string &path) {
  WeightFiles out;
  Kind kind = kindOf(comm, path);
  if (kind != Kind::Files) {
    WholeCheckpoint found = kind == Kind::Checkpoint
                                ? checkpointIn(comm, path)
                                : newestCheckpoint(comm, path);
    out.name = found.folder;
    out.paths = found.files();
    out.checkpoint = true;
    for (const std::string &line : found.damage)
      out.warnings.push_back(line + "; taking " + found.folder);
    return out;
  }
  out.name = path;
  comm.agree(failureOf([&] {
    if (fs::is_directory(path))
      findInFolder(path, out);
    else if (endsWith(path, kIndexEnding))
      readIndex(path, out);
    else
      out.paths = {path};
    if (out.paths.empty())
      throw Error(path + ": has neither a checkpoint nor a .safetensors file");
  }));
  return out;
}

} // namespace dt::rt

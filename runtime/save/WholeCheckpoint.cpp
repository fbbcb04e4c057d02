//===- WholeCheckpoint.cpp - a checkpoint that can be read ----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/WholeCheckpoint.h"
#include "runtime/base/Safetensors.h"
#include "runtime/comm/Agreement.h"

#include <functional>

namespace dt::rt {

namespace {

void checkFile(const std::string &path, const std::string &hash) {
  try {
    if (hash == hexText(SafetensorsReader(path).hash()))
      return;
  } catch (const SystemError &e) {
    rethrowAsDamage(e);
  } catch (const Error &e) { // the header
    throw DamageError(e.what());
  }
  throw DamageError(path + ": damaged (its hash is not the one in index.json)");
}

/// Runs the same on all ranks; returns the damage that any of them finds. Other
/// errors end all.
std::string damageOf(Comm &comm, const std::function<void()> &body) {
  std::string damaged, failed;
  failed = failureOf([&] {
    try {
      body();
    } catch (const DamageError &e) {
      damaged = e.what();
    }
  });
  comm.agree(failed);
  return comm.firstText(damaged);
}

/// Fills `index`; returns what is wrong with the folder, or nothing.
std::string look(Comm &comm, const std::string &folder, int64_t step,
                 CheckpointIndex &index) {
  std::string text;
  std::string damage = damageOf(comm, [&] {
    if (comm.rank() == 0)
      text = readCheckpointIndex(folder, step).text();
  });
  if (!damage.empty())
    return damage;
  index = CheckpointIndex::parse(comm.allGatherText(text)[0], step, folder);
  // Each rank looks after some of the files.
  return damageOf(comm, [&] {
    int number = 0;
    for (auto &[name, hash] : index.files)
      if (number++ % comm.size() == comm.rank())
        checkFile(folder + "/" + name, hash);
  });
}

/// Folders of other nodes may show it later: rank 0 says what there is.
std::vector<int64_t>
agreedSteps(Comm &comm, const std::function<std::vector<int64_t>()> &find) {
  std::string mine, failure;
  if (comm.rank() == 0)
    failure = failureOf([&] {
      for (int64_t step : find())
        mine += std::to_string(step) + " ";
    });
  comm.agree(failure);
  std::vector<int64_t> steps;
  std::string all = comm.allGatherText(mine)[0];
  for (size_t at = 0; at < all.size(); at = all.find(' ', at) + 1)
    steps.push_back(std::stoll(all.substr(at)));
  return steps;
}

} // namespace

std::vector<std::string> WholeCheckpoint::files() const {
  std::vector<std::string> paths;
  for (auto &file : index.files)
    paths.push_back(folder + "/" + file.first);
  return paths;
}

WholeCheckpoint newestCheckpoint(Comm &comm, const std::string &directory) {
  std::vector<int64_t> steps =
      agreedSteps(comm, [&] { return checkpointSteps(directory); });
  if (steps.empty())
    throw CommonError(directory + ": no checkpoint to resume from");
  WholeCheckpoint out;
  for (size_t i = steps.size(); i-- > 0;) {
    out.folder = checkpointPath(directory, steps[i]);
    std::string wrong = look(comm, out.folder, steps[i], out.index);
    if (wrong.empty())
      return out;
    out.damaged.push_back(steps[i]);
    out.damage.insert(out.damage.begin(), wrong);
  }
  throw CommonError(out.damage.back() + "; " + directory +
                    " has no other checkpoint that is whole");
}

WholeCheckpoint bestCheckpoint(Comm &comm, const std::string &directory) {
  // The best, then what is newer.
  std::vector<int64_t> steps = agreedSteps(comm, [&] {
    std::vector<int64_t> list = {bestStep(directory)};
    for (int64_t step : checkpointSteps(directory))
      if (step > list[0])
        list.push_back(step);
    return list;
  });
  if (steps[0] < 0)
    throw CommonError(directory + ": no best checkpoint to resume from "
                                  "(--validate marks one)");
  WholeCheckpoint out = checkpointIn(comm, checkpointPath(directory, steps[0]));
  out.newer.assign(steps.begin() + 1, steps.end());
  return out;
}

WholeCheckpoint checkpointIn(Comm &comm, const std::string &folder) {
  WholeCheckpoint out;
  out.folder = folder;
  std::string wrong = look(comm, folder, stepOfFolder(folder), out.index);
  if (!wrong.empty())
    throw CommonError(wrong);
  return out;
}

} // namespace dt::rt

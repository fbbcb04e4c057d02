//===- CheckpointFolder.cpp - what lies in a checkpoint folder ------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/CheckpointFolder.h"
#include "runtime/base/Files.h"
#include "runtime/base/ReadJson.h"
#include "runtime/base/Safetensors.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace dt::rt {

namespace {

namespace fs = std::filesystem;

constexpr const char *kIndex = "index.json", *kBest = "best";
constexpr size_t kMostRanks = 1 << 20;

std::string hashOf(const nlohmann::json &json) {
  std::string text = json.dump();
  return hexText(hashBytes(text.data(), text.size()));
}

/// The number of a name "step-N"; -1: another name. Numbers are short enough
/// for int64_t.
int64_t stepOf(const std::string &name) {
  if (name.rfind("step-", 0) != 0 || name.size() > 20 || name.size() == 5 ||
      name.find_first_not_of("0123456789", 5) != std::string::npos)
    return -1;
  int64_t step = std::stoll(name.substr(5));
  return name == "step-" + std::to_string(step) ? step : -1;
}

std::vector<std::string> namesIn(const std::string &directory) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(directory, error), end;
  for (; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory)
    failedCall(directory, "read the folder", error.value());
  return names;
}

void removeAll(const std::string &path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

/// Renamed first: what is left of a removal must not pass for a checkpoint.
void removeCheckpoint(const std::string &directory, int64_t step) {
  std::string path = checkpointPath(directory, step), old = path + ".gone.tmp";
  removeAll(old);
  if (std::rename(path.c_str(), old.c_str()) == 0)
    removeAll(old);
}

/// What swapFolders may leave of a checkpoint that was replaced.
constexpr const char *kReplaced = ".old.tmp";

void removeEnding(const std::string &directory, const std::string &ending) {
  for (const std::string &name : namesIn(directory))
    if (name.rfind("step-", 0) == 0 && endsWith(name, ending))
      removeAll(directory + "/" + name);
}

} // namespace

void rethrowAsDamage(const SystemError &error) {
  switch (error.code) {
  case 0: // shorter than it was a moment ago
  case ENOENT:
  case ENOTDIR:
  case EISDIR:
  case ELOOP:
    throw DamageError(error.what());
  default:
    throw error;
  }
}

std::string CheckpointIndex::text() const {
  nlohmann::json json = {{"step", step},   {"seed", seed},
                         {"plan", plan},   {"data", data},
                         {"files", files}, {"ranks", files.size()}};
  if (!schedule.is_null())
    json["schedule"] = schedule;
  if (!validation.is_null())
    json["validation"] = validation;
  json["check"] = hashOf(json);
  return json.dump(2) + "\n";
}

CheckpointIndex CheckpointIndex::parse(const std::string &text, int64_t step,
                                       const std::string &where) {
  auto fail = [&](const std::string &what) {
    throw DamageError(where + ": not the index of a checkpoint: " + what);
  };
  nlohmann::json json = readJsonIfGood(text);
  if (!json.is_object())
    fail("no JSON object");
  // Older programs wrote no hash.
  if (auto check = json.find("check"); check != json.end()) {
    nlohmann::json hash = *check;
    json.erase("check");
    if (hash != hashOf(json))
      fail("its hash \"check\" is that of another text");
  }
  const std::set<std::string> known = {"step",     "seed",      "plan",
                                       "data",     "files",     "ranks",
                                       "schedule", "validation"};
  for (auto &[key, ignored] : json.items())
    if (!known.count(key))
      fail("a key that is not known");
  CheckpointIndex index;
  if (!json.contains("step") || !json["step"].is_number_unsigned() ||
      json["step"].get<uint64_t>() > uint64_t(INT64_MAX))
    fail("\"step\" is not a number of steps");
  index.step = json["step"].get<int64_t>();
  if (step >= 0 && index.step != step)
    fail("\"step\" is not " + std::to_string(step) +
         ", the number of its folder");
  auto hex = [&](const char *key) {
    if (!json.contains(key) || !json[key].is_string() ||
        !isHex(json[key].get<std::string>()))
      fail(std::string("\"") + key + "\" is not sixteen hexadecimal digits");
    return json[key].get<std::string>();
  };
  index.seed = hex("seed"), index.plan = hex("plan"), index.data = hex("data");
  if (!json.contains("files") || !json["files"].is_object() ||
      json["files"].empty() || json["files"].size() > kMostRanks)
    fail("\"files\" is not a table of the ranks' files");
  size_t ranks = json["files"].size();
  if (!json.contains("ranks") || !json["ranks"].is_number_unsigned() ||
      json["ranks"].get<uint64_t>() != ranks)
    fail("\"ranks\" is not the number of its files");
  for (size_t r = 0; r < ranks; ++r) {
    std::string name = rankFile(int(r));
    auto found = json["files"].find(name);
    if (found == json["files"].end() || !found->is_string() ||
        !isHex(found->get<std::string>()))
      fail("no hash of " + name);
    index.files[name] = found->get<std::string>();
  }
  if (json.contains("schedule")) {
    if (!json["schedule"].is_object())
      fail("\"schedule\" is not a table");
    index.schedule = json["schedule"];
  }
  if (json.contains("validation")) {
    const nlohmann::json &v = json["validation"];
    if (!v.is_object() || !v.contains("loss") || !v["loss"].is_number() ||
        !v.contains("data") || !v["data"].is_string() ||
        !isHex(v["data"].get<std::string>()))
      fail("\"validation\" has no loss and hash of its data");
    index.validation = {{"loss", v["loss"]}, {"data", v["data"]}};
  }
  return index;
}

std::vector<int64_t> checkpointSteps(const std::string &directory) {
  std::vector<int64_t> steps;
  for (const std::string &name : namesIn(directory))
    if (int64_t step = stepOf(name); step >= 0)
      steps.push_back(step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string checkpointPath(const std::string &directory, int64_t step) {
  return directory + "/step-" + std::to_string(step);
}

std::string rankFile(int rank, const char *ending) {
  return "rank-" + std::to_string(rank) + ending;
}

int64_t stepOfFolder(const std::string &folder) {
  return stepOf(fs::path(folder).filename().string());
}

CheckpointIndex readCheckpointIndex(const std::string &folder, int64_t step) {
  std::string path = folder + "/" + kIndex;
  try {
    return CheckpointIndex::parse(readText(path, kIndexLimit), step, path);
  } catch (const SystemError &e) {
    rethrowAsDamage(e);
  } catch (const DamageError &) {
    throw;
  } catch (const Error &e) {
    throw DamageError(e.what());
  }
}

void commitCheckpoint(const std::string &directory, int64_t step) {
  std::string path = checkpointPath(directory, step), written = path + ".tmp",
              old = path + kReplaced;
  syncPath(written);
  removeAll(old);
  if (int code = swapFolders(written, path, old))
    failedCall(path, "rename its temporary folder to it", code);
  syncPath(directory);
  removeAll(written); // what was replaced
}

void removeOldCheckpoints(const std::string &directory, int64_t keep,
                          int64_t also) {
  std::vector<int64_t> steps = checkpointSteps(directory);
  int64_t best = bestStep(directory);
  for (size_t i = 0; i + size_t(keep) < steps.size(); ++i)
    if (steps[i] != best && steps[i] != also)
      removeCheckpoint(directory, steps[i]);
  for (const char *ending : {kDamaged, kNewer})
    removeEnding(directory, ending);
}

std::vector<std::string> removeUnfinished(const std::string &directory) {
  std::vector<std::string> lines;
  for (const std::string &name : namesIn(directory)) {
    if (!endsWith(name, kReplaced))
      continue;
    std::string place = name.substr(0, name.size() - std::strlen(kReplaced));
    if (stepOf(place) >= 0 &&
        restoreFolder(directory + "/" + place, directory + "/" + name))
      lines.push_back(directory + "/" + place +
                      ": a run was killed while it replaced this checkpoint; "
                      "the earlier one is back");
  }
  removeEnding(directory, ".tmp");
  return lines;
}

void setAside(const std::string &directory, int64_t step, const char *ending) {
  std::string path = checkpointPath(directory, step), aside = path + ending;
  removeAll(aside);
  if (std::rename(path.c_str(), aside.c_str()) != 0 && errno != ENOENT)
    failedCall(path, "rename");
}

int64_t bestStep(const std::string &directory) {
  std::error_code error;
  fs::path target = fs::read_symlink(directory + "/" + kBest, error);
  int64_t step = error ? -1 : stepOf(target.string());
  return step >= 0 && fs::exists(checkpointPath(directory, step), error) ? step
                                                                         : -1;
}

void markBest(const std::string &directory, int64_t step) {
  std::string path = directory + "/" + kBest, fresh = path + ".tmp",
              name = fs::path(checkpointPath(directory, step)).filename();
  ::unlink(fresh.c_str());
  if (::symlink(name.c_str(), fresh.c_str()) != 0)
    failedCall(fresh, "link");
  renamePath(fresh, path);
  syncPath(directory);
}

//===----------------------------------------------------------------------===//
// Lock
//===----------------------------------------------------------------------===//

namespace {

enum class Locked { Yes, Busy, Unknown };

/// Bytes [begin, begin + count) of the file, count 0: to infinity. The lock
/// belongs to the open file, not to the process: two in one process are two.
Locked lockBytes(int file, short kind, off_t begin, off_t count,
                 const std::string &path) {
  struct flock lock{};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = begin;
  lock.l_len = count;
  while (::fcntl(file, F_OFD_SETLK, &lock) != 0) {
    if (errno == EINTR)
      continue;
    if (errno == EAGAIN || errno == EACCES)
      return Locked::Busy;
    // File systems without locks.
    if (errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP ||
        errno == EINVAL)
      return Locked::Unknown;
    failedCall(path, "lock");
  }
  return Locked::Yes;
}

/// What the holder wrote into its lock: "process 17 on host". Anybody's text.
std::string holderOf(int file) {
  char text[128] = {};
  ssize_t n = ::pread(file, text, sizeof text - 1, 0);
  std::string holder(text, n > 0 ? size_t(n) : 0);
  holder = printable(holder.substr(0, holder.find('\n')));
  return holder.empty() ? "another run" : "another run, " + holder + ",";
}

} // namespace

FolderLock::FolderLock(Comm &comm, const std::string &directory) {
  std::string path = directory + "/lock";
  for (bool first : {true, false}) {
    std::string failure;
    try {
      if (first && comm.rank() == 0)
        take(path);
      if (!first && comm.rank() > 0)
        join(path, comm.rank());
    } catch (const std::exception &e) {
      failure = e.what();
    }
    comm.agree(failure);
  }
}

/// All bytes, so that no rank of another run is left; then the first only, for
/// the other ranks.
void FolderLock::take(const std::string &path) {
  file = openToWrite(path, O_RDWR | O_CREAT);
  // Another name of somebody's file would be emptied, too.
  struct stat info;
  if (::fstat(file.get(), &info) != 0)
    failedCall(path, "open");
  if (!S_ISREG(info.st_mode) || info.st_nlink != 1)
    throw Error(path + ": is no file of its own, expected a lock that a run "
                       "has made");
  switch (lockBytes(file.get(), F_WRLCK, 0, 0, path)) {
  case Locked::Busy:
    throw Error(path.substr(0, path.rfind('/')) + ": " + holderOf(file.get()) +
                " saves its checkpoints here (it has locked " + path +
                "); give another --checkpoint folder");
  case Locked::Unknown:
    problem = path + ": cannot lock: " + std::strerror(errno) +
              "; another run in this folder would not be noticed";
    return;
  case Locked::Yes:
    break;
  }
  std::string text =
      "process " + std::to_string(::getpid()) + " on " + hostName() + "\n";
  // A full disk, which the removal of unfinished checkpoints may mend, must not
  // keep from that.
  if (::ftruncate(file.get(), 0) == 0 &&
      ::pwrite(file.get(), text.data(), text.size(), 0) < 0)
    (void)::ftruncate(file.get(), 0);
  lockBytes(file.get(), F_UNLCK, 1, 0, path);
}

void FolderLock::join(const std::string &path, int rank) {
  file = openToWrite(path, O_RDWR);
  if (lockBytes(file.get(), F_WRLCK, rank, 1, path) == Locked::Busy)
    throw Error(path + ": rank " + std::to_string(rank) +
                " cannot lock its byte");
}

} // namespace dt::rt

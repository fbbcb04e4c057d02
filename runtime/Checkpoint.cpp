//===- Checkpoint.cpp - saving and resuming -------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Checkpoint.h"
#include "runtime/Activity.h"
#include "runtime/Device.h"
#include "runtime/Error.h"
#include "runtime/Pieces.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace dt::rt {

namespace {

namespace fs = std::filesystem;

constexpr const char *kIndex = "index.json";

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(value));
  return text;
}

/// Makes a new file, or the renaming inside a folder, durable.
void syncPath(const fs::path &path) {
  Activity activity("writing", path.string());
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  bool bad = fd < 0 || ::fsync(fd) < 0;
  if (fd >= 0)
    ::close(fd);
  if (bad)
    throw Error(path.string() + ": cannot sync: " + std::strerror(errno));
}

/// Steps of the complete checkpoints in a directory, ascending.
std::vector<int64_t> stepsIn(const std::string &directory) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.rfind("step-", 0) != 0 || name.size() > 20 || name.size() == 5 ||
        name.find_first_not_of("0123456789", 5) != std::string::npos)
      continue;
    steps.push_back(std::stoll(name.substr(5)));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

fs::path folderOf(const std::string &directory, int64_t step) {
  return fs::path(directory) / ("step-" + std::to_string(step));
}

void removeOld(const std::string &directory, int keep) {
  std::vector<int64_t> steps = stepsIn(directory);
  std::error_code ignored;
  for (size_t i = 0; i + keep < steps.size(); ++i)
    fs::remove_all(folderOf(directory, steps[i]), ignored);
}

std::string rankName(int rank, const char *ending) {
  return "rank-" + std::to_string(rank) + ending;
}

void writeText(const fs::path &path, const std::string &text) {
  {
    Activity activity("writing", path.string());
    std::ofstream stream(path);
    stream << text;
    if (!stream.flush())
      throw Error(path.string() + ": cannot write");
  }
  syncPath(path);
}

/// What this rank owns, copied.
PieceWriter snapshot(const Trainer &trainer) {
  PieceWriter writer;
  const ProgramInfo &program = trainer.program();
  const Ownership &ownership = trainer.ownership();
  for (size_t i = 0; i < program.parameters.size; ++i) {
    const ParameterInfo &p = program.parameters[i];
    size_t module = size_t(p.module);
    if (ownership.owned(i).empty())
      continue;
    Layout layout(p, trainer.placement().at(module).tp);
    const Region &region = trainer.regions().at(module);
    for (const OwnedPiece &piece : ownership.owned(i)) {
      writer.add(p.tensor.name, p.tensor.type, layout, piece.begin, piece.end,
                 region.parameters + p.offset +
                     size_t(piece.begin) * sizeOf(p.tensor.type));
      for (int k = 0; ownership.updated(i) && k < trainer.optimizer().moments();
           ++k)
        writer.add(trainer.optimizer().momentName(k) + std::string(".") +
                       p.tensor.name,
                   DType::F32, layout, piece.begin, piece.end,
                   region.moments[k] + piece.moment);
    }
  }
  return writer;
}

nlohmann::json readIndex(const fs::path &folder) {
  std::ifstream stream(folder / kIndex);
  nlohmann::json index = nlohmann::json::parse(stream, nullptr, false);
  auto isText = [&](const char *key) {
    return index.contains(key) && index[key].is_string();
  };
  if (!index.is_object() || !index.contains("step") ||
      !index["step"].is_number_unsigned() || !isText("seed") ||
      !isText("plan") || !isText("data") || !index.contains("files") ||
      !index["files"].is_object() || index["files"].empty())
    throw Error((folder / kIndex).string() + ": not the index of a checkpoint");
  for (auto &[name, hash] : index["files"].items())
    if (!hash.is_string() || name.find('/') != std::string::npos)
      throw Error((folder / kIndex).string() +
                  ": not the index of a checkpoint");
  return index;
}

} // namespace

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

struct CheckpointWriter::Job {
  int64_t step;
  uint64_t dataHash;
  int rank, ranks;
  fs::path folder;
  PieceWriter pieces;
};

CheckpointWriter::CheckpointWriter(const Trainer &trainer,
                                   std::string directory, int keep)
    : trainer(trainer), directory(std::move(directory)), keep(keep) {}

CheckpointWriter::~CheckpointWriter() {
  giveUp = true;
  join();
}

void CheckpointWriter::join() {
  if (thread.joinable())
    thread.join();
}

void CheckpointWriter::finish() {
  Waits waits(trainer.comm().board(), {Awaited::Own});
  join();
  trainer.comm().agree(failure);
}

void CheckpointWriter::save(int64_t step, uint64_t dataHash) {
  Waits waits(trainer.comm().board(), {Awaited::Own});
  join();
  fs::path folder = folderOf(directory, step).string() + ".tmp";
  if (failure.empty() && trainer.comm().rank() == 0) {
    std::error_code error;
    Activity activity("writing", folder.string());
    fs::remove_all(folder, error); // the rest of a crash
    fs::create_directories(folder, error);
    if (error)
      failure = folder.string() + ": cannot create: " + error.message();
  }
  trainer.comm().agree(failure);
  auto job = std::make_shared<Job>(Job{step, dataHash, trainer.comm().rank(),
                                       trainer.comm().size(), folder,
                                       snapshot(trainer)});
  thread = std::thread([this, job] {
    try {
      write(*job);
    } catch (const std::exception &e) {
      failure = e.what();
    }
  });
}

/// The writer thread. It says how it went through a file, since only the main
/// thread may talk to other ranks.
void CheckpointWriter::write(Job &job) {
  try {
    uint64_t hash = job.pieces.write(
        (job.folder / rankName(job.rank, ".safetensors")).string());
    writeText(job.folder / rankName(job.rank, ".part"), hex(hash));
    fs::rename(job.folder / rankName(job.rank, ".part"),
               job.folder / rankName(job.rank, ".ok"));
  } catch (const std::exception &) {
    std::ofstream(job.folder / rankName(job.rank, ".failed"));
    throw;
  }
  if (job.rank == 0)
    commit(job);
}

void CheckpointWriter::commit(const Job &job) {
  nlohmann::json files = nlohmann::json::object();
  for (int r = 0; r < job.ranks; ++r) {
    fs::path ok = job.folder / rankName(r, ".ok");
    AwaitsWriter awaits(r);
    while (!fs::exists(ok)) {
      if (giveUp || fs::exists(job.folder / rankName(r, ".failed")))
        throw Error(job.folder.string() + ": rank " + std::to_string(r) +
                    " could not write its part");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    std::string hash;
    std::ifstream(ok) >> hash;
    files[rankName(r, ".safetensors")] = hash;
  }
  Activity activity("writing", job.folder.string());
  nlohmann::json index = {{"step", job.step},
                          {"seed", hex(trainer.settings().seed)},
                          {"plan", hex(trainer.program().planHash)},
                          {"data", hex(job.dataHash)},
                          {"ranks", job.ranks},
                          {"files", files}};
  for (int r = 0; r < job.ranks; ++r)
    fs::remove(job.folder / rankName(r, ".ok"));
  writeText(job.folder / kIndex, index.dump(2) + "\n");
  syncPath(job.folder);
  // Saving the same step again (a resumed run that was interrupted at once)
  // replaces the folder.
  fs::path final = folderOf(directory, job.step);
  std::error_code error;
  fs::remove_all(final, error);
  fs::rename(job.folder, final, error);
  if (error)
    throw Error(final.string() + ": cannot rename: " + error.message());
  syncPath(directory);
  removeOld(directory, keep);
}

void saveCheckpoint(const Trainer &trainer, const std::string &directory,
                    int64_t step, uint64_t dataHash, int keep) {
  CheckpointWriter writer(trainer, directory, keep);
  writer.save(step, dataHash);
  writer.finish();
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

void expectNoCheckpoints(const std::string &directory) {
  std::vector<int64_t> steps = stepsIn(directory);
  if (!steps.empty())
    throw Error(folderOf(directory, steps.back()).string() +
                ": a checkpoint of an earlier run; continue it with --resume, "
                "or give another --checkpoint folder");
}

/// Moments of a parameter from its whole tensor into the ranges that this rank
/// updates.
static void loadMoment(Trainer &trainer, size_t index, int moment,
                       const Layout &layout, const std::byte *whole) {
  const ParameterInfo &p = trainer.program().parameters[index];
  std::vector<float> part(size_t(layout.partElements()));
  layout.extract(whole, part.data(), sizeof(float));
  size_t module = size_t(p.module), first = p.offset / sizeof(float);
  for (const UpdateRange &u : trainer.ownership().updates(module)) {
    size_t begin = std::max(u.range.begin, first),
           end = std::min(u.range.end(), first + part.size());
    if (begin < end)
      device::copyToDevice(trainer.regions().at(module).moments[moment] +
                               u.moment + (begin - u.range.begin),
                           part.data() + (begin - first),
                           (end - begin) * sizeof(float));
  }
}

static void loadParameter(Trainer &trainer, size_t index,
                          const PieceReader &reader) {
  progressed();
  const ProgramInfo &program = trainer.program();
  const ParameterInfo &p = program.parameters[index];
  std::string name =
      program.parameters[trainer.ownership().original(index)].tensor.name;
  size_t module = size_t(p.module);
  Layout layout(p, trainer.placement().at(module).tp);
  std::vector<std::byte> whole =
      reader.whole(name, p.tensor.type, layout.whole());
  std::vector<std::byte> part(size_t(layout.partElements()) *
                              sizeOf(p.tensor.type));
  layout.extract(whole.data(), part.data(), sizeOf(p.tensor.type));
  device::copyToDevice(trainer.regions().parameter(p), part.data(),
                       part.size());
  if (!trainer.ownership().updated(index))
    return;
  for (int i = 0; i < trainer.optimizer().moments(); ++i) {
    whole = reader.whole(trainer.optimizer().momentName(i) + std::string(".") +
                             name,
                         DType::F32, layout.whole());
    loadMoment(trainer, index, i, layout, whole.data());
  }
}

int64_t loadCheckpoint(Trainer &trainer, const std::string &directory,
                       uint64_t dataHash) {
  std::vector<int64_t> steps = stepsIn(directory);
  if (steps.empty())
    throw Error(directory + ": no checkpoint to resume from");
  fs::path folder = folderOf(directory, steps.back());
  nlohmann::json index = readIndex(folder);
  auto expect = [&](const char *key, uint64_t value, const char *what) {
    if (index[key].get<std::string>() != hex(value))
      throw Error(folder.string() + ": the checkpoint was made with another " +
                  what);
  };
  expect("seed", trainer.settings().seed, "seed");
  if (dataHash)
    expect("data", dataHash, "data set");
  // Each rank looks after some of the files.
  int number = 0;
  std::vector<std::string> paths;
  for (auto &[name, hash] : index["files"].items()) {
    paths.push_back((folder / name).string());
    if (number++ % trainer.comm().size() == trainer.comm().rank() &&
        hash.get<std::string>() != hex(hashSafetensors(paths.back())))
      throw Error(paths.back() + ": damaged (its hash is not the one in " +
                  kIndex + ")");
  }
  PieceReader reader(paths);
  const ProgramInfo &program = trainer.program();
  for (size_t i = 0; i < program.parameters.size; ++i)
    if (trainer.placement().at(size_t(program.parameters[i].module)).runs())
      loadParameter(trainer, i, reader);
  return index["step"].get<int64_t>();
}

} // namespace dt::rt

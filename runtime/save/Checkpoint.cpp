//===- Checkpoint.cpp - saving and resuming -------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/Checkpoint.h"
#include "runtime/base/FileActivity.h"
#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/base/Thread.h"
#include "runtime/comm/Agreement.h"
#include "runtime/device/Device.h"
#include "runtime/save/CheckpointFolder.h"
#include "runtime/save/Schedule.h"
#include "runtime/save/WholeCheckpoint.h"
#include "runtime/state/Pieces.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

namespace dt::rt {

namespace {

/// A trained parameter's value, or the optimizer's state of it, that is not a
/// number ends the run sooner or later. (State may be infinite: it only keeps
/// its element from moving.)
void expectFiniteValues(const void *data, size_t bytes, bool state,
                        const std::string &name, int64_t step) {
  for (size_t at = 0; at < bytes; at += sizeof(float)) {
    float value;
    std::memcpy(&value, static_cast<const std::byte *>(data) + at,
                sizeof value);
    if (std::isnan(value) || (!state && std::isinf(value)))
      throw Error("'" + name + "' is " + (std::isnan(value) ? "nan" : "inf") +
                  " after step " + std::to_string(step) +
                  ": the state is not saved");
  }
}

/// The tensor with a moment of a parameter.
std::string momentOf(const std::string &parameter, const char *moment) {
  return moment + ("." + parameter);
}

/// What a rank keeps of a parameter that trains, beside its value: the name of
/// the tensor, the memory of the module's, and which moment it is, if any.
struct Kept {
  std::string name;
  float *memory;
  MomentShape shape = MomentShape::Elements;
  int moment = -1;

  size_t placeOf(const OwnedPiece &piece) const {
    return moment < 0 ? piece.moment : piece.kept.at[moment];
  }
};
std::vector<Kept> keptOf(const Trainer &trainer, size_t index,
                         const std::string &parameter) {
  std::vector<Kept> kept;
  const Ownership &ownership = trainer.ownership();
  if (!ownership.updated(index))
    return kept;
  const Region &region =
      trainer.regions().at(size_t(trainer.program().parameters[index].module));
  Span<const char *> moments = trainer.optimizer().moments();
  for (size_t k = 0; k < moments.size; ++k)
    if (MomentShape shape = ownership.momentShape(index, k);
        shape != MomentShape::None)
      kept.push_back({momentOf(parameter, moments[k]), region.moments.at[k],
                      shape, int(k)});
  if (trainer.optimizer().averages())
    kept.push_back({momentOf(parameter, kAverage), region.average});
  return kept;
}

/// Means of rows or columns.
void addFactors(const Trainer &trainer, size_t index, const Kept &kept,
                PieceWriter &writer, const PieceWriter::Check &check) {
  const ParameterValues &values = trainer.values();
  if (!values.ownsFactors(index, kept.shape))
    return;
  ParameterLayout layout = values.factorLayout(index, kept.shape);
  writer.add(kept.name, DType::F32, layout, 0, layout.partElements(),
             kept.memory +
                 trainer.ownership().factors(index, size_t(kept.moment)),
             check);
}

/// What this rank owns.
PieceWriter stateOf(const Trainer &trainer, int64_t step) {
  PieceWriter writer;
  const ProgramInfo &program = trainer.program();
  const Ownership &ownership = trainer.ownership();
  const ParameterValues &values = trainer.values();
  for (size_t i = 0; i < program.parameters.size; ++i) {
    const ParameterInfo &p = program.parameters[i];
    if (!trainer.placement().at(size_t(p.module)).runs())
      continue;
    ParameterLayout layout = values.layout(i);
    bool updated = ownership.updated(i);
    auto finite = [step](const std::string &name, bool state) {
      return [=](const void *values, size_t bytes) {
        expectFiniteValues(values, bytes, state, name, step);
      };
    };
    std::vector<Kept> state = keptOf(trainer, i, p.tensor.name);
    for (const Kept &kept : state)
      if (kept.shape != MomentShape::Elements)
        addFactors(trainer, i, kept, writer, finite(kept.name, true));
    for (const OwnedPiece &piece : ownership.owned(i)) {
      writer.add(p.tensor.name, values.type(i), layout, piece.begin, piece.end,
                 values.at(i, piece),
                 updated ? finite(p.tensor.name, false) : PieceWriter::Check());
      for (const Kept &kept : state)
        if (kept.shape == MomentShape::Elements)
          writer.add(kept.name, DType::F32, layout, piece.begin, piece.end,
                     kept.memory + kept.placeOf(piece),
                     finite(kept.name, true));
    }
  }
  return writer;
}

} // namespace

void expectFinite(const Trainer &trainer, int64_t step) {
  const ProgramInfo &program = trainer.program();
  std::vector<std::byte> copy;
  for (size_t i = 0; i < program.parameters.size; ++i) {
    if (!trainer.ownership().updated(i))
      continue;
    for (const OwnedPiece &piece : trainer.ownership().owned(i)) {
      copy.resize(size_t(piece.end - piece.begin) * sizeof(float));
      device::copyToHost(copy.data(), trainer.values().at(i, piece),
                         copy.size());
      expectFiniteValues(copy.data(), copy.size(), false,
                         program.parameters[i].tensor.name, step);
    }
  }
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

struct CheckpointWriter::Job {
  int64_t step;
  CheckpointFacts facts;
  int rank, ranks;
  std::string folder;
  PieceWriter pieces;
  bool copied; ///< else the state must stay until the part is written
};

CheckpointWriter::CheckpointWriter(const Trainer &trainer,
                                   std::string directory, int64_t keep,
                                   int64_t resumed, size_t memory)
    : trainer(trainer), directory(std::move(directory)), keep(keep),
      resumed(resumed), copies(memory) {}

CheckpointWriter::~CheckpointWriter() {
  giveUp = true;
  copies.settle();
  if (thread.joinable())
    thread.join();
}

void CheckpointWriter::finish() {
  std::string what = settle();
  if (!what.empty())
    throw CommonError(what);
}

/// Parts are written without waiting for anybody, so first everybody learns how
/// these went; only then is it certain that rank 0's thread, which waits for
/// all parts, comes to an end.
std::string CheckpointWriter::settle() {
  if (!job)
    return {};
  Waits waits(trainer.comm().board(), {Awaited::Own});
  copies.settle();
  std::unique_lock<std::mutex> lock(mutex);
  done.wait(lock, [&] { return partDone; });
  std::string mine = failure;
  lock.unlock();
  Comm &comm = trainer.comm();
  std::string what = comm.firstText(mine);
  giveUp = !what.empty();
  if (thread.joinable())
    thread.join();
  std::string whole = comm.firstText(failure);
  if (what.empty())
    what = whole;
  if (!what.empty() && comm.rank() == 0) {
    std::error_code ignored; // the next run tries again
    std::filesystem::remove_all(job->folder, ignored);
  }
  job.reset();
  giveUp = hasFailed = partDone = false;
  failure.clear();
  return what;
}

void CheckpointWriter::save(int64_t step, const CheckpointFacts &facts) {
  finish();
  Comm &comm = trainer.comm();
  std::string folder = checkpointPath(directory, step) + ".tmp";
  std::shared_ptr<Job> next;
  std::string wrong = failureOf([&] {
    if (comm.rank() == 0) {
      FileActivity activity("writing", folder);
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored); // the rest of a failure
      makeFolders(directory);
      makeFoldersIn(directory, std::filesystem::path(folder).filename());
    }
    next = std::make_shared<Job>(Job{step, facts, comm.rank(), comm.size(),
                                     folder, stateOf(trainer, step), false});
    next->copied = next->pieces.copyTo(copies);
  });
  wrong = comm.firstText(wrong);
  if (!wrong.empty()) {
    copies.drop();
    std::error_code ignored;
    if (comm.rank() == 0)
      std::filesystem::remove_all(folder, ignored);
    throw CommonError(wrong);
  }
  job = next;
  if (!job->copied) {
    if (!saidThatItWaits)
      printError("warning: rank %d has no memory for a copy of its state "
                 "(%zu bytes): training waits while checkpoints are "
                 "written\n",
                 comm.rank(), job->pieces.bytes());
    saidThatItWaits = true;
    writePart(*job);
  }
  try {
    thread = startThread("writing checkpoints", [this, next] { run(*next); });
  } catch (const SystemError &) { // training waits
    if (next->copied)
      next->pieces.forgetCopies();
    run(*next);
  }
}

void CheckpointWriter::note(const std::string &what) {
  std::lock_guard<std::mutex> lock(mutex);
  if (failure.empty())
    failure = what;
  hasFailed = hasFailed || !what.empty();
}

/// The writer thread. It says how it went through files, since only the main
/// thread may talk to other ranks.
void CheckpointWriter::run(Job &job) {
  if (job.copied)
    writePart(job);
  if (job.rank == 0 && !hasFailed)
    note(failureOf([&] { commit(job); }));
}

void CheckpointWriter::writePart(Job &job) {
  note(failureOf([&] { write(job); }));
  copies.drop();
  {
    std::lock_guard<std::mutex> lock(mutex);
    partDone = true;
  }
  done.notify_all();
}

void CheckpointWriter::write(Job &job) {
  std::string path = job.folder + "/" + rankFile(job.rank);
  uint64_t hash = job.pieces.write(path, Folder::Made);
  writeWhole(job.folder + "/" + rankFile(job.rank, ".ok"), hexText(hash),
             Folder::Made);
}

void CheckpointWriter::commit(const Job &job) {
  CheckpointIndex index;
  index.step = job.step;
  index.seed = hexText(trainer.settings().seed);
  index.plan = hexText(trainer.program().planHash);
  index.data = hexText(job.facts.dataHash);
  index.validation = job.facts.validation;
  index.schedule = scheduleOf(trainer);
  for (int r = 0; r < job.ranks; ++r) {
    std::string ok = job.folder + "/" + rankFile(r, ".ok");
    std::error_code ignored;
    AwaitsWriter awaits(r);
    while (!std::filesystem::exists(ok, ignored)) {
      if (giveUp)
        return; // who failed says why
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    std::string hash = readText(ok, 64);
    if (!isHex(hash))
      throw Error(ok + ": has no hash");
    index.files[rankFile(r)] = hash;
  }
  FileActivity activity("writing", job.folder);
  for (int r = 0; r < job.ranks; ++r)
    std::filesystem::remove(job.folder + "/" + rankFile(r, ".ok"));
  writeWhole(job.folder + "/index.json", index.text(), Folder::Made);
  commitCheckpoint(directory, job.step);
  if (job.facts.best)
    markBest(directory, job.step);
  removeOldCheckpoints(directory, keep, resumed);
}

void saveCheckpoint(const Trainer &trainer, const std::string &directory,
                    int64_t step, uint64_t dataHash, int64_t keep) {
  CheckpointWriter writer(trainer, directory, keep);
  writer.save(step, {dataHash, nullptr, false});
  writer.finish();
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

void expectNoCheckpoints(const std::string &directory) {
  std::vector<int64_t> steps = checkpointSteps(directory);
  if (!steps.empty())
    throw Error(checkpointPath(directory, steps.back()) +
                ": a checkpoint of an earlier run; continue it with --resume, "
                "or give another --checkpoint folder");
}

void expectCheckpoints(const std::string &directory) {
  if (checkpointSteps(directory).empty())
    throw Error(directory + ": no checkpoint to resume from");
}

namespace {

/// A moment of a parameter into the ranges that this rank updates.
void loadKept(Trainer &trainer, size_t index, const Kept &kept,
              const PieceReader &reader) {
  std::vector<float> values;
  auto load = [&](const ParameterLayout &layout, int64_t begin, int64_t end,
                  size_t place) {
    values.resize(size_t(end - begin));
    reader.part(kept.name, DType::F32, layout, begin, end, values.data());
    device::copyToDevice(kept.memory + place, values.data(),
                         values.size() * sizeof(float));
  };
  const Ownership &ownership = trainer.ownership();
  if (kept.shape != MomentShape::Elements) {
    ParameterLayout layout = trainer.values().factorLayout(index, kept.shape);
    return load(layout, 0, layout.partElements(),
                ownership.factors(index, size_t(kept.moment)));
  }
  ParameterLayout layout = trainer.values().layout(index);
  for (const OwnedPiece &piece : ownership.updatedPieces(index))
    load(layout, piece.begin, piece.end, kept.placeOf(piece));
}

void loadParameter(Trainer &trainer, size_t index, const PieceReader &reader) {
  const ParameterValues &values = trainer.values();
  std::string name = trainer.program()
                         .parameters[trainer.ownership().original(index)]
                         .tensor.name;
  ParameterLayout layout = values.layout(index);
  values.write(
      index,
      reader.floats(name, values.type(index), layout, 0, layout.partElements())
          .data());
  for (const Kept &kept : keptOf(trainer, index, name))
    loadKept(trainer, index, kept, reader);
}

/// Before anything else is compared: what another model's checkpoint differs in
/// besides does not matter.
void expectOurModel(const Trainer &trainer, const std::string &folder,
                    const PieceReader &reader) {
  const ProgramInfo &program = trainer.program();
  for (size_t i = 0; i < program.parameters.size; ++i) {
    const TensorInfo &tensor =
        program.parameters[trainer.ownership().original(i)].tensor;
    if (!reader.has(tensor.name))
      throw Error(folder + ": the checkpoint is another model's: it has no '" +
                  tensor.name + "'");
  }
}

/// "c: the checkpoint has 'a', which this program does not"; "" if all is
/// taken.
std::string surplusOf(const Trainer &trainer, const std::string &folder,
                      const PieceReader &reader) {
  const ProgramInfo &program = trainer.program();
  std::set<std::string> known;
  for (const ParameterInfo &p : program.parameters) {
    std::string name = p.tensor.name;
    if (p.tied < 0)
      known.insert(name);
    for (const char *moment : trainer.optimizer().moments())
      known.insert(momentOf(name, moment));
    // That there is none now is said of the schedule.
    known.insert(momentOf(name, kAverage));
  }
  std::vector<std::string> surplus;
  for (const std::string &name : reader.names())
    if (!known.count(name))
      surplus.push_back(name);
  if (surplus.empty())
    return "";
  return folder + ": the checkpoint has '" + listed(surplus) +
         "', which this program does not: other weights are tied now";
}

/// What belongs to something else is refused: an older one would too. Appends
/// to `warnings` what of the schedule differs.
void expectOurs(const Trainer &trainer, const WholeCheckpoint &found,
                uint64_t dataHash, bool otherData,
                std::vector<std::string> &warnings) {
  const CheckpointIndex &index = found.index;
  std::string another =
      found.folder + ": the checkpoint was made with another ";
  if (index.seed != hexText(trainer.settings().seed))
    throw Error(another + "seed");
  // Older programs did not look at batch files.
  if (dataHash && index.data != hexText(dataHash) && index.data != hexText(0)) {
    if (!otherData)
      throw Error(another + "data set; --new-data goes on with this one");
    warnings.push_back(another + "data set; step " +
                       std::to_string(index.step) + " goes on with this one");
  }
  nlohmann::json schedule = scheduleOf(trainer);
  if (index.schedule.is_null())
    return;
  if (index.schedule.value("optimizer", nlohmann::json()) !=
      schedule["optimizer"])
    throw Error(found.folder + ": the checkpoint was made with the optimizer " +
                index.schedule.value("optimizer", nlohmann::json()).dump() +
                ", this program has " + schedule["optimizer"].dump());
  if (schedule.contains("ema") && !index.schedule.contains("ema"))
    throw Error(another + "recipe: it has no averages (ema)");
  std::string changes = changesOf(index.schedule, schedule);
  if (!changes.empty())
    warnings.push_back(
        "the schedule is not the one that the checkpoint was made with: " +
        changes);
}

} // namespace

LoadedCheckpoint resumeCheckpoint(Trainer &trainer,
                                  const std::string &directory,
                                  uint64_t dataHash, bool otherData,
                                  bool best) {
  Comm &comm = trainer.comm();
  WholeCheckpoint found = best ? bestCheckpoint(comm, directory)
                               : newestCheckpoint(comm, directory);
  LoadedCheckpoint out{found.index.step, found.damaged, found.newer, {}};
  for (const std::string &line : found.damage)
    out.warnings.push_back(line + "; resuming from " + found.folder);
  comm.agree(failureOf([&] {
    PieceReader reader(found.files());
    expectOurModel(trainer, found.folder, reader);
    if (std::string line = surplusOf(trainer, found.folder, reader);
        !line.empty())
      out.warnings.push_back(line);
    expectOurs(trainer, found, dataHash, otherData, out.warnings);
    const ProgramInfo &program = trainer.program();
    for (size_t i = 0; i < program.parameters.size; ++i)
      if (trainer.placement().at(size_t(program.parameters[i].module)).runs())
        loadParameter(trainer, i, reader);
  }));
  return out;
}

void setAsideOthers(Comm &comm, const std::string &directory,
                    const LoadedCheckpoint &loaded) {
  std::string failure;
  if (comm.rank() == 0)
    failure = failureOf([&] {
      for (int64_t step : loaded.damaged)
        setAside(directory, step, kDamaged);
      for (int64_t step : loaded.newer)
        setAside(directory, step, kNewer);
    });
  comm.agree(failure);
}

int64_t loadCheckpoint(Trainer &trainer, const std::string &directory,
                       uint64_t dataHash) {
  return resumeCheckpoint(trainer, directory, dataHash).step;
}

} // namespace dt::rt

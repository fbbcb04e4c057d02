//===- CheckpointTest.cpp - whole or not at all -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/Checkpoint.h"
#include "runtime/save/CheckpointFolder.h"
#include "runtime/state/Pieces.h"
#include "test/runtime/SmallProgram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <unistd.h>

using namespace dt::rt;
using namespace small;

namespace {

class CheckpointTest : public testing::Test {
protected:
  CheckpointTest()
      : trainer(program.info, Trainer::defaults(program.info), solo()),
        directory(folder / "c") {
    trainer.initializeParameters(folder / "weights.safetensors");
  }
  ProgramFolder folder;
  SmallProgram program{6};
  Trainer trainer;
  std::string directory;
};

TEST_F(CheckpointTest, KeepsTheNewestTwoAndIgnoresUnfinished) {
  for (int64_t step : {5, 10, 100})
    saveCheckpoint(trainer, directory, step, 7);
  std::filesystem::create_directories(directory +
                                      "/step-200.tmp"); // a crash while writing
  EXPECT_FALSE(std::filesystem::exists(directory + "/step-5"));
  EXPECT_TRUE(std::filesystem::exists(directory + "/step-10"));
  EXPECT_EQ(loadCheckpoint(trainer, directory, 7), 100);
  saveCheckpoint(trainer, directory, 200, 7); // over the rest of the crash
  EXPECT_EQ(loadCheckpoint(trainer, directory, 7), 200);
}

TEST_F(CheckpointTest, HoldsWeightsAndMoments) {
  auto *p = reinterpret_cast<float *>(trainer.regions().at(0).parameters);
  std::vector<float> before(p, p + 6);
  float *moments = trainer.regions().at(0).moments.at[1];
  moments[3] = 42;
  saveCheckpoint(trainer, directory, 1, 0);
  std::fill_n(p, 6, 0.f);
  moments[3] = 0;
  loadCheckpoint(trainer, directory, 0);
  EXPECT_EQ(std::vector<float>(p, p + 6), before);
  EXPECT_EQ(moments[3], 42);
  SafetensorsFile weights(
      directory +
      "/step-1/rank-0.safetensors"); // usable as initial weights too
  EXPECT_NE(weights.find("head.frozen"), nullptr);
}

/// The writer has copies, and only these. (Under the thread sanitizer, too.)
TEST_F(CheckpointTest, StateChangesWhileItIsWritten) {
  auto *p = reinterpret_cast<float *>(trainer.regions().at(0).parameters);
  CheckpointWriter writer(trainer, directory, 100);
  for (int64_t step = 1; step <= 20; ++step) {
    writer.save(step, {});
    std::fill_n(p, 6, float(step));
  }
  writer.finish();
  for (int64_t step = 20; step > 1; --step) {
    EXPECT_EQ(loadCheckpoint(trainer, directory, 0), step);
    EXPECT_EQ(std::vector<float>(p, p + 6), std::vector<float>(6, step - 1));
    std::filesystem::remove_all(checkpointPath(directory, step));
  }
}

/// Where memory has room for a part of the state only, updates wait for the
/// rest: the files are those of a writer that nobody runs ahead of.
TEST_F(CheckpointTest, LittleMemoryIsEnough) {
  nlohmann::json sections =
      nlohmann::json::parse(readFile(folder / "data.json"));
  auto source = openFileBatch(program.info, sections, folder / "batch",
                              viewOf(program.info, 0), Reorder::None);
  auto filesOf = [&](size_t memory, bool ahead) {
    Trainer trained(program.info, Trainer::defaults(program.info), solo());
    trained.initializeParameters(folder / "weights.safetensors");
    std::filesystem::remove_all(directory);
    CheckpointWriter writer(trained, directory, 100, -1, memory);
    std::vector<std::string> files;
    for (int64_t step = 0; step < 10; ++step) {
      writer.save(step, {});
      if (!ahead)
        writer.finish();
      trained.step(source->next(step), step);
    }
    writer.finish();
    EXPECT_GT(writer.mostBytes(), 0u);
    EXPECT_LE(writer.mostBytes(), memory);
    for (int64_t step = 0; step < 10; ++step)
      files.push_back(
          readFile(checkpointPath(directory, step) + "/rank-0.safetensors"));
    return files;
  };
  std::vector<std::string> wanted = filesOf(SIZE_MAX, false);
  EXPECT_NE(wanted[8], wanted[9]);
  for (size_t memory : {size_t(128), size_t(192), size_t(320), SIZE_MAX})
    EXPECT_EQ(filesOf(memory, true), wanted) << memory;
}

/// What cannot be written holds no update up.
TEST_F(CheckpointTest, AFailureWithLittleMemory) {
  nlohmann::json sections =
      nlohmann::json::parse(readFile(folder / "data.json"));
  auto source = openFileBatch(program.info, sections, folder / "batch",
                              viewOf(program.info, 0), Reorder::None);
  trainer.regions().at(0).moments.at[0][1] = std::nanf("");
  CheckpointWriter writer(trainer, directory, 100, -1, 128);
  for (int64_t step = 1; step < 3; ++step) {
    writer.save(step, {});
    trainer.step(source->next(step), step);
    EXPECT_CONTAINS(writer.settle(), "the state is not saved");
  }
}

TEST_F(CheckpointTest, RefusesWhatDoesNotBelong) {
  saveCheckpoint(trainer, directory, 1, 7);
  EXPECT_ERROR(loadCheckpoint(trainer, directory, 8), "another data set");
  SmallProgram other(2);
  other.parameters[1].tensor.name = "head.other";
  Trainer renamed(other.info, Trainer::defaults(other.info), solo());
  EXPECT_ERROR(loadCheckpoint(renamed, directory, 7),
               "the checkpoint is another model's: it has no 'head.other'");
  EXPECT_ERROR(loadCheckpoint(renamed, directory, 8), "another model's");
  Trainer::Settings settings = Trainer::defaults(program.info);
  settings.seed = 99;
  Trainer seeded(program.info, settings, solo());
  EXPECT_ERROR(loadCheckpoint(seeded, directory, 7), "another seed");
}

/// A parameter that was one and is a copy now: the other's value counts.
TEST_F(CheckpointTest, SaysWhatItLeavesOut) {
  saveCheckpoint(trainer, directory, 1, 7);
  EXPECT_TRUE(resumeCheckpoint(trainer, directory, 7).warnings.empty());
  SmallProgram other(2);
  other.parameters[2].tied = 1;
  Trainer tied(other.info, Trainer::defaults(other.info), solo());
  std::vector<std::string> said = resumeCheckpoint(tied, directory, 7).warnings;
  ASSERT_EQ(said.size(), 1u);
  EXPECT_CONTAINS(said[0], "the checkpoint has '");
  EXPECT_CONTAINS(said[0], "which this program does not");
}

/// Two checkpoints, the newer one with `change` made to it.
class DamageTest : public CheckpointTest {
protected:
  DamageTest() {
    saveCheckpoint(trainer, directory, 1, 7);
    saveCheckpoint(trainer, directory, 2, 7);
  }
  std::string file(const std::string &name) {
    return directory + "/step-2/" + name;
  }
  /// The newest good one is taken, and one line says why.
  void expectFallback(const std::string &part) {
    LoadedCheckpoint loaded = resumeCheckpoint(trainer, directory, 7);
    EXPECT_EQ(loaded.step, 1);
    EXPECT_EQ(loaded.damaged, std::vector<int64_t>{2});
    ASSERT_EQ(loaded.warnings.size(), 1u);
    EXPECT_CONTAINS(loaded.warnings[0], "step-2/" + part);
    EXPECT_CONTAINS(loaded.warnings[0],
                    "resuming from " + directory + "/step-1");
  }
};

TEST_F(DamageTest, OfARanksFile) {
  std::string path = file("rank-0.safetensors"), content = readFile(path);
  EXPECT_EQ(resumeCheckpoint(trainer, directory, 7).step, 2);
  std::string flipped = content;
  flipped.back() ^= 1;
  for (const std::string &bad :
       {flipped, content.substr(0, 40), content.substr(0, content.size() - 1),
        content + "x", std::string()}) {
    writeFile(path, bad);
    expectFallback("rank-0.safetensors: ");
  }
  std::filesystem::remove(path);
  expectFallback("rank-0.safetensors: cannot open: No such file");
  std::filesystem::create_directory(path);
  expectFallback("rank-0.safetensors: not a safetensors file");
  std::filesystem::remove_all(directory + "/step-1");
  EXPECT_ERROR(resumeCheckpoint(trainer, directory, 7),
               "has no other checkpoint that is whole");
}

/// Each value alone, and each byte: an index is believed as far as it is
/// checked.
TEST_F(DamageTest, OfTheIndex) {
  std::string content = readFile(file("index.json"));
  nlohmann::json good = nlohmann::json::parse(content);
  auto with = [&](auto change) {
    nlohmann::json json = good;
    json.erase("check"); // as who writes one by hand
    change(json);
    writeFile(file("index.json"), json.dump());
    expectFallback("index.json: not the index of a checkpoint: ");
  };
  with([](auto &j) { j["step"] = ~uint64_t(0); });
  with([](auto &j) { j["step"] = 3; });
  with([](auto &j) { j["step"] = -2; });
  with([](auto &j) { j["step"] = 2.5; });
  with([](auto &j) { j.erase("seed"); });
  with([](auto &j) { j["plan"] = 17; });
  with([](auto &j) { j["data"] = "xyz"; });
  with([](auto &j) { j["ranks"] = 2; });
  with([](auto &j) { j["files"] = nlohmann::json::object(); });
  with([](auto &j) { j["files"] = {{"../../rank-0.safetensors", "0"}}; });
  with([](auto &j) { j["files"]["rank-0.safetensors"] = "0"; });
  with([](auto &j) { j["schedule"] = 3; });
  // Deeper than the stack is: a hash over it would end the program.
  const size_t deep = 300000;
  std::string nest = std::string(deep, '[') + std::string(deep, ']');
  for (std::string check : {"", R"("check": "0123456789abcdef", )"}) {
    writeFile(file("index.json"), "{" + check + R"("data": )" + nest + "}");
    expectFallback("index.json: not the index of a checkpoint: ");
  }
  for (size_t at = 0; at < content.size(); at += 7) {
    std::string bad = content;
    bad[at] = bad[at] == '1' ? '2' : '1';
    if (bad == content || nlohmann::json::parse(bad, nullptr, false) == good)
      continue;
    writeFile(file("index.json"), bad);
    expectFallback("index.json: ");
  }
  std::filesystem::remove(file("index.json"));
  expectFallback("index.json: cannot open: No such file");
}

/// What belongs to another run is refused: an older one would be as wrong.
TEST_F(DamageTest, IsNotWhatIsAnothersData) {
  EXPECT_ERROR(resumeCheckpoint(trainer, directory, 8), "another data set");
}

TEST_F(CheckpointTest, NamesWhatCannotBeWritten) {
  saveCheckpoint(trainer, directory, 1, 7);
  CheckpointWriter writer(trainer, directory);
  // Something is where the rank's file should be.
  writer.save(5, {7, nullptr, false});
  writer.finish();
  std::filesystem::create_directories(directory + "/step-9.tmp/x");
  writer.save(9, {7, nullptr, false});
  std::string what = writer.settle();
  EXPECT_EQ(what, "");
  EXPECT_EQ(resumeCheckpoint(trainer, directory, 7).step, 9);
}

TEST_F(CheckpointTest, AStateThatIsNoNumberIsNotSaved) {
  saveCheckpoint(trainer, directory, 1, 7);
  auto *p = reinterpret_cast<float *>(trainer.regions().at(0).parameters);
  float before = p[2];
  p[2] = std::numeric_limits<float>::infinity();
  EXPECT_ERROR(saveCheckpoint(trainer, directory, 2, 7),
               "'tower.w' is inf after step 2: the state is not saved");
  EXPECT_ERROR(expectFinite(trainer, 2), "'tower.w' is inf");
  p[2] = before;
  trainer.regions().at(0).moments.at[0][1] = std::nanf("");
  EXPECT_ERROR(saveCheckpoint(trainer, directory, 2, 7),
               "'exp_avg.tower.w' is nan after step 2");
  EXPECT_FALSE(std::filesystem::exists(directory + "/step-2"));
  EXPECT_FALSE(std::filesystem::exists(directory + "/step-2.tmp"));
  EXPECT_EQ(loadCheckpoint(trainer, directory, 7), 1);
}

TEST_F(CheckpointTest, OneRunAFolder) {
  std::filesystem::create_directories(directory);
  {
    FolderLock lock(solo(), directory);
    EXPECT_EQ(lock.warning(), "");
    EXPECT_ERROR(FolderLock(solo(), directory),
                 "process " + std::to_string(::getpid()) + " on ");
  }
  FolderLock again(solo(), directory);
}

/// A folder of somebody else's: nothing that its links lead to is touched.
TEST_F(CheckpointTest, GoesThroughNoLinkInItsFolder) {
  std::filesystem::create_directories(directory);
  std::string victim = folder / "victim", lock = directory + "/lock";
  auto expectRefused = [&](const char *line) {
    EXPECT_ERROR(FolderLock(solo(), directory), line);
    EXPECT_EQ(readFile(victim), "precious");
    std::filesystem::remove(lock);
  };
  writeFile(victim, "precious");
  std::filesystem::create_symlink(victim, lock);
  expectRefused("lock: is a link, expected a file");
  std::filesystem::create_hard_link(victim, lock);
  expectRefused("lock: is no file of its own");
  FolderLock held(solo(), directory);
  std::filesystem::create_directory(folder / "elsewhere");
  std::filesystem::create_directory_symlink(folder / "elsewhere",
                                            directory + "/step-1.tmp");
  saveCheckpoint(trainer, directory, 1, 7);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "elsewhere"));
  EXPECT_EQ(loadCheckpoint(trainer, directory, 7), 1);
}

/// Where a file system cannot exchange names, a kill may leave the checkpoint
/// that was replaced under another name only.
TEST_F(CheckpointTest, KilledWhileOneIsReplaced) {
  saveCheckpoint(trainer, directory, 1, 7);
  std::filesystem::rename(directory + "/step-1", directory + "/step-1.old.tmp");
  std::filesystem::create_directory(directory + "/step-2.gone.tmp");
  FolderLock held(solo(), directory);
  std::vector<std::string> said = removeUnfinished(directory);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_CONTAINS(said[0], "step-1: a run was killed while it replaced");
  EXPECT_EQ(loadCheckpoint(trainer, directory, 7), 1);
  EXPECT_FALSE(std::filesystem::exists(directory + "/step-2.gone.tmp"));
  EXPECT_TRUE(removeUnfinished(directory).empty());
}

TEST_F(CheckpointTest, SaysWhatOfTheScheduleChanged) {
  saveCheckpoint(trainer, directory, 1, 7);
  EXPECT_TRUE(resumeCheckpoint(trainer, directory, 7).warnings.empty());
  Trainer::Settings settings = Trainer::defaults(program.info);
  settings.optimizer.lr = 0.25, settings.optimizer.totalSteps = 80;
  Trainer other(program.info, settings, solo());
  std::vector<std::string> said =
      resumeCheckpoint(other, directory, 7).warnings;
  ASSERT_EQ(said.size(), 1u);
  EXPECT_CONTAINS(said[0], "lr 0.05 -> 0.25, steps 40 -> 80");
  settings = Trainer::defaults(program.info);
  settings.optimizer.totalSteps = 0; // only to write at the end
  Trainer none(program.info, settings, solo());
  EXPECT_TRUE(resumeCheckpoint(none, directory, 7).warnings.empty());
  settings = Trainer::defaults(program.info);
  settings.optimizer.kind = OptimizerKind::SGD;
  Trainer sgd(program.info, settings, solo());
  EXPECT_ERROR(resumeCheckpoint(sgd, directory, 7),
               "made with the optimizer \"adamw\", this program has \"sgd\"");
}

/// They begin with the values, and are state as moments are.
TEST_F(CheckpointTest, Averages) {
  saveCheckpoint(trainer, directory, 1, 7);
  Trainer::Settings settings = Trainer::defaults(program.info);
  settings.optimizer.averageDecay = 0.5;
  Trainer averaging(program.info, settings, solo());
  EXPECT_ERROR(resumeCheckpoint(averaging, directory, 7),
               "made with another recipe: it has no averages (ema)");
  averaging.initializeParameters(folder / "weights.safetensors");
  auto *p = reinterpret_cast<float *>(averaging.regions().at(0).parameters);
  float *average = averaging.regions().at(0).average;
  ASSERT_NE(average, nullptr);
  EXPECT_EQ(std::vector<float>(average, average + 6),
            std::vector<float>(p, p + 6));
  average[3] = 42;
  saveCheckpoint(averaging, directory, 2, 7);
  average[3] = 0;
  EXPECT_TRUE(resumeCheckpoint(averaging, directory, 7).warnings.empty());
  EXPECT_EQ(average[3], 42);
  std::vector<std::string> said =
      resumeCheckpoint(trainer, directory, 7).warnings;
  ASSERT_EQ(said.size(), 1u);
  EXPECT_CONTAINS(said[0], "ema 0.5 -> none");
}

TEST_F(CheckpointTest, ANoteNestedWithoutEnd) {
  std::string note = "{\"a\":" + std::string(200000, '[') + "1" +
                     std::string(200000, ']') + "}";
  SafetensorsWriter writer;
  float zero = 0;
  writer.add("a", DType::F32, {1}, &zero);
  writer.note("pieces", "{\"a\":{\"tensor\":\"a\",\"whole\":[1],\"padded\":[1],"
                        "\"flat\":[0,1],\"cuts\":[" +
                            note + "]}}");
  writer.write(folder / "deep.safetensors");
  EXPECT_ERROR(PieceReader({folder / "deep.safetensors"}),
               "its note \"pieces\" is not JSON");
}

} // namespace

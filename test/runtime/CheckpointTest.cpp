//===- CheckpointTest.cpp - whole or not at all ---------------------*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Checkpoint.h"
#include "test/runtime/SmallProgram.h"

#include <gtest/gtest.h>

using namespace dt::rt;
using namespace small;

namespace {

class CheckpointTest : public testing::Test {
protected:
  CheckpointTest()
      : trainer(program.info, Trainer::defaults(program.info)),
        directory(folder / "c") {
    writeFolder(folder);
    trainer.initializeParameters(folder / "weights.safetensors");
  }
  TemporaryFolder folder;
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
  auto *p = reinterpret_cast<float *>(trainer.parameterData());
  std::vector<float> before(p, p + kParameterBytes / 4);
  trainer.moment(1)[3] = 42;
  saveCheckpoint(trainer, directory, 1, 0);
  std::fill_n(p, kParameterBytes / 4, 0.f);
  trainer.moment(1)[3] = 0;
  loadCheckpoint(trainer, directory, 0);
  EXPECT_EQ(std::vector<float>(p, p + 6),
            std::vector<float>(before.begin(), before.begin() + 6));
  EXPECT_EQ(trainer.moment(1)[3], 42);
  SafetensorsFile weights(
      directory +
      "/step-1/weights.safetensors"); // usable as initial weights too
  EXPECT_NE(weights.find("head.frozen"), nullptr);
}

TEST_F(CheckpointTest, RefusesWhatDoesNotBelong) {
  saveCheckpoint(trainer, directory, 1, 7);
  EXPECT_ERROR(loadCheckpoint(trainer, directory, 8), "another data set");
  SmallProgram other(2);
  Trainer cut(other.info, Trainer::defaults(other.info));
  EXPECT_ERROR(loadCheckpoint(cut, directory, 7), "another program");
  Trainer::Settings settings = Trainer::defaults(program.info);
  settings.seed = 99;
  Trainer seeded(program.info, settings);
  EXPECT_ERROR(loadCheckpoint(seeded, directory, 7), "another seed");
}

TEST_F(CheckpointTest, FindsDamage) {
  saveCheckpoint(trainer, directory, 1, 7);
  std::string file = directory + "/step-1/weights.safetensors",
              content = readFile(file);
  content.back() ^= 1;
  writeFile(file, content);
  EXPECT_ERROR(loadCheckpoint(trainer, directory, 7),
               "weights.safetensors: damaged");
  writeFile(file, content.substr(0, 40));
  EXPECT_ERROR(loadCheckpoint(trainer, directory, 7), "weights.safetensors");
  writeFile(directory + "/step-1/index.json", "{}");
  EXPECT_ERROR(loadCheckpoint(trainer, directory, 7),
               "not the index of a checkpoint");
}

} // namespace

//===- CheckpointTest.cpp - whole or not at all -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Checkpoint.h"
#include "runtime/Pieces.h"
#include "test/runtime/SmallProgram.h"

#include <gtest/gtest.h>

using namespace dt::rt;
using namespace small;

namespace {

class CheckpointTest : public testing::Test {
protected:
  CheckpointTest()
      : trainer(program.info, Trainer::defaults(program.info), solo()),
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
  auto *p = reinterpret_cast<float *>(trainer.regions().at(0).parameters);
  std::vector<float> before(p, p + 6);
  float *moments = trainer.regions().at(0).moments[1];
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

TEST_F(CheckpointTest, RefusesWhatDoesNotBelong) {
  saveCheckpoint(trainer, directory, 1, 7);
  EXPECT_ERROR(loadCheckpoint(trainer, directory, 8), "another data set");
  SmallProgram other(2);
  other.parameters[1].tensor.name = "head.other";
  Trainer renamed(other.info, Trainer::defaults(other.info), solo());
  EXPECT_ERROR(loadCheckpoint(renamed, directory, 7),
               "tensor 'head.other' is missing");
  Trainer::Settings settings = Trainer::defaults(program.info);
  settings.seed = 99;
  Trainer seeded(program.info, settings, solo());
  EXPECT_ERROR(loadCheckpoint(seeded, directory, 7), "another seed");
}

TEST_F(CheckpointTest, FindsDamage) {
  saveCheckpoint(trainer, directory, 1, 7);
  std::string file = directory + "/step-1/rank-0.safetensors",
              content = readFile(file);
  content.back() ^= 1;
  writeFile(file, content);
  EXPECT_ERROR(loadCheckpoint(trainer, directory, 7),
               "rank-0.safetensors: damaged");
  writeFile(file, content.substr(0, 40));
  EXPECT_ERROR(loadCheckpoint(trainer, directory, 7), "rank-0.safetensors");
  // A note of the part that is nested without end.
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
  writeFile(directory + "/step-1/index.json", "{}");
  EXPECT_ERROR(loadCheckpoint(trainer, directory, 7),
               "not the index of a checkpoint");
}

} // namespace

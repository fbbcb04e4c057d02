//===- ValidationTest.cpp - other data, the best, what is kept --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/CheckpointFolder.h"
#include "runtime/train/Train.h"
#include "test/runtime/SmallProgram.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace dt::rt;
using namespace small;

namespace {

using Names = std::vector<std::string>;

class ValidationTest : public testing::Test {
protected:
  ValidationTest() {
    options.batch = {folder / "batch"}, options.metrics = folder / "metrics";
  }

  /// Losses of the steps.
  std::vector<double> train(int64_t steps) {
    options.steps = steps;
    std::vector<double> losses;
    TrainHooks hooks;
    hooks.afterStep = [&](Trainer &, const StepReport &report) {
      losses.push_back(report.result->loss);
    };
    runTraining(program.info, folder.path, options, solo(), hooks);
    return losses;
  }
  /// By step, of the metrics.
  std::map<int64_t, double> validated() const {
    std::map<int64_t, double> found;
    for (const nlohmann::json &row : readRows(options.metrics))
      if (row.contains("validation_loss")) {
        EXPECT_EQ(row["validation_loss"], row["validation_loss.square"]);
        found[row["step"]] = row["validation_loss"];
      }
    return found;
  }
  Names checkpoints() const {
    Names names;
    for (auto &entry : std::filesystem::directory_iterator(options.checkpoint))
      if (entry.path().filename() != "lock")
        names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string best() const {
    return std::filesystem::read_symlink(options.checkpoint + "/best");
  }
  /// The batch with other targets: a model that learns gets worse at these.
  void writeOther(const std::string &name) {
    SafetensorsFile given(folder / "batch");
    SafetensorsWriter writer;
    std::vector<float> target = randoms(kSamples, 99);
    for (auto &[key, view] : given.tensors())
      writer.add(key, view.type, view.shape,
                 key == "in.target" ? (const void *)target.data() : view.data);
    writer.write(folder / name);
  }

  ProgramFolder folder;
  SmallProgram program{2};
  Options options;
};

/// On the training's own batch the loss after k steps is that of step k.
TEST_F(ValidationTest, IsTheLossOfTheNextStep) {
  std::vector<double> straight = train(8);
  options.validate = folder / "batch", options.validateEvery = 3;
  std::vector<double> losses = train(7);
  EXPECT_EQ(losses, std::vector<double>(straight.begin(), straight.begin() + 7))
      << "validation leaves its mark on the training";
  EXPECT_EQ(validated(),
            (std::map<int64_t, double>{
                {3, straight[3]}, {6, straight[6]}, {7, straight[7]}}));
}

TEST_F(ValidationTest, KeepsTheBest) {
  writeOther("other");
  options.validate = folder / "other", options.validateEvery = 1;
  options.checkpoint = folder / "c", options.keep = 1;
  train(30);
  std::map<int64_t, double> losses = validated();
  ASSERT_EQ(losses.size(), 30u);
  auto least =
      std::min_element(losses.begin(), losses.end(),
                       [](auto &a, auto &b) { return a.second < b.second; });
  ASSERT_LT(least->first, 30) << "the test's data teach nothing wrong";
  std::string name = "step-" + std::to_string(least->first);
  EXPECT_EQ(checkpoints(), (Names{"best", name, "step-30"}));
  EXPECT_EQ(best(), name);
  EXPECT_EQ(readCheckpointIndex(folder / "c/best", -1).validation["loss"],
            least->second);
  // The best is known after a resume: nothing worse takes its place.
  options.resume = true;
  train(32);
  EXPECT_EQ(best(), name);
  EXPECT_EQ(checkpoints(), (Names{"best", name, "step-30", "step-32"}));
  // Going on from it leaves behind what came after it.
  options.best = true;
  std::vector<double> again = train(least->first + 1);
  EXPECT_EQ(again.size(), 1u);
  EXPECT_EQ(best(), name);
  EXPECT_EQ(checkpoints(),
            (Names{"best", name, "step-" + std::to_string(least->first + 1)}));
}

/// Losses of other data are not compared with.
TEST_F(ValidationTest, TheBestIsOfItsData) {
  options.validate = folder / "batch", options.validateEvery = 2;
  options.checkpoint = folder / "c";
  train(8);
  EXPECT_EQ(best(), "step-8");
  writeOther("other");
  options.validate = folder / "other", options.resume = true;
  train(10);
  EXPECT_EQ(best(), "step-10");
}

TEST_F(ValidationTest, NoBestToResumeFrom) {
  options.checkpoint = folder / "c";
  train(2);
  options.resume = options.best = true;
  EXPECT_ERROR(train(4), "c: no best checkpoint to resume from (--validate");
  std::filesystem::create_directory_symlink("../..", folder / "c/best");
  EXPECT_ERROR(train(4), "c: no best checkpoint to resume from (--validate");
}

TEST_F(ValidationTest, KeepsAsManyAsAskedFor) {
  options.checkpoint = folder / "c", options.saveEvery = 1, options.keep = 3;
  train(5);
  EXPECT_EQ(checkpoints(), (Names{"step-3", "step-4", "step-5"}));
  options.resume = true, options.keep = 1;
  train(8);
  EXPECT_EQ(checkpoints(), (Names{"step-5", "step-8"}))
      << "what the run began from is kept while it runs";
}

/// A batch file is data as shards are.
TEST_F(ValidationTest, NewData) {
  writeOther("other");
  options.checkpoint = folder / "c";
  train(2);
  options.batch = {folder / "other"}, options.resume = true;
  EXPECT_ERROR(train(4), "step-2: the checkpoint was made with another data "
                         "set; --new-data goes on with this one");
  options.newData = true;
  EXPECT_EQ(train(4).size(), 2u);
  options.newData = false;
  EXPECT_EQ(train(5).size(), 1u);
}

TEST_F(ValidationTest, Errors) {
  options.validate = folder / "none";
  EXPECT_ERROR(train(1), "none: not a batch file (safetensors); this program's "
                         "recipe has no \"data\"");
  writeFile(folder / "text", "no batch, and no shard");
  options.validate = folder / "text";
  EXPECT_ERROR(train(1), "text: not a batch file");
}

} // namespace

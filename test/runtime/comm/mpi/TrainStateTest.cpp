//===- TrainStateTest.cpp - what a run on several ranks goes on from ------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Checkpoints under any plan, a step back to one, and other weights.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/comm/mpi/SmallTraining.h"

#include "runtime/save/Checkpoint.h"
#include "runtime/state/Pieces.h"

using namespace dt::rt;
using namespace small;

namespace {

TEST(RanksTrain, ResumesUnderAnyPlan) {
  SharedFolder folder(writeFolder);
  std::vector<double> wanted = reference(8);
  std::vector<SmallPlan> all = plans();
  ASSERT_FALSE(all.empty()) << "no plan for this number of ranks";
  for (size_t i = 0; i < all.size(); ++i) {
    Options options = steps(8);
    std::vector<double> straight = train(all[i], folder, options);
    // The schedule's length is --steps, so the first half runs with it too.
    options.checkpoint = folder / ("c" + nameOf(all[i]));
    options.saveEvery = 4;
    train(all[i], folder, options);
    if (ranks().rank() == 0)
      std::filesystem::remove_all(options.checkpoint + "/step-8");
    ranks().world().barrier();
    options.resume = true;
    std::vector<double> rest = train(all[i], folder, options);
    EXPECT_EQ(rest, std::vector<double>(straight.begin() + 4, straight.end()))
        << nameOf(all[i]);
    if (ranks().rank() == 0)
      std::filesystem::remove_all(options.checkpoint + "/step-8");
    ranks().world().barrier();
    rest = train(all[(i + 1) % all.size()], folder, options);
    expectLosses(rest, wanted, nameOf(all[i]), 4);
  }
}

/// What one rank's memory has lost after the third step all ranks take from the
/// checkpoint of the second.
TEST(RanksTrain, GoesBack) {
  SharedFolder folder(writeFolder);
  for (const SmallPlan &plan : plans()) {
    SmallProgram program(2, plan);
    Options options = steps(6);
    options.batch = {folder / "batch"}, options.logEvery = 1e9;
    options.saveEvery = 2, options.onNaN = OnNaN::Back;
    std::vector<std::pair<int64_t, double>> runs[2];
    for (bool breaks : {false, true}) {
      options.checkpoint = folder / (nameOf(plan) + (breaks ? "b" : "a"));
      bool broken = !breaks;
      TrainHooks hooks;
      hooks.afterStep = [&](Trainer &trainer, const StepReport &report) {
        runs[breaks].push_back({report.step, report.result->loss});
        if (broken || report.step != 3)
          return;
        broken = true;
        if (std::byte *u = trainer.regions().at(1).parameters;
            u && trainer.placement().at(1).replica == 0)
          *reinterpret_cast<float *>(u) = NAN;
      };
      runTraining(program.info, folder.path, options, ranks(), hooks);
    }
    auto wanted = runs[0];
    wanted.insert(wanted.begin() + 3, runs[0][2]);
    EXPECT_EQ(runs[1], wanted) << nameOf(plan);
  }
}

/// Weights of a file by plain names, and of a checkpoint of another plan; not
/// its step, nor its optimizer's state.
TEST(RanksTrain, BeginsWithOtherWeights) {
  SharedFolder folder(writeFolder);
  Given given;
  given.values = randoms(10, 21);
  if (ranks().rank() == 0) {
    SafetensorsWriter writer;
    writer.add("w", DType::F32, {2, 3}, given.values.data());
    writer.add("u", DType::F32, {2}, given.values.data() + 6);
    writer.add("v", DType::F32, {2}, given.values.data() + 8);
    writer.write(folder / "model.safetensors");
  }
  ranks().world().barrier();
  std::vector<double> wanted = reference(6, given);
  std::vector<SmallPlan> all = plans();
  for (size_t i = 0; i < all.size(); ++i) {
    Options options = steps(6);
    options.initFrom = {folder / "model.safetensors"};
    options.initPartial = true;
    options.checkpoint = folder / ("i" + nameOf(all[i]));
    expectLosses(train(all[i], folder, options), wanted, nameOf(all[i]));
    // From what that run has left: the first loss is that of its next step.
    Options more = steps(1);
    more.initFrom = {options.checkpoint};
    double next = reference(7, given).back();
    std::vector<double> first = train(all[(i + 1) % all.size()], folder, more);
    ASSERT_EQ(first.size(), 1u);
    EXPECT_NEAR(first[0], next, lossLimit(next, 7)) << nameOf(all[i]);
  }
}

/// Loaded under another plan and saved again: the same bits.
TEST(RanksTrain, ConversionKeepsBits) {
  SharedFolder folder(writeFolder);
  std::vector<SmallPlan> all = plans();
  ASSERT_FALSE(all.empty()) << "no plan for this number of ranks";
  Options options = steps(3);
  options.checkpoint = folder / "a";
  train(all[0], folder, options);
  for (const SmallPlan &plan : all) {
    SmallProgram program(2, plan);
    Trainer trainer(program.info, Trainer::defaults(program.info), ranks());
    EXPECT_EQ(loadCheckpoint(trainer, options.checkpoint, 0), 3);
    std::string other = folder / ("b" + nameOf(plan));
    saveCheckpoint(trainer, other, 3, 0);
    auto files = [](const std::string &directory) {
      std::vector<std::string> list;
      for (int r = 0; r < ranks().size(); ++r)
        list.push_back(directory + "/step-3/rank-" + std::to_string(r) +
                       ".safetensors");
      return list;
    };
    PieceReader before(files(options.checkpoint)), after(files(other));
    EXPECT_EQ(before.names(), after.names());
    EXPECT_EQ(before.names().size(), 4u + 2 * 3);
    for (const std::string &name : before.names()) {
      std::vector<int64_t> shape = before.shapeOf(name);
      EXPECT_EQ(before.whole(name, DType::F32, shape),
                after.whole(name, DType::F32, shape))
          << nameOf(plan) << " " << name;
    }
    ranks().world().barrier();
  }
}

} // namespace

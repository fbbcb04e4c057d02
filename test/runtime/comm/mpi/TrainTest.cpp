//===- TrainTest.cpp - the hand-written program on several ranks ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Towers and heads with any number of replicas and pieces, heads cut over two
// ranks, ZeRO: all against a few lines of plain arithmetic.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/comm/mpi/SmallTraining.h"

#include "runtime/step/Evaluation.h"

#include <memory>

using namespace dt::rt;
using namespace small;

namespace {

TEST(RanksTrain, LossesAreThoseOfOneProcess) {
  SharedFolder folder(writeFolder);
  std::vector<double> wanted = reference(8);
  for (const SmallPlan &plan : plans())
    for (int64_t micro : {1, 4}) {
      expectLosses(train(plan, folder, steps(8), micro), wanted,
                   nameOf(plan) + " micro " + std::to_string(micro));
    }
}

/// One rank has another batch or program, or fails to begin, wherever it
/// stands. What comes first counts: failures, then programs, then data.
TEST(RanksTrain, WhoDiffersAtAStepsStartIsNamed) {
  SharedFolder folder(writeFolder);
  SmallProgram program(2, plans().at(0));
  Trainer trainer(program.info, Trainer::defaults(program.info), ranks());
  trainer.initializeParameters(folder / "weights.safetensors");
  nlohmann::json sections =
      nlohmann::json::parse(readFile(folder / "data.json"));
  auto source =
      openFileBatch(program.info, sections, folder / "batch",
                    viewOf(program.info, ranks().rank()), Reorder::None);
  auto step = [&](bool otherData, bool otherProgram, bool fails) {
    Batch own = source->next(0);
    own.hash += otherData;
    program.info.planHash += otherProgram;
    std::string message = errorOf([&] {
      fails ? trainer.stepFailed("no batch") : void(trainer.step(own, 0));
    });
    program.info.planHash -= otherProgram;
    return message;
  };
  int mine = ranks().rank(), last = ranks().size() - 1;
  for (int rank = 0; rank <= last; ++rank) {
    // Of rank 0 all others differ.
    std::string name = "rank " + std::to_string(std::max(rank, 1));
    EXPECT_EQ(step(mine == rank, false, false),
              name + " has other data than rank 0: the shards it reads differ");
    EXPECT_EQ(step(mine == last, mine == rank, false),
              name + " runs another program than rank 0");
    EXPECT_EQ(step(mine == 1, mine == 1, mine == rank), "no batch");
  }
  EXPECT_EQ(step(false, false, false), "");
}

/// On the training's own batch the loss after k steps is that of step k. What
/// is sent for it is not counted, and nothing of it is left in the training.
TEST(RanksTrain, Validates) {
  SharedFolder folder(writeFolder);
  for (const SmallPlan &plan : plans())
    for (int64_t micro : {1, 4}) {
      Options plain = steps(5), options = plain;
      plain.traffic = folder / ("plain" + nameOf(plan));
      std::vector<double> straight = train(plan, folder, plain, micro);
      options.validate = folder / "batch", options.validateEvery = 2;
      options.metrics = folder / ("v" + nameOf(plan));
      options.traffic = options.metrics + ".traffic";
      options.checkpoint = options.metrics + std::to_string(micro);
      EXPECT_EQ(train(plan, folder, options, micro), straight) << nameOf(plan);
      ranks().world().barrier();
      size_t seen = 0;
      for (const nlohmann::json &row : readRows(options.metrics)) {
        if (!row.contains("validation_loss"))
          continue;
        ++seen;
        size_t step = row["step"];
        double wanted = step < 5 ? straight[step] : reference(6).back();
        EXPECT_NEAR(row["validation_loss"], wanted, lossLimit(wanted, step))
            << nameOf(plan) << " step " << step;
      }
      EXPECT_EQ(seen, 3u);
      EXPECT_EQ(std::filesystem::read_symlink(options.checkpoint + "/best"),
                "step-5");
      nlohmann::json traffic = nlohmann::json::parse(readFile(options.traffic)),
                     wanted = nlohmann::json::parse(readFile(plain.traffic));
      for (const char *kind : {"edges", "collectives"})
        EXPECT_EQ(traffic[kind], wanted[kind]) << nameOf(plan);
      ranks().world().barrier();
    }
}

/// Parameters with rates and decays of their own.
TEST(RanksTrain, Groups) {
  SharedFolder folder(writeFolder);
  Given given;
  for (size_t i = 0; i < 6; ++i)
    given.rules[i] = {true, 0.25, 0.5};
  for (size_t i = 8; i < 10; ++i)
    given.rules[i] = {true, 3, 0};
  std::vector<double> wanted = reference(8, given), plain = reference(8);
  EXPECT_GT(std::fabs(wanted[7] - plain[7]), 100 * lossLimit(plain[7], 7));
  for (const SmallPlan &plan : plans()) {
    expectLosses(train(plan, folder, steps(8), 2, given), wanted, nameOf(plan));
  }
}

/// Dumps, traffic, traces and metrics, each joined from all ranks.
TEST(RanksTrain, Files) {
  SharedFolder folder(writeFolder);
  std::string first;
  for (const SmallPlan &plan : plans()) {
    std::string name = folder / nameOf(plan);
    Options options = steps(2);
    options.saveOutputs = name + ".outputs";
    options.saveGradients = name + ".gradients";
    options.traffic = name + ".traffic", options.trace = name + ".trace";
    options.metrics = name + ".metrics";
    train(plan, folder, options);
    ranks().world().barrier();
    nlohmann::json traffic = nlohmann::json::parse(readFile(options.traffic));
    for (auto &edge : traffic["edges"]) {
      EXPECT_EQ(edge["bytes"], edge["expected"]) << nameOf(plan);
      // 7 images of 2 floats in each of 2 steps.
      EXPECT_EQ(edge["bytes"], 2 * 7 * 8);
    }
    nlohmann::json trace = nlohmann::json::parse(readFile(options.trace));
    EXPECT_GT(trace["traceEvents"].size(), size_t(4 * ranks().size()));
    if (first.empty())
      first = name;
    for (const char *ending : {".outputs", ".gradients"}) {
      SafetensorsFile a(first + ending), b(name + ending);
      ASSERT_EQ(a.tensors().size(), b.tensors().size());
      for (auto &[tensor, view] : a.tensors()) {
        const TensorView &other = b.get(tensor, view.type, view.shape);
        EXPECT_LT(relativeError(floatsOf(view), floatsOf(other)),
                  2 * sumLimit(3 * kImages))
            << nameOf(plan) << " " << tensor;
      }
    }
    EXPECT_FALSE(std::filesystem::exists(name + ".outputs.rank-0"));
    ranks().world().barrier();
  }
}

/// One rank sees all modules as they are after a step that another rank chose.
TEST(RanksTrain, Evaluation) {
  SharedFolder folder(writeFolder);
  std::vector<float> pixels = randoms(3, 11), first;
  for (const SmallPlan &plan : plans()) {
    SmallProgram program(2, plan);
    Options options = steps(3);
    options.batch = {folder / "batch"};
    options.logEvery = 1e9;
    std::unique_ptr<Evaluation> evaluation;
    std::vector<float> embeds(2);
    int64_t asked = -1, step = 0;
    TrainHooks hooks;
    hooks.wants = [&] {
      return ranks().rank() == ranks().size() - 1 && step == 1;
    };
    hooks.beforeTraining = [&](Trainer &trainer) {
      evaluation = std::make_unique<Evaluation>(trainer);
    };
    hooks.afterStep = [&](Trainer &trainer, const StepReport &report) {
      step = report.step;
      if (!report.result->pause)
        return;
      asked = step;
      evaluation->update();
      if (!evaluation->here())
        return;
      int tower = trainer.moduleIndex("tower");
      Part part{
          {1}, {{reinterpret_cast<const std::byte *>(pixels.data()), 12}}, {}};
      evaluation->forward(tower, part);
      std::memcpy(embeds.data(), evaluation->output(tower, 0, part).data(), 8);
    };
    if (plan.tp > 1) {
      EXPECT_ERROR(
          runTraining(program.info, folder.path, options, ranks(), hooks),
          "cut over tp * cp = 2");
      continue;
    }
    runTraining(program.info, folder.path, options, ranks(), hooks);
    EXPECT_EQ(asked, 2) << nameOf(plan);
    if (ranks().rank() != 0)
      continue;
    if (first.empty())
      first = embeds;
    EXPECT_LT(relativeError(embeds, first), lossLimit(1, 2)) << nameOf(plan);
    EXPECT_NE(embeds[0], 0);
  }
}

TEST(RanksTrain, OneErrorForAll) {
  SharedFolder folder(writeFolder);
  SmallProgram program(2, plans()[0]);
  Options options = steps(1);
  options.batch = {folder / "none"};
  EXPECT_ERROR(runTraining(program.info, folder.path, options, ranks()),
               "none: cannot open");
}

} // namespace

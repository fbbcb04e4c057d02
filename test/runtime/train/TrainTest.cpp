//===- TrainTest.cpp - the hand-written program from end to end -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Train.h"
#include "runtime/base/Stop.h"
#include "runtime/step/Evaluation.h"
#include "test/runtime/PlannedMessages.h"
#include "test/runtime/SmallProgram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <thread>
#include <unistd.h>

using namespace dt::rt;
using namespace small;

namespace {

/// Before any thread, as trainMain() does.
const bool held = (holdStopSignals(), true);

struct RunResult {
  std::vector<double> losses;
  std::vector<float> parameters;
};

float *parameters(const Trainer &trainer, int module) {
  return reinterpret_cast<float *>(
      trainer.regions().at(size_t(module)).parameters);
}

RunResult train(const SmallProgram &program, const TemporaryFolder &folder,
                Options options) {
  RunResult run;
  options.batch = {folder / "batch"};
  options.threads = 2;
  TrainHooks hooks;
  hooks.afterStep = [&](Trainer &trainer, const StepReport &report) {
    expectPlanned(trainer);
    run.losses.push_back(report.result->loss);
    run.parameters.clear();
    for (int m = 0; m < 2; ++m) {
      const float *p = parameters(trainer, m);
      run.parameters.insert(run.parameters.end(), p,
                            p + program.modules[size_t(m)].parameterBytes / 4);
    }
  };
  runTraining(program.info, folder.path, options, solo(), hooks);
  return run;
}

Options steps(int64_t n) {
  Options options;
  options.steps = n;
  return options;
}

TEST(Train, LossFallsAndRunsAgreeBitForBit) {
  ProgramFolder folder;
  SmallProgram program(6);
  RunResult a = train(program, folder, steps(40)),
            b = train(program, folder, steps(40));
  EXPECT_LT(a.losses.back(), 0.5 * a.losses.front());
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.parameters, b.parameters);
  EXPECT_FLOAT_EQ(a.parameters[(kTowerParameters + kFrozen) / 4], 0.3f);
}

TEST(Train, MicrobatchesAgree) {
  ProgramFolder folder;
  SmallProgram whole(6), four(4), single(1);
  std::vector<double> wanted = train(whole, folder, steps(30)).losses;
  expectLosses(train(four, folder, steps(30)).losses, wanted);
  expectLosses(train(single, folder, steps(30)).losses, wanted);
}

/// On one rank, by messages to itself.
TEST(Train, PiecesOfMicrobatchesAgree) {
  ProgramFolder folder;
  SmallProgram whole(6);
  std::vector<double> wanted = train(whole, folder, steps(8)).losses;
  for (SmallPlan plan :
       {SmallPlan{0, 0, 1, 0, 2, 2}, SmallPlan{0, 0, 1, 0, 3, 1},
        SmallPlan{0, 0, 1, 0, 1, 2}, SmallPlan{0, 0, 1, 0, 7, 4}})
    for (int64_t micro : {2, 4, 6}) {
      SCOPED_TRACE(testing::Message() << plan.towerSub << " " << plan.headSub
                                      << " micro " << micro);
      SmallProgram program(micro, plan);
      expectLosses(train(program, folder, steps(8)).losses, wanted);
    }
}

TEST(Train, ResumeIsBitIdentical) {
  ProgramFolder folder;
  SmallProgram program(2);
  RunResult straight = train(program, folder, steps(20));
  Options options = steps(12);
  options.checkpoint = folder / "checkpoints", options.saveEvery = 5;
  train(program, folder, options);
  options.steps = 20, options.resume = true;
  RunResult rest = train(program, folder, options);
  ASSERT_EQ(rest.losses.size(), 8u);
  EXPECT_EQ(rest.losses.back(), straight.losses.back());
  EXPECT_EQ(rest.parameters, straight.parameters);
}

TEST(Train, InterruptSavesAndEnds) {
  ASSERT_TRUE(held);
  ProgramFolder folder;
  SmallProgram program(6);
  Options options = steps(1000);
  options.batch = {folder / "batch"},
  options.checkpoint = folder / "checkpoints";
  TrainHooks hooks;
  hooks.afterStep = [](Trainer &, const StepReport &report) {
    if (report.step == 3)
      ::kill(::getpid(), SIGTERM);
    while (report.step == 3 && !isStopRequested())
      std::this_thread::yield();
  };
  EXPECT_EQ(runTraining(program.info, folder.path, options, solo(), hooks), 3);
  clearStopRequest();
  EXPECT_TRUE(
      std::filesystem::exists(folder / "checkpoints/step-3/index.json"));
}

/// What is to be written is looked at before the first step.
TEST(Train, TargetsAreCheckedFirst) {
  ProgramFolder folder;
  writeFile(folder / "file", "kept");
  SmallProgram program(6);
  auto said = [&](auto set) {
    Options options = steps(1);
    set(options);
    return errorOf([&] {
      RunResult run = train(program, folder, options);
      EXPECT_TRUE(run.losses.empty());
    });
  };
  std::string Options::*const files[] = {
      &Options::metrics,       &Options::trace,  &Options::saveOutputs,
      &Options::saveGradients, &Options::report, &Options::traffic};
  for (auto member : files) {
    EXPECT_CONTAINS(said([&](Options &o) { o.*member = folder.path; }),
                    folder.path + ": is a folder, expected a file");
    EXPECT_CONTAINS(said([&](Options &o) { o.*member = folder / "none/f"; }),
                    "No such file or directory");
    EXPECT_CONTAINS(said([&](Options &o) { o.*member = folder / "file/f"; }),
                    "file is no folder");
  }
  for (auto member : {&Options::checkpoint, &Options::exportTo}) {
    EXPECT_CONTAINS(said([&](Options &o) { o.*member = folder / "file"; }),
                    folder / "file: ");
    EXPECT_CONTAINS(said([&](Options &o) { o.*member = folder / "file/f"; }),
                    "cannot create");
  }
  EXPECT_CONTAINS(said([&](Options &o) {
                    o.metrics = folder / "same", o.trace = folder / "x/../same";
                  }),
                  "--trace and --metrics name the same file");
  EXPECT_EQ(readFile(folder / "file"), "kept");
  EXPECT_FALSE(std::filesystem::exists(folder / "same"));
}

/// The history stays, but for steps that are done again.
TEST(Train, ResumedMetricsGoOn) {
  ProgramFolder folder;
  SmallProgram program(6);
  Options options = steps(4);
  options.checkpoint = folder / "c", options.metrics = folder / "m";
  train(program, folder, options);
  std::string before = readFile(options.metrics);
  writeFile(options.metrics, before + R"({"step": 5})" + "\n" + R"({"st)");
  options.steps = 6, options.resume = true;
  train(program, folder, options);
  std::string after = readFile(options.metrics);
  EXPECT_EQ(after.substr(0, before.size()), before);
  EXPECT_EQ(std::count(after.begin(), after.end(), '\n'), 6);
  EXPECT_FALSE(std::filesystem::exists(options.metrics + ".tmp"));
}

/// A loss that is no number ends the run; nothing of it is saved or exported.
TEST(Train, EndsWhereALossIsNoNumber) {
  ProgramFolder folder;
  SmallProgram program(6);
  for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity()}) {
    Options options = steps(10);
    options.batch = {folder / "batch"}, options.saveEvery = 2;
    options.checkpoint = folder / (std::isnan(bad) ? "a" : "b");
    TrainHooks hooks;
    hooks.afterStep = [&](Trainer &trainer, const StepReport &report) {
      if (report.step == 5)
        parameters(trainer, 1)[0] = bad;
    };
    std::string said = errorOf([&] {
      runTraining(program.info, folder.path, options, solo(), hooks);
    });
    EXPECT_BEGINS(said, "step 6: loss 'square' is ");
    EXPECT_CONTAINS(said, "; the newest checkpoint is " + options.checkpoint +
                              "/step-4");
    EXPECT_FALSE(std::filesystem::exists(options.checkpoint + "/step-6"));
    EXPECT_TRUE(std::filesystem::exists(options.checkpoint + "/step-2"));
    options.resume = true;
    EXPECT_EQ(runTraining(program.info, folder.path, options, solo()), 10);
  }
}

/// Numbers of a run in which the fifth update is followed by a parameter that
/// is none, for as many times as said.
class OnNaNTest : public testing::Test {
protected:
  OnNaNTest() {
    options = steps(10);
    options.batch = {folder / "batch"}, options.saveEvery = 2;
    options.checkpoint = folder / "c", options.metrics = folder / "m";
  }
  void run(int times) {
    captureErrors();
    float before = 0;
    TrainHooks hooks;
    hooks.afterStep = [&](Trainer &trainer, const StepReport &report) {
      float &value = parameters(trainer, 1)[0];
      if (!report.result->finite())
        value = before;
      else if (report.step == 5 && times-- > 0)
        before = value, value = std::numeric_limits<float>::infinity();
      last = report.result->loss;
    };
    failure = errorOf([&] {
      runTraining(program.info, folder.path, options, solo(), hooks);
    });
    said = capturedErrors();
  }
  /// A field of the lines of metrics; -1 where it is none or null.
  std::vector<double> metric(const char *name) {
    std::vector<double> values;
    for (const nlohmann::json &row : readRows(options.metrics))
      values.push_back(row.contains(name) && row[name].is_number()
                           ? row[name].get<double>()
                           : -1);
    return values;
  }
  ProgramFolder folder;
  SmallProgram program{6};
  Options options;
  double last = 0;
  std::string failure, said;
};

TEST_F(OnNaNTest, Skip) {
  options.onNaN = OnNaN::Skip;
  run(1);
  EXPECT_EQ(failure, "");
  EXPECT_CONTAINS(said, "warning: step 6: loss 'square' is nan; its update is "
                        "left out\n");
  EXPECT_EQ(metric("skipped"),
            (std::vector<double>{-1, -1, -1, -1, -1, 1, 1, 1, 1, 1}));
  EXPECT_TRUE(std::filesystem::exists(options.checkpoint + "/step-10"));
}

TEST_F(OnNaNTest, Back) {
  options.onNaN = OnNaN::Back;
  run(0);
  double wanted = last;
  std::vector<double> losses = metric("loss");
  std::filesystem::remove_all(options.checkpoint);
  run(1);
  EXPECT_EQ(failure, "");
  EXPECT_CONTAINS(said,
                  "warning: step 6: loss 'square' is nan; going back to " +
                      options.checkpoint + "/step-4\n");
  EXPECT_EQ(last, wanted);
  EXPECT_EQ(metric("loss"), losses);
  EXPECT_EQ(metric("step"),
            (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

/// What comes again, and where there is nothing to go back to.
TEST_F(OnNaNTest, BackOnceForEachStep) {
  options.onNaN = OnNaN::Back;
  run(2);
  EXPECT_EQ(failure, "step 6: loss 'square' is nan again; the newest "
                     "checkpoint is " +
                         options.checkpoint + "/step-4");
  std::filesystem::remove_all(options.checkpoint);
  options.saveEvery = 100;
  run(1);
  EXPECT_EQ(failure, "step 6: loss 'square' is nan");
}

/// The newest checkpoint is damaged: the run goes on from the one before, and
/// what it then saves takes the damaged one's place.
TEST(Train, ResumesFromTheNewestGoodCheckpoint) {
  ProgramFolder folder;
  SmallProgram program(6);
  RunResult straight = train(program, folder, steps(8));
  Options options = steps(6);
  options.checkpoint = folder / "c", options.saveEvery = 3;
  train(program, folder, options);
  writeFile(folder / "c/step-6/rank-0.safetensors", "damaged");
  options.steps = 8, options.resume = true;
  RunResult rest = train(program, folder, options);
  EXPECT_EQ(rest.losses.size(), 5u);
  EXPECT_EQ(rest.parameters, straight.parameters);
  std::vector<std::string> names;
  for (auto &entry : std::filesystem::directory_iterator(folder / "c"))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  // What the run began from stays as well.
  EXPECT_EQ(names,
            (std::vector<std::string>{"lock", "step-3", "step-6", "step-8"}));
}

/// Else the earlier run's later steps would pass for the newest of this one.
TEST(Train, ANewRunNeedsAFolderWithoutCheckpoints) {
  ProgramFolder folder;
  SmallProgram program(6);
  Options options = steps(2);
  options.checkpoint = folder / "checkpoints";
  train(program, folder, options);
  EXPECT_ERROR(train(program, folder, options),
               "step-2: a checkpoint of an earlier run");
}

/// Evaluation learns of every step, with times though no file asks for them.
TEST(Train, Hooks) {
  ProgramFolder folder;
  SmallProgram program(2);
  program.modules[0].forward = slowly<towerForward<float>>;
  program.modules[1].forward = slowly<headForward<1>>;
  Options options = steps(3);
  options.batch = {folder / "batch"};
  std::string calls;
  TrainHooks hooks;
  hooks.beforeTraining = [&](Trainer &trainer) {
    calls += "before " + std::to_string(trainer.program().modules.size);
  };
  hooks.afterStep = [&](Trainer &, const StepReport &report) {
    calls += " step " + std::to_string(report.step);
    for (double seconds : *report.moduleSeconds)
      EXPECT_GT(seconds, 0);
  };
  hooks.afterTraining = [&](Trainer &, const StepReport &report) {
    calls += " after " + std::to_string(report.step);
  };
  runTraining(program.info, folder.path, options, solo(), hooks);
  EXPECT_EQ(calls, "before 2 step 1 step 2 step 3 after 3");
}

/// The same numbers whatever the cut, also where items are not in the order of
/// their samples.
TEST(Train, DumpsOfTheFirstStep) {
  ProgramFolder folder;
  auto dump = [&](int64_t micro) {
    SmallProgram program(micro);
    Options options = steps(2);
    std::string name = folder / ("m" + std::to_string(micro));
    options.saveOutputs = name + ".outputs",
    options.saveGradients = name + ".gradients";
    options.metrics = name + ".jsonl", options.trace = name + ".json";
    train(program, folder, options);
    return name;
  };
  std::string a = dump(6), b = dump(2);
  auto compare = [&](const char *kind, const char *name,
                     std::vector<int64_t> shape) {
    SafetensorsFile left(a + kind), right(b + kind);
    EXPECT_LT(relativeError(floatsOf(left.get(name, DType::F32, shape)),
                            floatsOf(right.get(name, DType::F32, shape))),
              sumLimit(3 * kImages))
        << name;
  };
  compare(".outputs", "tower.embeds", {kImages, 2});
  compare(".outputs", "head.prediction", {kSamples});
  compare(".outputs", "loss", {});
  compare(".outputs", "loss.square", {});
  compare(".gradients", "tower.w", {2, 3});
  compare(".gradients", "head.u", {2});
  EXPECT_EQ(SafetensorsFile(a + ".gradients").tensors().size(), 3u);
  nlohmann::json line = readRows(a + ".jsonl")[0];
  EXPECT_EQ(line["step"], 1);
  EXPECT_EQ(line["loss"], line["loss.square"]);
  EXPECT_TRUE(line["ms"].contains("tower"));
  nlohmann::json trace = nlohmann::json::parse(readFile(b + ".json"));
  size_t events = 0; // a busy machine makes any of them wait
  for (const auto &event : trace["traceEvents"])
    events += event["name"].get<std::string>().rfind("wait for", 0) != 0;
  EXPECT_EQ(events, 1 + 2 * (3 * 7 + 1u));
}

TEST(Train, GradientsMatchFiniteDifferences) {
  ProgramFolder folder;
  SmallProgram program(2);
  nlohmann::json sections =
      nlohmann::json::parse(readFile(folder / "data.json"));
  auto source = openFileBatch(program.info, sections, folder / "batch",
                              viewOf(program.info, 0), Reorder::None);
  auto lossWith = [&](float delta) {
    Trainer trainer(program.info, Trainer::defaults(program.info), solo());
    trainer.initializeParameters(folder / "weights.safetensors");
    parameters(trainer, 0)[1] += delta;
    StepResult result = trainer.step(source->next(0), 0);
    return std::make_pair(result.loss,
                          trainer.regions().gradients(kParameters[0], 0)[1]);
  };
  double slope = (lossWith(1e-2f).first - lossWith(-1e-2f).first) / 2e-2;
  EXPECT_NEAR(slope, lossWith(0).second, 1e-3 * std::fabs(slope));
}

TEST(Train, ForwardAlone) {
  ProgramFolder folder;
  SmallProgram program(6);
  Trainer trainer(program.info, Trainer::defaults(program.info), solo());
  trainer.initializeParameters(folder / "weights.safetensors");
  float pixels[3] = {1, 2, 3};
  Part part{
      {1}, {{reinterpret_cast<const std::byte *>(pixels), sizeof pixels}}, {}};
  int tower = trainer.moduleIndex("tower");
  Evaluation evaluation(trainer);
  evaluation.update();
  evaluation.forward(tower, part);
  float embeds[2];
  std::memcpy(embeds, evaluation.output(tower, 0, part).data(), sizeof embeds);
  const float *w = parameters(trainer, 0);
  EXPECT_FLOAT_EQ(embeds[1], w[3] + 2 * w[4] + 3 * w[5]);
  part.dims[0] = kImages + 1;
  EXPECT_ERROR(evaluation.forward(tower, part),
               "dim 'images' is 8, at most 7 fit");
  EXPECT_ERROR(trainer.moduleIndex("tow"), "module 'tow'");
}

TEST(Train, Errors) {
  ProgramFolder folder;
  SmallProgram program(6);
  EXPECT_ERROR(runTraining(program.info, folder.path, steps(1), solo()),
               "give --data or --batch");
  EXPECT_ERROR(runTraining(program.info, folder / "nowhere", steps(1), solo()),
               "data.json: cannot open");
  Options options = steps(1);
  options.batch = {folder / "batch"}, options.checkpoint = folder / "none",
  options.resume = true;
  EXPECT_ERROR(runTraining(program.info, folder.path, options, solo()),
               "no checkpoint to resume from");
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
  // Nor does a folder that was there change.
  std::filesystem::create_directory(folder / "none");
  for (bool best : {false, true}) {
    options.best = best;
    EXPECT_ERROR(runTraining(program.info, folder.path, options, solo()),
                 "no checkpoint to resume from");
    EXPECT_TRUE(std::filesystem::is_empty(folder / "none"));
  }
}

TEST(Train, WithoutArgumentsItSaysWhatItNeeds) {
  TemporaryFolder folder;
  SmallProgram program(6);
  char name[] = "train", *argv[] = {name, nullptr};
  captureErrors();
  EXPECT_EQ(trainMain(program.info, folder.path.c_str(), 1, argv), 1);
  std::string said = capturedErrors();
  EXPECT_EQ(said, "error: nothing to do: give --data or --batch, and --steps "
                  "unless the recipe says how many (train --help lists the "
                  "flags)\n");
  char flag[] = "--step", *wrong[] = {name, flag, nullptr};
  captureErrors();
  EXPECT_EQ(trainMain(program.info, folder.path.c_str(), 2, wrong), 1);
  EXPECT_EQ(capturedErrors(),
            "error: unknown flag '--step' (--help lists them); did you mean "
            "'--steps'?\n");
}

TEST(Train, HelpThatCannotBeReadIsAnError) {
  TemporaryFolder folder;
  SmallProgram program(6);
  char name[] = "train", help[] = "--help", *argv[] = {name, help, nullptr};
  auto ask = [&] {
    if (!std::freopen("/dev/full", "w", stdout))
      std::_Exit(2);
    std::_Exit(trainMain(program.info, folder.path.c_str(), 2, argv));
  };
  EXPECT_EXIT(ask(), testing::ExitedWithCode(1),
              "^error: standard output: No space left on device\n$");
}

} // namespace

//===- TrainTest.cpp - the hand-written program on several ranks ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Towers and heads with any number of replicas and pieces, heads cut over two
// ranks, ZeRO: all against a few lines of plain arithmetic.
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Train.h"
#include "runtime/save/Checkpoint.h"
#include "runtime/state/Init.h"
#include "runtime/state/Pieces.h"
#include "runtime/step/Evaluation.h"
#include "runtime/step/Optimizer.h"
#include "test/runtime/PlannedMessages.h"
#include "test/runtime/SmallProgram.h"
#include "test/runtime/comm/mpi/Ranks.h"

#include <cmath>
#include <memory>

using namespace dt::rt;
using namespace small;

namespace {

std::vector<SmallPlan> plans() {
  std::vector<SmallPlan> fit;
  for (int32_t zero : {0, 1})
    for (SmallPlan plan :
         {SmallPlan{2, 1, 2}, SmallPlan{3, 1}, SmallPlan{1, 3}, SmallPlan{2, 2},
          SmallPlan{1, 2}, SmallPlan{2, 1}, SmallPlan{1, 1, 2}, SmallPlan{1, 1},
          SmallPlan{1, 1, 1, 0, 2, 3}, SmallPlan{2, 1, 1, 0, 3, 2},
          SmallPlan{1, 1, 2, 0, 1, 2}, SmallPlan{1, 2, 1, 0, 2, 1},
          SmallPlan{2, 1, 2, 0, 2, 2}})
      if (plan.zero = zero; plan.ranks() == ranks().size())
        fit.push_back(plan);
  return fit;
}

/// Of tower.w's six elements, then head.u's and head.v's two.
struct Given {
  std::vector<float> values; ///< at the beginning; empty: the program's
  std::vector<UpdateRule> rules = std::vector<UpdateRule>(10, UpdateRule{true});
};

/// The same model in double.
std::vector<double> reference(int steps, const Given &given = {}) {
  std::vector<float> x = randoms(kImages * 3, 11),
                     f = randoms(kSamples * 2, 12), t = randoms(kSamples, 13),
                     w(6);
  initialize(w.data(), {2, 3}, "normal(0,0.5)", "tower.w", 3);
  std::vector<double> p(w.begin(), w.end()), m(10), v(10), losses;
  p.insert(p.end(), {1, 1, double(0.3f), double(-0.2f)});
  if (!given.values.empty())
    p.assign(given.values.begin(), given.values.end());
  for (int step = 0; step < steps; ++step) {
    std::vector<double> y(kSamples), g(10), e(kImages * 2);
    for (int64_t s = 0; s < kSamples; ++s)
      y[size_t(s)] = f[size_t(s) * 2] * p[8] + f[size_t(s) * 2 + 1] * p[9];
    for (size_t i = 0; i < size_t(kImages); ++i)
      for (size_t o = 0; o < 2; ++o) {
        for (size_t k = 0; k < 3; ++k)
          e[i * 2 + o] += x[i * 3 + k] * p[o * 3 + k];
        y[size_t(kOwners[i])] += e[i * 2 + o] * p[6 + o];
      }
    double loss = 0, norm = 0;
    std::vector<double> d(kSamples);
    for (size_t s = 0; s < size_t(kSamples); ++s) {
      d[s] = 2 * (y[s] - t[s]) / kSamples;
      loss += (y[s] - t[s]) * (y[s] - t[s]) / kSamples;
      g[8] += d[s] * f[s * 2], g[9] += d[s] * f[s * 2 + 1];
    }
    for (size_t i = 0; i < size_t(kImages); ++i)
      for (size_t o = 0; o < 2; ++o) {
        double up = d[size_t(kOwners[i])];
        g[6 + o] += up * e[i * 2 + o];
        for (size_t k = 0; k < 3; ++k)
          g[o * 3 + k] += up * p[6 + o] * x[i * 3 + k];
      }
    losses.push_back(loss);
    for (double value : g)
      norm += value * value;
    double scale = std::min(1.0, 1.0 / (std::sqrt(norm) + 1e-6));
    double lr = learningRate(kOptimizer, step, steps);
    for (size_t i = 0; i < 10; ++i) {
      m[i] += (g[i] * scale - m[i]) * 0.1;
      v[i] = 0.999 * v[i] + 0.001 * g[i] * scale * g[i] * scale;
      const UpdateRule &rule = given.rules[i];
      double decay = rule.weightDecay < 0 ? 0.01 : rule.weightDecay,
             rate = lr * rule.lrFactor;
      p[i] *= 1 - (i == 6 || i == 7 ? 0 : rate * decay);
      p[i] -= rate / (1 - std::pow(0.9, step + 1)) * m[i] /
              (std::sqrt(v[i] / (1 - std::pow(0.999, step + 1))) + 1e-8);
    }
  }
  return losses;
}

std::vector<double> train(const SmallPlan &plan, const SharedFolder &folder,
                          Options options, int64_t micro = 2,
                          const Given &given = {}) {
  SmallProgram program(micro, plan);
  for (size_t i = 0; i < 3; ++i) { // a parameter's first element speaks for it
    const UpdateRule &rule = given.rules[i == 0 ? 0 : 4 + 2 * i];
    program.parameters[i].lrFactor = rule.lrFactor;
    program.parameters[i].weightDecay = rule.weightDecay;
  }
  std::vector<double> losses;
  options.batch = {folder / "batch"};
  options.logEvery = 1e9;
  TrainHooks hooks;
  hooks.afterStep = [&](Trainer &trainer, const StepReport &report) {
    expectPlanned(trainer);
    losses.push_back(report.result->loss);
  };
  runTraining(program.info, folder.path, options, ranks(), hooks);
  return losses;
}

Options steps(int64_t n) {
  Options options;
  options.steps = n;
  return options;
}

std::string nameOf(const SmallPlan &plan) {
  return std::to_string(plan.towers) + "-" + std::to_string(plan.heads) + "x" +
         std::to_string(plan.tp) + "-" + std::to_string(plan.zero) + "-" +
         std::to_string(plan.towerSub) + std::to_string(plan.headSub);
}

TEST(RanksTrain, LossesAreThoseOfOneProcess) {
  SharedFolder folder(writeFolder);
  std::vector<double> wanted = reference(8);
  for (const SmallPlan &plan : plans())
    for (int64_t micro : {1, 4}) {
      expectLosses(train(plan, folder, steps(8), micro), wanted,
                   nameOf(plan) + " micro " + std::to_string(micro));
    }
}

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

/// Embeddings and their gradients in bf16: half of the bytes, losses that are
/// near. Where the head is cut, ranks sum them in bf16 too.
TEST(RanksTrain, NarrowMessages) {
  SharedFolder folder(writeFolder);
  std::vector<double> wanted = reference(6);
  for (SmallPlan plan : plans()) {
    plan.embeds = DType::BF16;
    std::string name = folder / nameOf(plan);
    Options options = steps(6);
    options.saveOutputs = name + ".outputs";
    options.traffic = name + ".traffic";
    std::vector<double> losses = train(plan, folder, options);
    for (size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], wanted[i], 0.03 * wanted[i]) << nameOf(plan);
      EXPECT_NE(losses[i], wanted[i]);
    }
    ranks().world().barrier();
    nlohmann::json traffic = nlohmann::json::parse(readFile(options.traffic));
    for (auto &edge : traffic["edges"]) {
      EXPECT_EQ(edge["bytes"], edge["expected"]) << nameOf(plan);
      EXPECT_EQ(edge["bytes"], 6 * 7 * 4);
    }
    for (auto &entry : traffic["collectives"])
      if (entry["axis"] != "tp") // this program has no table of those
        EXPECT_EQ(entry["bytes"], entry["expected"]) << entry;
    SafetensorsFile outputs(options.saveOutputs);
    const TensorView &embeds =
        outputs.get("tower.embeds", DType::BF16, {kImages, 2});
    std::vector<float> w(6), x = randoms(kImages * 3, 11);
    initialize(w.data(), {2, 3}, "normal(0,0.5)", "tower.w", 3);
    for (size_t i = 0; i < size_t(2 * kImages); ++i) {
      bf16 value;
      std::memcpy(&value, embeds.data + 2 * i, 2);
      double sum = 0;
      for (size_t k = 0; k < 3; ++k)
        sum += x[i / 2 * 3 + k] * w[i % 2 * 3 + k];
      EXPECT_NEAR(value, sum, 0.005 * std::fabs(sum) + 1e-6) << i;
    }
    ranks().world().barrier();
  }
}

/// Sums of the head's gradients that this rank has begun, each time that its
/// backward function says that some are complete and when it returns.
struct Begun {
  static uint64_t sums() {
    auto found = ranks().traffic().find("gradients head");
    return found == ranks().traffic().end() ? 0 : found->second.calls;
  }
  struct Spy final : GradientListener {
    void ready(size_t begin, size_t end) override {
      gradientsReady(inner, begin, end);
      Begun::log.push_back(sums());
    }
    GradientListener *inner = nullptr;
  };
  static void backward(const TaskContext &c) {
    Spy spy;
    spy.inner = c.listener;
    TaskContext watched = c;
    watched.listener = &spy;
    uint64_t before = sums();
    size_t first = log.size();
    headBackward<1>(watched);
    log.push_back(sums());
    for (size_t i = first; i < log.size(); ++i)
      log[i] -= before;
  }
  static std::vector<uint64_t> log;
};
std::vector<uint64_t> Begun::log;

/// Of three microbatches, the last one's backward begins a bucket as soon as it
/// is done with it, before it computes the next one and returns. With ZeRO both
/// parameters are in one bucket.
TEST(RanksTrain, SumsBeginInsideTheLastBackward) {
  SharedFolder folder(writeFolder);
  for (const SmallPlan &plan : plans()) {
    if (plan.tp > 1 || plan.heads < 2)
      continue;
    SmallProgram program(2, plan);
    program.modules[1].backward = Begun::backward;
    Begun::log.clear();
    Options options = steps(1);
    options.batch = {folder / "batch"};
    options.logEvery = 1e9;
    options.trace = folder / (nameOf(plan) + ".sums");
    runTraining(program.info, folder.path, options, ranks(), {});
    // With three replicas blocks need 48 floats; there are 32.
    uint64_t first = plan.zero ? 0 : 1, all = plan.zero ? 1 : 2;
    std::vector<uint64_t> wanted = {0, 0, 0, 0, 0, 0, first, all, all};
    EXPECT_EQ(Begun::log,
              ranks().rank() < plan.towers ? std::vector<uint64_t>() : wanted)
        << nameOf(plan);
    ranks().world().barrier();
    nlohmann::json trace = nlohmann::json::parse(readFile(options.trace));
    std::map<std::string, int64_t> phases;
    for (const auto &event : trace["traceEvents"])
      if (event["name"] == "sum of gradients head")
        ++phases[event["ph"]];
    EXPECT_EQ(phases["b"], int64_t(all) * plan.heads);
    EXPECT_EQ(phases["e"], int64_t(all) * plan.heads);
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
          "cut over tp = 2");
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

//===- OutputsTest.cpp - what --save-outputs joins ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Safetensors.h"
#include "runtime/train/Train.h"
#include "test/runtime/SmallProgram.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

using namespace dt::rt;
using namespace small;

namespace {

// The head's predictions with a row beside those of samples.
constexpr Extent kBatchPlus1[] = {{1, 0, 1}};
constexpr BufferInfo kLonger[] = {
    {{"prediction", DType::F32, 1, kBatchPlus1}, kPrediction, kSlot}};
constexpr Extent kBatchByBatch[] = {{1, 0, 0}, {1, 0, 0}};
constexpr BufferInfo kSquare[] = {
    {{"prediction", DType::F32, 2, kBatchByBatch}, kPrediction, kSlot}};

// The tower's second column is padding.
constexpr int64_t kOneColumn[] = {-1, 1};
// An output that counts no items.
constexpr Extent kOne[] = {{0, -1, 1}};
constexpr BufferInfo kAlone[] = {
    {{"alone", DType::F32, 1, kOne}, kPrediction, kSlot}};

/// The first step's outputs.
std::string save(SmallProgram &program, TemporaryFolder &folder) {
  Options options;
  options.batch = {folder / "batch"};
  options.steps = 1;
  options.threads = 2;
  options.saveOutputs = folder / "outputs";
  runTraining(program.info, folder.path, options, solo(), {});
  return options.saveOutputs;
}

std::vector<float> read(const std::string &path, std::vector<int64_t> shape) {
  SafetensorsFile file(path);
  return floatsOf(file.get("head.prediction", DType::F32, shape));
}

} // namespace

TEST(Outputs, TheOnlyPartIsWrittenAsItIs) {
  ProgramFolder folder;
  SmallProgram program(kSamples), plain(kSamples);
  program.modules[1].outputs = kLonger;
  std::vector<float> longer = read(save(program, folder), {kSamples + 1});
  std::vector<float> samples = read(save(plain, folder), {kSamples});
  ASSERT_EQ(longer.size(), samples.size() + 1);
  longer.pop_back();
  EXPECT_EQ(longer, samples);
}

TEST(Outputs, RowsWithoutAPlaceAreAnError) {
  ProgramFolder folder;
  SmallProgram program(2);
  program.modules[1].outputs = kLonger;
  EXPECT_ERROR(save(program, folder),
               "output 'prediction' of module 'head' cannot be joined from "
               "several parts of the batch: axis 0 has the size 1*batch + 1");
  program.modules[1].outputs = kSquare;
  EXPECT_ERROR(save(program, folder), "two of its axes count items");
}

TEST(Outputs, PaddingIsLeftOut) {
  ProgramFolder folder;
  for (int64_t micro : {int64_t(2), kSamples}) {
    SmallProgram plain(micro), program(micro);
    SafetensorsFile whole(save(plain, folder));
    const TensorView &both =
        whole.get("tower.embeds", DType::F32, {kImages, 2});
    BufferInfo padded[] = {program.modules[0].outputs[0]};
    padded[0].unpadded = kOneColumn;
    program.modules[0].outputs = padded;
    std::vector<float> want = floatsOf(both), first;
    for (size_t i = 0; i < want.size(); i += 2)
      first.push_back(want[i]);
    SafetensorsFile file(save(program, folder));
    EXPECT_EQ(floatsOf(file.get("tower.embeds", DType::F32, {kImages, 1})),
              first);
  }
}

TEST(Outputs, WhatIsLeftOutIsSaid) {
  ProgramFolder folder;
  auto saved = [&](const BufferInfo *output, int64_t micro) {
    SmallProgram program(micro);
    program.modules[1].outputs = {output, 1};
    captureErrors();
    std::string path = save(program, folder);
    SafetensorsFile file(path);
    std::string name = std::string("head.") + output->tensor.name;
    return std::make_pair(file.find(name) != nullptr, capturedErrors());
  };
  auto [there, said] = saved(kAlone, kSamples);
  EXPECT_TRUE(there);
  EXPECT_EQ(said, "");
  std::tie(there, said) = saved(kAlone, 2);
  EXPECT_FALSE(there);
  EXPECT_EQ(said, "warning: --save-outputs leaves out 'head.alone', as the "
                  "batch is in several parts: none of its axes counts "
                  "items\n");
  SmallProgram program(2);
  BufferInfo unjoined = program.modules[1].outputs[0];
  unjoined.unjoined = true;
  std::tie(there, said) = saved(&unjoined, 2);
  EXPECT_FALSE(there);
  EXPECT_EQ(said, "warning: --save-outputs leaves out 'head.prediction', as "
                  "the batch is in several parts: rows of parts put together "
                  "are not those of the whole\n");
}

/// A bound or a number added is one of the whole batch's denominator, not of a
/// part's: six samples one at a time.
TEST(Loss, GuardsOfDenominators) {
  ProgramFolder folder;
  for (int64_t micro : {int64_t(1), kSamples}) {
    auto lossWith = [&](double atLeast, double plus) {
      SmallProgram program(micro);
      LossInfo loss = kLosses[0];
      loss.atLeast = atLeast;
      loss.plus = plus;
      program.info.losses = {&loss, 1};
      nlohmann::json sections =
          nlohmann::json::parse(readFile(folder / "data.json"));
      auto source = openFileBatch(program.info, sections, folder / "batch",
                                  viewOf(program.info, 0), Reorder::None);
      Trainer trainer(program.info, Trainer::defaults(program.info), solo());
      trainer.initializeParameters(folder / "weights.safetensors");
      StepResult result = trainer.step(source->next(0), 0);
      return std::make_pair(result.terms[0],
                            trainer.regions().gradients(kParameters[0], 0)[1]);
    };
    double none = -std::numeric_limits<double>::infinity();
    auto [loss, slope] = lossWith(none, 0);
    struct Guard {
      double atLeast, plus, divided;
    };
    for (Guard g : {Guard{1, 0, 6}, Guard{10, 0, 10}, Guard{none, 2, 8},
                    Guard{10, 0.5, 10.5}}) {
      auto [l, s] = lossWith(g.atLeast, g.plus);
      EXPECT_NEAR(l, loss * 6 / g.divided, 1e-6 * loss);
      EXPECT_NEAR(s, double(slope) * 6 / g.divided, 1e-5 * std::fabs(slope));
    }
  }
}

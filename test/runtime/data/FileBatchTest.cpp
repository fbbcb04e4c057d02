//===- FileBatchTest.cpp - cutting a batch file -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/BatchSource.h"
#include "test/runtime/SmallProgram.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

using namespace dt::rt;
using namespace small;

namespace {

const nlohmann::json kPlan = {
    {"inputs", {{"head.positions", {{"index", {"sample", "token"}}}}}}};

template <typename T> std::vector<T> values(const InputBytes &bytes) {
  std::vector<T> result(bytes.size / sizeof(T));
  if (bytes.size)
    std::memcpy(result.data(), bytes.data, bytes.size);
  return result;
}

/// The batch file with one tensor replaced (or left out: no shape given).
void rewrite(const TemporaryFolder &folder, const std::string &name, DType type,
             std::vector<int64_t> shape, const void *data) {
  SafetensorsFile file(folder / "batch");
  SafetensorsWriter writer;
  for (auto &[other, view] : file.tensors())
    if (other != name)
      writer.add(other, view.type, view.shape, view.data);
  if (data)
    writer.add(name, type, shape, data);
  writer.write(folder / "changed");
}

/// For the only rank, in the given order.
std::unique_ptr<BatchSource> open(const SmallProgram &program,
                                  const nlohmann::json &sections,
                                  const std::string &file) {
  return openFileBatch(program.info, sections, file, viewOf(program.info, 0),
                       Reorder::None);
}

/// Ranks with copies of a file that differ in one number find that out.
TEST(FileBatch, HashIsOfContents) {
  ProgramFolder folder;
  SmallProgram program(2);
  std::vector<float> pixels = randoms(kImages * 3, 11);
  auto hash = [&](float first) {
    pixels[0] = first;
    rewrite(folder, "in.tower.pixels", DType::F32, {kImages, 3}, pixels.data());
    return open(program, kPlan, folder / "changed")->next(0).hash;
  };
  EXPECT_EQ(hash(1), hash(1));
  EXPECT_NE(hash(1), hash(2));
}

TEST(FileBatch, ItemsGoWithTheirSamples) {
  ProgramFolder folder;
  SmallProgram program(2);
  auto source = open(program, kPlan, folder / "batch");
  const Batch &batch = source->next(0);
  ASSERT_EQ(batch.modules.size(), 2u);
  const std::vector<Part> &parts = batch.modules[1];
  ASSERT_EQ(parts.size(), 3u);
  // Owners 0 3 0 2 5 3 5: images 0 and 2 | 1, 3 and 5 | 4 and 6.
  EXPECT_EQ(parts[0].dims, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(parts[1].dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(parts[1].items[0], (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(parts[1].items[1], (std::vector<int64_t>{1, 3, 5}));
  EXPECT_EQ(parts[2].items[1], (std::vector<int64_t>{4, 6}));
  // Rebased by 2 samples of 4 tokens; the padding of image 2 stays.
  EXPECT_EQ(values<int64_t>(parts[0].inputs[2]),
            (std::vector<int64_t>{0, 2, 0, -1}));
  EXPECT_EQ(values<int64_t>(parts[1].inputs[2]),
            (std::vector<int64_t>{5, 6, 1, 2, 5, 6}));
  std::vector<float> pixels = randoms(kImages * 3, 11),
                     first = values<float>(batch.modules[0][1].inputs[0]);
  EXPECT_EQ(first[0], pixels[3]);
  EXPECT_EQ(&source->next(5), &batch);
}

TEST(FileBatch, LastPartMayBeSmall) {
  ProgramFolder folder;
  SmallProgram program(4);
  auto source = open(program, kPlan, folder / "batch");
  const Batch &batch = source->next(0);
  EXPECT_EQ(batch.modules[1][0].dims, (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(batch.modules[1][1].dims, (std::vector<int64_t>{2, 2}));
}

TEST(FileBatch, OwnershipFromItemOf) {
  ProgramFolder folder;
  SmallProgram cut(2), whole(6);
  EXPECT_ERROR(open(cut, nlohmann::json::object(), folder / "batch"),
               "which image belongs to which sample");
  EXPECT_NO_THROW(open(whole, nlohmann::json::object(), folder / "batch"));
  rewrite(folder, "item_of.image", DType::I64, {kImages}, kOwners.data());
  auto source = open(cut, nlohmann::json::object(), folder / "changed");
  EXPECT_EQ(source->next(0).modules[0][1].dims, (std::vector<int64_t>{3}));
  std::vector<int64_t> bad(kImages, kSamples);
  rewrite(folder, "item_of.image", DType::I64, {kImages}, bad.data());
  EXPECT_ERROR(open(cut, nlohmann::json::object(), folder / "changed"),
               "sample 6 is not in the batch of 6");
}

TEST(FileBatch, ConvertsTypes) {
  ProgramFolder folder;
  SmallProgram program(6);
  std::vector<int32_t> ids(kSamples * kTokens, 7);
  rewrite(folder, "ids", DType::I32, {kSamples, kTokens}, ids.data());
  auto source = open(program, kPlan, folder / "changed");
  EXPECT_EQ(values<int64_t>(source->next(0).modules[1][0].inputs[1])[5], 7);
  std::vector<float> floats(kSamples * kTokens);
  rewrite(folder, "ids", DType::F32, {kSamples, kTokens}, floats.data());
  EXPECT_ERROR(open(program, kPlan, folder / "changed"),
               "tensor 'ids' is F32, expected I64");
}

/// What is not padding counts from the batch's beginning, in every cut alike:
/// a graph would count a negative one from the end of its part.
TEST(FileBatch, NegativePositionsArePaddingOrWrong) {
  ProgramFolder folder;
  auto fails = [&](const nlohmann::json &sections, const char *part) {
    for (int64_t micro : {2, 6}) {
      SmallProgram program(micro);
      EXPECT_ERROR(open(program, sections, folder / "changed"), part);
    }
  };
  std::vector<int64_t> positions(kImages * 2, 0);
  for (size_t i = 0; i < positions.size(); ++i)
    positions[i] = kOwners[i / 2] * kTokens;
  positions[5] = -5;
  rewrite(folder, "in.head.positions", DType::I64, {kImages, 2},
          positions.data());
  fails(kPlan, "tensor 'in.head.positions', element [2, 1]: position -5 is "
               "none of the batch's 24 (from 0 on; padding is -1)");
  nlohmann::json padded = kPlan;
  padded["inputs"]["head.positions"]["pad"] = -5;
  SmallProgram whole(6);
  EXPECT_NO_THROW(open(whole, padded, folder / "changed"));
  positions[4] = -1;
  rewrite(folder, "in.head.positions", DType::I64, {kImages, 2},
          positions.data());
  fails(padded, "element [2, 0]: position -1 is none of the batch's 24 (from "
                "0 on; padding is -5)");
}

TEST(FileBatch, SamplesOfItemsAreOfTheBatch) {
  ProgramFolder folder;
  SmallProgram whole(6);
  nlohmann::json owned = {
      {"inputs", {{"head.positions", {{"item_of", "image"}}}}}};
  std::vector<int64_t> samples(kImages * 2, 5);
  for (int64_t bad : {-1, 6}) {
    samples[3] = bad;
    rewrite(folder, "in.head.positions", DType::I64, {kImages, 2},
            samples.data());
    EXPECT_ERROR(open(whole, owned, folder / "changed"),
                 "tensor 'in.head.positions', element [1, 1]: sample " +
                     std::to_string(bad) +
                     " is none of the batch's 6 (from 0 on)");
  }
}

TEST(FileBatch, Errors) {
  ProgramFolder folder;
  SmallProgram program(2);
  std::vector<float> values(200);
  auto fails = [&](const char *part) {
    EXPECT_ERROR(open(program, kPlan, folder / "changed"), part);
  };
  rewrite(folder, "in.target", DType::F32, {}, nullptr);
  fails("tensor 'head.target' (or 'target') is missing");
  {
    // What a loss compares with is called as in the recipe.
    const int32_t inputs[] = {3};
    LossInfo loss = program.info.losses[0];
    loss.denominatorInputs = {inputs, 1};
    auto losses = std::exchange(program.info.losses, {&loss, 1});
    fails("tensor 'target' (or 'head.target'), which the loss 'square' "
          "compares with, is missing");
    program.info.losses = losses;
  }
  rewrite(folder, "in.target", DType::F32, {5}, values.data());
  fails("the value 5, other tensors give 6");
  rewrite(folder, "in.target", DType::F32, {6, 1}, values.data());
  fails("shape [6, 1], expected 1 dims");
  rewrite(folder, "in.tower.pixels", DType::F32, {7, 4}, values.data());
  fails("dim 1 should be 3");
  rewrite(folder, "in.tower.pixels", DType::F32, {6, 3}, values.data());
  fails("items of kind 'image'");
  std::vector<int64_t> positions(kImages * 2, 1000);
  rewrite(folder, "in.head.positions", DType::I64, {kImages, 2},
          positions.data());
  fails("element [0, 0]: position 1000 is none of the batch's 24 (from 0 on");
  for (size_t i = 0; i < positions.size(); ++i)
    positions[i] = i % 2 ? 0 : 20;
  rewrite(folder, "in.head.positions", DType::I64, {kImages, 2},
          positions.data());
  fails("points into two samples");
}

} // namespace

//===- SizesTest.cpp - items of unequal size, assigned ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Safetensors.h"
#include "runtime/data/ModelFlops.h"
#include "runtime/data/Padding.h"
#include "test/runtime/TestSupport.h"
#include "test/runtime/data/Chain.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

using namespace dt;
using namespace dt::rt;
using namespace dt::test;

namespace {

Measure measure(std::vector<int64_t> sizes) {
  return std::make_shared<const std::vector<int64_t>>(std::move(sizes));
}

SymbolInfo measured(const char *name, const char *item, int64_t max,
                    const char *what, int64_t largest, double cost = 1) {
  return {name, item, max, cost, what, largest};
}

/// vision (patches of images) -> llm (tokens of samples, patches of images).
struct Sized : TestProgram {
  Sized(int64_t global, int64_t micro, int32_t vision, int32_t llm,
        int64_t patches, int64_t tokens, int64_t largest = 64)
      : TestProgram(global, micro) {
    add("vision", "image", vision, 0).symbols[0] =
        measured("patches", "image", patches, "patches", largest);
    Module &text = add("llm", "sample", llm, 0, vision);
    text.symbols[0] = measured("seq", "sample", tokens, "tokens", largest);
    text.symbols.push_back(
        measured("patches", "image", 100000, "patches", largest));
    edge(0, 1);
    info.pace = 1;
    rows1F1B();
    finish();
  }
};

StepItems sized(int64_t samples, const std::vector<int> &images,
                std::vector<int64_t> patches, std::vector<int64_t> tokens) {
  StepItems::Kind kind = kindOf("image", images);
  kind.measures["patches"] = measure(std::move(patches));
  StepItems items = stepItems(samples, {kind});
  items.measures["tokens"] = measure(std::move(tokens));
  return items;
}

TEST(Sizes, SymbolsAddUp) {
  Sized program(4, 2, 2, 1, 1000, 1000);
  StepItems items = sized(4, {2, 0, 1, 1}, {5, 0, 7, 1}, {10, 3, 0, 20});
  Assignment a = Assigner(program.info, Reorder::None).assign(items);
  EXPECT_EQ(a.part(1, 0, 0).dims, (std::vector<int64_t>{13, 5}));
  EXPECT_EQ(a.part(1, 1, 0).dims, (std::vector<int64_t>{20, 8}));
  EXPECT_EQ(a.part(0, 0, 0).dims, (std::vector<int64_t>{5}));
  EXPECT_EQ(a.part(0, 0, 1).dims, (std::vector<int64_t>{0})); // of one image
  EXPECT_EQ(a.part(0, 0, 1).symbols[0], (Items{1}));
  EXPECT_EQ(*a.measureOf(0, 0), (std::vector<int64_t>{5, 0, 7, 1}));
}

/// Values are rounded up, of no rows to 0; utilisation and FLOPs of pairs are
/// those of real rows.
TEST(Sizes, SumsAreRoundedUp) {
  Sized program(4, 2, 2, 1, 1000, 1000);
  program.modules[1].symbols[0].multiple = 8;
  program.finish();
  StepItems items = sized(4, {2, 0, 1, 1}, {5, 0, 7, 1}, {10, 3, 0, 0});
  Assignment a = Assigner(program.info, Reorder::None).assign(items);
  EXPECT_EQ(a.part(1, 0, 0).dims, (std::vector<int64_t>{16, 5}));
  EXPECT_EQ(a.part(1, 1, 0).dims, (std::vector<int64_t>{0, 8}));
  EXPECT_EQ(utilisation(program.info, a), (13 + 13) / (2 * (1000 + 100000.)));
}

/// [2, rows, 2]: behind the rows of each of the two outer elements.
TEST(Sizes, RawInputsHaveRowsBehindThoseOfItems) {
  const Extent shape[] = {{0, -1, 2}, {2, 0, 0}, {0, -1, 2}};
  InputInfo input{{{"labels", DType::I64, 3, shape}}};
  input.padding = -100;
  Part part;
  part.items = {{0, 2}};
  part.measures = {measure({1, 9, 2})};
  part.dims = {4}; // 3 of 4: two rows each
  std::vector<int64_t> numbers(2 * 6 * 2), sizes = {2, 6, 2};
  std::iota(numbers.begin(), numbers.end(), 1);
  const auto *begin = reinterpret_cast<const std::byte *>(numbers.data());
  std::vector<std::byte> bytes(begin, begin + numbers.size() * 8);
  padInput(input, part, bytes, sizes);
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 8, 2}));
  ASSERT_EQ(bytes.size(), 2u * 8 * 2 * 8);
  std::vector<int64_t> padded(2 * 8 * 2);
  std::memcpy(padded.data(), bytes.data(), bytes.size());
  for (int64_t o = 0; o < 2; ++o)
    for (int64_t i = 0; i < 16; ++i)
      EXPECT_EQ(padded[size_t(o * 16 + i)], i < 12 ? o * 12 + i + 1 : -100);
  part.dims = {3};
  std::vector<std::byte> before = bytes;
  padInput(input, part, bytes, sizes);
  EXPECT_EQ(bytes, before);
}

/// What reordering balances is rows.
TEST(Sizes, CostsFollowMeasures) {
  Sized program(8, 8, 1, 2, 1000, 1000, 100);
  StepItems items = sized(8, Counts(8, 0), {}, {100, 1, 1, 1, 97, 1, 1, 2});
  Assignment a = Assigner(program.info, Reorder::Intra).assign(items);
  EXPECT_EQ(a.part(1, 0, 0).dims[0], 102);
  EXPECT_EQ(a.part(1, 0, 1).dims[0], 102);
  EXPECT_NEAR(a.balance[1].after, 1, 1e-9);
}

/// With attention one of 60 tokens is as much work as thirty-six of 10.
TEST(Sizes, CostsFollowSquaresToo) {
  Sized program(37, 37, 1, 2, 1000, 1000, 100);
  program.modules[1].symbols[0].cost = 0;
  program.modules[1].symbols[0].squareCost = 0.0625;
  std::vector<int64_t> tokens(37, 10);
  tokens[5] = 60;
  Assignment a = Assigner(program.info, Reorder::Intra)
                     .assign(sized(37, Counts(37, 0), {}, tokens));
  for (int32_t r : {0, 1}) {
    const PartItems &part = a.part(1, 0, r);
    EXPECT_EQ(part.dims[0], part.symbols[0].size() == 1 ? 60 : 360);
  }
  EXPECT_NEAR(a.balance[1].after, 1, 1e-9);
}

/// Work that grows with a part's rows, and attention inside items: causal, in a
/// window, and of all pairs.
TEST(Sizes, FlopsAreThoseOfRealItems) {
  Sized program(4, 2, 1, 1, 1000, 1000);
  StepItems items = sized(4, {2, 0, 1, 1}, {5, 0, 7, 1}, {10, 3, 0, 20});
  Assignment a = Assigner(program.info, Reorder::None).assign(items);
  static const int32_t first[] = {0}, both[] = {0, 1};
  static const SizeTerm vision[] = {{3, first}}, llm[] = {{2, both}, {7, {}}};
  const Extent patches = {4, 0, 0}, tokens = {1, 0, 0};
  const PairTerm pictures[] = {{1, patches, patches}},
                 texts[] = {{10, tokens, tokens, true},
                            {100, tokens, tokens, true, 4},
                            {1000, tokens, tokens, false, 4}};
  program.modules[0].info.work = vision;
  program.modules[0].info.pairs = pictures;
  program.modules[1].info.work = llm;
  program.modules[1].info.pairs = texts;
  program.finish();
  std::vector<std::vector<int64_t>> fixed = {{0}, {0, 0}};
  double rows = 3 * (5 + 7 + 1) + 16 * (25 + 49 + 1);
  double parts = 2 * (13 * 5 + 20 * 8) + 7 * 2;
  double causal = 55 + 6 + 210;               // n (n + 1) / 2
  double window = (40 - 6) + 6 + (80 - 6);    // the last four
  double around = 2 * window - (10 + 3 + 20); // on either side
  EXPECT_EQ(modelFlops(program.info, a, fixed),
            rows + parts + 10 * causal + 100 * window + 1000 * around);
}

TEST(Sizes, ThePeakIsThatOfAllDevices) {
  Sized program(4, 2, 1, 1, 1000, 1000);
  EXPECT_EQ(peakFlops(program.info), 0);
  RankInfo ranks[2] = {};
  ranks[0].peak = 5;
  program.info.ranks = ranks;
  EXPECT_EQ(peakFlops(program.info), 0);
  ranks[1].peak = 6;
  EXPECT_EQ(peakFlops(program.info), 11);
}

/// As they come the samples do not fit into parts of 100 tokens.
TEST(Sizes, PartsArePackedWhereABoundAsksForIt) {
  Sized program(8, 4, 1, 2, 1000, 100, 90);
  StepItems items = sized(8, Counts(8, 0), {}, {90, 80, 70, 60, 5, 10, 20, 30});
  for (Reorder mode : kModes) {
    Assignment a = Assigner(program.info, mode).assign(items);
    int64_t sum = 0;
    for (const auto &task : a.modules[1])
      for (const PartItems &part : task) {
        EXPECT_LE(part.dims[0], 100);
        sum += part.dims[0];
      }
    EXPECT_EQ(sum, 365);
    EXPECT_EQ(joined(a, 1), range(0, 8));
  }
}

/// As they come they do: nothing moves.
TEST(Sizes, WhatFitsStays) {
  Sized program(4, 2, 1, 1, 1000, 100, 90);
  StepItems items = sized(4, Counts(4, 0), {}, {90, 10, 1, 2});
  Assignment a = Assigner(program.info, Reorder::None).assign(items);
  EXPECT_EQ(a.microbatches, (std::vector<Items>{range(0, 2), range(2, 4)}));
}

TEST(Sizes, WhatDoesNotFitIsNamed) {
  Sized program(2, 2, 1, 1, 1000, 100, 90);
  EXPECT_ERROR(
      Assigner(program.info, Reorder::Both)
          .assign(sized(2, {0, 0}, {}, {60, 41})),
      "step 3: dim llm.seq is 101 in microbatch 0; the program was compiled "
      "for at most 100, which sample 1 exceeds");
  EXPECT_ERROR(Assigner(program.info, Reorder::None)
                   .assign(sized(2, {0, 0}, {}, {1, 91})),
               "step 3: sample 1 has 91 tokens; the program was compiled for "
               "at most 90");
  StepItems unknown = stepItems(2, {kindOf("image", {0, 0})});
  EXPECT_ERROR(Assigner(program.info, Reorder::None).assign(unknown),
               "step 3: dim vision.patches adds up 'image.patches', but the "
               "data do not say it");
}

/// Documents as the planner's tables have them: lognormal, a tenth of the bound
/// long. Parts of eight mean documents are at least 97 % full.
TEST(Sizes, PackedPartsAreFull) {
  std::mt19937 random(5);
  std::lognormal_distribution<double> length(0, 0.8);
  constexpr int64_t kParts = 64, kMean = 1000, kBound = 8 * kMean;
  std::vector<int64_t> tokens;
  int64_t sum = 0;
  while (true) {
    auto next = std::min<int64_t>(
        kBound, int64_t(std::lround(kMean / 1.377 * length(random))) + 1);
    if (sum + next > kParts * kBound * 98 / 100)
      break;
    tokens.push_back(next);
    sum += next;
  }
  auto samples = int64_t(tokens.size());
  // 16 microbatches of four replicas.
  Sized program(samples, (samples + 15) / 16, 1, 4, 1, kBound, kBound);
  ASSERT_EQ(microbatchCount(program.info), 16);
  for (Reorder mode : kModes) {
    Assignment a =
        Assigner(program.info, mode)
            .assign(sized(samples, Counts(size_t(samples), 0), {}, tokens));
    for (const auto &task : a.modules[1])
      for (const PartItems &part : task)
        EXPECT_LE(part.dims[0], kBound);
    EXPECT_GE(double(sum) / double(kParts * kBound), 0.97);
  }
}

/// A step of parts is these parts, however many replicas share them: no part
/// would fit if samples were dealt by number, or by size as packing deals them.
TEST(Sizes, StepsOfPartsAreTheseParts) {
  for (int32_t dp : {1, 2, 4, 5}) {
    int64_t each = std::min<int64_t>(dp, 4);
    Sized program(32, 8 * each, 1, dp, 1000, 100, 100);
    program.info.parts = 4, program.info.partTokens = 100;
    StepItems items =
        sized(9, Counts(9, 0), {}, {60, 40, 60, 40, 34, 33, 33, 50, 50});
    items.parts = {0, 2, 4, 7, 9};
    for (Reorder mode : kModes) {
      Assignment a = Assigner(program.info, mode).assign(items);
      ASSERT_EQ(int64_t(a.modules[1].size()), 4 / each);
      EXPECT_EQ(joined(a, 1), range(0, 9));
      for (const auto &task : a.modules[1])
        for (const PartItems &part : task)
          EXPECT_TRUE(part.dims[0] == 100 || (dp == 5 && part.dims[0] < 100));
    }
  }
}

//===----------------------------------------------------------------------===//
// Batch files
//===----------------------------------------------------------------------===//

/// llm: ids [1, seq], places [patches] into the tokens; vision: pixels
/// [patches, 2], rows of the own image in reverse, and a number for each image.
struct SizedFile : Sized {
  SizedFile() : Sized(3, 2, 2, 1, 100, 100) {
    input(modules[0], "pixels", DType::F32, {0, -2});
    input(modules[0], "mirror", DType::I64, {0});
    input(modules[1], "ids", DType::I64, {-1, 0});
    input(modules[1], "places", DType::I64, {1});
    input(modules[1], "texts", DType::I64, {-1, 0});
    modules[1].inputs.back().apart = "texts";
    modules[0].symbols.push_back({"images", "image", 100, 1});
    input(modules[0], "pictures", DType::I64, {1});
    modules[0].inputs.back().apart = "pictures";
    // Of a module by sample: rows of one sample may see one another.
    input(modules[1], "numbers", DType::I64, {1});
    modules[1].inputs.back().apart = "texts";
    finish();
  }
};

struct SizedBatch {
  std::vector<int64_t> tokens{0, 4, 4, 9}, patches{0, 3, 3, 5}, owners{0, 0, 2};
  std::vector<int64_t> mirror{2, 1, 0, 4, 3}, places{0, 2, 3, 5, 8};
  std::vector<int64_t> texts{0, 0, 1, 1, 2, 2, 2, 3, 3}, pictures{7, 8, 9};
  std::vector<int64_t> numbered{0, 0, 1, 3, 9};
  int64_t ids = 9;

  std::string write(const std::string &path) const {
    SafetensorsWriter writer;
    auto numbers = [&](const char *name, const std::vector<int64_t> &list) {
      writer.add(name, DType::I64, {int64_t(list.size())}, list.data());
    };
    numbers("offsets.sample.tokens", tokens);
    numbers("offsets.image.patches", patches);
    numbers("item_of.image", owners);
    numbers("mirror", mirror);
    numbers("places", places);
    numbers("pictures", pictures);
    numbers("numbers", numbered);
    writer.add("texts", DType::I64, {1, int64_t(texts.size())}, texts.data());
    Items all = range(0, ids);
    writer.add("ids", DType::I64, {1, ids}, all.data());
    std::vector<float> pixels;
    for (int i = 0; i < 10; ++i)
      pixels.push_back(float(i));
    writer.add("pixels", DType::F32, {5, 2}, pixels.data());
    writer.write(path);
    return path;
  }
};

const nlohmann::json kSections = {
    {"inputs",
     {{"vision.mirror", {{"rebase", "image.patches"}}},
      {"llm.places", {{"index", {"sample", "token"}}}}}}};

template <typename T> std::vector<T> valuesOf(const InputBytes &bytes) {
  std::vector<T> list(bytes.size / sizeof(T));
  if (bytes.size)
    std::memcpy(list.data(), bytes.data, bytes.size);
  return list;
}

TEST(Sizes, BatchFilesAreCutByItem) {
  TemporaryFolder folder;
  SizedFile program;
  std::string file = SizedBatch().write(folder / "batch");
  auto source = openFileBatch(program.info, kSections, file,
                              viewOf(program.info, 0), Reorder::None);
  const Batch &batch = source->next(0);
  // Images 0 and 1 are of sample 0, image 1 without rows; rank 0 has image 0.
  const Part &first = batch.modules[0][0], &second = batch.modules[0][1];
  EXPECT_EQ(valuesOf<float>(first.inputs[0]),
            (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(valuesOf<int64_t>(first.inputs[1]), (Items{2, 1, 0}));
  EXPECT_EQ(valuesOf<float>(second.inputs[0]),
            (std::vector<float>{6, 7, 8, 9}));
  EXPECT_EQ(valuesOf<int64_t>(second.inputs[1]), (Items{1, 0}));
  EXPECT_EQ(valuesOf<int64_t>(second.inputs[2]), (Items{9}));

  auto text = openFileBatch(program.info, kSections, file,
                            viewOf(program.info, 2), Reorder::None);
  const std::vector<Part> &parts = text->next(0).modules[1];
  EXPECT_EQ(parts[0].dims, (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(valuesOf<int64_t>(parts[0].inputs[0]), range(0, 4));
  EXPECT_EQ(valuesOf<int64_t>(parts[1].inputs[0]), range(4, 9));
  EXPECT_EQ(valuesOf<int64_t>(parts[0].inputs[1]), (Items{0, 2, 3}));
  EXPECT_EQ(valuesOf<int64_t>(parts[1].inputs[1]), (Items{1, 4}));
}

/// Of a step of parts a file has as many samples as it has, in these parts if
/// they fit as they come, else in any.
TEST(Sizes, BatchFilesHaveAsManySamplesAsFit) {
  TemporaryFolder folder;
  SizedFile program;
  program.modules[1].inputs.clear();
  program.finish();
  program.info.globalBatch = 8, program.info.microBatch = 4;
  program.info.parts = 2, program.info.partTokens = 5;
  program.modules[1].symbols[0].max = 5;
  auto parts = [&](const SizedBatch &batch) {
    auto source =
        openFileBatch(program.info, kSections, batch.write(folder / "batch"),
                      viewOf(program.info, 0), Reorder::None);
    EXPECT_EQ(source->next(0).samples, int64_t(batch.tokens.size()) - 1);
    return source->next(0).assignment.microbatches;
  };
  SizedBatch batch; // of 4, 0 and 5 tokens
  EXPECT_EQ(parts(batch), (std::vector<Items>{range(0, 2), range(2, 3)}));
  batch.tokens = {0, 2, 4, 6, 7, 9}; // in order 4, 3 and 2
  EXPECT_EQ(parts(batch).size(), 2u);
  batch.tokens = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_CONTAINS(errorOf([&] { parts(batch); }),
                  "tensor 'offsets.sample.tokens' is of 9 samples; the program "
                  "was compiled for at most 8");
}

TEST(Sizes, BatchFilesThatContradictThemselves) {
  TemporaryFolder folder;
  SizedFile program;
  auto error = [&](const SizedBatch &batch) {
    std::string file = batch.write(folder / "batch");
    return errorOf([&] {
      openFileBatch(program.info, kSections, file, viewOf(program.info, 0),
                    Reorder::None);
    });
  };
  SizedBatch batch;
  batch.tokens = {0, 4, 3, 9};
  EXPECT_CONTAINS(error(batch), "tensor 'offsets.sample.tokens', element 2: 3 "
                                "is below the one before it, 4");
  batch = {};
  batch.tokens[0] = 1;
  EXPECT_CONTAINS(error(batch), "element 0: 1 is not 0, where the first item");
  batch = {};
  batch.tokens.pop_back();
  EXPECT_CONTAINS(error(batch), "tensor 'offsets.sample.tokens' is of 2 items "
                                "of kind 'sample', but the program's batch has "
                                "3");
  batch = {};
  batch.ids = 8;
  EXPECT_CONTAINS(error(batch), "tensor 'ids' has 8 rows of 'sample.tokens', "
                                "but tensor 'offsets.sample.tokens' has 9");
  batch = {};
  batch.mirror[0] = 5;
  EXPECT_CONTAINS(error(batch), "tensor 'mirror', element [0]: row 5 is none "
                                "of the batch's 5");
  batch.mirror[0] = 4; // of another image
  EXPECT_CONTAINS(error(batch),
                  "tensor 'mirror' points from an item to item 2");
  batch = {};
  batch.texts[4] = 1;
  EXPECT_CONTAINS(
      error(batch),
      "tensor 'texts' has 1 for rows of sample 0 and 2, which would "
      "see one another in module 'llm'; expected other numbers for "
      "each sample of the step");
  batch = {};
  batch.pictures = {7, 8, 8};
  EXPECT_CONTAINS(error(batch),
                  "tensor 'pictures' has 8 for rows of image 1 and 2");
  batch = {};
  batch.numbered[4] = 1; // image 2 is of sample 2, which has 2 and 3
  EXPECT_CONTAINS(error(batch),
                  "tensor 'numbers' has 1 for rows of image 2, tensor 'texts' "
                  "for those of sample 0, which would see one another in "
                  "module 'llm'; expected other numbers for each sample of the "
                  "step");
  batch = {};
  batch.places[4] = 1; // image 2 points into samples 0 and 2
  EXPECT_CONTAINS(error(batch), "tensor 'places': item 2 points into two "
                                "samples");
}

} // namespace

//===- BatchTest.cpp - tensors and batches ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The worked example of docs/data-recipe.md, tensor by tensor; draws that do
// not depend on microbatches; a source that gives the same batch at any time.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/data/Fixture.h"

#include "runtime/base/Philox.h"
#include "runtime/data/Assemble.h"
#include "runtime/data/BatchSource.h"
#include "runtime/data/Index.h"

#include <cmath>

using namespace dt;
using namespace dt::rt;
using namespace dt::rt::data;
using namespace dt::test;

namespace {
template <typename T> std::vector<T> values(const HostTensor &tensor) {
  auto *first = reinterpret_cast<const T *>(tensor.bytes.data());
  return {first, first + tensor.bytes.size() / sizeof(T)};
}
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

class BatchTest : public DataTest {
protected:
  DecodedSample sample(const Files &files) {
    ShardIndex index = listSamples(writeShard("one.tar", files));
    PositionedFile file(path("one.tar"));
    return decodeSample(config, index.samples[0].members, [&](const Member &m) {
      return file.read(m.offset, m.size);
    });
  }
  HostTensor tensor(const std::string &name, const PartSamples &part) {
    PartAssembler assembler(config, part);
    return assembler.get(config.findInput(name));
  }
  Config config = parseConfig(demoRecipe());
};

TEST_F(BatchTest, TheDocumentedExample) {
  DecodedSample
      text =
          sample({{"t.json",
                   R"({"segments": [[{"text": "cat"}, {"text": "owl"}]]})"}}),
      doc = sample(documentFiles("a"));
  PartSamples part{{&text, &doc}, {0, 1}, 0};
  auto ints = [&](const char *name) {
    return values<int64_t>(tensor(name, part));
  };
  auto row = [&](const char *name) {
    Ints all = ints(name);
    return Ints(all.begin() + 24, all.end());
  };
  // <pad> 0 <bos> 1 <image> 2 <eos> 3 <gen> 4 cat 5 face 6 dog 7 fox 8 owl 9
  EXPECT_EQ(row("llm.input_ids"), (Ints{1, 2, 2, 2, 2, 5, 6, 3, 1, 7, 4, 1,
                                        8, 3, 9, 3, 0, 0, 0, 0, 0, 0, 0, 0}));
  constexpr int64_t no = -100;
  EXPECT_EQ(row("labels"),
            (Ints{no, no, no, no, 5,  6,  3,  no, 7,  no, no, 8,
                  3,  9,  3,  no, no, no, no, no, no, no, no, no}));
  EXPECT_EQ(row("unshifted"),
            (Ints{no, no, no, no, no, 5,  6,  3,  no, 7,  no, no,
                  8,  3,  9,  3,  no, no, no, no, no, no, no, no}));
  EXPECT_EQ(row("caption_labels"),
            (Ints{-1, -1, -1, -1, 5,  6,  3,  -1, -1, -1, -1, -1,
                  -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(row("llm.segments"),
            (Ints{0, 0, 0, 0, 0,  0,  0,  0,  1,  1,  1,  2,
                  2, 2, 2, 2, -1, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(row("llm.position"), (Ints{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 0,
                                       1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(row("llm.mask"), (Ints{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                   1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(ints("llm.image_positions"), (Ints{25, 26, 27, 28}));
  EXPECT_EQ(ints("target_rows"), (Ints{33, 34, -1, -1, -1, -1}));
  EXPECT_EQ(ints("owner"), (Ints{1}));
  EXPECT_EQ(values<float>(tensor("generator.mask", part)),
            (Floats{1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(tensor("generator.mask", part).shape, (Ints{1, 6, 1}));
  EXPECT_EQ(tensor("vision.pixel_values", part).shape, (Ints{1, 3, 4, 4}));
  EXPECT_NEAR(values<float>(tensor("vision.pixel_values", part))[0],
              10 / 127.5 - 1, 1e-6);
  EXPECT_NEAR(values<float>(tensor("pictures", part))[47], 11 / 127.5 - 1,
              1e-6);
}

/// Pictures of 8 x 4 and 4 x 4 pixels in squares of 2 x 2 patches of 2 x 2.
TEST_F(BatchTest, PicturesOfAnySize) {
  config = parseConfig(patchRecipe());
  Picture wide{8, 4, {}};
  for (uint8_t i = 0; i < 32; ++i)
    wide.rgb.insert(wide.rgb.end(), {i, uint8_t(i + 100), 0});
  Files pictures = {
      {"a.json",
       R"({"segments": [[{"text": "dog"}, {"image": "1.png"}, {"image": "0.png"}]]})"},
      {"a.0.png", encodePng(wide)},
      {"a.1.png", png(7)}};
  DecodedSample one = sample(pictures),
                two = sample(
                    {{"t.json", R"({"segments": [[{"text": "cat"}]]})"}});
  PartSamples part{{&two, &one}, {0, 1}, 0};
  auto ints = [&](const char *name) {
    return values<int64_t>(tensor(name, part));
  };
  // <image> 0 <pad> 1; cat 2 dog 4. One square, then two.
  EXPECT_EQ(ints("llm.input_ids"), (Ints{2, 4, 0, 0, 0}));
  EXPECT_EQ(ints("llm.image_rows"), (Ints{2, 3, 4}));
  HostTensor places = tensor("llm.position_ids", part);
  EXPECT_EQ(places.shape, (Ints{3, 1, 5}));
  EXPECT_EQ(values<int64_t>(places), (Ints{0, 0, 1, 2, 2,    // time
                                           0, 0, 1, 2, 2,    // height
                                           0, 0, 1, 2, 3})); // width
  EXPECT_EQ(ints("vision.segments"),
            (Ints{0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(ints("vision.windows"), (Ints{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
  HostTensor grid = tensor("vision.positions", part);
  EXPECT_EQ(grid.shape, (Ints{12, 2}));
  EXPECT_EQ(values<int64_t>(grid), (Ints{0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 1, //
                                         1, 0, 1, 1, 0, 2, 0, 3, 1, 2, 1, 3}));
  HostTensor pixels = tensor("vision.pixel_values", part);
  EXPECT_EQ(pixels.shape, (Ints{12, 3 * 2 * 2 * 2}));
  Floats all = values<float>(pixels);
  auto grey = [](int value) { return float(value / 127.5 - 1); };
  EXPECT_NEAR(all[0], grey(7), 1e-6);
  // The second picture's first patch: red of two rows, twice, then green.
  const float *patch = &all[4 * 24];
  int expected[] = {0, 1, 8, 9, 0, 1, 8, 9, 100, 101, 108, 109};
  for (int i = 0; i < 12; ++i)
    EXPECT_NEAR(patch[i], grey(expected[i]), 1e-6) << i;
  // Its last one, of the second square: down and across by one.
  EXPECT_NEAR(all[11 * 24], grey(2 * 8 + 6), 1e-6);
  // Of a part of pictures their rows alone.
  PartSamples last{{&one}, {1}, 0, {{{0, 1}}}};
  EXPECT_EQ(values<int64_t>(tensor("vision.segments", last)),
            (Ints{0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_NEAR(values<float>(tensor("vision.pixel_values", last))[0], grey(0),
              1e-6);
}

/// The same without padding: one sample's tokens behind another's.
TEST_F(BatchTest, PackedTexts) {
  Json recipe = demoRecipe();
  recipe["items"]["sample"] = {{"measures", {{"tokens", {{"max", 24}}}}}};
  recipe["dims"]["seq"] = "sample.tokens";
  config = parseConfig(recipe);
  ASSERT_TRUE(config.packed);
  DecodedSample
      text =
          sample({{"t.json",
                   R"({"segments": [[{"text": "cat"}, {"text": "owl"}]]})"}}),
      doc = sample(documentFiles("a"));
  PartSamples part{{&text, &doc, &text}, {0, 1, 2}, 0};
  auto ints = [&](const char *name) {
    return values<int64_t>(tensor(name, part));
  };
  EXPECT_EQ(tensor("llm.input_ids", part).shape, (Ints{1, 26}));
  EXPECT_EQ(ints("llm.input_ids"),
            (Ints{1, 5, 3, 9, 3, 1, 2, 2, 2, 2, 5, 6, 3,
                  1, 7, 4, 1, 8, 3, 9, 3, 1, 5, 3, 9, 3}));
  constexpr int64_t no = -100;
  EXPECT_EQ(ints("labels"),
            (Ints{5, 3,  9,  3, no, no, no, no, no, 5, 6, 3, no,
                  7, no, no, 8, 3,  9,  3,  no, 5,  3, 9, 3, no}));
  EXPECT_EQ(ints("llm.segments"),
            (Ints{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
                  2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4}));
  EXPECT_EQ(ints("llm.position"),
            (Ints{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7,
                  0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  EXPECT_EQ(ints("llm.mask"), Ints(26, 1));
  EXPECT_EQ(ints("llm.image_positions"), (Ints{6, 7, 8, 9}));
  PartSamples none{{}, {}, 0};
  EXPECT_EQ(tensor("llm.input_ids", none).shape, (Ints{1, 0}));
}

TEST_F(BatchTest, PartsWithoutItems) {
  DecodedSample text = sample(
      {{"t.json", R"({"segments": [[{"text": "cat"}, {"text": "owl"}]]})"}});
  PartSamples part{{&text}, {0}, 0};
  PartAssembler assembler(config, part);
  for (size_t i = 0; i < config.inputs.size(); ++i) {
    const HostTensor &t = assembler.get(int(i));
    EXPECT_EQ(t.shape[0], config.inputs[i].item == sampleItem ? 1 : 0)
        << config.inputs[i].name;
    EXPECT_EQ(t.bytes.empty(), config.inputs[i].item != sampleItem);
  }
}

TEST_F(BatchTest, TwoItemsOfAKindInASegment) {
  Json recipe = demoRecipe();
  recipe["data"]["segments"]["pair"] = Json::parse(
      R"({"parts": ["image", "image", "text"], "tokens": [{"token": "<image>", "of": "image.1"}, {"token": "<image>", "count": 2, "of": "image"}, "text"]})");
  config = parseConfig(recipe);
  DecodedSample s = sample(
      {{"a.json",
        R"({"segments": [[{"image": "x"}, {"image": "y"}, {"text": "cat"}]]})"},
       {"a.x", png(1)},
       {"a.y", png(2)}});
  PartSamples part{{&s}, {0}, 0};
  EXPECT_EQ(values<int64_t>(tensor("llm.image_positions", part)),
            (Ints{1, 2, -1, -1, 0, -1, -1, -1}));
  EXPECT_NEAR(values<float>(tensor("vision.pixel_values", part))[0],
              1 / 127.5 - 1, 1e-6);
}

TEST_F(BatchTest, DrawsFollowThePlaceNotThePart) {
  DecodedSample doc = sample(documentFiles("a"));
  PartSamples both{{&doc, &doc}, {0, 1}, 5}, second{{&doc}, {1}, 5},
      later{{&doc}, {1}, 6};
  for (const char *name : {"noise", "generator.time", "generator.noised"}) {
    Floats all = values<float>(tensor(name, both)),
           one = values<float>(tensor(name, second));
    EXPECT_EQ(Floats(all.begin() + long(all.size() / 2), all.end()), one)
        << name;
    EXPECT_NE(one, values<float>(tensor(name, later))) << name;
    EXPECT_NE(Floats(all.begin(), all.begin() + long(one.size())), one) << name;
  }
  EXPECT_EQ(values<float>(tensor("noise", second))[7],
            Random(0, philoxPurpose("noise"), 5, 1 * 4 + 0).normal(7));
}

TEST_F(BatchTest, DrawsHaveTheirDistribution) {
  DecodedSample doc = sample(documentFiles("a"));
  PartSamples part;
  for (int64_t i = 0; i < 4000; ++i) {
    part.samples.push_back(&doc);
    part.places.push_back(i);
  }
  double sum = 0, squares = 0, time = 0;
  Floats noise = values<float>(tensor("noise", part));
  for (float x : noise) {
    sum += double(x);
    squares += double(x) * double(x);
  }
  EXPECT_NEAR(sum / double(noise.size()), 0, 0.012);
  EXPECT_NEAR(squares / double(noise.size()), 1, 0.02);
  for (float t : values<float>(tensor("generator.time", part)))
    time += double(t);
  EXPECT_NEAR(time / 4000, 1.0 / 3, 0.025); // mean of u * u
  Ints steps = values<int64_t>(tensor("timestep", part));
  EXPECT_GE(*std::min_element(steps.begin(), steps.end()), 0);
  EXPECT_LE(*std::max_element(steps.begin(), steps.end()), 999);
  double mean = 0;
  for (int64_t s : steps)
    mean += double(s);
  EXPECT_NEAR(mean / 4000, 499.5, 25);
}

TEST_F(BatchTest, Noised) {
  DecodedSample doc = sample(documentFiles("a"));
  PartSamples part{{&doc}, {3}, 2};
  float x = values<float>(tensor("pictures", part))[5],
        n = values<float>(tensor("noise", part))[5];
  float t = values<float>(tensor("generator.time", part))[0];
  EXPECT_FLOAT_EQ(values<float>(tensor("generator.noised", part))[5],
                  (1 - t) * n + t * x);
  EXPECT_FLOAT_EQ(values<float>(tensor("velocity", part))[5], x - n);
  double product = 1;
  for (int64_t i = 0, step = values<int64_t>(tensor("timestep", part))[0];
       i <= step; ++i)
    product *= 1 - (0.0001 + (0.02 - 0.0001) * double(i) / 999);
  EXPECT_NEAR(values<float>(tensor("ddpm", part))[5],
              std::sqrt(product) * double(x) +
                  std::sqrt(1 - product) * double(n),
              1e-5);
}

TEST_F(BatchTest, Convert) {
  HostTensor in{DType::I64, {2}, std::vector<std::byte>(16)};
  reinterpret_cast<int64_t *>(in.bytes.data())[1] = 7;
  EXPECT_EQ(values<float>(convert(in, DType::F32, "x")), (Floats{0, 7}));
  EXPECT_EQ(values<int32_t>(convert(in, DType::I32, "x")),
            (std::vector<int32_t>{0, 7}));
  EXPECT_EQ(values<uint8_t>(convert(in, DType::Bool, "x")),
            (std::vector<uint8_t>{0, 1}));
  EXPECT_ERROR(convert(in, DType::BF16, "x"), "input x: ");
}

/// A program with a vision module by image, an LLM by sample and a head over
/// the whole batch.
struct Tables {
  Extent images[4] = {{1, 0, 0}, {0, -1, 3}, {0, -1, 4}, {0, -1, 4}};
  Extent ids[2] = {{1, 0, 0}, {0, -1, 24}};
  Extent positions[2] = {{1, 1, 0}, {0, -1, 4}};
  SymbolInfo visionSymbols[1] = {{"images", "image", 6}};
  SymbolInfo llmSymbols[3] = {
      {"batch", "sample", 2}, {"images", "image", 6}, {"seq", nullptr, 24}};
  SymbolInfo headSymbols[1] = {{"batch", "sample", 5}};
  InputInfo vision[1], llm[4], head[1];
  static constexpr int32_t ranks[1] = {0};
  ModuleInfo modules[3];
  ProgramInfo program{};

  Tables() {
    auto input = [](const char *name, DType type, int32_t rank,
                    const Extent *shape) {
      InputInfo info{};
      info.buffer.tensor = {name, type, rank, shape};
      info.fromModule = info.fromOutput = -1;
      return info;
    };
    vision[0] = input("vision.pixel_values", DType::F32, 4, images);
    llm[0] = input("input_ids", DType::I32, 2, ids);
    llm[1] = input("image_positions", DType::I64, 2, positions);
    llm[2] = input("labels", DType::I64, 2, ids);
    llm[3] = input("image_embeds", DType::F32, 4, images);
    llm[3].fromModule = llm[3].fromOutput = 0;
    head[0] = input("llm.input_ids", DType::I64, 2, ids);
    auto module = [](const char *name, const char *item) {
      ModuleInfo info{};
      info.name = info.origin = info.unit = name;
      info.item = item;
      info.tp = info.dp = 1;
      info.ranks = ranks;
      return info;
    };
    modules[0] = module("vision", "image");
    modules[0].symbols = visionSymbols, modules[0].inputs = vision;
    modules[1] = module("llm", "sample");
    modules[1].symbols = llmSymbols, modules[1].inputs = llm;
    modules[2] = module("head", "sample");
    modules[2].symbols = headSymbols, modules[2].inputs = head;
    modules[2].wholeBatch = true;
    program.modules = modules;
    program.globalBatch = 5;
    program.microBatch = 2;
  }
};

class SourceTest : public BatchTest {
protected:
  void SetUp() override {
    BatchTest::SetUp();
    Files files;
    for (int i = 0; i < 9; ++i)
      files =
          files +
          (i % 3
               ? documentFiles("k" + std::to_string(i), uint8_t(10 * i))
               : Files{
                     {"k" + std::to_string(i) + ".json",
                      R"({"segments": [[{"text": "cat"}, {"text": "owl"}]]})"}});
    shard = writeShard("s.tar", files);
  }
  std::unique_ptr<BatchSource> open(int workers) {
    return openShardBatch(tables.program, demoRecipe(), {shard, 11, workers},
                          viewOf(tables.program, 0), Reorder::None);
  }

  /// All bytes and sizes of a batch.
  static std::string dump(const Batch &batch) {
    std::string out;
    for (const auto &module : batch.modules)
      for (const Part &part : module) {
        for (int64_t d : part.dims)
          out += "d" + std::to_string(d);
        for (const Items &items : part.items)
          for (int64_t i : items)
            out += "r" + std::to_string(i);
        for (const InputBytes &input : part.inputs)
          out += "i" + std::string(reinterpret_cast<const char *>(input.data),
                                   input.size);
      }
    return out;
  }

  Tables tables;
  std::string shard;
};

TEST_F(SourceTest, PartsFitTheTables) {
  auto source = open(2);
  EXPECT_EQ(source->summary(), "9 samples in 1 shard");
  EXPECT_NE(source->hash(), 0u);
  EXPECT_EQ(source->batches(), 1) << "of 5 samples each";
  for (int64_t step = 0; step < 5; ++step) {
    const Batch &batch = source->next(step);
    EXPECT_EQ(batch.samples, 5);
    EXPECT_GE(batch.tokens, 5);
    EXPECT_LE(batch.tokens, 5 * 24);
    ASSERT_EQ(batch.modules.size(), 3u);
    ASSERT_EQ(batch.modules[0].size(), 3u);
    ASSERT_EQ(batch.modules[2].size(), 1u);
    int64_t samples = 0, images = 0;
    for (size_t k = 0; k < 3; ++k) {
      const Part &vision = batch.modules[0][k], &llm = batch.modules[1][k];
      EXPECT_EQ(llm.dims, (Ints{k < 2 ? 2 : 1, vision.dims[0], 24}));
      EXPECT_EQ(llm.items[0].front(), samples);
      EXPECT_EQ(llm.items[1], vision.items[0]);
      if (!llm.items[1].empty())
        EXPECT_EQ(llm.items[1].front(), images);
      EXPECT_TRUE(llm.items[2].empty());
      EXPECT_EQ(vision.inputs[0].size, size_t(vision.dims[0]) * 48 * 4);
      EXPECT_EQ(llm.inputs[0].size, size_t(llm.dims[0]) * 24 * 4);
      EXPECT_EQ(llm.inputs[3].data, nullptr);
      for (int64_t i = 0; i < vision.dims[0] * 4;
           ++i) { // rebased: inside the part, on <image>
        int64_t at = reinterpret_cast<const int64_t *>(llm.inputs[1].data)[i];
        ASSERT_LT(at, llm.dims[0] * 24);
        EXPECT_EQ(reinterpret_cast<const int32_t *>(llm.inputs[0].data)[at], 2);
      }
      samples += llm.dims[0];
      images += vision.dims[0];
    }
    EXPECT_EQ(batch.modules[2][0].dims, Ints{5});
    EXPECT_EQ(batch.modules[2][0].inputs[0].size, 5u * 24 * 8);
  }
}

TEST_F(SourceTest, SameBatchWhateverTheWorkersAndTheOrder) {
  std::vector<std::string> reference;
  {
    auto source = open(1);
    for (int64_t step = 0; step < 6; ++step)
      reference.push_back(dump(source->next(step)));
  }
  EXPECT_NE(reference[0], reference[1]);
  auto source = open(4);
  for (int64_t step : {0, 1, 2, 3, 4, 5, 2, 3, 0, 5, 5})
    EXPECT_EQ(dump(source->next(step)), reference[size_t(step)]) << step;
  auto resumed = open(2);
  EXPECT_EQ(dump(resumed->next(4)), reference[4]);
}

TEST_F(SourceTest, OneErrorForWhatDoesNotFit) {
  tables.ids[1].offset = 25;
  EXPECT_ERROR(open(1)->next(0),
               "gives a tensor [2, 24], but llm.input_ids takes [2, 25]");
  tables.ids[1].offset = 24;
  tables.llmSymbols[1].max = 0;
  EXPECT_CONTAINS(errorOf([&] {
                    auto s = open(1);
                    for (int i = 0; i < 5; ++i)
                      s->next(i);
                  }),
                  "dim llm.images is ");
  tables.llmSymbols[1].item = "sound";
  EXPECT_ERROR(open(1), "data.json: dim llm.images counts \"sound\"");
  tables.llmSymbols[1].item = "image";
  tables.vision[0].buffer.tensor.name = "sounds";
  EXPECT_EQ(errorOf([&] { open(1); }),
            "data.json: inputs says nothing about \"sounds\", which the module "
            "vision takes");
}

TEST_F(SourceTest, AnErrorWhileDecodingAheadReachesTheCaller) {
  auto source = open(2);
  source->next(0);
  std::fstream(shard, std::ios::in | std::ios::out | std::ios::binary)
      << std::string(size_t(std::filesystem::file_size(shard)), 'x');
  std::string error = errorOf([&] {
    for (int i = 1; i < 9; ++i)
      source->next(i);
  });
  EXPECT_CONTAINS(error, "did the shard change?");
}
} // namespace

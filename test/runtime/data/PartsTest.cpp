//===- PartsTest.cpp - what every rank gets, joined -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The parts of all ranks, from shards or from a file, are the whole batch,
// bitwise, in every mode of reordering; ranks read no more than they need.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/data/Fixture.h"
#include "test/runtime/data/TestProgram.h"

#include "runtime/base/Safetensors.h"
#include "runtime/data/BatchSource.h"
#include "runtime/device/Device.h"

#include <cstring>

using namespace dt;
using namespace dt::rt;
using namespace dt::test;

// The test has no device: batch files are written from host memory.
void dt::rt::device::copyToHost(void *host, const void *device, size_t bytes) {
  std::memcpy(host, device, bytes);
}

namespace {
constexpr int64_t kGlobal = 7, kTokens = 24;

/// vision by image, an LLM of two stages by sample, a generator by target and a
/// head over the whole batch.
struct PartsProgram : TestProgram {
  PartsProgram(int64_t micro, int32_t vision, int32_t llm, int32_t generator,
               int32_t tp = 1, int32_t pieces = 1, int32_t span = 1)
      : TestProgram(kGlobal, micro) {
    Module &see = add("vision", "image", vision, 30);
    input(see, "vision.pixel_values", DType::F32, {0, -3, -4, -4});
    int32_t next = vision;
    Module &first = add("llm.0", "sample", llm, 30, next, tp);
    first.info.origin = first.info.unit = "llm";
    first.symbols.push_back({"images", "image", 30});
    input(first, "input_ids", DType::I64, {0, -24});
    input(first, "image_positions", DType::I64, {1, -4});
    next += llm * tp;
    Module &last = add("llm.1", "sample", llm, 30, next, tp);
    last.info.origin = last.info.unit = "llm";
    last.symbols.push_back({"targets", "target", 30});
    input(last, "labels", DType::I32, {0, -24});
    input(last, "target_rows", DType::I64, {1, -6});
    next += llm * tp;
    Module &draw = add("generator", "target", generator, 30, next);
    input(draw, "noised", DType::F32, {0, -3, -4, -4});
    input(draw, "mask", DType::F32, {0, -6, -1});
    next += generator;
    Module &head = add("head", "sample", 1, 30, next);
    head.info.wholeBatch = true;
    input(head, "input_ids", DType::I64, {0, -24});
    for (int m = 0; m < 3; ++m)
      edge(m, m + 1);
    info.pace = 1;
    modules[0].symbols[0].cost = 20;
    modules[3].symbols[0].cost = 30;
    for (size_t m = 0; m < 4; ++m) // of the encoder one more
      modules[m].info.sub = pieces + (pieces > 1 && m == 0);
    modules[0].info.span = span;
    modules[3].info.span = span + (span > 1);
    rowsOf(next + 1);
    finish();
  }

private:
  void rowsOf(int32_t ranks) {
    modules.back().info.wholeBatch = true;
    Module head = modules.back();
    modules.pop_back();
    rows1F1B();
    modules.push_back(head);
    rows.resize(size_t(ranks));
    row(ranks - 1, TaskKind::Forward, 4, 0);
  }
};

std::string text(const InputBytes &bytes) {
  return {reinterpret_cast<const char *>(bytes.data), bytes.size};
}

class PartsTest : public DataTest {
protected:
  void SetUp() override {
    recipe["batch"]["global"] = kGlobal;
    recipe["inputs"]["head.input_ids"] = {{"tokens", "ids"}};
    Files files;
    for (int i = 0; i < 9; ++i) {
      std::string key = "k" + std::to_string(i);
      Json segments = Json::array();
      for (int n = 0; n < i % 4; ++n) { // 0 to 3 images
        std::string member = std::to_string(n) + ".png";
        segments.push_back({{{"image", member}}});
        images.push_back({key + "." + member, png(uint8_t(20 * i + n))});
      }
      for (int n = 0; n < i % 3; ++n) {
        std::string member = std::to_string(4 + n) + ".png";
        segments.push_back({{{"text", "dog"}}, {{"target", member}}});
        images.push_back({key + "." + member, png(uint8_t(20 * i + 9 + n))});
      }
      segments.push_back({{{"text", "cat"}}, {{"text", "owl"}}});
      files.push_back({key + ".json", Json{{"segments", segments}}.dump()});
      files = files + images;
      images.clear();
    }
    recipe["data"]["segments"]["picture"] = Json::parse(
        R"({"parts": ["image"], "tokens": [{"token": "<image>", "count": 3, "of": "image"}]})");
    shard = writeShard("s.tar", files);
  }

  std::unique_ptr<BatchSource> shards(const TestProgram &program, int32_t rank,
                                      Reorder mode) {
    return openShardBatch(program.info, recipe, {shard, 5, 2},
                          viewOf(program.info, rank), mode);
  }

  /// Every row of every raw input of the parts of all ranks is that of the
  /// whole batch; together they have every item of each module (`tp` times).
  template <typename Open>
  void join(const Batch &whole, const TestProgram &program, Open open,
            int64_t step) {
    std::vector<std::vector<int>> seen(program.modules.size());
    for (size_t m = 0; m < seen.size(); ++m)
      seen[m].resize(whole.modules[m][0].items[0].size());
    uint64_t hash = 0;
    int32_t ranks = int32_t(program.ranks.size());
    for (int32_t rank = 0; rank < ranks; ++rank) {
      auto source = open(rank);
      const Batch &batch = source->next(step);
      RankView view = viewOf(program.info, rank);
      EXPECT_TRUE(rank == 0 || hash == batch.hash);
      hash = batch.hash;
      EXPECT_NE(hash, 0u);
      for (size_t m = 0; m < seen.size(); ++m) {
        EXPECT_EQ(batch.modules[m].size(),
                  view.replica[m] < 0 ? 0
                  : program.modules[m].info.wholeBatch
                      ? 1
                      : size_t(tasksOf(program.info, program.modules[m].info) *
                               program.modules[m].info.sub));
        int32_t pieces = program.modules[m].info.sub;
        int32_t span = spanOf(program.modules[m].info);
        for (size_t k = 0; k < batch.modules[m].size(); ++k) {
          int64_t task = int64_t(k) / pieces;
          int32_t piece = int32_t(k) % pieces;
          const Part &part = batch.part(program.info, m, task * span, piece);
          const PartItems &items =
              batch.assignment.part(m, task, view.replica[m] * pieces + piece);
          EXPECT_EQ(part.items, items.symbols);
          for (int64_t item : part.items[0])
            ++seen[m][size_t(item)];
          compare(program.modules[m], whole.modules[m][0], part, items.samples);
        }
      }
    }
    for (size_t m = 0; m < seen.size(); ++m)
      EXPECT_EQ(seen[m],
                std::vector<int>(seen[m].size(), program.modules[m].info.tp));
  }

  void compare(const TestProgram::Module &module, const Part &whole,
               const Part &part, const Items &samples) {
    for (size_t i = 0; i < module.inputs.size(); ++i) {
      const TensorInfo &tensor = module.inputs[i].buffer.tensor;
      const Items &items = part.items[size_t(tensor.shape[0].symbol)];
      std::string all = text(whole.inputs[i]), own = text(part.inputs[i]);
      size_t count = whole.items[size_t(tensor.shape[0].symbol)].size();
      size_t row = count ? all.size() / count : 0;
      ASSERT_EQ(own.size(), items.size() * row);
      bool index = std::string(tensor.name) == "image_positions" ||
                   std::string(tensor.name) == "target_rows";
      for (size_t r = 0; r < items.size(); ++r) {
        std::string given = own.substr(r * row, row);
        for (size_t at = 0; index && at < row; at += 8) { // undo the rebase
          int64_t value;
          std::memcpy(&value, &given[at], 8);
          if (value >= 0)
            value =
                samples[size_t(value / kTokens)] * kTokens + value % kTokens;
          std::memcpy(&given[at], &value, 8);
        }
        EXPECT_EQ(given, all.substr(size_t(items[r]) * row, row))
            << tensor.name;
      }
    }
  }

  Json recipe = demoRecipe();
  Files images;
  std::string shard;
};

TEST_F(PartsTest, ShardsJoinToTheWholeBatch) {
  PartsProgram single(kGlobal, 1, 1, 1), pair(3, 2, 2, 5, 2), many(2, 3, 2, 1),
      odd(3, 5, 3, 2), pieces(4, 2, 2, 1, 2, 2), spans(1, 2, 1, 1, 1, 1, 2),
      both(2, 2, 2, 1, 2, 2, 3);
  for (int64_t step : {0, 3})
    for (const PartsProgram *layout :
         {&pair, &many, &odd, &pieces, &spans, &both})
      for (Reorder mode : {Reorder::None, Reorder::Both}) {
        std::vector<std::unique_ptr<BatchSource>> sources;
        Batch whole;
        for (int32_t rank = 0; rank < 5; ++rank) {
          sources.push_back(shards(single, rank, Reorder::None));
          const Batch &one = sources.back()->next(step);
          whole.modules.resize(5);
          whole.modules[size_t(rank)] = one.modules[size_t(rank)];
        }
        join(
            whole, *layout,
            [&](int32_t rank) { return shards(*layout, rank, mode); }, step);
      }
}

TEST_F(PartsTest, FilesJoinToTheWholeBatchAndEqualShards) {
  PartsProgram single(kGlobal, 1, 1, 1), layout(3, 3, 2, 2, 2, 2, 2);
  SafetensorsWriter writer;
  std::vector<std::unique_ptr<BatchSource>> sources;
  Batch whole;
  whole.modules.resize(5);
  for (int32_t rank = 0; rank < 5; ++rank) {
    sources.push_back(shards(single, rank, Reorder::None));
    whole.modules[size_t(rank)] = sources.back()->next(1).modules[size_t(rank)];
    const TestProgram::Module &module = single.modules[size_t(rank)];
    for (size_t i = 0; i < module.inputs.size(); ++i) {
      const TensorInfo &tensor = module.inputs[i].buffer.tensor;
      const Part &part = whole.modules[size_t(rank)][0];
      std::vector<int64_t> shape;
      for (int32_t d = 0; d < tensor.rank; ++d)
        shape.push_back(tensor.shape[d].symbol < 0
                            ? tensor.shape[d].offset
                            : part.dims[size_t(tensor.shape[d].symbol)]);
      writer.add(std::string(module.info.origin) + "." + tensor.name,
                 tensor.type, shape, part.inputs[i].data);
    }
  }
  writer.write(path("batch"));
  Json sections = recipe;
  sections["inputs"]["llm.target_rows"] = sections["inputs"]["target_rows"];
  for (Reorder mode : {Reorder::None, Reorder::Intra, Reorder::Both}) {
    auto open = [&](int32_t rank) {
      return openFileBatch(layout.info, sections, path("batch"),
                           viewOf(layout.info, rank), mode);
    };
    join(whole, layout, open, 1);
    for (int32_t rank = 0; rank < int32_t(layout.ranks.size()); ++rank) {
      auto file = open(rank), tar = shards(layout, rank, mode);
      const Batch &a = file->next(0), &b = tar->next(1);
      for (size_t m = 0; m < a.modules.size(); ++m)
        for (size_t k = 0; k < a.modules[m].size(); ++k) {
          EXPECT_EQ(a.modules[m][k].dims, b.modules[m][k].dims);
          for (size_t i = 0; i < a.modules[m][k].inputs.size(); ++i)
            EXPECT_EQ(text(a.modules[m][k].inputs[i]),
                      text(b.modules[m][k].inputs[i]));
        }
    }
  }
}

TEST_F(PartsTest, ARankReadsWhatItNeeds) {
  PartsProgram layout(kGlobal, 2, 1, 1);
  for (int32_t rank = 0; rank < int32_t(layout.ranks.size()); ++rank)
    shards(layout, rank, Reorder::None)->next(0); // builds the index
  auto language = shards(layout, 2, Reorder::None);
  auto head = shards(layout, int32_t(layout.ranks.size()) - 1, Reorder::None);
  auto vision = shards(layout, 0, Reorder::None);
  // Pictures that only the encoder looks at are destroyed.
  std::string tar = readFile(shard);
  for (size_t at = tar.find("IHDR"); at != std::string::npos;
       at = tar.find("IHDR", at + 1))
    tar[at] = 'X';
  writeFile("s.tar", tar);
  EXPECT_EQ(language->next(9).modules[1][0].dims[0], kGlobal);
  EXPECT_EQ(head->next(9).modules[4][0].dims[0], kGlobal);
  EXPECT_ERROR(vision->next(9), "member");
}

TEST_F(PartsTest, IndicesNeedSamples) {
  PartsProgram layout(kGlobal, 2, 1, 1);
  layout.modules[0].inputs[0].buffer.tensor.name = "image_positions";
  layout.modules[0].info.origin = "llm";
  layout.finish();
  EXPECT_ERROR(shards(layout, 0, Reorder::None),
               "is about samples, but the module works by \"image\" in "
               "2 parts");
}
} // namespace

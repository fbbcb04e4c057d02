//===- ConfigTest.cpp - recipe sections and their errors --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Every way to write a section wrongly gives one line that names the key; the
// examples of docs/data-recipe.md parse.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/data/Fixture.h"

using namespace dt;
using namespace dt::rt::data;
using namespace dt::test;

namespace {
class ConfigTest : public DataTest {};

/// The error after the value at `pointer` of the demo's recipe has become
/// `value` ("" removes it).
std::string broken(const std::string &pointer, const std::string &value) {
  Json recipe = demoRecipe();
  Json::json_pointer where(pointer);
  if (value.empty())
    recipe[where.parent_pointer()].erase(where.back());
  else
    recipe[where] = Json::parse(value);
  return errorOf([&] { parseConfig(recipe); });
}

TEST_F(ConfigTest, Demo) {
  Config c = parseConfig(demoRecipe());
  EXPECT_EQ(c.sequence, 24);
  EXPECT_EQ(c.tokenizer.size(), 10);
  EXPECT_EQ(c.pictures.size(), 2u);
  EXPECT_TRUE(c.pictures[0].ragged);
  EXPECT_EQ(c.pictures[1].indexWidth, 6);
  EXPECT_EQ(c.segments.size(), 3u);
  EXPECT_EQ(c.globalBatch, 6);
}

TEST_F(ConfigTest, KeyFollowsWhatDecidesValidity) {
  Json other = demoRecipe();
  uint64_t key = parseConfig(other).key;
  other["seed"] = 7;
  other["optimizer"] = "x";
  EXPECT_EQ(parseConfig(other).key, key);
  other["items"]["image"]["max"] = 2;
  EXPECT_NE(parseConfig(other).key, key);
  other = demoRecipe();
  other["inputs"]["target_rows"]["width"] = 5;
  EXPECT_NE(parseConfig(other).key, key);
  other = demoRecipe();
  other["data"]["tokenizer"]["vocabulary"].push_back("hen");
  EXPECT_NE(parseConfig(other).key, key);
}

TEST_F(ConfigTest, VocabularyFile) {
  writeFile("words", "cat\nface\ndog\nfox\nowl\n");
  Json recipe = demoRecipe();
  recipe["data"]["tokenizer"]["vocabulary"] = "words";
  EXPECT_EQ(Config::parse(recipe, "", {"/nonexistent", folder.path}).key,
            parseConfig(demoRecipe()).key);
  EXPECT_EQ(inlineVocabulary(recipe, {folder.path}), demoRecipe());
  EXPECT_ERROR(parseConfig(recipe), "words: cannot open: ");
  writeFile("recipe.json", recipe.dump());
  EXPECT_EQ(Config::load(path("recipe.json")).tokenizer.size(), 10);
  writeFile("bad.json", "{");
  EXPECT_ERROR(Config::load(path("bad.json")), "bad.json: not JSON: ");
}

TEST_F(ConfigTest, ErrorsNameTheKey) {
  struct Case {
    const char *pointer, *value, *expected;
  } cases[] = {
      {"/data", "", "r.json: the key \"data\" is missing"},
      {"/data", "3", "r.json: data: expected an object"},
      {"/data/extra", "3", "r.json: data: unknown key \"extra\""},
      {"/items/image/max", "0",
       "r.json: items.image.max: expected a whole number from 1 on"},
      {"/items/sample", R"({"measures": {"words": {"max": 3}}})",
       "r.json: items.sample.measures.words: samples of shards have no measure "
       "but \"tokens\"; others come with --batch"},
      {"/items/image/measures", R"({"patches": {"max": 4}})",
       "r.json: data.pictures.image: pictures of items.image.measures have "
       "any size; expected \"patches\""},
      {"/data/pictures/image", R"({"patches": {"size": 2}})",
       "r.json: data.pictures.image.patches: expected a measure in "
       "items.image.measures, which counts squares of patches"},
      {"/dims/seq", "\"sample.tokens\"",
       "r.json: dims.seq: \"sample.tokens\" is neither"},
      {"/items/clip", R"({"max": 1})",
       "the item kind \"clip\" has no entry in pictures"},
      {"/dims/batch", "\"samples\"",
       "r.json: dims.batch: \"samples\" is neither \"sample\" nor a kind in "
       "items"},
      {"/batch/micro", "7",
       "r.json: batch.micro: expected a whole number from 1 on up to 6"},
      {"/seed", "-1", "r.json: seed: expected a whole number"},
      {"/data/sequence", "\"tokens\"",
       "r.json: data.sequence: \"tokens\" is neither a dim with a number nor "
       "one of \"sample.tokens\""},
      {"/data/special/0", "\"<bos>\"",
       "r.json: data.special[1]: special tokens must differ"},
      {"/data/special/0", "\"<fill>\"",
       "r.json: data: \"special\" has no \"<pad>\""},
      {"/data/tokenizer/kind", "\"bpe\"",
       "r.json: data.tokenizer.kind: \"bpe\" is not one of words, bytes"},
      {"/data/tokenizer/vocabulary/1", "\"cat\"",
       "r.json: data.tokenizer.vocabulary: the vocabulary has the word 'cat' "
       "twice"},
      {"/data/pictures/image/size", "[4]",
       "r.json: data.pictures.image.size: expected [height, width]"},
      {"/data/pictures/image/size/1", "1e9",
       "r.json: data.pictures.image.size[1]: expected a whole number"},
      {"/data/pictures/image/fit", "\"zoom\"",
       "is not one of stretch, crop, pad"},
      {"/data/pictures/image/std", "[1, 0, 1]",
       "r.json: data.pictures.image.std: expected numbers above 0"},
      {"/data/pictures/image/mean", "[1, 0]", "expected a number or 3 numbers"},
      {"/data/pictures/image/channels", "2", "expected 1 or 3"},
      {"/data/segments/caption/parts/0", "\"sound\"",
       "r.json: data.segments.caption.parts[0]: \"sound\" is neither"},
      {"/data/segments/names/parts", "[\"text\", \"target\"]",
       "has the same parts"},
      {"/data/segments/caption/tokens/0", "\"<start>\"",
       "r.json: data.segments.caption.tokens[0]: \"<start>\" is not in "
       "data.special"},
      {"/data/segments/caption/tokens/1/of", "\"target\"",
       "r.json: data.segments.caption.tokens[1].of: \"target\" is not a part"},
      {"/data/segments/caption/tokens/1/of", "\"text\"",
       "expected a picture part"},
      {"/data/segments/caption/tokens/2/text", "\"image\"",
       "expected a text part"},
      {"/data/segments/caption/tokens/2/token", "\"<eos>\"",
       "expected either \"token\" or \"text\""},
      {"/data/segments/caption/tokens/2/count", "2",
       "only a token has a count"},
      {"/data/segments/caption/tokens/1/loss", "1", "expected true or false"},
      {"/data/segments/caption/tokens/1/count", "5",
       "r.json: data.segments.caption.tokens: 5 positions are of one "
       "\"image\", but an index input of it has a \"width\" of 4"},
      {"/data/sequence", "5",
       "r.json: data.segments.caption.tokens: 6 tokens without any text, but "
       "\"sequence\" is 5"},
      {"/data/segments/draw/parts",
       R"(["text", "target", "target", "target", "target", "target"])",
       "r.json: data.segments.draw.parts: more than 4 of \"target\", the "
       "\"max\" of a sample in items"},
      {"/data/segments/draw/parts", R"(["text", "target", "target"])",
       "r.json: data.segments.draw.tokens: no token is \"of\" the part "
       "\"target.1\", so an index input of it would hold padding only"},
      {"/data/pictures/image/mean", "127.5",
       "r.json: data.pictures.image.mean: expected numbers from 0 to 1"},
      {"/data/tokenizer/vocabulary", "[]",
       "r.json: data.tokenizer.vocabulary: expected at least one word"},
      {"/data/tokenizer/vocabulary/0", "\"Cat\"",
       "r.json: data.tokenizer.vocabulary: 'Cat' can match no text"},
      {"/data/segments/draw", "",
       "r.json: data.segments: no segment has the part \"target\", a kind in "
       "data.pictures"},
      {"/data/limits", R"({"pixels": -1})", "data.limits.pixels"},
      {"/inputs/labels", "{}",
       "r.json: inputs.labels: expected one of the keys tokens"},
      {"/inputs/labels/tokens", "\"id\"",
       "r.json: inputs.labels.tokens: \"id\" is not one of"},
      {"/inputs/labels/shift", "2", "inputs.labels.shift"},
      {"/inputs/labels/segments", "[\"story\"]",
       "r.json: inputs.labels.segments[0]: \"story\" is not in data.segments"},
      {"/inputs/pictures/pixels", "\"sample\"",
       "is not a kind in data.pictures"},
      {"/inputs/target_rows/width", "", "the key \"width\" is missing"},
      {"/inputs/target_rows/index", "[\"batch\"]",
       "expected [\"sample\", \"token\"]"},
      {"/inputs/generator.mask/mask", "\"labels\"",
       "r.json: inputs.generator.mask.mask: expected the name of an index "
       "input"},
      {"/inputs/noise/shape", "[3, 4, 5]",
       "expected an input of floats with the items and shape of \"pictures\""},
      {"/inputs/noise/shape", "[4294967296, 4294967296]", "too many elements"},
      {"/inputs/noise/low", "1", "unknown key \"low\""},
      {"/inputs/generator.noised/time", "\"timestep\"",
       "expected a float from 0 to 1"},
      {"/inputs/ddpm/time", "\"generator.time\"",
       "expected a uniform_int draw below the schedule's 1000 steps"},
      {"/inputs/ddpm/steps", "10",
       "expected a uniform_int draw below the schedule's 10 steps"},
      {"/inputs/ddpm/noised", "\"nothing\"", "\"nothing\" is not in inputs"},
      {"/inputs/timestep/below", "0", "inputs.timestep.below"},
  };
  for (const Case &c : cases)
    EXPECT_CONTAINS(broken(c.pointer, c.value), c.expected)
        << c.pointer << " = " << c.value
        << " gave: " << broken(c.pointer, c.value);
}

/// Of pictures of any size.
TEST_F(ConfigTest, ErrorsOfPatchesNameTheKey) {
  struct Case {
    const char *pointer, *value, *expected;
  } cases[] = {
      {"/items/image/measures/tiles", R"({"max": 4})",
       "r.json: items.image.measures.tiles: pictures of shards have one "
       "measure, \"merged\"; others come with --batch"},
      {"/dims/merged", "\"image.tiles\"",
       "r.json: dims.merged: \"image.tiles\" is neither"},
      {"/data/pictures/image/size", "[4, 4]",
       "r.json: data.pictures.image: pictures are cut into patches or have one "
       "size; expected \"patches\" alone, or \"size\""},
      {"/data/pictures/image/patches/max_pixels", "48",
       "r.json: data.pictures.image.patches.max_pixels: that is 3 squares of 4 "
       "x 4 pixels; items.image.measures.merged.max is 2"},
      {"/data/pictures/image/patches/min_pixels", "33",
       "r.json: data.pictures.image.patches: min_pixels is above max_pixels, "
       "32"},
      {"/data/segments/two/tokens/1/count", "\"tiles\"",
       "r.json: data.segments.two.tokens[1].count: expected a number, or the "
       "measure of the pictures that \"of\" names"},
      {"/data/segments/two/tokens/1/count", "4",
       "r.json: data.segments.two.tokens: an input has a place in the text for "
       "each square of \"image\"; expected one element that is \"of\" it, with "
       "the \"count\" \"merged\""},
      {"/inputs/vision.windows/squares", "0",
       "r.json: inputs.vision.windows.squares: expected a whole number"},
      {"/inputs/vision.segments/squares", "2",
       "r.json: inputs.vision.segments.squares: goes with windows"},
      {"/dims/seq", "12",
       "r.json: inputs.llm.position_ids.pictures: expected pictures with "
       "\"patches\" and packed texts"},
  };
  parseConfig(patchRecipe());
  for (const Case &c : cases) {
    Json recipe = patchRecipe();
    recipe[Json::json_pointer(c.pointer)] = Json::parse(c.value);
    std::string error = errorOf([&] { parseConfig(recipe); });
    EXPECT_EQ(error.rfind(c.expected, 0), 0u) << error;
  }
}

TEST_F(ConfigTest, TextInputsNeedASequence) {
  Json recipe = {{"data", {{"pictures", {{"image", {{"size", {4, 4}}}}}}}},
                 {"inputs", {{"ids", {{"tokens", "ids"}}}}}};
  EXPECT_ERROR(parseConfig(recipe), "inputs.ids: needs data.sequence");
}
} // namespace

//===- Fixture.h - shards and recipes for the data tests --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A temporary folder, small shards written into it, and the demo's data
// sections with five words.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_DATA_FIXTURE_H
#define DT_TEST_DATA_FIXTURE_H

#include "runtime/data/Config.h"
#include "runtime/data/Picture.h"
#include "runtime/data/Tar.h"
#include "test/runtime/TestSupport.h"

#include <utility>
#include <vector>

namespace dt::test {

using Json = nlohmann::json;
using Files = std::vector<std::pair<std::string, std::string>>;

class DataTest : public ::testing::Test {
protected:
  std::string path(const std::string &name) const { return folder / name; }
  std::string writeShard(const std::string &name, const Files &files) const {
    rt::data::TarWriter out(path(name));
    for (auto &[file, content] : files)
      out.add(file, content);
    out.close();
    return path(name);
  }
  std::string writeFile(const std::string &name,
                        const std::string &content) const {
    ::writeFile(path(name), content);
    return path(name);
  }

  TemporaryFolder folder;
};

inline rt::data::Picture solid(int64_t width, int64_t height, uint8_t red,
                               uint8_t green, uint8_t blue) {
  rt::data::Picture picture{width, height, {}};
  for (int64_t i = 0; i < width * height; ++i)
    picture.rgb.insert(picture.rgb.end(), {red, green, blue});
  return picture;
}

/// A 4 x 4 PNG of one grey.
inline std::string png(uint8_t grey) {
  return rt::data::encodePng(solid(4, 4, grey, grey, grey));
}

/// The worked example of docs/data-recipe.md with pictures of 4 x 4, L = 24.
inline Json demoRecipe() {
  return Json::parse(R"json({
    "items": {"image": {"of": "sample", "max": 3}, "target": {"of": "sample", "max": 4}},
    "dims": {"batch": "sample", "images": "image", "targets": "target", "seq": 24, "cond": 6},
    "batch": {"global": 6, "micro": 2}, "seed": 0,
    "data": {
      "sequence": "seq",
      "tokenizer": {"kind": "words", "vocabulary": ["cat", "face", "dog", "fox", "owl"]},
      "special": ["<pad>", "<bos>", "<image>", "<eos>", "<gen>"],
      "pictures": {"image": {"size": [4, 4]}, "target": {"size": [4, 4]}},
      "segments": {
        "caption": {"parts": ["image", "text"],
                    "tokens": ["<bos>", {"token": "<image>", "count": 4, "of": "image"}, {"text": "text", "loss": true}, {"token": "<eos>", "loss": true}]},
        "draw": {"parts": ["text", "target"],
                 "tokens": ["<bos>", {"text": "text", "loss": true, "of": "target"}, {"token": "<gen>", "of": "target"}]},
        "names": {"parts": ["text", "text"],
                  "tokens": ["<bos>", {"text": "text", "loss": true}, {"token": "<eos>", "loss": true}, {"text": "text.1", "loss": true}, {"token": "<eos>", "loss": true}]}}},
    "inputs": {
      "vision.pixel_values": {"pixels": "image"},
      "llm.input_ids": {"tokens": "ids"},
      "llm.segments": {"tokens": "segment"},
      "llm.position": {"tokens": "position", "within": "segment"},
      "llm.mask": {"tokens": "mask"},
      "llm.image_positions": {"index": ["sample", "token"], "of": "image", "width": 4},
      "labels": {"tokens": "labels"},
      "caption_labels": {"tokens": "labels", "segments": ["caption"], "ignore": -1},
      "unshifted": {"tokens": "labels", "shift": 0},
      "target_rows": {"index": ["sample", "token"], "of": "target", "width": "cond", "pad": -1},
      "owner": {"item_of": "target"},
      "generator.mask": {"mask": "target_rows", "trailing": 1},
      "generator.time": {"random": "uniform", "power": 2, "per": "target"},
      "noise": {"random": "normal", "per": "target", "shape": [3, 4, 4]},
      "pictures": {"pixels": "target"},
      "generator.noised": {"noised": "pictures", "noise": "noise", "time": "generator.time", "schedule": "flow"},
      "velocity": {"noised": "pictures", "noise": "noise", "time": "generator.time", "schedule": "flow", "gives": "velocity"},
      "timestep": {"random": "uniform_int", "below": 1000, "per": "target"},
      "ddpm": {"noised": "pictures", "noise": "noise", "time": "timestep", "schedule": "ddpm", "betas": "linear", "beta_start": 0.0001, "beta_end": 0.02}}
  })json");
}

/// Texts and pictures of any size, at most three of two squares each.
inline Json patchRecipe() {
  return Json::parse(R"json({
    "items": {"image": {"max": 3, "measures": {"merged": {"max": 2}}}, "sample": {"measures": {"tokens": {"max": 12}}}},
    "dims": {"merged": "image.merged", "seq": "sample.tokens"},
    "batch": {"global": 6, "micro": 2}, "seed": 0,
    "data": {
      "sequence": "seq",
      "tokenizer": {"kind": "words", "vocabulary": ["cat", "face", "dog"]},
      "special": ["<image>", "<pad>"],
      "pictures": {"image": {"patches": {"size": 2, "merge": 2, "frames": 2}}},
      "segments": {
        "text": {"parts": ["text"], "tokens": [{"text": "text", "loss": true}]},
        "two": {"parts": ["text", "image", "image"],
                "tokens": [{"text": "text", "loss": true}, {"token": "<image>", "count": "merged", "of": "image"}, {"token": "<image>", "count": "merged", "of": "image.1"}]}}},
    "inputs": {
      "vision.pixel_values": {"pixels": "image"},
      "vision.positions": {"patches": "image", "gives": "places"},
      "vision.segments": {"patches": "image", "gives": "segment"},
      "vision.windows": {"patches": "image", "gives": "windows", "squares": 1},
      "llm.input_ids": {"tokens": "ids"},
      "llm.segments": {"tokens": "segment"},
      "llm.position_ids": {"tokens": "position", "pictures": "image"},
      "llm.image_rows": {"index": ["sample", "token"], "of": "image"},
      "labels": {"tokens": "labels"}}
  })json");
}

inline rt::data::Config parseConfig(const Json &recipe) {
  return rt::data::Config::parse(recipe, "r.json", {});
}

/// The sample of docs/data.md as files under `key`; the pictures have the greys
/// `first` and `first` + 1.
inline Files documentFiles(const std::string &key, uint8_t first = 10) {
  return {
      {key + ".json",
       R"({"segments": [[{"image": "0.png"}, {"text": "cat face"}], [{"text": "dog"}, {"target": "1.png"}], [{"text": "fox"}, {"text": "owl"}]]})"},
      {key + ".0.png", png(first)},
      {key + ".1.png", png(uint8_t(first + 1))}};
}

inline Files operator+(Files a, const Files &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

} // namespace dt::test

#endif // DT_TEST_DATA_FIXTURE_H

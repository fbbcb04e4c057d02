//===- History.cpp - what was drawn and said on the way ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "History.h"

#include "runtime/base/Error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

using namespace dt;
using namespace dt::demo;
using rt::Error;
using rt::data::Picture;

namespace {
constexpr size_t most = 12;

/// Pictures of one size side by side.
Picture join(const std::vector<Picture> &pictures) {
  Picture strip{0, pictures[0].height, {}};
  for (const Picture &picture : pictures)
    strip.width += picture.width;
  for (int64_t y = 0; y < strip.height; ++y)
    for (const Picture &picture : pictures) {
      auto row = picture.rgb.begin() + y * picture.width * 3;
      strip.rgb.insert(strip.rgb.end(), row, row + picture.width * 3);
    }
  return strip;
}
} // namespace

History::History(const std::string &folder, const Evaluator &evaluator)
    : folder(folder), evaluator(evaluator) {
  size_t count = evaluator.emoji().size(), shown = std::min(most, count);
  for (size_t k = 0; k < shown; ++k)
    which.push_back(int((2 * k + 1) * count / (2 * shown)));
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code)
    throw Error("--history: " + folder + ": " + code.message());
  std::vector<Picture> truth;
  for (int i : which)
    truth.push_back(evaluator.picture(evaluator.emoji()[size_t(i)].pixels));
  writeStrip("truth.png", truth);
}

void History::writeStrip(const std::string &name,
                         const std::vector<Picture> &pictures) const {
  std::string path = folder + "/" + name;
  std::string bytes =
      pictures.empty() ? "" : rt::data::encodePng(join(pictures));
  std::ofstream stream(path, std::ios::binary);
  if (!stream.write(bytes.data(), std::streamsize(bytes.size())).flush())
    throw Error("--history: " + path + ": cannot be written");
}

void History::add(int64_t step, double seconds, const CaptionScore &captions,
                  const DrawScore &score, const std::vector<std::string> &said,
                  const std::vector<Pixels> &drawn) const {
  std::string name = "step-" + std::to_string(step) + ".png";
  std::vector<Picture> pictures;
  nlohmann::ordered_json samples = nlohmann::json::array();
  for (size_t k = 0; k < which.size(); ++k) {
    size_t i = size_t(which[k]);
    pictures.push_back(evaluator.picture(drawn[i]));
    samples.push_back(
        {{"name", evaluator.emoji()[i].name}, {"caption", said[k]}});
  }
  writeStrip(name, pictures);
  nlohmann::ordered_json line = {
      {"step", step},
      {"seconds", seconds},
      {"nats_per_caption", captions.nats},
      {"nats_without_picture", std::log(double(evaluator.emoji().size()))},
      {"captions_exact", captions.exact},
      {"drawn_nearest_own", score.nearest},
      {"drawn_error", score.error},
      {"pictures", name},
      {"samples", samples}};
  std::string path = folder + "/history.jsonl";
  std::ofstream stream(path, std::ios::app);
  if (!(stream << line.dump() << '\n').flush())
    throw Error("--history: " + path + ": cannot be written");
}

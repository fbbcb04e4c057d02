//===- Evaluate.cpp - what the demonstration has learned --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The names of modules, inputs and outputs are those of recipe.json.
//
//===----------------------------------------------------------------------===//

#include "Evaluate.h"

#include "runtime/base/ReadJson.h"
#include "runtime/data/Index.h"

#include <algorithm>
#include <cmath>

using namespace dt;
using namespace dt::demo;
using namespace dt::rt::data;
using rt::Error;
using Json = nlohmann::json;

namespace {
Config readConfig(const std::string &directory) {
  std::string path = directory + "/data.json";
  Json sections = rt::readJsonFile(path);
  if (!sections.is_object())
    throw Error(path + ": not a JSON object");
  return Config::parse(sections, path, {directory});
}

std::string trimmed(std::string text) {
  while (!text.empty() &&
         (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.pop_back();
  return text;
}

const PictureKind &kindOf(const Config &config, const char *name) {
  int kind = config.findPicture(name);
  if (kind < 0)
    throw Error(std::string("data.json: data.pictures has no \"") + name +
                "\"");
  return config.pictures[size_t(kind)];
}

/// A picture with its name; other samples of the shard are an error.
Emoji readPair(const PositionedFile &file, const IndexedSample &sample,
               const PictureKind &kind, const Limits &limits) {
  Emoji emoji;
  for (const Member &member : sample.members)
    if (member.name == "png" || member.name == "txt")
      (member.name == "png" ? emoji.png : emoji.name) =
          file.read(member.offset, member.size);
  emoji.name = trimmed(emoji.name);
  if (emoji.name.empty() || emoji.png.empty())
    throw Error("sample '" + rt::printable(sample.key) +
                "': expected a .png and a .txt");
  Picture picture = fitPicture(decodePicture(emoji.png, limits.pixels),
                               kind.width, kind.height, kind.fit);
  emoji.pixels.resize(size_t(kind.elements()));
  normalise(picture, kind.channels, kind.mean, kind.std, emoji.pixels.data());
  return emoji;
}

/// Items of a kind that a part has room for in all modules.
int64_t mostOf(const rt::ProgramInfo &program, const std::string &item) {
  int64_t most = INT64_MAX;
  for (const rt::ModuleInfo &module : program.modules)
    for (const rt::SymbolInfo &symbol : module.symbols)
      if (symbol.item && item == symbol.item)
        most = std::min(most, symbol.max);
  return most;
}

size_t argmax(const float *values, size_t count) {
  return size_t(std::max_element(values, values + count) - values);
}

/// -log softmax(values)[index].
double improbability(const float *values, size_t count, size_t index) {
  double top = *std::max_element(values, values + count), sum = 0;
  for (size_t i = 0; i < count; ++i)
    sum += std::exp(values[i] - top);
  return top + std::log(sum) - values[index];
}
} // namespace

Evaluator::Evaluator(const rt::ProgramInfo &program,
                     const std::string &directory, const std::string &pairs)
    : config(readConfig(directory)), partSamples(mostOf(program, "sample")),
      partImages(mostOf(program, "image")),
      partTargets(mostOf(program, "target")) {
  PositionedFile file(pairs);
  for (const IndexedSample &sample : listSamples(pairs).samples)
    all.push_back(
        readPair(file, sample, kindOf(config, "target"), config.limits));
  if (all.empty())
    throw Error(pairs + ": no samples");
  size_t most = 0;
  for (const Emoji &e : all)
    if (size_t words = config.tokenizer.encode(e.name).size(); words > most) {
      most = words;
      filler = e.name;
    }
  longest = most;
}

std::vector<int> Evaluator::everyone() const {
  std::vector<int> which(all.size());
  for (size_t i = 0; i < which.size(); ++i)
    which[i] = int(i);
  return which;
}

//===----------------------------------------------------------------------===//
// Samples
//===----------------------------------------------------------------------===//

DecodedSample Evaluator::sample(Kind kind, const std::vector<int> &which,
                                const std::vector<std::string> &texts) const {
  Json segments = Json::array();
  for (size_t i = 0; i < which.size(); ++i) {
    Json text{{"text", texts[i]}},
        picture{{kind == Kind::Caption ? "image" : "target",
                 std::to_string(i) + ".png"}};
    segments.push_back(kind == Kind::Caption ? Json::array({picture, text})
                                             : Json::array({text, picture}));
  }
  std::string document = Json{{"segments", segments}}.dump();
  std::vector<Member> members{{"json", 0, int64_t(document.size())}};
  for (size_t i = 0; i < which.size(); ++i)
    members.push_back({std::to_string(i) + ".png", int64_t(i),
                       int64_t(all[size_t(which[i])].png.size())});
  return decodeSample(config, members, [&](const Member &member) {
    return member.name == "json"
               ? document
               : all[size_t(which[size_t(member.offset)])].png;
  });
}

/// As many segments a sample as the recipe allows and the sequence holds.
/// `text` replaces the names if not empty.
std::vector<Evaluator::Packed> Evaluator::pack(Kind kind,
                                               const std::vector<int> &which,
                                               const std::string &text) const {
  int64_t room = kind == Kind::Caption ? partImages : partTargets;
  size_t most = size_t(std::min<int64_t>(
      kindOf(config, kind == Kind::Caption ? "image" : "target").max, room));
  std::vector<Packed> packed;
  std::vector<int> open;
  std::vector<std::string> texts;
  size_t used = 0;
  auto close = [&] {
    if (open.empty())
      return;
    if (packed.empty() ||
        int64_t(packed.back().samples.size()) == partSamples ||
        int64_t(packed.back().shown.size() + open.size()) > room)
      packed.emplace_back();
    packed.back().samples.push_back(sample(kind, open, texts));
    packed.back().shown.insert(packed.back().shown.end(), open.begin(),
                               open.end());
    open.clear(), texts.clear(), used = 0;
  };
  for (int e : which) {
    const std::string &words = text.empty() ? all[size_t(e)].name : text;
    size_t length = sample(kind, {e}, {words}).document.ids.size();
    if (open.size() == most || used + length > size_t(config.sequence))
      close();
    open.push_back(e), texts.push_back(words), used += length;
  }
  close();
  return packed;
}

//===----------------------------------------------------------------------===//
// Captions
//===----------------------------------------------------------------------===//

CaptionScore Evaluator::captions(rt::Evaluation &modules) const {
  CaptionScore sum;
  for (const Packed &packed : pack(Kind::Caption, everyone())) {
    Runner runner(modules, config, packed.samples);
    runner.run("vision");
    runner.run("llm");
    addScores(runner, sum);
  }
  return {sum.nats / double(all.size()), sum.exact / double(all.size())};
}

void Evaluator::addScores(Runner &runner, CaptionScore &sum) const {
  std::vector<float> logits = runner.output("llm", "logits");
  auto *labels =
      reinterpret_cast<const int64_t *>(runner.entry("labels").bytes.data());
  size_t length = size_t(config.sequence),
         rows = runner.samples().samples.size() * length,
         words = logits.size() / rows;
  for (size_t s = 0; s < runner.samples().samples.size(); ++s) {
    const Document &document = runner.samples().samples[s]->document;
    std::vector<bool> right(size_t(document.segment.back()) + 1, true);
    for (size_t p = 0; p < document.ids.size(); ++p) {
      size_t row = s * length + p;
      if (labels[row] < 0)
        continue;
      sum.nats +=
          improbability(&logits[row * words], words, size_t(labels[row]));
      if (argmax(&logits[row * words], words) != size_t(labels[row]))
        right[size_t(document.segment[p])] = false;
    }
    sum.exact += double(std::count(right.begin(), right.end(), true));
  }
}

/// Fills in one word of every caption at a time; later tokens are masked, so
/// what stands there does not matter.
std::vector<std::string> Evaluator::decode(Runner &runner) const {
  size_t length = size_t(config.sequence),
         image = size_t(config.findPicture("image"));
  std::vector<size_t> first; // row of the token before the caption
  for (size_t s = 0; s < runner.samples().samples.size(); ++s)
    for (const DocumentItem &item :
         runner.samples().samples[s]->document.items[image])
      first.push_back(s * length + size_t(item.positions.back()));
  size_t eos =
      size_t(std::find(config.special.begin(), config.special.end(), "<eos>") -
             config.special.begin());
  std::vector<std::vector<int32_t>> words(first.size());
  std::vector<bool> ended(first.size(), false);
  auto *ids = reinterpret_cast<int64_t *>(
      runner.input("llm", "input_ids").bytes.data());
  runner.run("vision");
  for (size_t k = 0; k <= longest; ++k) {
    runner.run("llm");
    std::vector<float> logits = runner.output("llm", "logits");
    size_t vocabulary =
        logits.size() / (runner.samples().samples.size() * length);
    for (size_t i = 0; i < first.size(); ++i) {
      size_t next = argmax(&logits[(first[i] + k) * vocabulary], vocabulary);
      ended[i] = ended[i] || next == eos;
      if (ended[i])
        continue;
      words[i].push_back(int32_t(next));
      if (k < longest)
        ids[first[i] + k + 1] = int64_t(next);
    }
  }
  std::vector<std::string> captions;
  for (const std::vector<int32_t> &w : words)
    captions.push_back(config.tokenizer.decode(w));
  return captions;
}

std::vector<std::string>
Evaluator::describe(rt::Evaluation &modules,
                    const std::vector<int> &which) const {
  std::vector<std::string> captions;
  for (const Packed &packed : pack(Kind::Caption, which, filler)) {
    Runner runner(modules, config, packed.samples);
    for (std::string &caption : decode(runner))
      captions.push_back(std::move(caption));
  }
  return captions;
}

//===----------------------------------------------------------------------===//
// Drawings
//===----------------------------------------------------------------------===//

std::vector<Pixels> Evaluator::draw(rt::Evaluation &modules,
                                    const std::vector<int> &which,
                                    int steps) const {
  std::vector<Pixels> drawn;
  for (const Packed &packed : pack(Kind::Draw, which)) {
    Runner runner(modules, config, packed.samples);
    runner.run("llm");
    HostTensor &noisy = runner.input("generator", "noisy"),
               &time = runner.input("generator", "t");
    noisy.bytes = runner.entry("noise").bytes;
    auto *state = reinterpret_cast<float *>(noisy.bytes.data());
    auto *t = reinterpret_cast<float *>(time.bytes.data());
    size_t pictures = packed.shown.size(), elements = all[0].pixels.size();
    for (int k = 0; k < steps; ++k) {
      float now = float(k) / float(steps),
            scale = 1 / ((1 - now) * float(steps));
      std::fill_n(t, pictures, now);
      runner.run("generator");
      std::vector<float> clean = runner.output("generator", "clean");
      for (size_t i = 0; i < pictures * elements;
           ++i) // velocity (clean - state) / (1 - t)
        state[i] += (clean[i] - state[i]) * scale;
    }
    for (size_t i = 0; i < pictures; ++i) {
      Pixels pixels(state + i * elements, state + (i + 1) * elements);
      for (float &v : pixels)
        v = std::clamp(v, -1.0f, 1.0f);
      drawn.push_back(std::move(pixels));
    }
  }
  return drawn;
}

DrawScore Evaluator::score(const std::vector<Pixels> &drawn) const {
  DrawScore sum;
  for (size_t i = 0; i < drawn.size(); ++i) {
    double own = 0, least = INFINITY;
    for (size_t j = 0; j < all.size(); ++j) {
      double distance = 0;
      for (size_t e = 0; e < drawn[i].size(); ++e)
        distance += double(drawn[i][e] - all[j].pixels[e]) *
                    double(drawn[i][e] - all[j].pixels[e]);
      least = std::min(least, distance);
      own = j == i ? distance : own;
    }
    sum.error += own / double(drawn[i].size());
    sum.nearest += own <= least;
  }
  return {sum.error / double(drawn.size()), sum.nearest / double(drawn.size())};
}

Picture Evaluator::picture(const Pixels &pixels) const {
  const PictureKind &kind = kindOf(config, "target");
  size_t plane = size_t(kind.width * kind.height);
  Picture out{kind.width, kind.height, std::vector<uint8_t>(plane * 3)};
  for (size_t i = 0; i < plane; ++i)
    for (size_t c = 0; c < 3; ++c)
      out.rgb[i * 3 + c] = uint8_t(std::lround(
          (std::clamp(pixels[c * plane + i], -1.0f, 1.0f) + 1) * 127.5f));
  return out;
}

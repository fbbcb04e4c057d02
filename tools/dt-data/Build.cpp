//===- Build.cpp - write shards ---------------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Build.h. Random choices come from std::mt19937_64 without std
// distributions, whose results differ between libraries: equal options give
// equal shards everywhere.
//
//===----------------------------------------------------------------------===//

#include "tools/dt-data/Build.h"

#include "runtime/base/Files.h"
#include "runtime/data/Tar.h"
#include "runtime/data/Tokenizer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

using namespace dt;
using namespace dt::tools;
using namespace dt::rt::data;
using rt::Error;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {
enum class Kind { Caption, Draw, Names };

struct Segment {
  Kind kind;
  size_t emoji, second; ///< second: the other name of Names
};

class Composer {
public:
  Composer(const std::vector<Emoji> &emoji, const DocumentOptions &options)
      : emoji(emoji), options(options), random(options.seed) {
    for (const Emoji &e : emoji) {
      lengths.push_back(int64_t(splitWords(e.name).size()));
      pngs.push_back(encodePng(e.picture));
    }
    int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    if (options.tokens < 3 + 2 * longest ||
        options.tokens < 2 + options.imageTokens + longest)
      throw Error("--tokens " + std::to_string(options.tokens) +
                  ": too few for the longest names");
  }

  void write(TarWriter &out, const std::string &key) {
    Json segments = Json::array();
    std::vector<size_t> pictures;
    auto member = [&](size_t e) {
      pictures.push_back(e);
      return std::to_string(pictures.size() - 1) + ".png";
    };
    auto part = [](const char *kind, const std::string &value) {
      return Json{{kind, value}};
    };
    for (const Segment &s : compose()) {
      Json text = part("text", emoji[s.emoji].name);
      Json segment =
          s.kind == Kind::Caption
              ? Json::array({part("image", member(s.emoji)), text})
          : s.kind == Kind::Draw
              ? Json::array({text, part("target", member(s.emoji))})
              : Json::array({text, part("text", emoji[s.second].name)});
      segments.push_back(std::move(segment));
    }
    out.add(key + ".json",
            Json{{"segments", std::move(segments)}}.dump() + "\n");
    for (size_t i = 0; i < pictures.size(); ++i)
      out.add(key + "." + std::to_string(i) + ".png", pngs[pictures[i]]);
  }

private:
  uint64_t below(uint64_t count) {
    return random() % count;
  } // counts are tiny, so the bias is below 2^-50

  template <typename T> void shuffle(std::vector<T> &list) {
    for (size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[below(i)]);
  }

  /// Without replacement: every emoji once in each kind, then again in another
  /// order.
  size_t draw(Kind kind) {
    std::vector<size_t> &pool = pools[size_t(kind)];
    if (pool.empty()) {
      for (size_t i = 0; i < emoji.size(); ++i)
        pool.push_back(i);
      shuffle(pool);
    }
    size_t e = pool.back();
    pool.pop_back();
    return e;
  }

  int64_t tokensOf(const Segment &s) const {
    int64_t length = lengths[s.emoji];
    return s.kind == Kind::Caption ? 2 + options.imageTokens + length
           : s.kind == Kind::Draw  ? 2 + length
                                   : 3 + length + lengths[s.second];
  }

  std::vector<Segment> compose() {
    std::vector<Kind> plan;
    auto add = [&](Kind kind, int64_t low, int64_t high) {
      plan.insert(plan.end(),
                  size_t(low + int64_t(below(uint64_t(high - low + 1)))), kind);
    };
    add(Kind::Caption, options.minImages, options.maxImages);
    add(Kind::Draw, options.minTargets, options.maxTargets);
    shuffle(plan);
    std::vector<Segment> out;
    int64_t used = 0;
    // A segment that does not fit is left out; after the planned ones, names
    // fill up until one does not fit.
    while (true) {
      bool planned = !plan.empty();
      Kind kind = planned ? plan.back() : Kind::Names;
      if (planned)
        plan.pop_back();
      Segment segment{kind, draw(kind),
                      kind == Kind::Names ? size_t(below(emoji.size())) : 0};
      if (used + tokensOf(segment) <= options.tokens) {
        used += tokensOf(segment);
        out.push_back(segment);
        continue;
      }
      pools[size_t(kind)].push_back(segment.emoji);
      if (!planned)
        return out;
    }
  }

  const std::vector<Emoji> &emoji;
  const DocumentOptions &options;
  std::mt19937_64 random;
  std::vector<int64_t> lengths;
  std::vector<std::string> pngs;
  std::vector<size_t> pools[3];
};

std::string numbered(int64_t i) {
  std::string digits = std::to_string(i);
  return std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
}
} // namespace

void tools::writeDocuments(const std::vector<Emoji> &emoji,
                           const DocumentOptions &options,
                           const std::string &shard) {
  Composer composer(emoji, options);
  TarWriter out(shard);
  for (int64_t i = 0; i < options.sequences; ++i)
    composer.write(out, numbered(i));
  out.close();
}

void tools::writePairs(const std::vector<Emoji> &emoji,
                       const std::string &shard) {
  TarWriter out(shard);
  for (size_t i = 0; i < emoji.size(); ++i) {
    out.add(numbered(int64_t(i)) + ".png", encodePng(emoji[i].picture));
    out.add(numbered(int64_t(i)) + ".txt", emoji[i].name);
  }
  out.close();
}

void tools::writeFolder(const std::string &folder, const std::string &shard) {
  std::error_code code;
  std::vector<std::string> paths;
  fs::recursive_directory_iterator walk(folder, code), end;
  for (; !code && walk != end; walk.increment(code))
    if (walk->is_regular_file(code))
      paths.push_back(walk->path().string());
  if (code)
    throw Error(folder + ": " + code.message());
  if (paths.empty())
    throw Error(folder + ": no files");
  std::sort(paths.begin(), paths.end());
  TarWriter out(shard);
  for (const std::string &path : paths) {
    PositionedFile file(path);
    out.add(fs::path(path).lexically_relative(folder).generic_string(),
            file.read(0, file.size()));
  }
  out.close();
}

void tools::writeVocabulary(const std::vector<std::string> &texts,
                            const std::string &path) {
  std::set<std::string> words;
  for (const std::string &text : texts)
    for (const std::string &word : splitWords(text))
      words.insert(word);
  std::string text;
  for (const std::string &word : words)
    text += word + '\n';
  rt::writeWhole(path, text);
}

//===- Inspect.cpp - index, check and count shards --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Inspect.h. Histograms of tokens have about sixteen bins of a round width,
// those of items one bin a count.
//
//===----------------------------------------------------------------------===//

#include "tools/dt-data/Inspect.h"

#include "runtime/base/Files.h"
#include "runtime/data/Index.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>

using namespace dt;
using namespace dt::tools;
using namespace dt::rt::data;
using Json = nlohmann::json;

namespace {
void nameBroken(const std::string &path, const ShardIndex &index,
                size_t limit) {
  for (const std::string &line : describeBroken(path, index, limit))
    std::fprintf(stderr, "%s\n", line.c_str());
  if (!index.problem.empty())
    std::fprintf(stderr, "%s: damaged: %s\n", path.c_str(),
                 index.problem.c_str());
}

void countLine(const std::string &path, const ShardIndex &index) {
  std::printf("%s: %lld samples, %lld broken\n", path.c_str(),
              (long long)index.samples.size(), (long long)index.broken());
}
} // namespace

bool tools::indexShards(const Config &config,
                        const std::vector<std::string> &shards, int workers) {
  bool good = true;
  for (const std::string &path : shards) {
    ShardIndex index = buildIndex(config, path, workers);
    nameBroken(path, index, 20);
    countLine(path, index);
    good &= index.broken() < int64_t(index.samples.size());
    if (!saveIndex(config, path, index)) {
      std::fprintf(stderr, "%s: cannot be written\n", indexPath(path).c_str());
      good = false;
    }
  }
  return good;
}

namespace {
/// Pictures of a kind, and those that "fit": "stretch" changes the shape of, by
/// more than the rounding of their sizes.
struct Stretched {
  int64_t all = 0, some = 0;
  std::string first;
};

void countStretched(const Config &config, const IndexedSample &sample,
                    const PositionedFile &file, std::vector<Stretched> &kinds) {
  auto read = [&](const Member &m) { return file.read(m.offset, m.size); };
  Document document = readDocument(config, sample.members, read);
  for (size_t k = 0; k < kinds.size(); ++k) {
    const PictureKind &kind = config.pictures[k];
    for (const DocumentItem &item : document.items[k]) {
      auto [width, height] = pictureSize(
          read(sample.members[size_t(item.member)]), config.limits.pixels);
      ++kinds[k].all;
      double ratio = double(width) * double(kind.height) /
                     (double(height) * double(kind.width));
      if (ratio > 0.99 && ratio < 1.01)
        continue;
      if (kinds[k].some++ == 0)
        kinds[k].first = "sample '" + sample.key + "' has " +
                         std::to_string(width) + " x " + std::to_string(height);
    }
  }
}

/// Says how many pictures lose their shape.
void remarkStretched(const Config &config, const std::string &path,
                     const ShardIndex &index) {
  std::vector<Stretched> kinds(config.pictures.size());
  PositionedFile file(path);
  for (const IndexedSample &sample : index.samples)
    if (sample.ok())
      countStretched(config, sample, file, kinds);
  for (size_t k = 0; k < kinds.size(); ++k) {
    const PictureKind &kind = config.pictures[k];
    if (kinds[k].some && kind.fit == Fit::Stretch)
      std::printf(
          "%s: remark: %lld of %lld pictures of \"%s\" are stretched to "
          "another shape, %lld x %lld (%s); \"fit\": \"crop\" or "
          "\"pad\" keeps it\n",
          path.c_str(), (long long)kinds[k].some, (long long)kinds[k].all,
          kind.name.c_str(), (long long)kind.width, (long long)kind.height,
          kinds[k].first.c_str());
  }
}
} // namespace

bool tools::checkShards(const Config &config,
                        const std::vector<std::string> &shards, int workers) {
  bool good = true;
  for (const std::string &path : shards) {
    ShardIndex index = buildIndex(config, path, workers);
    nameBroken(path, index, std::numeric_limits<size_t>::max());
    countLine(path, index);
    remarkStretched(config, path, index);
    good &=
        !index.samples.empty() && index.broken() == 0 && index.problem.empty();
  }
  return good;
}

std::vector<std::string>
tools::collectTexts(const std::vector<std::string> &shards) {
  std::vector<std::string> texts;
  for (const std::string &path : shards) {
    ShardIndex index = listSamples(path);
    PositionedFile file(path);
    for (IndexedSample &sample : index.samples)
      try {
        if (!sample.ok())
          continue;
        std::vector<std::string> more =
            readTexts(Limits(), sample.members, [&](const Member &m) {
              return file.read(m.offset, m.size);
            });
        for (const std::string &text : more)
          if (!isUtf8(text))
            throw rt::Error("text is not UTF-8");
        texts.insert(texts.end(), more.begin(), more.end());
      } catch (const rt::Error &error) {
        sample.problem = error.what();
      }
    nameBroken(path, index, 20);
  }
  return texts;
}

namespace {
struct Statistics {
  int64_t samples = 0;
  std::map<std::string, int64_t> broken;         ///< by reason
  std::map<int64_t, int64_t> tokens, labels;     ///< value -> samples
  std::vector<std::map<int64_t, int64_t>> items; ///< per kind
  std::map<std::vector<int32_t>, int64_t>
      joint; ///< counts of all kinds -> samples
  /// Tokens and counts of all kinds together: both say how much work a sample
  /// is, and they are correlated.
  std::map<std::pair<int64_t, std::vector<int32_t>>, int64_t> shapes;
};

/// Reasons of one sort fall together: what is quoted is left out, and of
/// numbers there are the least and the most.
class Reasons {
public:
  void add(const std::string &problem) {
    std::vector<uint64_t> numbers;
    std::vector<std::string> words = split(problem, numbers);
    Sort &sort = sorts.emplace(words, Sort{0, numbers, numbers}).first->second;
    ++sort.samples;
    for (size_t i = 0; i < numbers.size(); ++i) {
      sort.least[i] = std::min(sort.least[i], numbers[i]);
      sort.most[i] = std::max(sort.most[i], numbers[i]);
    }
  }

  /// Reason -> samples.
  std::map<std::string, int64_t> texts() const {
    std::map<std::string, int64_t> out;
    for (auto &[words, sort] : sorts) {
      std::string text = words[0];
      for (size_t i = 0; i + 1 < words.size(); ++i)
        text += std::to_string(sort.least[i]) +
                (sort.least[i] == sort.most[i]
                     ? ""
                     : " to " + std::to_string(sort.most[i])) +
                words[i + 1];
      out[text] += sort.samples;
    }
    return out;
  }

private:
  /// What stands around the numbers: one more than there are.
  static std::vector<std::string> split(const std::string &problem,
                                        std::vector<uint64_t> &numbers) {
    std::vector<std::string> words(1);
    bool quoted = false;
    for (size_t i = 0; i < problem.size(); ++i) {
      size_t end = problem.find_first_not_of("0123456789", i);
      if (problem[i] == '\'') {
        quoted = !quoted;
      } else if (!quoted && end != i) {
        numbers.push_back(std::strtoull(&problem[i], nullptr, 10));
        words.emplace_back();
        i = std::min(end, problem.size()) - 1;
      } else if (!quoted) {
        words.back() += problem[i];
      }
    }
    return words;
  }

  struct Sort {
    int64_t samples;
    std::vector<uint64_t> least, most; ///< of each number
  };
  std::map<std::vector<std::string>, Sort> sorts; ///< by words between numbers
};

Statistics count(const Config &config, const std::vector<std::string> &shards,
                 int workers) {
  Statistics s;
  s.items.resize(config.pictures.size());
  Reasons reasons;
  for (const std::string &path : shards) {
    ShardIndex index;
    if (!loadIndex(config, path, index))
      index = buildIndex(config, path, workers);
    for (const IndexedSample &sample : index.samples) {
      ++s.samples;
      if (!sample.ok()) {
        reasons.add(sample.problem);
        continue;
      }
      ++s.tokens[sample.tokens];
      ++s.labels[sample.labels];
      for (size_t k = 0; k < sample.items.size(); ++k)
        ++s.items[k][sample.items[k]];
      ++s.joint[sample.items];
      ++s.shapes[{sample.tokens, sample.items}];
    }
  }
  s.broken = reasons.texts();
  return s;
}

Json histogramJson(const std::map<int64_t, int64_t> &histogram) {
  Json out = Json::array();
  for (auto &[value, samples] : histogram)
    out.push_back({value, samples});
  return out;
}

/// A line a bin: range, samples, bar.
void printHistogram(const char *title,
                    const std::map<int64_t, int64_t> &histogram) {
  if (histogram.empty())
    return;
  int64_t low = histogram.begin()->first, high = histogram.rbegin()->first,
          width = 1, sum = 0, samples = 0, top = 1;
  for (int i = 0; (high - low) / width >= 16; ++i) // 1, 2, 5, 10, 20, 50, ...
    width = i % 3 == 1 ? width * 5 / 2 : width * 2;
  std::map<int64_t, int64_t> bins;
  for (auto &[value, n] : histogram) {
    top = std::max(top, bins[value / width] += n);
    sum += value * n;
    samples += n;
  }
  std::printf("%s a sample: mean %.2f, from %lld to %lld\n", title,
              double(sum) / double(samples), (long long)low, (long long)high);
  for (int64_t bin = low / width; bin <= high / width; ++bin) {
    std::string label =
        std::to_string(bin * width) +
        (width > 1 ? "-" + std::to_string((bin + 1) * width - 1) : "");
    std::printf("  %13s %9lld %s\n", label.c_str(), (long long)bins[bin],
                std::string(size_t(bins[bin] * 50 / top), '#').c_str());
  }
}

/// Rows: counts of the first kind, columns: of the second.
void printJoint(const Config &config, const Statistics &s, size_t a, size_t b) {
  std::map<std::pair<int32_t, int32_t>, int64_t> cells;
  for (auto &[counts, n] : s.joint)
    cells[{counts[a], counts[b]}] += n;
  std::printf("%s (rows) by %s (columns)\n%8s", config.pictures[a].name.c_str(),
              config.pictures[b].name.c_str(), "");
  for (auto &column : s.items[b])
    std::printf("%9lld", (long long)column.first);
  std::printf("\n");
  for (auto &row : s.items[a]) {
    std::printf("%8lld", (long long)row.first);
    for (auto &column : s.items[b])
      std::printf(
          "%9lld",
          (long long)cells[{int32_t(row.first), int32_t(column.first)}]);
    std::printf("\n");
  }
}
} // namespace

void tools::printStatistics(const Config &config,
                            const std::vector<std::string> &shards, int workers,
                            bool json) {
  Statistics s = count(config, shards, workers);
  int64_t broken = 0;
  for (auto &reason : s.broken)
    broken += reason.second;
  if (json) {
    Json out = {{"shards", shards.size()},
                {"samples", s.samples},
                {"broken", broken},
                {"reasons", s.broken},
                {"tokens", histogramJson(s.tokens)},
                {"labels", histogramJson(s.labels)}};
    Json kinds = Json::array(), joint = Json::array();
    for (size_t k = 0; k < config.pictures.size(); ++k) {
      kinds.push_back(config.pictures[k].name);
      out["items"][config.pictures[k].name] = histogramJson(s.items[k]);
    }
    for (auto &[counts, n] : s.joint)
      joint.push_back({counts, n});
    out["joint"] = {{"kinds", kinds}, {"counts", joint}};
    std::printf(
        "%s\n",
        out.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    return;
  }
  std::printf("%zu shard%s, %lld samples, %lld broken\n", shards.size(),
              shards.size() == 1 ? "" : "s", (long long)s.samples,
              (long long)broken);
  for (auto &[reason, n] : s.broken)
    std::printf("  %9lld %s\n", (long long)n, reason.c_str());
  if (config.sequence) {
    printHistogram("tokens", s.tokens);
    printHistogram("predicted tokens", s.labels);
  }
  for (size_t k = 0; k < config.pictures.size(); ++k)
    printHistogram(config.pictures[k].name.c_str(), s.items[k]);
  for (size_t a = 0; a < config.pictures.size(); ++a)
    for (size_t b = a + 1; b < config.pictures.size(); ++b)
      printJoint(config, s, a, b);
}

namespace {
/// Tokens that stand for one item of a kind: what its segments take besides
/// texts, at least 1.
int64_t tokensOfItem(const Config &config, size_t kind) {
  int64_t most = 1;
  for (const SegmentKind &segment : config.segments) {
    int64_t tokens = 0;
    for (const TemplateElement &element : segment.tokens)
      if (element.ofPart >= 0 && element.ofPart < int(segment.parts.size()) &&
          segment.parts[element.ofPart] == int(kind))
        tokens += element.count;
    most = std::max(most, tokens);
  }
  return most;
}
} // namespace

void tools::writeSamples(const Config &config,
                         const std::vector<std::string> &shards, int workers,
                         const std::string &path) {
  std::vector<size_t> ragged;
  for (size_t k = 0; k < config.pictures.size(); ++k)
    if (config.pictures[k].ragged)
      ragged.push_back(k);
  std::sort(ragged.begin(), ragged.end(), [&](size_t a, size_t b) {
    return config.pictures[a].name < config.pictures[b].name;
  });
  Statistics s = count(config, shards, workers);
  if (s.shapes.empty())
    throw rt::Error("--samples: the shards have no good sample");
  Json samples = Json::array(), kinds = Json::array();
  for (size_t k : ragged)
    kinds.push_back(config.pictures[k].name);
  for (auto &[shape, n] : s.shapes) {
    Json sample = {{"tokens", std::max<int64_t>(1, shape.first)},
                   {"count", n},
                   {"items", Json::array()}};
    for (size_t k : ragged) {
      size_t items = size_t(shape.second[k]);
      sample["items"].push_back(
          std::vector<int64_t>(items, items ? tokensOfItem(config, k) : 0));
    }
    samples.push_back(sample);
  }
  rt::writeWhole(path,
                 Json{{"kinds", kinds}, {"samples", samples}}.dump() + "\n");
}

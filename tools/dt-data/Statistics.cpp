//===- Statistics.cpp - what shards hold ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Inspect.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Files.h"
#include "runtime/data/Index.h"
#include "tools/dt-data/Inspect.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <numeric>
#include <tuple>

using namespace dt;
using namespace dt::tools;
using namespace dt::rt::data;
using Json = nlohmann::json;

namespace {
struct Statistics {
  int64_t samples = 0;
  std::map<std::string, int64_t> broken; ///< by reason
  Histogram tokens, labels;              ///< of samples
  std::vector<Histogram> items;          ///< per kind
  std::map<std::vector<int32_t>, int64_t>
      joint; ///< counts of all kinds -> samples
  /// Of pictures of any size, per kind: squares of one, and of all that a
  /// sample has.
  std::vector<Histogram> squares, ofSample;
  /// Tokens, counts and sizes of all kinds together: all say how much work a
  /// sample is, and they are correlated.
  struct Shape {
    int64_t tokens;
    std::vector<int32_t> items;
    std::vector<std::vector<int64_t>> squares;
    bool operator<(const Shape &o) const {
      return std::tie(tokens, items, squares) <
             std::tie(o.tokens, o.items, o.squares);
    }
  };
  std::map<Shape, int64_t> shapes;
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

/// Of each picture of the kinds of any size.
std::vector<std::vector<int64_t>>
countSquares(const Config &config, const IndexedSample &sample, Statistics &s) {
  std::vector<std::vector<int64_t>> all(config.pictures.size());
  for (size_t k = 0; k < config.pictures.size(); ++k) {
    if (!config.pictures[k].grid)
      continue;
    for (const Squares &squares : sample.squares[k]) {
      all[k].push_back(squares.count());
      ++s.squares[k][all[k].back()];
    }
    ++s.ofSample[k][std::accumulate(all[k].begin(), all[k].end(), int64_t(0))];
  }
  return all;
}

Statistics count(const Config &config, const std::vector<std::string> &shards,
                 int workers) {
  Statistics s;
  s.items.resize(config.pictures.size());
  s.squares = s.ofSample = s.items;
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
      ++s.shapes[{sample.tokens, sample.items,
                  countSquares(config, sample, s)}];
    }
  }
  s.broken = reasons.texts();
  return s;
}

JointTable tableOf(const Config &config, const Statistics &s, size_t a,
                   size_t b) {
  JointTable table{config.pictures[a].name,
                   config.pictures[b].name,
                   s.items[a],
                   s.items[b],
                   {}};
  for (auto &[counts, n] : s.joint)
    table.cells[{counts[a], counts[b]}] += double(n);
  return table;
}

Report reportOf(const Config &config, const Statistics &s, size_t shards) {
  Report report;
  int64_t broken = 0;
  for (auto &reason : s.broken)
    broken += reason.second;
  report.head = std::to_string(shards) +
                (shards == 1 ? " shard, " : " shards, ") +
                std::to_string(s.samples) + " samples, " +
                std::to_string(broken) + " broken";
  report.broken.insert(s.broken.begin(), s.broken.end());
  report.json = {{"shards", shards},           {"samples", s.samples},
                 {"broken", broken},           {"reasons", s.broken},
                 {"tokens", toJson(s.tokens)}, {"labels", toJson(s.labels)}};
  if (config.sequence) {
    report.charts.push_back({"tokens a sample", "samples", s.tokens});
    report.charts.push_back({"predicted tokens a sample", "samples", s.labels});
  }
  Json kinds = Json::array(), joint = Json::array();
  for (size_t k = 0; k < config.pictures.size(); ++k) {
    const std::string &name = config.pictures[k].name;
    kinds.push_back(name);
    report.json["items"][name] = toJson(s.items[k]);
    report.charts.push_back({name + " a sample", "samples", s.items[k]});
    if (config.pictures[k].grid) {
      std::string quantity = name + "." + config.pictures[k].measure;
      report.json["measures"][quantity] = {{"item", toJson(s.squares[k])},
                                           {"sample", toJson(s.ofSample[k])}};
      report.charts.push_back(
          {quantity + " of an item", "items", s.squares[k]});
      report.charts.push_back(
          {quantity + " of all items of a sample", "samples", s.ofSample[k]});
    }
    for (size_t other = k + 1; other < config.pictures.size(); ++other)
      report.tables.push_back(tableOf(config, s, k, other));
  }
  for (auto &[counts, n] : s.joint)
    joint.push_back({counts, n});
  report.json["joint"] = {{"kinds", kinds}, {"counts", joint}};
  return report;
}
} // namespace

Report tools::countSamples(const Config &config,
                           const std::vector<std::string> &shards,
                           int workers) {
  return reportOf(config, count(config, shards, workers), shards.size());
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
    Json sample = {{"tokens", std::max<int64_t>(1, shape.tokens)},
                   {"count", n},
                   {"items", Json::array()}};
    for (size_t k : ragged) {
      size_t items = size_t(shape.items[k]);
      sample["items"].push_back(
          config.pictures[k].grid
              ? shape.squares[k]
              : std::vector<int64_t>(items,
                                     items ? tokensOfItem(config, k) : 0));
    }
    samples.push_back(sample);
  }
  rt::writeWhole(path,
                 Json{{"kinds", kinds}, {"samples", samples}}.dump() + "\n");
}

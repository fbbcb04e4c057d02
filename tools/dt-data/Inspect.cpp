//===- Inspect.cpp - index, check and count shards --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Inspect.h.
//
//===----------------------------------------------------------------------===//

#include "tools/dt-data/Inspect.h"

#include "runtime/data/Index.h"

#include <cstdint>
#include <cstdio>
#include <limits>

using namespace dt;
using namespace dt::tools;
using namespace dt::rt::data;

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
    if (kind.grid)
      continue;
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

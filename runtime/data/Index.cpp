//===- Index.cpp - what a shard holds, known before training ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Index.h; building and describing. IndexFile.cpp reads and writes the
// file.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Index.h"

#include "runtime/Activity.h"
#include "runtime/Error.h"
#include "runtime/Stop.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

using namespace dt::rt;
using namespace dt::rt::data;

int64_t ShardIndex::broken() const {
  return std::count_if(samples.begin(), samples.end(),
                       [](const IndexedSample &s) { return !s.ok(); });
}

namespace {
constexpr size_t maxMembers =
    4096; // of one sample: bounds what a hostile shard makes us compare

/// Names that are not UTF-8 cannot stand in the index: bytes from 128 on become
/// \xHH.
std::string escaped(const std::string &name) {
  if (isUtf8(name))
    return name;
  std::string out;
  char hex[8];
  for (unsigned char c : name) {
    std::snprintf(hex, sizeof hex, c < 128 ? "%c" : "\\x%02x", c);
    out += hex;
  }
  return out;
}

void addMember(IndexedSample &sample, const TarMember &member,
               std::string name) {
  if (sample.members.size() >= maxMembers) {
    sample.problem = "more than " + std::to_string(maxMembers) + " members";
    return;
  }
  if (!member.problem.empty())
    sample.problem = "member '" + printable(name) + "' " + member.problem;
  for (const Member &other : sample.members)
    if (other.name == name)
      sample.problem = "member '" + printable(name) + "' is there twice";
  sample.members.push_back({std::move(name), member.offset, member.size});
}

/// Decodes sample `sample` and fills in its counts, or its problem.
void examine(const Config &config, const PositionedFile &file,
             IndexedSample &sample) {
  if (!sample.ok())
    return;
  try {
    DecodedSample decoded =
        decodeSample(config, sample.members, [&](const Member &m) {
          return file.read(m.offset, m.size);
        });
    sample.tokens = int32_t(decoded.document.ids.size());
    sample.labels = int32_t(decoded.document.lossTokens());
    for (const auto &items : decoded.document.items)
      sample.items.push_back(int32_t(items.size()));
  } catch (const Error &error) {
    sample.problem = error.what();
  } catch (const std::bad_alloc &) {
    sample.problem = "needs too much memory";
  }
}
} // namespace

ShardIndex data::listSamples(const std::string &path) {
  TarListing listing = listTar(path);
  ShardIndex index;
  index.problem = listing.problem;
  std::set<std::string> seen;
  for (const TarMember &member : listing.members) {
    std::string name = escaped(member.name);
    size_t slash = name.find_last_of('/');
    size_t dot = name.find('.', slash == std::string::npos ? 0 : slash + 1);
    if (dot == std::string::npos || dot + 1 == name.size())
      continue; // README and the like
    std::string key = name.substr(0, dot);
    if (index.samples.empty() || index.samples.back().key != key) {
      index.samples.emplace_back();
      index.samples.back().key = key;
      if (!seen.insert(key).second)
        index.samples.back().problem = "its name occurred before";
    }
    addMember(index.samples.back(), member, name.substr(dot + 1));
  }
  // The last sample may lack members that the damage swallowed.
  if (!index.problem.empty() && !index.samples.empty() &&
      index.samples.back().ok())
    index.samples.back().problem =
        "the shard is damaged behind it (" + index.problem + ")";
  return index;
}

ShardIndex data::buildIndex(const Config &config, const std::string &path,
                            int workers) {
  ShardIndex index = listSamples(path);
  PositionedFile file(path);
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  auto work = [&] {
    try {
      for (size_t i = next++; i < index.samples.size(); i = next++) {
        throwIfStopped();
        examine(config, file, index.samples[i]);
        progressed();
      }
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < workers; ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  if (failure)
    std::rethrow_exception(failure);
  return index;
}

std::vector<std::string> data::describeBroken(const std::string &path,
                                              const ShardIndex &index,
                                              size_t limit) {
  std::vector<std::string> lines;
  size_t more = 0;
  for (const IndexedSample &sample : index.samples) {
    if (sample.ok())
      continue;
    if (lines.size() < limit)
      lines.push_back(path + ": sample '" + printable(sample.key) +
                      "': " + sample.problem);
    else
      ++more;
  }
  if (more)
    lines.push_back(path + ": and " + std::to_string(more) +
                    " more broken samples (dt-data check names all)");
  return lines;
}

DataSet::DataSet(const Config &config, const std::string &pattern,
                 int workers) {
  ShardPaths chosen = expandPattern(pattern);
  paths = std::move(chosen.paths);
  notShards = std::move(chosen.leftOut);
  fingerprint = hashBytes("shards", config.key);
  for (const std::string &path : paths) {
    files.push_back(std::make_unique<PositionedFile>(path));
    ShardIndex index;
    if (!loadIndex(config, path, index)) {
      index = buildIndex(config, path, workers);
      for (const std::string &line : describeBroken(path, index, 20))
        std::fprintf(stderr, "%s\n", line.c_str());
      saveIndex(config, path, index);
    }
    fingerprint = hashBytes(path.substr(path.find_last_of('/') + 1) + ":" +
                                std::to_string(files.back()->size()),
                            fingerprint);
    for (size_t i = 0; i < index.samples.size(); ++i) {
      if (!index.samples[i].ok()) {
        ++bad;
        continue;
      }
      places.push_back({int32_t(files.size() - 1), int32_t(i)});
      fingerprint = hashBytes(index.samples[i].key, fingerprint);
    }
    indices.push_back(std::move(index));
  }
  if (places.empty())
    throw Error(pattern + ": no good sample (" + std::to_string(bad) +
                " broken)");
}

const IndexedSample &DataSet::sample(int64_t number) const {
  const Place &place = places[size_t(number)];
  return indices[size_t(place.shard)].samples[size_t(place.sample)];
}

DecodedSample DataSet::decode(const Config &config, int64_t number,
                              const WantPicture &want) const {
  const Place &place = places[size_t(number)];
  const IndexedSample &known = sample(number);
  std::string where =
      paths[size_t(place.shard)] + ": sample '" + printable(known.key) + "': ";
  try {
    const PositionedFile &file = *files[size_t(place.shard)];
    DecodedSample out = decodeSample(
        config, known.members,
        [&](const Member &m) { return file.read(m.offset, m.size); }, want);
    bool same = int64_t(out.document.ids.size()) == known.tokens;
    for (size_t k = 0; k < out.document.items.size(); ++k)
      same &= int64_t(out.document.items[k].size()) == known.items[k];
    if (!same)
      throw Error("other tokens or items than in the index");
    return out;
  } catch (const Error &error) {
    throw Error(
        where + error.what() +
        " (it was good when the index was built: did the shard change?)");
  }
}

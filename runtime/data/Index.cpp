//===- Index.cpp - what a shard holds, known before training ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Index.h; building and describing. IndexFile.cpp reads and writes the
// file.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Index.h"
#include "runtime/base/Thread.h"

#include "runtime/base/Cores.h"
#include "runtime/base/FileActivity.h"
#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/base/ReadJson.h"
#include "runtime/base/Stop.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

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
    for (size_t k = 0; k < config.pictures.size(); ++k) {
      const std::vector<DocumentItem> &items = decoded.document.items[k];
      sample.items.push_back(int32_t(items.size()));
      sample.squares.emplace_back();
      for (const DocumentItem &item : items)
        if (config.pictures[k].grid)
          sample.squares.back().push_back(item.squares);
    }
  } catch (const SystemError &) {
    throw;
  } catch (const Error &error) {
    sample.problem = error.what();
  } catch (const std::bad_alloc &) {
    throw SystemError("out of memory");
  }
}

std::string whereOf(const std::string &path, const std::string &key) {
  return path + ": sample '" + printable(key) + "': ";
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
  std::string failure;
  std::mutex mutex;
  auto work = [&] {
    for (size_t i = next++; i < index.samples.size(); i = next++)
      try {
        if (isStopRequested())
          return;
        examine(config, file, index.samples[i]);
        progressed();
      } catch (const std::exception &error) {
        std::lock_guard<std::mutex> lock(mutex);
        if (failure.empty())
          failure = whereOf(path, index.samples[i].key) + error.what();
        next = index.samples.size();
      }
  };
  std::vector<std::thread> threads;
  try {
    for (int i = 1; i < workers && size_t(i) < index.samples.size(); ++i)
      threads.push_back(startThread("indexing samples", work));
  } catch (const SystemError &) { // fewer do it, too
  }
  work();
  for (std::thread &thread : threads)
    thread.join();
  throwIfStopped();
  if (!failure.empty())
    throw SystemError(failure);
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
      lines.push_back(printable(whereOf(path, sample.key) + sample.problem));
    else
      ++more;
  }
  if (more)
    lines.push_back(path + ": and " + std::to_string(more) +
                    " more broken samples (dt-data check names all)");
  return lines;
}

namespace {
using Json = nlohmann::json;

std::string dump(const Json &json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Among the processes of one machine those that share cores.
std::string coresOf() {
  std::string text;
#ifdef __linux__
  cpu_set_t set;
  if (!::sched_getaffinity(0, sizeof set, &set))
    for (int i = 0; i < CPU_SETSIZE; ++i)
      text += CPU_ISSET(i, &set) ? '1' : '0';
#endif
  return text;
}

/// An error of this process goes to all in its next message: one that went its
/// own way would leave the others waiting.
void attempt(Json &message, const std::function<void()> &body) {
  try {
    body();
  } catch (const std::bad_alloc &) {
    message["error"] = "out of memory";
  } catch (const std::exception &e) {
    message["error"] = e.what();
  }
}

/// Indices of shards, made by the process of each machine whose turn it is.
class Indexer {
public:
  Indexer(const Config &config, const ShardFiles &files, IndexPeers &peers,
          int workers)
      : config(config), files(files), peers(peers), workers(workers),
        indices(files.count()), have(files.count()) {}

  std::vector<ShardIndex> run() {
    Json mine = Json::object();
    attempt(mine, [&] {
      for (size_t i = 0; i < files.count(); ++i)
        have[i] = loadIndex(config, files.path(i), indices[i]);
    });
    share(mine);
    mine = {{"broken", Json::array()}, {"unsaved", Json::object()}};
    attempt(mine, [&] {
      for (size_t i : turns)
        build(i, mine);
    });
    std::vector<Json> all = exchange(mine);
    for (const Json &other : all)
      for (const Json &line : other["broken"])
        if (peers.rank() == 0)
          printError("%s\n", line.get<std::string>().c_str());
    for (size_t i = 0; i < files.count(); ++i)
      if (!have[i])
        take(i, all);
    return std::move(indices);
  }

private:
  /// Throws the first error of any, on all.
  std::vector<Json> exchange(const Json &mine) {
    std::vector<Json> all;
    for (const std::string &text : peers.exchange(dump(mine)))
      all.push_back(readJson(text, "another rank's part of the index"));
    for (const Json &other : all)
      if (other.contains("error"))
        throw Error(other["error"].get<std::string>());
    return all;
  }

  /// Whose turn a missing shard is, and how many threads that makes here.
  void share(Json mine) {
    Json missing = Json::array();
    for (size_t i = 0; i < have.size(); ++i)
      if (!have[i])
        missing.push_back(i);
    mine["machine"] = machineName(), mine["cores"] = coresOf();
    mine["shards"] = files.count(), mine["missing"] = missing;
    std::vector<Json> all = exchange(mine);
    const Json &own = all[size_t(peers.rank())];
    std::set<size_t> wanted;
    std::vector<size_t> here;
    for (size_t r = 0; r < all.size(); ++r) {
      node.push_back(all[r]["machine"] == own["machine"] &&
                     all[r]["shards"] == own["shards"]);
      if (!node[r])
        continue;
      here.push_back(r);
      for (const Json &i : all[r]["missing"])
        wanted.insert(i.get<size_t>());
    }
    size_t number = 0, sharing = 0;
    for (size_t i : wanted)
      if (here[number++ % here.size()] == size_t(peers.rank()))
        turns.push_back(i);
    for (size_t k = 0; k < here.size() && k < wanted.size(); ++k)
      sharing += all[here[k]]["cores"] == own["cores"];
    if (!workers)
      workers = std::max(1, usableCores() / std::max(1, int(sharing)));
  }

  void build(size_t i, Json &mine) {
    const std::string &path = files.path(i);
    if (!have[i])
      indices[i] = buildIndex(config, path, workers);
    have[i] = true;
    for (std::string &line : describeBroken(path, indices[i], 20))
      mine["broken"].push_back(std::move(line));
    std::string text = indexText(config, path, indices[i]), why;
    if (saveIndex(path, text, &why))
      return;
    mine["unsaved"][std::to_string(i)] = text;
    if (!why.empty())
      mine["broken"].push_back(why + "; the index will be built again");
  }

  /// From the file that another one made, or from its message.
  void take(size_t i, const std::vector<Json> &all) {
    const std::string &path = files.path(i);
    std::string number = std::to_string(i);
    if (loadIndex(config, path, indices[i]))
      return;
    for (size_t r = 0; r < all.size(); ++r)
      if (node[r] && all[r]["unsaved"].contains(number) &&
          parseIndex(config, path, all[r]["unsaved"][number], indices[i]))
        return;
    indices[i] = buildIndex(config, path, std::max(1, workers));
  }

  const Config &config;
  const ShardFiles &files;
  IndexPeers &peers;
  int workers;
  std::vector<ShardIndex> indices;
  std::vector<char> have, node; ///< node: the rank is on this machine
  std::vector<size_t> turns;
};

/// The shards, or nothing and why.
ShardFiles openShards(const std::string &pattern, IndexPeers &peers,
                      std::vector<std::string> &leftOut) {
  std::unique_ptr<ShardFiles> files;
  Json mine = Json::object();
  attempt(mine, [&] {
    ShardPaths chosen = expandPattern(pattern);
    files = std::make_unique<ShardFiles>(std::move(chosen.paths));
    leftOut = std::move(chosen.leftOut);
  });
  for (const std::string &text : peers.exchange(dump(mine)))
    if (Json other = readJson(text, "another rank's shards");
        other.contains("error"))
      throw Error(other["error"].get<std::string>());
  return std::move(*files);
}

IndexPeers &alone() {
  static IndexPeers one;
  return one;
}
} // namespace

DataSet::DataSet(const Config &config, const std::string &pattern, int workers,
                 IndexPeers *peers)
    : files(openShards(pattern, peers ? *peers : alone(), notShards)) {
  fingerprint = hashBytes("shards", config.key);
  indices = Indexer(config, files, peers ? *peers : alone(), workers).run();
  for (size_t n = 0; n < indices.size(); ++n) {
    const std::string &path = files.path(n);
    const ShardIndex &index = indices[n];
    fingerprint = hashBytes(path.substr(path.find_last_of('/') + 1) + ":" +
                                std::to_string(files.size(n)),
                            fingerprint);
    for (size_t i = 0; i < index.samples.size(); ++i) {
      if (!index.samples[i].ok()) {
        ++bad;
        continue;
      }
      places.push_back({int32_t(n), int32_t(i)});
      fingerprint = hashBytes(index.samples[i].key, fingerprint);
    }
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
  std::string where = whereOf(files.path(size_t(place.shard)), known.key);
  try {
    DecodedSample out = decodeSample(
        config, known.members,
        [&](const Member &m) {
          return files.read(size_t(place.shard), m.offset, m.size);
        },
        want, &known.squares);
    bool same = int64_t(out.document.ids.size()) == known.tokens;
    for (size_t k = 0; k < out.document.items.size(); ++k)
      same &= int64_t(out.document.items[k].size()) == known.items[k];
    if (!same)
      throw Error("other tokens or items than in the index");
    return out;
  } catch (const SystemError &error) {
    throw SystemError(where + error.what(), error.code);
  } catch (const std::bad_alloc &) {
    throw SystemError(where + "out of memory");
  } catch (const Error &error) {
    throw Error(
        where + error.what() +
        " (it was good when the index was built: did the shard change?)");
  }
}

//===- Index.h - what a shard holds, known before training ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The index of a shard: where samples lie, which are broken and why, how many
// tokens, labels and items the good ones have. Built once and kept beside the
// shard, because it costs a decode of everything; with it the batch of any step
// is known without reading a sample.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_INDEX_H
#define DT_RUNTIME_DATA_INDEX_H

#include "runtime/data/Config.h"
#include "runtime/data/Sample.h"
#include "runtime/data/ShardFiles.h"

#include <string>
#include <vector>

namespace dt::rt::data {

struct IndexedSample {
  std::string key;
  std::vector<Member> members;
  std::string problem;            ///< not empty: broken, and why
  int32_t tokens = 0, labels = 0; ///< labels: tokens marked as targets
  std::vector<int32_t> items;     ///< per picture kind
  SampleSquares squares;          ///< per picture kind

  bool ok() const { return problem.empty(); }
};

struct ShardIndex {
  std::vector<IndexedSample> samples;
  std::string
      problem; ///< not empty: the shard is damaged behind its last sample

  int64_t broken() const;
};

/// The samples of a tar, not decoded: consecutive members with one key.
/// `problem` is set for what listing finds (links, truncation, a member twice).
/// Throws Error if it is no tar.
ShardIndex listSamples(const std::string &path);

/// Decodes every sample with `workers` threads. Equal for every number of
/// workers. Throws Error, which names the sample, where the shard cannot be
/// read or memory is short: that says nothing about a sample and is not
/// remembered.
ShardIndex buildIndex(const Config &config, const std::string &path,
                      int workers);

/// `path`.idx.json.
std::string indexPath(const std::string &path);

/// False: not there, of another shard (size or modification time), recipe or
/// version, or damaged; offsets that lie outside the shard count as damage.
bool loadIndex(const Config &config, const std::string &path,
               ShardIndex &index);

/// The same from the text of such a file.
bool parseIndex(const Config &config, const std::string &path,
                const std::string &text, ShardIndex &index);

/// The text of the file.
std::string indexText(const Config &config, const std::string &path,
                      const ShardIndex &index);

/// Atomic; false: the folder cannot be written to. `why`: what failed, unless
/// it is that the folder is not this user's to write.
bool saveIndex(const std::string &path, const std::string &text,
               std::string *why = nullptr);
bool saveIndex(const Config &config, const std::string &path,
               const ShardIndex &index);

/// One line a broken sample: "shard.tar: sample '0017': reason"; at most
/// `limit`, then "and N more".
std::vector<std::string> describeBroken(const std::string &path,
                                        const ShardIndex &index, size_t limit);

/// The processes that open the same data together, so that a shard is indexed
/// by one process of a machine, and what is said is said once.
class IndexPeers {
public:
  virtual ~IndexPeers() = default;
  virtual int rank() const { return 0; }
  /// Every process's text, in order of ranks. All of them call it.
  virtual std::vector<std::string> exchange(const std::string &mine) {
    return {mine};
  }
};

/// Shards opened for reading, their good samples numbered through.
class DataSet {
public:
  struct Place {
    int32_t shard, sample;
  };

  /// `pattern`: as expandPattern() takes it. Loads or builds indices
  /// with `workers` threads (0: the cores that this process has among its
  /// peers); broken samples are named on stderr, by the first of the peers,
  /// when an index is built. Throws Error (no shard, no good sample, a shard
  /// that cannot be read); of the peers all or none, but for the last.
  DataSet(const Config &config, const std::string &pattern, int workers,
          IndexPeers *peers = nullptr);

  int64_t size() const { return int64_t(places.size()); }
  const IndexedSample &sample(int64_t number) const;
  /// Reads and decodes; an error now means that the shard changed: throws Error
  /// with its name.
  DecodedSample decode(const Config &config, int64_t number,
                       const WantPicture &want = {}) const;

  size_t shards() const { return files.count(); }
  /// Files that the pattern matched, "PATH (why it is no shard)".
  const std::vector<std::string> &leftOut() const { return notShards; }
  int64_t broken() const { return bad; }
  uint64_t hash() const {
    return fingerprint;
  } ///< over shard names, sizes and good samples

private:
  std::vector<std::string> notShards; ///< before `files`, whose making fills it
  ShardFiles files;
  std::vector<ShardIndex> indices;
  std::vector<Place> places;
  int64_t bad = 0;
  uint64_t fingerprint = 0;
};

/// The shards that a pattern names, sorted, each once: a path, or one with
/// wildcards (*, ?, []) and braces (expandBraces()). With wildcards, folders
/// and indices are passed over, and `leftOut` says of other files why they are
/// no shards. Throws Error if there is no shard, or none of a name that braces
/// stand for.
struct ShardPaths {
  std::vector<std::string> paths, leftOut;
};
ShardPaths expandPattern(const std::string &pattern);

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_INDEX_H

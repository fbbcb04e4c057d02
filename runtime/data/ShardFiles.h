//===- ShardFiles.h - shards that are open for reading ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// There may be more shards than a process may open files, so only those read
// last are open. One that is opened again must be the file that it was.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_SHARDFILES_H
#define DT_RUNTIME_DATA_SHARDFILES_H

#include "runtime/data/Tar.h"

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace dt::rt::data {

class ShardFiles {
public:
  /// Reads sizes and times of all; throws Error. `most`: open at once; 0: by
  /// the process's limit.
  explicit ShardFiles(std::vector<std::string> paths, size_t most = 0);
  /// While nobody reads.
  ShardFiles(ShardFiles &&other);

  size_t count() const { return shards.size(); }
  const std::string &path(size_t shard) const { return shards[shard].path; }
  int64_t size(size_t shard) const { return shards[shard].size; }
  /// Shareable by threads. Throws as PositionedFile::read, and Error if the
  /// shard is another file than at first.
  std::string read(size_t shard, int64_t offset, int64_t size) const;
  /// Open now.
  size_t open() const;

private:
  struct Shard {
    std::string path;
    int64_t size, modified;
    uint64_t inode;
    std::shared_ptr<const PositionedFile> file; ///< null: closed
    std::list<size_t>::iterator place;          ///< in `order`
  };
  std::shared_ptr<const PositionedFile> fileOf(size_t shard) const;
  void closeOldest() const;

  mutable std::mutex mutex;
  mutable std::vector<Shard> shards;
  mutable std::list<size_t> order; ///< open ones, the last read first
  size_t most;
};

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_SHARDFILES_H

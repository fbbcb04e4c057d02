//===- ShardFiles.cpp - shards that are open for reading --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/ShardFiles.h"

#include <algorithm>
#include <sys/resource.h>

using namespace dt::rt;
using namespace dt::rt::data;

namespace {
/// A quarter of what the process may have: MPI and the libraries need some too.
size_t mostOpen() {
  rlimit limit{};
  size_t files = 256;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY)
    files = size_t(limit.rlim_cur);
  return std::clamp<size_t>(files / 4, 1, 128);
}
} // namespace

ShardFiles::ShardFiles(std::vector<std::string> paths, size_t most)
    : most(most ? most : mostOpen()) {
  for (std::string &path : paths) {
    PositionedFile file(path);
    shards.push_back({std::move(path), file.size(), file.modified(),
                      file.inode(), nullptr, order.end()});
  }
}

ShardFiles::ShardFiles(ShardFiles &&other)
    : shards(std::move(other.shards)), order(std::move(other.order)),
      most(other.most) {}

size_t ShardFiles::open() const {
  std::lock_guard<std::mutex> lock(mutex);
  return order.size();
}

/// A thread that reads from it keeps it until it is done.
void ShardFiles::closeOldest() const {
  shards[order.back()].file = nullptr;
  order.pop_back();
}

std::shared_ptr<const PositionedFile> ShardFiles::fileOf(size_t number) const {
  std::lock_guard<std::mutex> lock(mutex);
  Shard &shard = shards[number];
  if (shard.file) {
    order.splice(order.begin(), order, shard.place);
    return shard.file;
  }
  while (order.size() >= most)
    closeOldest();
  std::shared_ptr<const PositionedFile> file;
  while (!file)
    try {
      file = std::make_shared<PositionedFile>(shard.path);
    } catch (const SystemError &e) {
      // Others may have opened more than is left: make room.
      if ((e.code != EMFILE && e.code != ENFILE) || order.empty())
        throw;
      closeOldest();
    }
  // One that was only touched is the same.
  if (file->size() != shard.size ||
      (file->inode() != shard.inode && file->modified() != shard.modified))
    throw Error(shard.path + ": the shard has changed under the run");
  shard.file = file;
  order.push_front(number);
  shard.place = order.begin();
  return file;
}

std::string ShardFiles::read(size_t shard, int64_t offset, int64_t size) const {
  return fileOf(shard)->read(offset, size);
}

//===- BatchPipe.cpp - safetensors files one behind another ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/BatchPipe.h"

#include "runtime/base/FileActivity.h"
#include "runtime/base/Stop.h"
#include "runtime/data/BatchSource.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace dt::rt {

BatchPipe::BatchPipe(const std::string &path) : path(path) {
  if (path != "-")
    file = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (path != "-" && !file)
    failedCall(path, "open");
}

std::optional<SafetensorsOutline> BatchPipe::next(std::string &content) {
  content.clear();
  if (!read(content, 8))
    return std::nullopt;
  uint64_t length = safetensorsHeaderLength(content, path);
  read(content, length);
  SafetensorsOutline outline = outlineSafetensors(content.substr(8), path);
  read(content, outline.dataLength);
  return outline;
}

/// All of `size` bytes; false: it has ended before the first.
bool BatchPipe::read(std::string &to, size_t size) {
  FileActivity activity("reading", path);
  size_t begin = to.size(), have = 0;
  while (have < size) {
    to.resize(begin + have + std::min(size - have, kMostAtOnce));
    ssize_t n = readSome(to.data() + begin + have, to.size() - begin - have);
    if (n < 0)
      continue;
    if (n == 0 && !have && !begin)
      return false;
    if (n == 0)
      throw Error(path + ": ends in the middle of a batch");
    have += size_t(n);
    activity.moved();
  }
  to.resize(begin + size);
  return true;
}

/// Negative: nothing has come for a while.
ssize_t BatchPipe::readSome(char *to, size_t size) {
  int number = path == "-" ? STDIN_FILENO : file.get();
  pollfd entry{number, POLLIN, 0};
  if (::poll(&entry, 1, 100) <= 0) {
    if (isStopRequested())
      throw BatchesEnded::asked();
    return -1;
  }
  ssize_t n = ::read(number, to, size);
  if (n < 0 && errno != EAGAIN && errno != EINTR)
    failedCall(path, "read");
  return n;
}

} // namespace dt::rt

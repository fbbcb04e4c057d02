//===- BatchPipe.h - safetensors files one behind another -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_BATCHPIPE_H
#define DT_RUNTIME_DATA_BATCHPIPE_H

#include "runtime/base/Safetensors.h"

#include <optional>

namespace dt::rt {

/// What a pipe brings, or standard input ("-"): whole safetensors files.
class BatchPipe {
public:
  /// Does not wait for whoever writes it: next() does. Throws SystemError.
  explicit BatchPipe(const std::string &path);

  /// All bytes of the next file; none: the pipe has ended. Throws Error if it
  /// ends amid a file, and BatchesEnded if the run is asked to end first.
  std::optional<SafetensorsOutline> next(std::string &content);

private:
  bool read(std::string &to, size_t size);
  ssize_t readSome(char *to, size_t size);

  std::string path;
  Descriptor file;
};

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_BATCHPIPE_H

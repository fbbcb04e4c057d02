//===- RegularFile.cpp - Files that are read whole ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/json/RegularFile.h"

#include "llvm/Support/FileSystem.h"

using namespace llvm;

namespace dt::models {

Error expectRegular(StringRef path) {
  sys::fs::file_status status;
  if (std::error_code code = sys::fs::status(path, status))
    return createStringError(code.message());
  if (sys::fs::is_regular_file(status) || path == "/dev/stdin" ||
      path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/"))
    return Error::success();
  std::error_code folder = std::make_error_code(std::errc::is_a_directory);
  return createStringError(
      sys::fs::is_directory(status) ? folder.message() : "not a regular file");
}

Expected<std::unique_ptr<MemoryBuffer>> readRegular(StringRef path) {
  if (Error wrong = expectRegular(path))
    return std::move(wrong);
  auto buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return createStringError(buffer.getError().message());
  return std::move(*buffer);
}

} // namespace dt::models

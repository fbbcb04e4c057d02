//===- RegularFile.h - Files that are read whole ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Recipes, plans and graphs name each other's files. Opening a pipe waits for
// its writer, which may never come, so what is named is a regular file.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_JSON_REGULARFILE_H
#define MODELS_FRONTEND_JSON_REGULARFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace dt::models {

/// An error, without the path, unless `path` is a regular file or one of the
/// process's own streams (/dev/stdin, /dev/fd/3).
llvm::Error expectRegular(llvm::StringRef path);

/// The content of such a file; errors are without the path, too.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readRegular(llvm::StringRef path);

} // namespace dt::models

#endif // MODELS_FRONTEND_JSON_REGULARFILE_H

//===- FreshDirectory.h - a directory that is whole or as before -*- C++ -*-==//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An emitted directory is written beside its place and takes it when it is
// complete. What a program wrote before is replaced; other entries (a build
// folder, checkpoints) move along. Whoever is killed meanwhile leaves either
// program whole, and what stands under another name then is put back, and
// named, by the next run.
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_COMMON_FRESHDIRECTORY_H
#define CODEGEN_COMMON_FRESHDIRECTORY_H

#include "runtime/base/OutputClaim.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace dt::codegen {

/// Lists the entries that belong to the program; its presence says that a
/// directory is one.
inline constexpr llvm::StringLiteral kManifest = ".generated";

class FreshDirectory {
public:
  /// Removes what was not committed.
  ~FreshDirectory();

  /// Makes an empty directory beside `directory`, and its parents. An error if
  /// another process is at it, or if it holds something else than a program of
  /// this compiler. Undoes what a killed process left; notes() says so.
  llvm::Error open(llvm::StringRef directory);
  /// A line each: what stood under another name and is back.
  const std::vector<std::string> &notes() const { return back; }

  /// Where to write; its entries are to be listed in kManifest.
  const std::string &path() const { return fresh; }
  /// Where it will stand: absolute.
  const std::string &place() const { return target; }
  llvm::Error commit();

private:
  llvm::Error recover();
  llvm::Error finish(llvm::StringRef replaced, bool says);

  std::string target, fresh, aside;
  std::vector<std::string> back;
  rt::OutputClaim claim;
};

} // namespace dt::codegen

#endif // CODEGEN_COMMON_FRESHDIRECTORY_H

//===- FreshDirectory.cpp - a directory that is whole or as before --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/FreshDirectory.h"
#include "runtime/base/Files.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

namespace dt::codegen {

namespace {

/// In a directory whose replacement is not finished: entries of the one before
/// may still stand in that.
constexpr StringLiteral kReplacing = ".replacing";

Error error(const Twine &what, std::error_code code) {
  return createStringError(code, what + ": " + code.message());
}

std::string inside(StringRef folder, StringRef name) {
  return (folder + "/" + name).str();
}

bool isRealFolder(StringRef path) {
  fs::file_status status;
  return !fs::status(path, status, /*follow=*/false) &&
         fs::is_directory(status);
}

Expected<SmallVector<std::string>> namesIn(StringRef folder) {
  SmallVector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; it != end && !code;
       it.increment(code))
    names.push_back(path::filename(it->path()).str());
  if (code)
    return error(folder, code);
  return names;
}

StringSet<> ownedBy(StringRef folder) {
  StringSet<> owned;
  owned.insert(kManifest);
  owned.insert(kReplacing);
  if (auto buffer = MemoryBuffer::getFile(inside(folder, kManifest)))
    for (StringRef entry : split((*buffer)->getBuffer(), '\n'))
      owned.insert(entry);
  return owned;
}

Error checkReplaceable(StringRef directory) {
  if (!fs::exists(directory))
    return Error::success();
  if (!fs::is_directory(directory))
    return createStringError(directory + ": is a file, expected a directory");
  auto names = namesIn(directory);
  if (!names)
    return names.takeError();
  if (!names->empty() && !fs::exists(inside(directory, kManifest)))
    return createStringError(directory +
                             ": is not empty and holds no program of this "
                             "compiler; choose another directory");
  return Error::success();
}

Error remove(StringRef folder) {
  std::error_code code = fs::remove_directories(folder, /*IgnoreErrors=*/false);
  return code ? error(folder, code) : Error::success();
}

} // namespace

FreshDirectory::~FreshDirectory() {
  if (!fresh.empty())
    (void)fs::remove_directories(fresh);
}

Error FreshDirectory::open(StringRef directory) {
  SmallString<256> whole(directory);
  fs::make_absolute(whole);
  path::remove_dots(whole, /*remove_dot_dot=*/true);
  // The user's own link leads to where the directory stands.
  SmallString<256> real;
  target = StringRef(fs::real_path(whole, real) ? whole : real).str();
  while (target.size() > 1 && target.back() == '/')
    target.pop_back();
  StringRef parent = path::parent_path(target);
  if (std::error_code code = fs::create_directories(parent))
    return error(parent, code);
  std::string hidden = inside(parent, ("." + path::filename(target)).str());
  aside = hidden + ".replaced";
  if (std::string taken = claim.take(target); !taken.empty())
    return createStringError(taken);
  std::string beside = hidden + ".emitting";
  fresh = isRealFolder(beside) ? beside : "";
  if (Error failure = recover())
    return failure;
  fresh.clear();
  if (Error failure = checkReplaceable(target))
    return failure;
  if (std::error_code code =
          fs::create_directory(beside, /*IgnoreExisting=*/false))
    return error(target, code);
  fresh = beside;
  return Error::success();
}

/// `fresh` is what a killed process has left there, or empty.
Error FreshDirectory::recover() {
  if (isRealFolder(aside) && rt::restoreFolder(target, aside))
    back.push_back(target + ": dt-opt was killed while it replaced this "
                            "directory; the one before is back");
  if (fs::exists(inside(target, kReplacing)))
    for (const std::string &before : {fresh, aside})
      if (isRealFolder(before))
        if (Error failure = finish(before, /*says=*/true))
          return failure;
  // A directory that never took its place.
  return !fresh.empty() && isRealFolder(fresh) ? remove(fresh)
                                               : Error::success();
}

/// What is not the old program's goes to where the new one stands.
Error FreshDirectory::finish(StringRef replaced, bool says) {
  StringSet<> owned = ownedBy(replaced);
  auto names = namesIn(replaced);
  if (!names)
    return names.takeError();
  std::vector<std::string> moved;
  for (const std::string &name : *names) {
    if (owned.contains(name) || fs::exists(inside(target, name)))
      continue;
    if (std::error_code code =
            fs::rename(inside(replaced, name), inside(target, name)))
      return error(inside(replaced, name) + " (left there)", code);
    moved.push_back(name);
  }
  if (says && !moved.empty())
    back.push_back(target +
                   ": dt-opt was killed while it replaced this directory; "
                   "these entries stood in " +
                   replaced.str() + " and are back: " + rt::listed(moved));
  if (std::error_code code = fs::remove(inside(target, kReplacing)))
    return error(target, code);
  return remove(replaced);
}

Error FreshDirectory::commit() {
  std::error_code code;
  raw_fd_ostream(inside(fresh, kReplacing), code, fs::CD_CreateNew);
  if (code)
    return error(fresh, code);
  if (int failed = rt::swapFolders(fresh, target, aside))
    return error(target, std::error_code(failed, std::generic_category()));
  std::string replaced = std::move(fresh);
  fresh.clear();
  if (isRealFolder(replaced))
    return finish(replaced, /*says=*/false);
  code = fs::remove(inside(target, kReplacing));
  return code ? error(target, code) : Error::success();
}

} // namespace dt::codegen

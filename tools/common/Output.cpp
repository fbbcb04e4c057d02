//===- Output.cpp - Files and standard output, to their ends --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/Output.h"
#include "runtime/base/Process.h"

#include "runtime/base/Files.h"
#include "runtime/base/OutputClaim.h"

#include "llvm/Support/Errc.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

using namespace llvm;

namespace {

Error makeError(StringRef file, std::error_code code) {
  return createStringError(code, (file == "-" ? "standard output" : file) +
                                     ": " + code.message());
}

/// What C's own standard output could not write.
std::error_code flushC() {
  errno = 0;
  bool failed = std::fflush(stdout) != 0 || std::ferror(stdout);
  return failed ? std::error_code(errno ? errno : EIO, std::generic_category())
                : std::error_code();
}

void checkAtExit() {
  std::error_code code = flushC();
  outs().flush();
  if (outs().has_error())
    code = outs().error();
  outs().clear_error();
  if (!code || code == errc::broken_pipe) // its reader has seen enough
    return;
  errs() << "error: " << toString(makeError("-", code)) << "\n";
  std::_Exit(1); // exit() has been called
}

} // namespace

Error dt::finishOutput(raw_fd_ostream &os, StringRef file) {
  if (file == "-")
    os.flush();
  else
    os.close();
  std::error_code code = os.error();
  os.clear_error();
  return code ? makeError(file, code) : Error::success();
}

Expected<std::unique_ptr<raw_fd_ostream>> dt::openOutput(StringRef file) {
  if (file == "-")
    return std::make_unique<raw_fd_ostream>(STDOUT_FILENO,
                                            /*shouldClose=*/false);
  try {
    rt::Descriptor opened =
        rt::openToWrite(file.str(), O_WRONLY | O_CREAT | O_TRUNC);
    return std::make_unique<raw_fd_ostream>(opened.release(),
                                            /*shouldClose=*/true);
  } catch (const rt::Error &error) {
    return createStringError(Twine(error.what()));
  }
}

Error dt::writeOutput(StringRef file,
                      llvm::function_ref<Error(raw_ostream &)> write) {
  auto into = [&](StringRef path) -> Error {
    auto os = openOutput(path);
    if (!os)
      return os.takeError();
    Error failure = write(**os);
    Error unwritten = finishOutput(**os, file);
    if (!failure)
      return unwritten;
    consumeError(std::move(unwritten));
    return failure;
  };
  if (file == "-")
    return into(file);
  rt::OutputClaim claim;
  if (std::string taken = claim.take(file.str()); !taken.empty())
    return createStringError(taken);
  try {
    rt::Replacement replacement(file.str());
    if (Error failure = into(replacement.temporary()))
      return failure;
    replacement.commit();
    return Error::success();
  } catch (const rt::Error &error) {
    return createStringError(Twine(error.what()));
  }
}

void dt::expectStandardOutput() {
  rt::beginProcess();
  // Made before the function is registered, they are still there when it runs.
  (void)outs();
  (void)errs();
  std::atexit(checkAtExit);
}

//===- Output.cpp - Files and standard output, to their ends --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/Output.h"

#include "llvm/Support/Errc.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ToolOutputFile.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

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

Error dt::writeOutput(StringRef file,
                      llvm::function_ref<Error(raw_ostream &)> write) {
  std::error_code code;
  ToolOutputFile output(file, code, sys::fs::OF_None);
  if (code)
    return createStringError(code, "cannot open output file '" + file +
                                       "': " + code.message());
  Error failure = write(output.os());
  Error unwritten = finishOutput(output.os(), file);
  if (failure) {
    consumeError(std::move(unwritten));
    return failure;
  }
  if (!unwritten)
    output.keep();
  return unwritten;
}

void dt::expectStandardOutput() {
  // Made before the function is registered, they are still there when it runs.
  (void)outs();
  (void)errs();
  std::atexit(checkAtExit);
}

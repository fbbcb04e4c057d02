//===- Build.cpp - Emitted programs compiled and linked ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Build.h"
#include "tools/dt-opt/Diagnostics.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Threading.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <cstdlib>
#include <thread>

using namespace llvm;
namespace sys = llvm::sys;
using dt::fail;

namespace {

/// The initial cache of programs that link this build's runtime; empty where
/// this executable stands outside of its build.
std::string findPrebuiltRuntime() {
  static int anchor;
  SmallString<256> path(sys::fs::getMainExecutable(nullptr, &anchor));
  sys::path::remove_filename(path);
  sys::path::append(path, "..", "runtime", "prebuilt.cmake");
  sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  return sys::fs::exists(path) ? path.str().str() : "";
}

/// The last lines of what a tool said, from its first error on if there is one.
std::string endOf(StringRef log) {
  constexpr size_t most = 30;
  size_t error = log.find("error:");
  if (error != StringRef::npos)
    log = log.substr(log.rfind('\n', error) + 1);
  SmallVector<StringRef> lines;
  log.rtrim().split(lines, '\n');
  if (lines.size() > most)
    lines = error != StringRef::npos
                ? SmallVector<StringRef>(ArrayRef(lines).take_front(most))
                : SmallVector<StringRef>(ArrayRef(lines).take_back(most));
  return join(lines, "\n");
}

std::string read(StringRef file) {
  auto buffer = MemoryBuffer::getFile(file);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

/// How far the log says that the tool is: the last "[…]" that begins a line.
StringRef progressIn(StringRef log) {
  for (size_t at = log.rfind("\n["); at != StringRef::npos;
       at = log.substr(0, at).rfind("\n[")) {
    StringRef line = log.substr(at + 2).split('\n').first;
    if (size_t end = line.find(']'); end != StringRef::npos)
      return line.take_front(end).trim();
  }
  return "";
}

class Build {
public:
  explicit Build(StringRef directory) : folder((directory + "/build").str()) {}

  /// What the tool says goes to the file `logName`.
  LogicalResult run(StringRef logName, StringRef program,
                    ArrayRef<StringRef> arguments) {
    log = folder + "/" + logName.str();
    sys::fs::remove(log);
    std::string message;
    bool failed = false;
    std::optional<StringRef> redirects[] = {StringRef(), StringRef(log),
                                            StringRef(log)};
    sys::ProcessInfo process = sys::ExecuteNoWait(
        program, arguments, std::nullopt, redirects, 0, &message, &failed);
    if (failed)
      return fail("cannot run " + program + ": " + message);
    for (;;) {
      sys::ProcessInfo done = sys::Wait(process, 0, &message);
      if (done.Pid == process.Pid) {
        clear();
        return done.ReturnCode == 0 ? success() : report(done, message);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      show();
    }
  }

  std::string folder;

private:
  void show() {
    if (!errs().is_displayed())
      return;
    std::string text = read(log);
    auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
        std::chrono::steady_clock::now() - begin);
    errs() << "\rbuilding the program: " << progressIn(text) << " ("
           << seconds.count() << "s) ";
    shown = true;
  }
  void clear() {
    if (shown)
      errs() << "\r\x1b[K";
    shown = false;
  }
  LogicalResult report(const sys::ProcessInfo &done, const std::string &why) {
    std::string end = endOf(read(log));
    if (!end.empty())
      errs() << end << "\n";
    return fail("building the program in " + folder + " failed" +
                (why.empty() ? "" : ": " + why) + "; all of it is in " + log);
  }

  std::string log;
  std::chrono::steady_clock::time_point begin =
      std::chrono::steady_clock::now();
  bool shown = false;
};

} // namespace

LogicalResult dt::buildProgram(StringRef directory, StringRef target) {
  auto cmake = sys::findProgramByName("cmake");
  if (!cmake)
    return fail("--emit=exe needs cmake, which is not in PATH");
  Build build(directory);
  if (std::error_code code = sys::fs::create_directories(build.folder))
    return fail(build.folder + ": " + code.message());

  // Equal code in other directories comes from the compiler cache.
  SmallString<256> base(directory);
  sys::fs::make_absolute(base);
  ::setenv("CCACHE_BASEDIR", base.c_str(), /*overwrite=*/0);
  ::setenv("CCACHE_NOHASHDIR", "1", /*overwrite=*/0);

  std::string runtime = target == "cpu" ? findPrebuiltRuntime() : "";
  std::string jobs = utostr(hardware_concurrency().compute_thread_count());
  SmallVector<StringRef> configure = {*cmake};
  if (!runtime.empty())
    configure.append({"-C", runtime});
  configure.append(
      {"-S", directory, "-B", build.folder, "-DCMAKE_BUILD_TYPE=Release"});
  if (sys::findProgramByName("ninja"))
    configure.append({"-G", "Ninja"});
  if (failed(build.run("configure.log", *cmake, configure)))
    return failure();
  return build.run("build.log", *cmake,
                   {*cmake, "--build", build.folder, "--parallel", jobs});
}

//===- Bytecode.cpp - Damaged bytecode is refused -------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Bytecode.h"
#include "tools/dt-opt/Diagnostics.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "llvm/Support/raw_ostream.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;

namespace {

void limit(int resource, rlim_t most) {
  rlimit now;
  if (::getrlimit(__rlimit_resource(resource), &now) != 0)
    return;
  now.rlim_cur = std::min(now.rlim_max, most);
  ::setrlimit(__rlimit_resource(resource), &now);
}

/// IR takes some ten times its bytecode, and a second for many megabytes; the
/// rest is for the process itself.
void limitReader(size_t bytes) {
  // Sanitizers reserve more address space than any bound leaves.
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
  limit(RLIMIT_DATA, (rlim_t(1) << 30) + 64 * bytes);
#endif
  limit(RLIMIT_CPU, 10 + (bytes >> 20));
  limit(RLIMIT_CORE, 0);
}

/// Printing and folding believe that a constant has a value per element.
bool isWhole(DenseElementsAttr values) {
  if (auto text = dyn_cast<DenseStringElementsAttr>(values))
    return text.isSplat() ||
           int64_t(text.getRawStringData().size()) == text.getNumElements();
  bool splat = false;
  return DenseElementsAttr::isValidRawBuffer(values.getType(),
                                             values.getRawData(), splat);
}

bool hasWholeConstants(Operation *op) {
  AttrTypeWalker walker;
  walker.addWalk([](DenseElementsAttr values) {
    return isWhole(values) ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !op->walk([&](Operation *inner) {
              return walker.walk(inner->getAttrDictionary());
            }).wasInterrupted();
}

/// What the reader says, each in a line; nothing if it accepts the file.
/// `damaged` if it says nothing.
std::string read(llvm::StringRef bytes, const DialectRegistry &registry,
                 llvm::StringRef damaged) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  std::string said;
  context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      said += dt::describe(diagnostic) + "\n";
  });
  OwningOpRef<Operation *> op =
      parseSourceString<Operation *>(bytes, ParserConfig(&context));
  return op && hasWholeConstants(*op) ? ""
         : said.empty()               ? damaged.str()
                                      : said;
}

/// As read(), in a process of its own.
std::string readSafely(llvm::StringRef bytes, const DialectRegistry &registry,
                       const std::string &damaged) {
  int ends[2];
  pid_t child = ::pipe(ends) == 0 ? ::fork() : -1;
  if (child < 0)
    return "error: cannot start a process: " + llvm::sys::StrError() + "\n";
  if (child == 0) {
    limitReader(bytes.size());
    if (int null = ::open("/dev/null", O_WRONLY); null >= 0)
      ::dup2(null, STDERR_FILENO); // LLVM's own last words
    std::string said = read(bytes, registry, damaged);
    ::_exit(::write(ends[1], said.data(), said.size()) != ssize_t(said.size()));
  }
  ::close(ends[1]);
  std::string said;
  char part[1 << 12];
  for (ssize_t n;
       (n = llvm::sys::RetryAfterSignal(
            -1, ::read, ends[0], static_cast<void *>(part), sizeof part)) > 0;)
    said.append(part, size_t(n));
  ::close(ends[0]);
  int status = 0;
  llvm::sys::RetryAfterSignal(-1, ::waitpid, child, &status, 0);
  return status == 0 ? said : damaged;
}

} // namespace

llvm::Error dt::checkBytecode(llvm::StringRef bytes, llvm::StringRef path,
                              const DialectRegistry &registry) {
  if (!isBytecode(llvm::MemoryBufferRef(bytes, path)))
    return llvm::Error::success();
  std::string said = readSafely(
      bytes, registry, ("error: " + path + ": damaged bytecode\n").str());
  if (said.empty())
    return llvm::Error::success();
  llvm::errs() << said;
  return llvm::createStringError("");
}

//===- Diagnostics.cpp - Where errors and remarks go ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Diagnostics.h"

#include "tools/common/Output.h"

#include "models/frontend/json/JsonReader.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"

using namespace mlir;

namespace {

/// "file:line:column" or the first name in a location, or "".
std::string getPlace(Location location) {
  std::string place;
  llvm::raw_string_ostream os(place);
  if (auto file = location->findInstanceOf<FileLineColLoc>())
    os << file.getFilename().getValue() << ":" << file.getLine() << ":"
       << file.getColumn();
  else if (auto name = location->findInstanceOf<NameLoc>())
    os << name.getName().getValue();
  return place;
}

void print(const Diagnostic &diagnostic, llvm::raw_ostream &os) {
  os << dt::describe(diagnostic) << "\n";
}

} // namespace

std::string dt::describe(const Diagnostic &diagnostic) {
  static constexpr StringLiteral kinds[] = {"note", "warning", "error",
                                            "remark"};
  std::string place = getPlace(diagnostic.getLocation()),
              text = diagnostic.str();
  // A place that has a name is the recipe's key: the op that came of it says
  // nothing more.
  if (diagnostic.getLocation()->findInstanceOf<NameLoc>() &&
      StringRef(text).starts_with("'dist."))
    if (StringRef rest = StringRef(text).split("' op ").second; !rest.empty())
      text = rest.str();
  return models::oneLine(place + (place.empty() ? "" : ": ") +
                         kinds[unsigned(diagnostic.getSeverity())].str() +
                         ": " + text);
}

LogicalResult dt::fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return failure();
}

LogicalResult dt::Diagnostics::open(StringRef file) {
  if (file.empty())
    return success();
  auto opened = openOutput(file);
  if (!opened)
    return fail("--remarks: " + toString(opened.takeError()));
  remarks = std::move(*opened);
  name = file.str();
  return success();
}

LogicalResult dt::Diagnostics::close() {
  if (!remarks)
    return success();
  llvm::Error failure = finishOutput(*remarks, name);
  return failure ? fail("--remarks: " + toString(std::move(failure)))
                 : success();
}

void dt::Diagnostics::attach(MLIRContext &context, bool named) {
  context.getDiagEngine().registerHandler([this, named](Diagnostic &d) {
    std::lock_guard<std::mutex> lock(mutex);
    if (remarks && d.getSeverity() == DiagnosticSeverity::Remark) {
      print(d, *remarks);
      return success();
    }
    // MLIR's own handler shows the line.
    if (!named || d.getLocation()->findInstanceOf<FileLineColLoc>())
      return failure();
    print(d, llvm::errs());
    return success();
  });
}

//===- SlowCalls.cpp - library calls that a device does not speed up ------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/SlowCalls.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace dt::codegen {

/// "product", "convolution", "attention"; empty: another op.
static StringRef kindOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case<rt::MatmulOp, rt::GroupedMatmulOp, rt::GroupedMatmulDwOp>(
          [](auto) { return "product"; })
      .Case<rt::ConvOp, rt::ConvDxOp, rt::ConvDwOp>(
          [](auto) { return "convolution"; })
      .Case<rt::AttentionOp, rt::AttentionGradOp>(
          [](auto) { return "attention"; })
      .Default([](auto) { return ""; });
}

/// The node or module of the model that an op was made from; empty: not known.
static StringRef sourceOf(Operation *op) {
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    return name.getName();
  if (auto fused = op->getLoc()->findInstanceOf<FusedLoc>())
    if (auto name = dyn_cast_or_null<StringAttr>(fused.getMetadata()))
      return name;
  return {};
}

namespace {
struct Kind {
  unsigned slow = 0, all = 0;
};
struct Calls {
  llvm::MapVector<StringRef, Kind> kinds;
  llvm::SetVector<StringRef> sources;
};
} // namespace

static std::string describe(const Calls &calls, StringRef reason) {
  SmallVector<std::string> counts;
  bool some = false;
  for (auto &[kind, count] : calls.kinds) {
    if (!count.slow)
      continue;
    some |= count.slow < count.all;
    counts.push_back(std::to_string(count.slow) + " " + kind.str() +
                     (count.slow > 1 ? "s" : ""));
  }
  std::string text = llvm::join(counts, ", ");
  if (some && !calls.sources.empty())
    text += " (" + llvm::join(calls.sources, ", ") + ")";
  return text + ": " + reason.str();
}

std::string describeSlowCalls(rt::ModuleOp module, const Target &target) {
  llvm::MapVector<StringRef, Calls> byReason;
  llvm::MapVector<StringRef, Kind> all;
  module.walk([&](Operation *op) {
    StringRef kind = kindOf(op);
    if (kind.empty())
      return;
    ++all[kind].all;
    StringRef reason = target.getSlowness(op);
    if (reason.empty())
      return;
    Calls &calls = byReason[reason];
    ++calls.kinds[kind].slow;
    if (StringRef source = sourceOf(op); !source.empty())
      calls.sources.insert(source);
  });
  SmallVector<std::string> texts;
  for (auto &[reason, calls] : byReason) {
    for (auto &[kind, count] : calls.kinds)
      count.all = all[kind].all;
    texts.push_back(describe(calls, reason));
  }
  return llvm::join(texts, "; ");
}

void remarkSlowCalls(rt::ProgramOp program, const Target &target) {
  for (auto module : program.getBody().getOps<rt::ModuleOp>())
    if (std::string calls = describeSlowCalls(module, target); !calls.empty())
      module.emitRemark("'") << module.getSymName() << "' is slow in " << calls;
}

} // namespace dt::codegen

//===- ChooseBrokers.cpp - How rows of an edge find their replica ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Which items a part has is known at run time only, but which parts may have
// items in common is not: it follows from where the two modules run and what
// they count. Said on the edge, so that schedules, tables and people see the
// same.
//
//===----------------------------------------------------------------------===//

#include "passes/schedule/Passes.h"

#include "dialects/dist/DistOps.h"

using namespace mlir;

namespace dt::schedule {
#define GEN_PASS_DEF_CHOOSEBROKERS
#include "passes/schedule/Passes.h.inc"

dist::Broker chooseBroker(dist::ModuleOp from, dist::ModuleOp to) {
  if (to.getWholeBatch())
    return dist::Broker::all;
  dist::Placement a(from), b(to);
  bool alike = a.speeds == b.speeds;
  if (alike && a.ranks == b.ranks && a.group == b.group)
    return dist::Broker::copy;
  bool samples = from.getItem().value_or("") == dist::kSample &&
                 to.getItem().value_or("") == dist::kSample;
  // Replica i has replica i's items if both share out the same ones alike. The
  // planner's StepBuilder::isDirect() is the same rule.
  if (alike && a.dp == b.dp && (a.dp == 1 || a.unit == b.unit || samples))
    return dist::Broker::direct;
  return dist::Broker::items;
}

namespace {
struct ChooseBrokersPass : impl::ChooseBrokersBase<ChooseBrokersPass> {
  void runOnOperation() override {
    mlir::ModuleOp program = getOperation();
    auto moduleOf = [&](StringRef name) {
      return program.lookupSymbol<dist::ModuleOp>(name);
    };
    for (auto edge : program.getOps<dist::EdgeOp>())
      edge.setBroker(
          chooseBroker(moduleOf(edge.getSource()), moduleOf(edge.getTarget())));
  }
};
} // namespace

} // namespace dt::schedule

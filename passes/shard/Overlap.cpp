//===- Overlap.cpp - Collectives and products in strips ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Passes.h"

#include "dialects/dist/Strips.h"

using namespace mlir;
using namespace dt;

namespace dt::shard {
#define GEN_PASS_DEF_OVERLAP
#include "passes/shard/Passes.h.inc"
} // namespace dt::shard

namespace {

struct OverlapPass : shard::impl::OverlapBase<OverlapPass> {
  void runOnOperation() override {
    dist::ModuleOp module = getOperation();
    int64_t wanted = module.getOverlap();
    if (wanted < 2 || shard::getTensorParallel(module) < 2)
      return;
    bool any = false;
    // In order: a product belongs to what it takes first.
    module.walk([&](dist::CollectiveOpInterface collective) {
      if (dist::getProductsBeside(collective).empty())
        return;
      int64_t count = dist::getStripedRows(collective)->count;
      collective.setStrips(std::min(wanted, count));
      any = true;
    });
    dist::Placement placement(module);
    if (!any && placement.stage == 0)
      module.emitRemark("overlap does nothing for '")
          << placement.unit
          << "': no product stands beside a collective of rows";
  }
};

} // namespace

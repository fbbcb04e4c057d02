//===- PlanRows.cpp - Most rows that a part of a plan may have --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/CheckPlan.h"
#include "runtime/reorder/Partition.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace dt::plan {

/// The most of so many items that a replica gets as its share.
static int64_t getShare(const UnitEntry &unit, int64_t items) {
  if (unit.speeds.empty())
    return llvm::divideCeilSigned(items, unit.dp / unit.getJoined());
  reorder::PartitionOptions options;
  options.groups = int32_t(unit.dp);
  options.speeds.assign(unit.speeds.begin(), unit.speeds.end());
  size_t most = 0;
  for (const std::vector<int32_t> &share :
       reorder::partitionLPT(std::vector<int64_t>(size_t(items), 1), options)
           .groups)
    most = std::max(most, share.size());
  return int64_t(most);
}

int64_t getRowsMax(const UnitEntry &unit, dist::ModuleOp module,
                   nn::DimOp dim) {
  int64_t items = getRowsMax(unit, module, *dim.getItem());
  if (!dim.getMeasure())
    return items;
  auto given = unit.rowsMax.find(dim.getQuantity());
  if (given != unit.rowsMax.end())
    return given->second * unit.getJoined();
  int64_t most = items * int64_t(*dim.getLargest());
  auto measure = dist::getMeasure(module->getParentOfType<mlir::ModuleOp>(),
                                  *dim.getItem(), *dim.getMeasure());
  return measure && measure.getPart()
             ? std::min<int64_t>(most, int64_t(*measure.getPart()) * unit.span *
                                           unit.getJoined())
             : most;
}

int64_t getRowsMax(const UnitEntry &unit, dist::ModuleOp module,
                   StringRef kind) {
  auto given = unit.rowsMax.find(kind.str());
  if (given != unit.rowsMax.end())
    return given->second * unit.getJoined();
  auto program = module->getParentOfType<mlir::ModuleOp>();
  auto batch = dist::getOnly<dist::BatchOp>(program);
  int64_t micro = batch ? int64_t(batch.getMicro()) : 1;
  int64_t most = dist::getItemMax(program, kind).value_or(1) * unit.span;
  StringRef own = module.getItem().value_or("");
  // Of a step of parts a replica may have any whole one.
  int64_t samples = getShare(unit, micro), part = 0;
  if (batch && batch.getParts())
    part = int64_t(batch.getGlobal() / *batch.getParts()) * unit.getJoined();
  samples = std::max(samples, part);
  // Copies keep unlike samples whole; of more replicas than those none is one.
  if (kind == own) {
    int64_t even = getShare(unit, micro * most);
    int64_t whole =
        unit.dp > micro * unit.getJoined() && !part ? 0 : samples * most;
    return llvm::divideCeilSigned(std::max(whole, even), unit.sub);
  }
  // Of what is inside samples: as many as the part's samples hold.
  return own == dist::kSample
             ? getRowsMax(unit, module, own) * (most / unit.span)
             : micro * most;
}

} // namespace dt::plan

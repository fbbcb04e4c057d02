//===- StepTable.cpp - what every rank does in a step as rows ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/Tables.h"

using namespace mlir;

namespace dt::codegen {

static int64_t subjectOf(const TableWriter &writer, rt::TaskOp task) {
  if (task.getEdge())
    return *task.getEdge();
  return task.getKind() == rt::TaskKind::Denominator
             ? writer.lossIndex(*task.getSubject())
             : writer.moduleIndex(*task.getSubject());
}

/// There are many rows: what has the default is left out where it can be.
static std::string taskRow(TableWriter &writer, rt::TaskOp task) {
  rows::TaskRow row;
  row.kind = task.getKind();
  row.index = subjectOf(writer, task);
  row.microbatch = task.getMicrobatch();
  row.slot = task.getSlot();
  if (task.getReceived())
    row.received = task.getReceived();
  if (task.getEarly())
    row.early = task.getEarly();
  if (task.getLate())
    row.late = task.getLate();
  if (task.getEdge())
    row.peer = task.getPeer();
  if (task.getGradient())
    row.gradient = true;
  if (task.getPiece())
    row.piece = task.getPiece();
  if (auto waits = task.getWaits()) {
    SmallVector<int64_t> numbers(waits->begin(), waits->end());
    row.waits = writer.shared("int32_t", "kNumbers", numberTexts(numbers));
  }
  return listText(row);
}

std::string writeRanks(TableWriter &writer) {
  SmallVector<std::string> table(writer.program.getRanks().size());
  for (auto ranks : writer.program.getBody().getOps<rt::RankOp>()) {
    SmallVector<std::string> tasks;
    for (auto task : ranks.getBody().getOps<rt::TaskOp>())
      tasks.push_back(taskRow(writer, task));
    rows::RankInfo row;
    row.rows = writer.shared<rows::TaskRow>(
        camel("kRows", std::to_string(ranks.getRanks()[0])), tasks);
    if (auto peak = ranks.getPeak())
      row.peak = numberText(peak->convertToDouble());
    for (int64_t rank : ranks.getRanks())
      table[rank] = listText(row);
  }
  return writer.array<rows::RankInfo>("kRanks", table);
}

} // namespace dt::codegen

//===- RankList.h - Ranks as `0, 1, 2` in IR --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_DIST_RANKLIST_H
#define DIALECTS_DIST_RANKLIST_H

#include "mlir/IR/OpImplementation.h"

namespace dt {

/// custom<RankList>: of a DenseI64ArrayAttr, one number at least.
inline mlir::ParseResult parseRankList(mlir::OpAsmParser &parser,
                                       mlir::DenseI64ArrayAttr &ranks) {
  llvm::SmallVector<int64_t> list;
  if (parser.parseCommaSeparatedList(
          [&] { return parser.parseInteger(list.emplace_back()); }))
    return mlir::failure();
  ranks = parser.getBuilder().getDenseI64ArrayAttr(list);
  return mlir::success();
}

inline void printRankList(mlir::OpAsmPrinter &printer, mlir::Operation *,
                          mlir::DenseI64ArrayAttr ranks) {
  llvm::interleaveComma(ranks.asArrayRef(), printer);
}

} // namespace dt

#endif // DIALECTS_DIST_RANKLIST_H

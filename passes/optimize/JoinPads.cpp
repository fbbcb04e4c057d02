//===- JoinPads.cpp - Sums of padded pieces into concatenations -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The gradient of a slice is a pad with zeros; where a tensor was split into
// pieces, the gradients of the pieces are added up. When the pieces cover an
// axis without overlap, that sum is their concatenation.
//
//===----------------------------------------------------------------------===//

#include "passes/optimize/Passes.h"
#include "passes/optimize/Sums.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace dt::optimize {
#define GEN_PASS_DEF_JOINPADS
#include "passes/optimize/Passes.h.inc"

namespace {

/// A pad with zeros along one axis whose sizes there are numbers.
struct Piece {
  nn::PadOp pad;
  int64_t axis, begin, end, size;
};

std::optional<Piece> matchPiece(Value v) {
  auto pad = v.getDefiningOp<nn::PadOp>();
  if (!pad || pad.getValue().convertToDouble() != 0 ||
      llvm::any_of(pad.getInterior(), [](int64_t i) { return i != 0; }) ||
      llvm::is_contained(pad.getReverse(), true))
    return std::nullopt;
  nn::Shape in = nn::getShape(pad.getInput()), out = nn::getShape(v);
  std::optional<Piece> piece;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] == out[i])
      continue;
    std::optional<int64_t> n = in[i].asConstant(), all = out[i].asConstant();
    if (piece || !n || !all)
      return std::nullopt;
    int64_t low = pad.getLow()[i];
    piece = Piece{pad, int64_t(i), low, low + *n, *all};
  }
  return piece;
}

/// Pieces that cover their axis, in order; empty if there are none.
SmallVector<Piece> findCover(ArrayRef<Value> addends, Type type) {
  llvm::MapVector<int64_t, SmallVector<Piece>> byAxis;
  for (Value v : addends)
    if (v.getType() == type)
      if (std::optional<Piece> piece = matchPiece(v))
        byAxis[piece->axis].push_back(*piece);
  for (auto &[axis, pieces] : byAxis) {
    llvm::stable_sort(pieces, [](const Piece &a, const Piece &b) {
      return a.begin < b.begin;
    });
    int64_t at = 0;
    bool gapless = llvm::all_of(pieces, [&](const Piece &p) {
      return p.begin == std::exchange(at, p.end);
    });
    if (gapless && at == pieces.front().size)
      return pieces;
  }
  return {};
}

LogicalResult joinSumOfPads(nn::AddOp add, PatternRewriter &rewriter) {
  SmallVector<Value> addends;
  collectAddends(add, addends);
  SmallVector<Piece> pieces = findCover(addends, add.getType());
  if (pieces.empty())
    return failure();
  SmallVector<Value> parts;
  for (Piece &p : pieces)
    parts.push_back(p.pad.getInput());
  Value sum =
      nn::ConcatOp::create(rewriter, add.getLoc(), parts, pieces.front().axis);
  SmallVector<Value> rest(addends);
  for (Piece &p : pieces)
    rest.erase(llvm::find(rest, p.pad.getResult()));
  for (Value v : rest)
    sum = nn::AddOp::create(rewriter, add.getLoc(), sum, v);
  rewriter.replaceOp(add, sum);
  return success();
}

struct JoinPads : impl::JoinPadsBase<JoinPads> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add(joinSumOfPads);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace dt::optimize

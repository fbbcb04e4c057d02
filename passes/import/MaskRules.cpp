//===- MaskRules.cpp - What a bool mask of attention says -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/import/MaskRules.h"
#include "passes/import/MaskConditions.h"
#include "passes/import/MaskPositions.h"
#include "passes/import/MaskTables.h"

using namespace mlir;
using namespace dt;
using namespace dt::import;

namespace {

/// a <= b, where their difference is a number.
bool isAtMost(const nn::DimExpr &a, const nn::DimExpr &b) {
  std::optional<int64_t> difference = (b - a).asConstant();
  return difference && *difference >= 0;
}

/// Causal rule and window of an operator, as bounds of j - i.
struct Places {
  bool causal;
  std::optional<int64_t> window;
  nn::DimExpr offset; ///< s - t

  explicit Places(nn::AttentionOp op)
      : causal(op.getCausal()), window(op.getWindow()),
        offset(nn::getShape(op.getKey())[1] - nn::getShape(op.getQuery())[1]) {}

  /// Takes in what the bounds say of it together.
  void read(ArrayRef<MaskCondition> conditions) {
    SmallVector<IndexBound> bounds;
    for (const MaskCondition &condition : conditions)
      if (condition.bounds)
        llvm::append_range(bounds, *condition.bounds);
    for (const IndexBound &bound : bounds)
      causal |= bound.most && *bound.most == offset;
    for (const IndexBound &bound : bounds) {
      std::optional<int64_t> wide =
          bound.least ? (offset - *bound.least).asConstant() : std::nullopt;
      if (wide && *wide >= 0 && (!window || *wide + 1 < *window) &&
          (causal || hasMost(bounds, *wide)))
        window = *wide + 1;
    }
  }
  bool implies(const IndexBound &bound) const {
    nn::DimExpr reach(window.value_or(0) - 1);
    if (bound.least)
      return window && isAtMost(*bound.least, offset - reach);
    return (causal && isAtMost(offset, *bound.most)) ||
           (window && isAtMost(offset + reach, *bound.most));
  }

private:
  bool hasMost(ArrayRef<IndexBound> bounds, int64_t wide) const {
    return llvm::any_of(bounds, [&](const IndexBound &bound) {
      return bound.most && *bound.most == offset + nn::DimExpr(wide);
    });
  }
};

/// Numbers of segments of queries and of keys.
struct SegmentViews {
  ScoreView queries, keys;
};

bool isInteger(Value v) { return isa<IntegerType>(getElementTypeOrSelf(v)); }

/// The condition that two integers are equal, one a query's and one a key's.
std::optional<SegmentViews> matchSegments(const MaskCondition &condition) {
  auto cmp = condition.view.value.getDefiningOp<nn::CmpOp>();
  nn::Compare wanted = condition.holds ? nn::Compare::eq : nn::Compare::ne;
  if (!cmp || cmp.getPredicate() != wanted || !isInteger(cmp.getLhs()) ||
      getElementTypeOrSelf(cmp.getLhs()) != getElementTypeOrSelf(cmp.getRhs()))
    return std::nullopt;
  ScoreView a = condition.view.operand(cmp.getLhs()).stripped(),
            b = condition.view.operand(cmp.getRhs()).stripped();
  if (b.runsAlong(kQuery))
    std::swap(a, b);
  if (!a.runsAlong(kQuery) || !b.runsAlong(kKey) || a.runsAlong(kKey) ||
      b.runsAlong(kQuery) || a.runsAlong(kHead) || b.runsAlong(kHead))
    return std::nullopt;
  return SegmentViews{a, b};
}

/// A condition of keys alone, or of queries alone.
bool isPadding(const MaskCondition &condition, int axis) {
  return llvm::all_of(condition.view.axes, [&](int own) {
    return own == kNoAxis || own == kBatch || own == axis;
  });
}

class RuleAbsorber {
public:
  RuleAbsorber(nn::AttentionOp op, PatternRewriter &rewriter)
      : op(op), rewriter(rewriter), loc(op.getLoc()) {}

  LogicalResult run() {
    MaskConditions found = readConditions(op.getMask());
    SmallVector<MaskCondition> &conditions = found.all;
    readRestarts(conditions);
    Places places(op);
    places.read(conditions);
    bool any = found.dropped;
    auto take = [&](auto wanted) {
      size_t before = conditions.size();
      llvm::erase_if(conditions, wanted);
      any |= conditions.size() < before;
    };
    take([&](const MaskCondition &condition) {
      return condition.bounds &&
             llvm::all_of(*condition.bounds, [&](const IndexBound &bound) {
               return places.implies(bound);
             });
    });
    take([&](const MaskCondition &condition) {
      return !hasSegments() && takeSegments(condition);
    });
    if (!hasSegments()) {
      SmallVector<MaskCondition> ofKeys, ofQueries;
      take([&](const MaskCondition &condition) {
        for (auto [axis, list] :
             {std::pair(int(kKey), &ofKeys), {int(kQuery), &ofQueries}})
          if (isPadding(condition, axis)) {
            list->push_back(condition);
            return true;
          }
        return false;
      });
      if (!ofKeys.empty() || !ofQueries.empty())
        takePadding(ofKeys, ofQueries);
    }
    if (!any)
      return failure();
    Value rest = both(conditions);
    rewriter.modifyOpInPlace(op, [&] { set(places, rest); });
    return success();
  }

private:
  bool hasSegments() { return queries || op.getQuerySegments(); }

  void set(const Places &places, Value rest) {
    op.getMaskMutable().clear();
    if (rest)
      op.getMaskMutable().assign(rest);
    op.setCausal(places.causal);
    if (places.window)
      op.setWindow(*places.window);
    if (queries) {
      op.getQuerySegmentsMutable().assign(queries);
      op.getKeySegmentsMutable().assign(keys);
    }
  }

  /// Conditions of positions where segments are numbered by these are rules of
  /// indices.
  void readRestarts(MutableArrayRef<MaskCondition> conditions) {
    Value numbers = getNumbers(conditions),
          positions = numbers ? matchRestarts(numbers) : Value();
    if (!positions)
      return;
    for (MaskCondition &condition : conditions)
      if (std::optional<IndexBound> bound = readPositions(condition, positions))
        condition.bounds = SmallVector<IndexBound>{*bound};
  }

  /// Numbers of segments of queries and of keys that are the same value; null:
  /// there are none.
  Value getNumbers(ArrayRef<MaskCondition> conditions) {
    if (Value own = op.getQuerySegments())
      return own == op.getKeySegments() ? own : Value();
    for (const MaskCondition &condition : conditions)
      if (std::optional<SegmentViews> views = matchSegments(condition))
        return views->queries.value == views->keys.value &&
                       views->queries.axes.back() == kQuery
                   ? views->queries.value
                   : Value();
    return {};
  }

  bool takeSegments(const MaskCondition &condition) {
    if (std::optional<Blocks> blocks =
            readBlocks(condition.view, condition.holds)) {
      queries = numbers(blocks->queries);
      keys = numbers(blocks->keys);
      return true;
    }
    std::optional<SegmentViews> views = matchSegments(condition);
    if (!views)
      return false;
    queries = toNumbers(views->queries, kQuery);
    keys = toNumbers(views->keys, kKey);
    return true;
  }

  /// Keys that are seen, and queries that see, have the number 1; other keys
  /// have 2, other queries 0.
  void takePadding(ArrayRef<MaskCondition> ofKeys,
                   ArrayRef<MaskCondition> ofQueries) {
    Value one = number(1);
    auto choose = [&](ArrayRef<MaskCondition> conditions, int64_t hidden) {
      if (conditions.empty())
        return one;
      return Value(nn::WhereOp::create(rewriter, loc, both(conditions), one,
                                       number(hidden)));
    };
    queries = toNumbers(ScoreView::of(choose(ofQueries, 0)), kQuery);
    keys = toNumbers(ScoreView::of(choose(ofKeys, 2)), kKey);
    nn::Shape shape = nn::getShape(keys);
    nn::DimExpr s = nn::getShape(op.getKey())[1];
    if (shape[1] == s)
      return;
    keys = nn::BroadcastOp::create(
        rewriter, loc,
        nn::makeTensorType({shape[0], s}, getElementTypeOrSelf(keys)), keys);
  }

  /// The same of all batch elements.
  Value numbers(ArrayRef<int32_t> values) {
    auto type = RankedTensorType::get({1, int64_t(values.size())},
                                      rewriter.getI32Type());
    return nn::ConstantOp::create(rewriter, loc, type,
                                  DenseElementsAttr::get(type, values));
  }

  Value number(int64_t value) {
    auto type = RankedTensorType::get({}, rewriter.getI32Type());
    auto elements = DenseElementsAttr::get(type, int32_t(value));
    return nn::ConstantOp::create(rewriter, loc, type, elements);
  }

  /// [b or 1, size of the axis or 1], as integers that attention takes.
  Value toNumbers(const ScoreView &view, int axis) {
    Value v = reshape(view.value, {view.sizeOf(kBatch), view.sizeOf(axis)});
    Type element = getElementTypeOrSelf(v), i32 = rewriter.getI32Type();
    if (element == i32 || element.isInteger(64))
      return v;
    return nn::CastOp::create(rewriter, loc,
                              nn::withElementType(v.getType(), i32), v);
  }

  /// All conditions, [b or 1, h or 1, t or 1, s or 1]; null if there are none.
  Value both(ArrayRef<MaskCondition> conditions) {
    Value all;
    for (const MaskCondition &condition : conditions) {
      const ScoreView &view = condition.view;
      Value v = reshape(view.value, {view.sizeOf(kBatch), view.sizeOf(kHead),
                                     view.sizeOf(kQuery), view.sizeOf(kKey)});
      if (!condition.holds)
        v = nn::NotOp::create(rewriter, loc, v);
      all = all ? Value(nn::AndOp::create(rewriter, loc, all, v)) : v;
    }
    return all;
  }

  Value reshape(Value v, const nn::Shape &shape) {
    if (nn::getShape(v) == shape)
      return v;
    return nn::ReshapeOp::create(
        rewriter, loc, nn::makeTensorType(shape, getElementTypeOrSelf(v)), v);
  }

  nn::AttentionOp op;
  PatternRewriter &rewriter;
  Location loc;
  Value queries, keys; ///< numbers of segments that were found
};

} // namespace

LogicalResult import::absorbMaskRules(nn::AttentionOp op,
                                      PatternRewriter &rewriter) {
  if (!op.getMask() || !getElementTypeOrSelf(op.getMask()).isInteger(1))
    return failure();
  return RuleAbsorber(op, rewriter).run();
}

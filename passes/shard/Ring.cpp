//===- Ring.cpp - Keys that go round ----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Ring.h"

#include "dialects/nn/NNGradient.h"
#include "passes/shard/Layers.h"

#include <limits>

using namespace mlir;
using namespace dt;
using namespace dt::shard;

//===----------------------------------------------------------------------===//
// Strategies
//===----------------------------------------------------------------------===//

/// Why keys of this attention do not go round; "" if they may. A row that sees
/// no key at all has a mean that no part knows, and a mask has columns of all
/// keys.
template <typename Op> static std::string whyNoRing(Op op) {
  if (op.getMask())
    return "it has a mask of all keys";
  if (op.getStripes() || op.getPartial())
    return "its queries are cut over another axis too";
  if (nn::getShape(op.getQuery())[1] != nn::getShape(op.getKey())[1])
    return "its keys are no keys of the same tokens";
  bool seesItself =
      !op.getQuerySegments() || op.getQuerySegments() == op.getKeySegments();
  if (!seesItself && op.getEmptyRow() != nn::EmptyRow::zero)
    return "a query may see no key";
  return "";
}

bool dt::shard::mayGoRound(nn::AttentionOp op) { return whyNoRing(op).empty(); }

/// Queries and keys are cut alike.
static std::optional<Strategy> goRound(const ShardProblem &program,
                                       const Step &step,
                                       const nn::ShardingRule &rule,
                                       const Axis &axis) {
  const Variable &query = program.variables[step.operands[0]];
  auto tokens = getTokens(query.shape[1]);
  auto cut = cutTokens(1, tokens.value_or(0), axis);
  if (!cut)
    return std::nullopt;
  unsigned rows = rule.operands[0][1].front(),
           columns = rule.operands[1][1].front();
  Strategy s;
  s.factor = int(rows);
  s.chunk = cut->chunk;
  s.ring = true;
  s.flops = step.flops / double(axis.over);
  auto add = [&](ArrayRef<unsigned> variables,
                 ArrayRef<nn::ShardingRule::Dims> dims, auto &states) {
    for (auto [i, list] : llvm::zip(variables, dims)) {
      State state = kWhole;
      for (auto [d, factors] : llvm::enumerate(list))
        if (factors.size() == 1 &&
            (factors.front() == rows || factors.front() == columns)) {
          auto found =
              program.variables[i].find({static_cast<unsigned>(d), s.chunk});
          if (!found)
            return false;
          state = *found;
        }
      states.push_back(state);
    }
    return true;
  };
  if (!add(step.operands, rule.operands, s.operands) ||
      !add(step.results, rule.results, s.results))
    return std::nullopt;
  s.factorClass = query.classes[s.operands[0] - kFirstCut];
  return s;
}

/// The strategies in which queries are cut along a dim.
static SmallVector<Strategy, 4> alongDim(const ShardProblem &program,
                                         const Step &step, unsigned dim) {
  const Variable &query = program.variables[step.operands[0]];
  SmallVector<Strategy, 4> found;
  for (const Strategy &s : step.strategies)
    if (s.factor >= 0 && s.operands[0] >= kFirstCut &&
        query.cuts[s.operands[0] - kFirstCut].dim == dim)
      found.push_back(s);
  return found;
}

template <typename Op>
static void chooseKeysOf(Op op, const ShardProblem &program, Step &step,
                         const nn::ShardingRule &rule, const Axis &axis) {
  SmallVector<Strategy, 4> wanted;
  std::string why = "the ranks do not divide its tokens";
  if (axis.keys == rt::ContextKeys::Ring) {
    if (std::string reason = whyNoRing(op); !reason.empty())
      why = reason;
    else if (auto s = goRound(program, step, rule, axis))
      wanted.push_back(*s);
  } else if (axis.keys == rt::ContextKeys::Heads) {
    wanted = alongDim(program, step, 2);
    why = "the ranks do not divide its heads of keys";
  } else {
    wanted = alongDim(program, step, 1);
  }
  if (!wanted.empty()) {
    step.strategies = std::move(wanted);
    return;
  }
  if (std::is_same_v<Op, nn::AttentionOp>)
    op.emitRemark("`context` is not ")
        << rt::textOf(*axis.keys)
        << " for this attention, but what sends fewer "
        << "bytes: " << why;
}

void dt::shard::chooseKeys(const ShardProblem &program, Step &step,
                           const nn::ShardingRule &rule, const Axis &axis) {
  if (!axis.keys)
    return;
  if (auto op = dyn_cast<nn::AttentionOp>(step.op))
    chooseKeysOf(op, program, step, rule, axis);
  else if (auto op = dyn_cast<nn::AttentionGradOp>(step.op))
    chooseKeysOf(op, program, step, rule, axis);
}

//===----------------------------------------------------------------------===//
// Local forms
//===----------------------------------------------------------------------===//

namespace {

/// A block of keys, its values and, where rows have any, its segments.
struct KeyBlock {
  Value keys, values, segments;
};

/// What steps of both directions have in common.
template <typename Op> class RingBuilder {
public:
  RingBuilder(OpBuilder &builder, Op op, ValueRange operands,
              const FactorCut &cut)
      : g(builder, op), op(op), cut(cut), query(operands[0]),
        block{operands[1], operands[2], {}} {
    if (!op.getQuerySegments())
      return;
    querySegments = operands[3];
    block.segments = operands[4];
    unsigned columns = cut.rule->operands[1][1].front();
    shiftsSegments =
        llvm::any_of(cut.rule->operands[4], [&](ArrayRef<unsigned> factors) {
          return llvm::is_contained(factors, columns);
        });
  }

  int64_t steps() const { return cut.axis.over; }
  Value shift(Value v) {
    return g.template make<dist::ShiftOp>(v, cut.axis.over, cut.axis.stride);
  }
  /// Keys or values. For gradients they travel as rows of all heads: where a
  /// forward has just run again they are not taken for the blocks of that one,
  /// all of which would be kept.
  Value pass(Value v) {
    if constexpr (std::is_same_v<Op, nn::AttentionOp>)
      return shift(v);
    nn::Shape shape = nn::getShape(v);
    Value rows = g.reshape(v, {shape[0], shape[1], shape[2] * shape[3]});
    return g.reshape(shift(rows), shape);
  }
  /// Calls attend(step, block) for every block, the rank's own first. The next
  /// one travels meanwhile.
  template <typename Attend> void goRound(Attend attend) {
    for (int64_t step = 0; step < steps(); ++step) {
      KeyBlock here = block;
      if (step + 1 < steps())
        block = {pass(here.keys), pass(here.values),
                 shiftsSegments ? shift(here.segments) : here.segments};
      attend(step, here);
    }
  }
  /// What the ops of a block have from the whole's, but for operands.
  template <typename OpTy> void setAttributes(OpTy part, int64_t step) {
    part.setPartial(true);
    if (cut.rule->factors[cut.factor].kind != nn::FactorKind::blocked)
      return; // queries see all
    part.setStripesAttr(stripes(0));
    part.setKeyStripesAttr(stripes(step));
  }
  Value sum(Value x, Value y) { return g.add(g.widen(x), g.widen(y)); }
  /// With the element type of `like`.
  Value as(Value v, Value like) {
    Type type = nn::withElementType(v.getType(), getElementTypeOrSelf(like));
    if (v.getType() == type)
      return v;
    return g.template make<nn::CastOp>(type, v);
  }

  nn::GradientBuilder g;
  Op op;
  const FactorCut &cut;
  Value query, querySegments;

private:
  nn::StripesAttr stripes(int64_t behind) {
    return nn::StripesAttr::get(op.getContext(), cut.chunk, cut.axis.over,
                                cut.axis.stride, behind);
  }

  KeyBlock block;
  bool shiftsSegments = false;
};

/// A result and its log-sum-exp.
struct SeenKeys {
  Value result, lse;
};

} // namespace

/// Of a row that has seen nothing yet the log-sum-exp is -inf, and its weight
/// 0.
static SeenKeys merge(nn::GradientBuilder &g, SeenKeys a, SeenKeys b) {
  Value top = g.make<nn::MaxOp>(a.lse, b.lse);
  Value seen =
      g.compare(nn::Compare::gt, top, -std::numeric_limits<double>::infinity());
  top = g.keepWhere(seen, top);
  Value ofA = g.make<nn::ExpOp>(g.sub(a.lse, top)),
        ofB = g.make<nn::ExpOp>(g.sub(b.lse, top)), sum = g.add(ofA, ofB);
  // 0, or from 1 to 2.
  Value share = g.make<nn::MaxOp>(sum, g.number(sum, 1));
  auto weighted = [&](Value result, Value weight) {
    Value byRow = g.transpose(g.div(weight, share), {0, 2, 1});
    nn::Shape shape = nn::getShape(byRow);
    shape.push_back(nn::DimExpr(1));
    return g.mul(g.widen(result), g.reshape(byRow, shape));
  };
  return {g.add(weighted(a.result, ofA), weighted(b.result, ofB)),
          g.add(top, g.make<nn::LogOp>(sum))};
}

SmallVector<Value> dt::shard::attendInRing(OpBuilder &builder,
                                           nn::AttentionOp op,
                                           ValueRange operands,
                                           const FactorCut &cut) {
  RingBuilder<nn::AttentionOp> ring(builder, op, operands, cut);
  SeenKeys all;
  ring.goRound([&](int64_t step, const KeyBlock &block) {
    auto part = ring.g.make<nn::AttentionOp>(
        ring.query, block.keys, block.values, /*mask=*/Value(),
        ring.querySegments, block.segments, op.getScaleAttr(),
        op.getCausalAttr(),
        nn::EmptyRowAttr::get(op.getContext(), nn::EmptyRow::zero),
        op.getWindowAttr(), op.getSoftCapAttr(), nn::StripesAttr(),
        nn::StripesAttr(), UnitAttr());
    ring.setAttributes(part, step);
    SeenKeys next{part.getResult(), part.getLse()};
    all = step == 0 ? next : merge(ring.g, all, next);
  });
  return {ring.as(all.result, ring.query), all.lse};
}

SmallVector<Value> dt::shard::attendInRing(OpBuilder &builder,
                                           nn::AttentionGradOp op,
                                           ValueRange operands,
                                           const FactorCut &cut) {
  RingBuilder<nn::AttentionGradOp> ring(builder, op, operands, cut);
  ValueRange results = operands.take_back(3);
  Value query, ownKeys, ownValues, keys, values;
  ring.goRound([&](int64_t step, const KeyBlock &block) {
    auto part = ring.g.make<nn::AttentionGradOp>(
        ring.query, block.keys, block.values, /*mask=*/Value(),
        ring.querySegments, block.segments, results[0], results[1], results[2],
        op.getScaleAttr(), op.getCausalAttr(),
        nn::EmptyRowAttr::get(op.getContext(), nn::EmptyRow::zero),
        op.getWindowAttr(), op.getSoftCapAttr(), nn::StripesAttr(),
        nn::StripesAttr(), UnitAttr());
    ring.setAttributes(part, step);
    Value dk = part.getDkey(), dv = part.getDvalue();
    if (step == 0) {
      query = part.getDquery(), ownKeys = dk, ownValues = dv;
      return;
    }
    query = ring.sum(query, part.getDquery());
    if (step > 1) {
      dk = ring.as(ring.sum(keys, dk), dk);
      dv = ring.as(ring.sum(values, dv), dv);
    }
    keys = ring.shift(dk), values = ring.shift(dv);
  });
  return {ring.as(query, ring.query), ring.as(ring.sum(ownKeys, keys), ownKeys),
          ring.as(ring.sum(ownValues, values), ownValues)};
}

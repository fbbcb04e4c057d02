//===- RulesAttention.cpp - Attention and rotary embedding ----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Attention is written out as its function body in the specification does, so
// that one raising pass serves every exporter.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/NodeImporter.h"
#include "models/frontend/symbolic/SymbolicTensor.h"

#include <cmath>

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
/// [b, t, h*d] as [b, h, t, d]; what has four axes already stays.
Value splitHeads(NodeImporter &n, Value v, int64_t heads, StringRef what) {
  if (!v || nn::getShape(v).size() == 4)
    return v;
  Shape s = nn::getShape(v);
  std::optional<DimExpr> size =
      s.size() == 3 && heads > 0 ? s[2].exactDiv(DimExpr(heads)) : std::nullopt;
  if (!size) {
    (void)n.fail(what + " " + nn::shapeToString(s) + " does not split into " +
                 Twine(heads) + " heads");
    return {};
  }
  v = n.reshape(v, {s[0], s[1], DimExpr(heads), *size});
  return n.transpose(v, {0, 2, 1, 3});
}

Value mergeHeads(NodeImporter &n, Value v) {
  v = n.transpose(v, {0, 2, 1, 3});
  if (!v)
    return v;
  Shape s = nn::getShape(v);
  return n.reshape(v, {s[0], s[1], s[2] * s[3]});
}

/// KV heads repeated for the query heads that share them.
Value repeatHeads(NodeImporter &n, Value v, const DimExpr &heads) {
  if (!v)
    return v;
  Shape s = nn::getShape(v);
  std::optional<DimExpr> group = heads.exactDiv(s[1]);
  if (!group) {
    (void)n.fail(heads.str() + " query heads do not share " + s[1].str() +
                 " key heads");
    return {};
  }
  if (*group == DimExpr(1))
    return v;
  v = n.broadcast(n.unsqueeze(v, 2), {s[0], s[1], *group, s[2], s[3]});
  return n.reshape(v, {s[0], heads, s[2], s[3]});
}

/// The additive form of a bool mask.
SymbolicTensor additive(const SymbolicTensor &visible) {
  SymbolicTensor t = visible;
  t.element = symbolic::Element::F32;
  t.value = symbolic::select(visible.value, symbolic::real(0),
                             symbolic::real(-INFINITY));
  return t;
}

Value addMask(NodeImporter &n, Value scores) {
  if (!n.has(3))
    return scores;
  Value mask;
  if (!n.element(3).isInteger(1)) {
    mask = n.compactValue(3);
  } else if (const SymbolicTensor *t = n.symbolic(3)) {
    mask = n.castTo(materialize(n.b, n.loc, additive(*t), /*compact=*/true),
                    n.element(0));
  } else {
    Type f = n.element(0);
    mask = n.make<nn::WhereOp>(
        {n.value(3), n.number(0, f), n.number(-INFINITY, f)});
  }
  return n.make<nn::AddOp>({scores, mask});
}

/// Key j is visible to query i when j <= i.
Value addCausal(NodeImporter &n, Value scores) {
  if (!scores || !n.intAttr("is_causal", 0))
    return scores;
  Shape s = nn::getShape(scores);
  SymbolicTensor visible{
      {s[2], s[3]},
      symbolic::Element::Bool,
      symbolic::lessEqual(symbolic::index(1), symbolic::index(0))};
  Value mask = n.castTo(n.emit(additive(visible)), n.element(0));
  return n.make<nn::AddOp>({scores, mask});
}

LogicalResult attention(NodeImporter &n) {
  for (size_t i : {4u, 5u, 6u})
    if (n.has(i))
      return n.fail("past keys and values are not handled: export without a "
                    "cache");
  if (n.wants(1) || n.wants(2) || n.wants(3))
    return n.fail("only its first output is handled");
  bool flat = n.rank(0) == 3;
  int64_t heads = n.intAttr("q_num_heads", 0);
  int64_t kvHeads = n.intAttr("kv_num_heads", 0);
  Value q = splitHeads(n, n.value(0), heads, "query");
  Value k = splitHeads(n, n.value(1), kvHeads, "key");
  Value v = splitHeads(n, n.value(2), kvHeads, "value");
  if (!q || !k || !v || nn::getShape(q).size() != 4)
    return n.fail("query, key and value need rank 3 or 4");
  Shape s = nn::getShape(q);
  std::optional<int64_t> size = s[3].asConstant();
  if (!size || *size < 1)
    return n.fail("the head size must be a number");
  double scale = n.floatAttr("scale", 1.0 / std::sqrt(*size));
  k = repeatHeads(n, k, s[1]);
  v = repeatHeads(n, v, s[1]);
  Type element = n.element(0);
  Value scores = n.make<nn::MatmulOp>({q, n.transpose(k, {0, 1, 3, 2})});
  scores = n.make<nn::MulOp>({scores, n.number(scale, element)});
  if (double cap = n.floatAttr("softcap", 0); cap != 0) {
    scores = n.make<nn::MulOp>({scores, n.number(1 / cap, element)});
    scores =
        n.make<nn::MulOp>({n.make<nn::TanhOp>(scores), n.number(cap, element)});
  }
  scores = addCausal(n, addMask(n, scores));
  // A query that sees no key gives 0 (the specification's reference and ONNX
  // Runtime), where softmax over -inf alone is not a number.
  Value p = n.make<nn::SoftmaxOp>(scores, n.i64("axis", 3));
  p = n.make<nn::WhereOp>({n.make<nn::IsNanOp>(p), n.number(0, element), p});
  Value y = n.make<nn::MatmulOp>({p, v});
  return n.set(0, flat ? mergeHeads(n, y) : y);
}

LogicalResult rotaryEmbedding(NodeImporter &n) {
  bool flat = n.rank(0) == 3;
  Value x = n.value(0);
  if (flat) {
    Shape s = n.shape(0);
    int64_t heads = n.intAttr("num_heads", 0);
    std::optional<DimExpr> size =
        heads > 0 ? s[2].exactDiv(DimExpr(heads)) : std::nullopt;
    if (!size)
      return n.fail("num_heads does not divide " + s[2].str());
    x = n.reshape(x, {s[0], s[1], DimExpr(heads), *size});
  } else if (n.rank(0) == 4) {
    x = n.transpose(x, {0, 2, 1, 3});
  } else {
    return n.fail("needs an input of rank 3 or 4");
  }
  Value cos = n.value(1), sin = n.value(2);
  if (n.has(3)) {
    cos = n.make<nn::GatherOp>({cos, n.value(3)}, n.i64("axis", 0));
    sin = n.make<nn::GatherOp>({sin, n.value(3)}, n.i64("axis", 0));
  }
  if (!x || !cos)
    return failure();
  Shape angles = nn::getShape(cos);
  std::optional<int64_t> pairs =
      angles.empty() ? std::nullopt : angles.back().asConstant();
  int64_t turned = n.intAttr("rotary_embedding_dim", 0);
  if (turned != 0 && (!pairs || *pairs * 2 != turned))
    return n.fail("the caches do not have rotary_embedding_dim / 2 columns");
  auto style = n.intAttr("interleaved", 0) ? nn::RotaryStyle::interleaved
                                           : nn::RotaryStyle::half;
  Value y = n.make<nn::RotaryOp>(
      {x, cos, sin},
      n.named("style", nn::RotaryStyleAttr::get(n.b.getContext(), style)));
  return n.set(0,
               flat ? n.reshape(y, n.shape(0)) : n.transpose(y, {0, 2, 1, 3}));
}
} // namespace

void models::addAttentionRules(RuleTable &rules) {
  rules["Attention"] = attention;
  rules["RotaryEmbedding"] = rotaryEmbedding;
}

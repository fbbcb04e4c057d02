//===- Architectures.cpp - Descriptions of known models -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/passes/planner/Architectures.h"

#include <algorithm>
#include <initializer_list>

using namespace llvm;

namespace dt::planner {

namespace {

constexpr double kElement = 2; // bytes of an activation

Linear perToken(double value) { return {0, value, 0}; }

/// A product of `tokens * factor` rows and what its gradients cost.
void addGemm(LayerKind &kind, StringRef name, double n, double k,
             Op::Split split, Linear rows = perToken(1)) {
  Op op;
  op.name = name.str();
  op.kind = Op::Gemm;
  op.split = split;
  op.rows = rows;
  op.n = n;
  op.k = k;
  auto bytes = [&](double width) {
    return Linear{rows.item * width * kElement, rows.token * width * kElement,
                  rows.square * width * kElement};
  };
  op.bytes = bytes(n + k);
  op.fixedBytes = n * k * kElement;
  kind.forward.push_back(op);
  Op input = op;
  input.name = "d" + name.str();
  std::swap(input.n, input.k);
  input.split = split == Op::Columns ? Op::Depth
                : split == Op::Depth ? Op::Columns
                                     : split;
  kind.input.push_back(input);
  // The weight gradient sums over rows and adds to a float buffer.
  Op weight = op;
  weight.name = "w" + name.str();
  weight.fixedBytes = n * k * 8;
  kind.weight.push_back(weight);
  kind.parameters += n * k;
}

/// Elementwise work: bytes of a token forward, `backward` times as many back.
void addStream(LayerKind &kind, StringRef name, Linear bytes, Op::Split split,
               double backward, bool cheap, int kernels = 1) {
  Op op;
  op.name = name.str();
  op.split = split;
  op.bytes = bytes;
  op.cheap = cheap;
  op.count = kernels;
  kind.forward.push_back(op);
  op.cheap = false;
  op.bytes = {bytes.item * backward, bytes.token * backward,
              bytes.square * backward};
  kind.input.push_back(op);
}

/// Fused attention: the backward pass does the scores again (5 products for 2).
/// Each token looks at half of all, or at `window` of them.
void addFusedAttention(LayerKind &kind, double width, bool causal,
                       double window) {
  Op op;
  op.name = "attention";
  op.kind = Op::Attention;
  op.split = Op::Heads;
  op.flops = window > 0 ? perToken(4 * width * window)
                        : Linear{0, 0, 4 * width * (causal ? 0.5 : 1)};
  op.bytes = perToken(4 * width * kElement);
  kind.forward.push_back(op);
  op.flops = op.flops * 2.5;
  op.bytes.token *= 2;
  kind.input.push_back(op);
}

/// Scores in memory: two products a head, scaling, mask, softmax, dropout.
void addPlainAttention(LayerKind &kind, double width, double heads,
                       bool dropout) {
  Op op;
  op.name = "scores";
  op.kind = Op::Attention;
  op.split = Op::Heads;
  op.flops = {0, 0, 4 * width};
  // q, k, v, result; scores written and read by each product.
  op.bytes = {0, 4 * width * kElement, 2 * heads * kElement};
  op.cheap = true;
  op.count = 2;
  kind.forward.push_back(op);
  op.cheap = false;
  op.flops.square *= 2;
  op.bytes.square *= 2;
  op.count = 4;
  kind.input.push_back(op);
  addStream(kind, "softmax",
            {0, 0, heads * (2 * kElement + (dropout ? 2 * kElement + 1 : 0))},
            Op::Heads, 1.5, /*cheap=*/true, dropout ? 2 : 1);
}

/// What attention keeps of a token: all, and what is not done again.
struct Kept {
  double all = 0, vjp = 0;
};

Kept addAttention(LayerKind &kind, const TransformerShape &shape,
                  bool windowed) {
  double h = shape.hidden, heads = shape.heads, d = kElement,
         each = shape.headDim ? shape.headDim : h / heads, q = each * heads,
         kv = each * (shape.kvHeads ? shape.kvHeads : heads);
  double window = windowed ? shape.window : 0;
  Kept kept;
  if (shape.latentRank) {
    double rotated = heads * shape.rotated, low = shape.queryRank,
           latent = shape.latentRank + shape.rotated;
    addGemm(kind, "down", low + latent, h, Op::Sequence);
    addGemm(kind, "queries", q + rotated, low, Op::Columns);
    kind.forward.back().cheap = true;
    addGemm(kind, "keys", 2 * q, shape.latentRank, Op::Columns);
    kind.forward.back().cheap = true;
    addFusedAttention(kind, q + rotated / 2, shape.causal, window);
    kept = {(5 * q + 2 * rotated) * d, (low + latent + q) * d};
  } else {
    addGemm(kind, "qkv", q + 2 * kv, h, Op::Columns);
    if (shape.fused)
      addFusedAttention(kind, q, shape.causal, window);
    else
      addPlainAttention(kind, q, heads, shape.dropout);
    kept.all = kept.vjp = (q + 2 * kv + q) * d;
  }
  addGemm(kind, "out", h, q, Op::Depth);
  kind.exchanged = perToken(2 * kv * d);
  return kept;
}

Kept addDense(LayerKind &kind, double h, double f, bool gated) {
  double d = kElement;
  addGemm(kind, "up", gated ? 2 * f : f, h, Op::Columns);
  addStream(kind, "activation", perToken((gated ? 3 : 2) * f * d), Op::Heads,
            1.5, true);
  addGemm(kind, "down", h, f, Op::Depth);
  return {(gated ? 3 : 2) * f * d, (gated ? 2 : 1) * f * d};
}

/// A token's rows are put in the order of ranks, then of experts, and back.
Kept addExperts(LayerKind &kind, const TransformerShape &shape) {
  double h = shape.hidden, f = shape.expertFfn, k = shape.topK, d = kElement;
  addGemm(kind, "router", shape.experts, h, Op::Sequence);
  Linear moved = perToken((1 + 3 * k) * h * d);
  addStream(kind, "permute", moved, Op::Sequence, 1, false, 4);
  addStream(kind, "unpermute", moved, Op::Sequence, 1, false, 4);
  double others = kind.parameters;
  addGemm(kind, "up", 2 * f, h, Op::Columns, perToken(k / shape.experts));
  addGemm(kind, "down", h, f, Op::Depth, perToken(k / shape.experts));
  double one = kind.parameters - others;
  for (auto *ops : {&kind.forward, &kind.input, &kind.weight})
    for (auto it = ops->end() - 2; it != ops->end(); ++it) {
      it->expert = true;
      it->count = shape.experts;
      it->bytes = it->bytes * shape.experts;
      it->fixedBytes *= shape.experts;
    }
  kind.parameters = others + one * shape.experts;
  kind.expertParameters = one * shape.experts;
  kind.routes = 1;
  kind.dispatched = perToken((shape.copies ? shape.copies : k) * h * d);
  addStream(kind, "activation", perToken(3 * k * f * d), Op::Heads, 1.5, true);
  Kept kept{k * (2 * h + 3 * f) * d, k * (h + 2 * f) * d};
  if (shape.sharedFfn) {
    Kept shared = addDense(kind, h, shape.sharedFfn, true);
    kept.all += shared.all;
    kept.vjp += shared.vjp;
  }
  return kept;
}

LayerKind makeBlock(const TransformerShape &shape, bool experts,
                    bool windowed) {
  LayerKind kind;
  kind.name = windowed ? "layer.windowed" : "layer";
  if (shape.experts)
    kind.name += experts ? ".experts" : ".dense";
  double h = shape.hidden;
  int norms = 2;
  double d = kElement;
  addStream(kind, "norms", perToken(2 * norms * h * d), Op::Sequence, 1.5, true,
            norms);
  Kept attention = addAttention(kind, shape, windowed),
       rest = experts ? addExperts(kind, shape)
                      : addDense(kind, h, shape.ffn, shape.gated);
  addStream(kind, "residual", perToken((shape.dropout ? 8 : 6) * h * d),
            Op::Sequence, 0.7, false, 2);
  kind.parameters += 2 * h;
  kind.reduced = perToken(h * d);
  kind.forwardReduces = kind.backwardReduces =
      experts && shape.sharedFfn ? 3 : 2;
  kind.output = perToken(h * d);

  // What is kept (arXiv 2205.05198, table 2, in 16 bits): 34 s b h + 5 a s^2 b
  // of a GELU layer; without the scores with fused or repeated attention.
  double a = shape.heads, masks = shape.dropout ? 1 : 0;
  double square = shape.fused ? 0 : 2 * d * a + masks * a;
  kind.keptSplit[int(Save::All)] = {0, attention.all + rest.all, square};
  kind.keptSequence[int(Save::All)] = perToken((4 * d + 2 * masks) * h);
  // Vjp repeats scores and activations, and keeps norms' inputs only.
  kind.keptSplit[int(Save::Vjp)] = perToken(attention.vjp + rest.vjp);
  kind.keptSequence[int(Save::Vjp)] = perToken((2 * d + 2 * masks) * h);
  kind.keptSequence[int(Save::None)] = perToken(d * h);
  return kind;
}

/// Blocks with and without experts, with and without a window, in their order.
void addBlocks(Module &module, const TransformerShape &shape, int from,
               int to) {
  for (int i = from; i < to; ++i) {
    bool experts =
        shape.experts && i >= shape.denseLayers && (i + 1) % shape.every == 0;
    LayerKind kind = makeBlock(shape, experts, shape.window && i % 2 == 0);
    auto known = std::find_if(
        module.kinds.begin(), module.kinds.end(),
        [&](const LayerKind &other) { return other.name == kind.name; });
    module.layers.push_back(int(known - module.kinds.begin()));
    if (known == module.kinds.end())
      module.kinds.push_back(std::move(kind));
  }
}

} // namespace

Module makeTransformer(StringRef name, ItemKind item,
                       const TransformerShape &shape) {
  Module module;
  module.name = name.str();
  module.item = item;
  module.maxTP = shape.heads;
  double h = shape.hidden, d = kElement;
  auto add = [&](LayerKind kind, int count) {
    module.layers.insert(module.layers.end(), count, int(module.kinds.size()));
    module.kinds.push_back(std::move(kind));
  };
  auto ends = [&](StringRef kindName) {
    LayerKind kind;
    kind.name = kindName.str();
    kind.output = perToken(h * d);
    for (Linear &kept : kind.keptSequence)
      kept = perToken(h * d);
    return kind;
  };
  if (shape.vocabulary || shape.patch) {
    LayerKind kind = ends("embed");
    if (shape.patch)
      addGemm(kind, "patches", h, shape.patch, Op::Columns);
    else
      kind.parameters = double(shape.vocabulary) * h;
    addStream(kind, "embedding", perToken(3 * h * d), Op::Sequence, 1, false);
    add(std::move(kind), 1);
  }
  addBlocks(module, shape, 0, shape.layers);
  if (shape.vocabulary) {
    LayerKind kind = ends("head");
    addStream(kind, "norm", perToken(2 * h * d), Op::Sequence, 1.5, true);
    addGemm(kind, "logits", shape.vocabulary, h, Op::Columns);
    addStream(kind, "loss", perToken(3.0 * shape.vocabulary * d), Op::Heads, 1,
              false);
    for (Linear &kept : kind.keptSplit)
      kept = perToken(double(shape.vocabulary) * d);
    kind.reduced = perToken(h * d);
    kind.forwardReduces = 0;
    kind.backwardReduces = 1;
    add(std::move(kind), 1);
    int head = module.layers.back();
    for (int i = 0; i < shape.later; ++i) {
      addBlocks(module, shape, shape.layers + i, shape.layers + i + 1);
      module.layers.push_back(head);
    }
  }
  if (shape.projection) {
    LayerKind kind = ends("projector");
    addGemm(kind, "project", shape.projection, h, Op::Columns);
    addGemm(kind, "project2", shape.projection, shape.projection, Op::Depth);
    kind.output = perToken(shape.projection * d);
    add(std::move(kind), 1);
  }
  return module;
}

namespace {

/// A residual block at 1/scale^2 of the positions: two 3x3 convolutions.
void addResidual(LayerKind &kind, double in, double out, double share) {
  double d = kElement;
  for (auto [from, to] : {std::pair(in, out), std::pair(out, out)}) {
    Op op;
    op.name = "conv";
    op.kind = Op::Convolution;
    op.split = Op::Columns;
    op.flops = perToken(2 * 9 * from * to * share);
    op.bytes = perToken((from + to) * d * share);
    op.fixedBytes = 9 * from * to * d;
    for (std::vector<Op> *ops : {&kind.forward, &kind.input, &kind.weight})
      ops->push_back(op);
    kind.parameters += 9 * from * to;
  }
  if (in != out)
    addGemm(kind, "shortcut", out, in, Op::Columns, perToken(share));
  addStream(kind, "norms", perToken(4 * (in + out) * d * share), Op::Sequence,
            1.5, true, 4);
}

void addSpatialTransformer(LayerKind &kind, double c, double share,
                           const UNetShape &shape) {
  double d = kElement, context = shape.contextTokens;
  Linear rows = perToken(share), contextRows = {context, 0, 0};
  addStream(kind, "norms", perToken(8 * c * d * share), Op::Sequence, 1.5, true,
            4);
  for (const char *name : {"in", "out", "out2"})
    addGemm(kind, name, c, c, Op::Depth, rows);
  addGemm(kind, "qkv", 3 * c, c, Op::Columns, rows);
  Op op;
  op.name = "attention";
  op.kind = Op::Attention;
  op.split = Op::Heads;
  op.flops = {0, 4 * c * context * share, 4 * c * share * share};
  op.bytes = perToken(8 * c * d * share);
  op.count = 2;
  kind.forward.push_back(op);
  op.flops = {0, op.flops.token * 2.5, op.flops.square * 2.5};
  kind.input.push_back(op);
  addGemm(kind, "query", 2 * c, c, Op::Columns, rows);
  addGemm(kind, "context", 2 * c, shape.context, Op::Columns, contextRows);
  addGemm(kind, "up", 8 * c, c, Op::Columns, rows);
  addGemm(kind, "down", c, 4 * c, Op::Depth, rows);
}

} // namespace

Module makeUNet(StringRef name, ItemKind item, const UNetShape &shape) {
  Module module;
  module.name = name.str();
  module.item = item;
  module.maxTP = 8;
  double d = kElement;
  int levels = int(shape.multipliers.size());
  auto add = [&](int level, double in, bool attention, bool up) {
    LayerKind kind;
    double c = double(shape.channels) * shape.multipliers[level];
    double share = 1.0 / double(int64_t(1) << (2 * level));
    kind.name = (up ? "up" : "down") + std::to_string(level);
    addResidual(kind, in, c, share);
    if (attention)
      addSpatialTransformer(kind, c, share, shape);
    kind.output = perToken(c * d * share);
    kind.reduced = perToken(c * d * share);
    kind.forwardReduces = kind.backwardReduces = attention ? 3 : 1;
    double products = (2 * in + 3 * c + (attention ? 24 * c : 0)) * d * share;
    kind.keptSplit[int(Save::All)] = perToken(products);
    kind.keptSplit[int(Save::Vjp)] = perToken(0.6 * products);
    kind.keptSequence[int(Save::None)] = perToken(in * d * share);
    module.layers.push_back(int(module.kinds.size()));
    module.kinds.push_back(std::move(kind));
  };
  double before = shape.channels;
  for (int level = 0; level < levels; ++level)
    for (int i = 0; i < shape.blocks; ++i) {
      add(level, before, shape.attention[level], false);
      before = double(shape.channels) * shape.multipliers[level];
    }
  add(levels - 1, before, true, true);
  add(levels - 1, before, false, true);
  for (int level = levels; level-- > 0;)
    for (int i = 0; i <= shape.blocks; ++i) {
      double c = double(shape.channels) * shape.multipliers[level];
      add(level, before + c, shape.attention[level], true);
      before = c;
    }
  return module;
}

Model makeMultimodal(int billions) {
  TransformerShape vit;
  vit.layers = 32;
  vit.hidden = 1280;
  vit.ffn = 5120;
  vit.heads = 16;
  vit.patch = 16 * 16 * 3;
  TransformerShape llm;
  llm.gated = llm.causal = true;
  llm.vocabulary = 128256;
  bool large = billions > 20, small = billions < 10;
  llm.layers = large ? 80 : small ? 32 : 40;
  llm.hidden = large ? 8192 : small ? 4096 : 5120;
  llm.ffn = large ? 28672 : small ? 11008 : 13824;
  llm.heads = large ? 64 : small ? 32 : 40;
  llm.kvHeads = large ? 8 : 0;
  vit.projection = llm.hidden;
  Model model;
  model.name = "mllm-" + std::to_string(billions + 2) + "b";
  model.modules = {makeTransformer("encoder", ItemKind::Image, vit),
                   makeTransformer("llm", ItemKind::Sample, llm),
                   makeUNet("generator", ItemKind::Target, {})};
  model.modules[1].inputGradient = model.modules[2].inputGradient = true;
  model.pace = 1;
  double d = kElement;
  // The projector merges four patches into one token of the backbone.
  model.edges = {{0, 1, perToken(0.25 * llm.hidden * d)},
                 {1, 2, {77.0 * 1024 * d, 0, 0}}};
  return model;
}

} // namespace dt::planner

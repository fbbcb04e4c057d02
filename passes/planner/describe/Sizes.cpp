//===- Sizes.cpp - One program described at several sizes -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/describe/Sizes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace llvm;

namespace dt::planner {

namespace {

/// Figures are sums and products of integers below 2^53, so what differs by
/// more is no rounding.
constexpr double kTolerance = 1e-9, kNoise = 1e-13;
/// Coefficients are fractions of this (a level of a UNet has 1/64 of its
/// positions).
constexpr double kDenominator = 4096;

Error wrong(const Twine &what) { return createStringError(what); }

/// All figures of a model in one order, and what is the same at every size.
struct Figures {
  struct Figure {
    std::string name;
    Linear *grows = nullptr; ///< with items and their tokens
    double *fixed = nullptr; ///< of a part; what grows of it goes to `grows`
  };
  std::vector<Figure> figures;
  std::vector<std::string> shape;

  /// Of all but partitioned layers.
  explicit Figures(Model &model) {
    for (Module &module : model.modules) {
      std::string where = "module '" + module.name + "'";
      shape.push_back(formatv("{0}: {1} layers of {2} kinds, TP {3}", where,
                              module.layers.size(), module.kinds.size(),
                              module.maxTP));
      for (LayerKind &kind : module.kinds)
        add(where + ", layer '" + kind.name + "'", kind);
    }
    for (ModelEdge &edge : model.edges) {
      std::string where =
          formatv("edge from '{0}' to '{1}'", model.modules[edge.from].name,
                  model.modules[edge.to].name);
      shape.push_back(where);
      add(where, edge.bytes);
    }
  }
  Figures(const std::string &where, RankLayer &layer) { add(where, layer); }

private:
  void add(const std::string &name, Linear &value) {
    figures.push_back({name, &value, nullptr});
  }
  void add(const std::string &where, const char *list, std::vector<Op> &ops) {
    for (Op &op : ops) {
      std::string name = formatv("{0}, {1} {2}", where, list, op.name);
      shape.push_back(formatv("{0}: {1} x {2}", name, op.n, op.k));
      add(name + ": rows", op.rows);
      add(name + ": FLOPs", op.flops);
      add(name + ": bytes", op.bytes);
      figures.push_back({name + ": fixed bytes", &op.bytes, &op.fixedBytes});
    }
  }
  void add(const std::string &where, LayerKind &kind) {
    shape.push_back(where);
    add(where, "forward", kind.forward);
    add(where, "input", kind.input);
    add(where, "weight", kind.weight);
    for (Linear *value :
         {&kind.reduced, &kind.output, &kind.exchanged, &kind.dispatched})
      add(where + ": messages", *value);
    for (int save = 0; save < 3; ++save)
      for (Linear *value : {&kind.keptSplit[save], &kind.keptSequence[save]})
        add(where + ": kept bytes", *value);
  }
  void add(const std::string &where, RankLayer &layer) {
    shape.push_back(where);
    add(where, "forward", layer.forward);
    add(where, "input", layer.input);
    add(where, "weight", layer.weight);
    for (Exchange &exchange :
         concat<Exchange>(layer.forwardExchanges, layer.backwardExchanges)) {
      shape.push_back(formatv("{0}, collective {1} over {2} stride {3}", where,
                              int(exchange.kind), exchange.over,
                              exchange.stride));
      add(where + ": a collective", exchange.bytes);
      add(where + ": rows of a collective", exchange.rows);
      add(where, "collective beside", exchange.beside);
    }
    add(where + ": kept bytes", layer.kept);
    add(where + ": kept bytes that weights read", layer.keptToWeights);
    add(where + ": bytes kept for weights", layer.keptForWeights);
    add(where + ": bytes kept at a stage's start", layer.keptAtStart);
    add(where + ": bytes handed out", layer.handedOut);
    // The most of several sums is no polynomial.
    layer.scratch = layer.scratchOfHalves = {};
  }
};

/// Noise of the division is no part of a coefficient.
double tidy(double value, double share, double whole) {
  double noise = kNoise * std::fabs(whole) / share;
  if (std::fabs(value) <= noise)
    return 0;
  double round = std::round(value * kDenominator) / kDenominator;
  return std::fabs(value - round) <= std::max(noise, kNoise * std::fabs(value))
             ? round
             : value;
}

/// The parabola through three points.
Linear fit(const std::array<double, 3> &t, const std::array<double, 3> &y) {
  double first = (y[1] - y[0]) / (t[1] - t[0]);
  double square = ((y[2] - y[0]) / (t[2] - t[0]) - first) / (t[2] - t[1]);
  double whole = std::max({std::fabs(y[0]), std::fabs(y[1]), std::fabs(y[2])});
  square = tidy(square, t[2] * t[2], whole);
  double token =
      tidy((y[2] - y[0] - square * (t[2] * t[2] - t[0] * t[0])) / (t[2] - t[0]),
           t[2], whole);
  double item = tidy(y[0] - token * t[0] - square * t[0] * t[0], 1, whole);
  return {item, token, square};
}

class Fitter {
public:
  Fitter(std::vector<SizedModel> all, double cutAt) : sizes(std::move(all)) {
    llvm::sort(sizes, [](const SizedModel &a, const SizedModel &b) {
      return a.tokens < b.tokens;
    });
    base = sizes.size() - 1;
    for (size_t s = 0; s < sizes.size(); ++s)
      if (sizes[s].tokens == cutAt)
        base = s;
    // Modules may be called after files, which differ.
    for (SizedModel &size : sizes)
      for (auto [own, known] :
           zip(size.model.modules, sizes[base].model.modules))
        own.name = known.name;
    if (!sizes.empty())
      result = sizes[base].model;
  }

  Expected<Model> run() {
    std::vector<Figures> figures;
    for (SizedModel &size : sizes)
      figures.emplace_back(size.model);
    if (Error error = check(figures))
      return std::move(error);
    SmallVector<size_t> all = llvm::to_vector(llvm::seq(sizes.size()));
    Figures target(result);
    if (Error error = fitAll(all, figures, target))
      return std::move(error);
    for (size_t m = 0; m < result.modules.size(); ++m)
      fitLayouts(m);
    if (Error error = result.check())
      return std::move(error);
    return std::move(result);
  }

  std::vector<std::string> leftOut;

private:
  Error check(std::vector<Figures> &figures) {
    if (sizes.size() < 3)
      return wrong("figures of tokens need a program at three sizes, not " +
                   Twine(sizes.size()));
    for (size_t s = 0; s < sizes.size(); ++s) {
      if (!(sizes[s].tokens >= 1 && sizes[s].tokens <= 1 << 24) ||
          (s > 0 && sizes[s].tokens == sizes[s - 1].tokens))
        return wrong(sizes[s].file +
                     ": expected tokens of 1 to 2^24, others than those of "
                     "other sizes");
      for (const Figures::Figure &figure : figures[s].figures)
        if (figure.grows->token || figure.grows->square)
          return wrong(sizes[s].file + ": " + figure.name +
                       " is a function of tokens already");
      const auto &here = figures[base].shape, &own = figures[s].shape;
      auto [a, b] =
          std::mismatch(own.begin(), own.end(), here.begin(), here.end());
      if (a != own.end() || b != here.end())
        return wrong(sizes[s].file + " and " + sizes[base].file +
                     " are not one program at two sizes: " +
                     (a != own.end() ? *a : "less") + " there, " +
                     (b != here.end() ? *b : "less") + " here");
    }
    return Error::success();
  }

  /// Where to cut is decided by costs, which differ with sizes: a layer goes by
  /// the sizes around the base at which it is cut as there, one of them more
  /// than make a parabola (if there are so many).
  void fitLayouts(size_t m) {
    Module &module = result.modules[m];
    auto layouts = module.partitioned;
    for (auto &[layout, kinds] : layouts)
      for (size_t k = 0; k < kinds.size(); ++k) {
        std::string where = formatv(
            "module '{0}', layer '{1}' at TP {2} and '{3}'{4}", module.name,
            module.kinds[k].name, layout.tp, rt::textOf(layout.save),
            layout.sequenceParallel ? " with sequence parallelism" : "");
        SmallVector<size_t> at;
        std::vector<Figures> figures;
        for (size_t s = 0; s < sizes.size(); ++s) {
          auto &known = sizes[s].model.modules[m].partitioned;
          auto own = known.find(layout);
          if (own == known.end())
            continue;
          at.push_back(s);
          figures.emplace_back(where, own->second[k]);
        }
        if (fitAround(at, figures, where, module.partitioned.at(layout)[k]))
          continue;
        leftOut.push_back(where + " is cut otherwise at sizes next to " +
                          formatv("{0:f0}", sizes[base].tokens).str() +
                          " tokens: this layout is priced " +
                          (layout.sequenceParallel ? "without" : "by rule"));
        module.partitioned.erase(layout);
        break;
      }
  }

  /// The most neighbours of the base that agree.
  bool fitAround(ArrayRef<size_t> at, ArrayRef<Figures> figures,
                 const std::string &where, RankLayer &layer) {
    size_t here = llvm::find(at, base) - at.begin();
    size_t least = std::min<size_t>(4, sizes.size());
    for (size_t count = at.size(); count >= least; --count)
      for (size_t first = 0; first + count <= at.size(); ++first) {
        if (here < first || here >= first + count)
          continue;
        if (llvm::any_of(figures.slice(first, count), [&](const Figures &f) {
              return f.shape != figures[here].shape;
            }))
          continue;
        RankLayer copy = layer;
        Figures target(where, copy);
        if (Error error = fitAll(at.slice(first, count),
                                 figures.slice(first, count), target)) {
          consumeError(std::move(error));
          continue;
        }
        layer = std::move(copy);
        return true;
      }
    return false;
  }

  /// Every figure through the least, the largest and the one nearest to the
  /// middle of `at`.
  Error fitAll(ArrayRef<size_t> at, ArrayRef<Figures> figures,
               Figures &target) {
    double aim = (sizes[at.front()].tokens + sizes[at.back()].tokens) / 2;
    size_t middle = 1;
    auto off = [&](size_t i) { return std::fabs(sizes[at[i]].tokens - aim); };
    for (size_t i = 1; i + 1 < at.size(); ++i)
      if (off(i) < off(middle))
        middle = i;
    for (size_t f = 0; f < target.figures.size(); ++f) {
      auto read = [&](size_t i) {
        const Figures::Figure &figure = figures[i].figures[f];
        return figure.fixed ? *figure.fixed : figure.grows->item;
      };
      auto tokens = [&](size_t i) { return sizes[at[i]].tokens; };
      size_t last = at.size() - 1;
      Linear line = fit({tokens(0), tokens(middle), tokens(last)},
                        {read(0), read(middle), read(last)});
      Figures::Figure &to = target.figures[f];
      if (line.item < 0 || line.token < 0 || line.square < 0)
        return wrong(formatv("{0}: no figure of items and tokens: {1} + {2} t "
                             "+ {3} t^2",
                             to.name, line.item, line.token, line.square));
      for (size_t i = 0; i < at.size(); ++i) {
        double says = line.at(TokenSums::of(tokens(i))), is = read(i);
        if (std::fabs(says - is) > kTolerance * std::max(says, is))
          return wrong(formatv("{0}: {1} at {2} tokens, where the other sizes "
                               "say {3}",
                               to.name, is, tokens(i), says));
      }
      if (!to.fixed) {
        *to.grows = line;
        continue;
      }
      *to.fixed = line.item;
      to.grows->token += line.token;
      to.grows->square += line.square;
    }
    return Error::success();
  }

  std::vector<SizedModel> sizes;
  size_t base = 0;
  Model result;
};

bool isPricedAlike(const Op &a, const Op &b) {
  if (a.kind != b.kind || a.split != b.split || a.cheap != b.cheap ||
      a.expert || b.expert)
    return false;
  // What only streams takes as long as its bytes: a sum.
  return a.kind == Op::Stream ||
         (a.rows == b.rows && a.n == b.n && a.k == b.k && a.count == b.count &&
          a.flops == b.flops && a.bytes == b.bytes &&
          a.fixedBytes == b.fixedBytes);
}

void condense(std::vector<Op> &ops) {
  // By the first of its kind, which must stay as it was for comparisons.
  std::vector<Op> firsts, sums;
  for (Op &op : ops) {
    auto known = llvm::find_if(
        firsts, [&](const Op &first) { return isPricedAlike(first, op); });
    if (known == firsts.end()) {
      firsts.push_back(op);
      sums.push_back(std::move(op));
      continue;
    }
    Op &sum = sums[known - firsts.begin()];
    if (sum.kind == Op::Stream)
      sum.name = "stream";
    sum.count += op.count;
    sum.fixedBytes += op.fixedBytes;
    sum.bytes += op.bytes;
    if (sum.kind != Op::Gemm)
      sum.flops += op.flops;
  }
  for (Op &op : sums)
    if (op.kind == Op::Gemm || op.kind == Op::Stream)
      op.flops = {}; // follow from the shape, or do not count
  ops = std::move(sums);
}

void halve(Linear &value) { value = value * 0.5; }

void halveOps(std::vector<Op> &ops, bool isGradient) {
  for (Op &op : ops) {
    halve(op.bytes);
    if (!isGradient)
      op.fixedBytes /= 2;
  }
}
template <typename Layer> void halveOps(Layer &layer) {
  halveOps(layer.forward, false);
  halveOps(layer.input, false);
  halveOps(layer.weight, true);
}

} // namespace

Expected<Model> fitTokens(ArrayRef<SizedModel> sizes, double cutAt,
                          std::vector<std::string> *leftOut) {
  Fitter fitter(sizes.vec(), cutAt);
  auto model = fitter.run();
  if (leftOut)
    *leftOut = fitter.leftOut;
  return model;
}

void condense(Model &model) {
  auto all = [](auto &layer) {
    for (std::vector<Op> *ops : {&layer.forward, &layer.input, &layer.weight})
      condense(*ops);
  };
  for (Module &module : model.modules) {
    for (LayerKind &kind : module.kinds)
      all(kind);
    for (auto &[layout, layers] : module.partitioned)
      for (RankLayer &layer : layers)
        all(layer);
  }
}

Error setMixedPrecision(Model &model, StringRef precision) {
  for (Module &module : model.modules) {
    if (module.precision != "f32" || module.bytes.weight != 4)
      return wrong("module '" + module.name + "' computes in " +
                   module.precision + ", expected f32");
    module.precision = precision.str();
    auto mix = [](ParameterBytes &bytes) {
      double trained = bytes.gradient / bytes.weight;
      bytes = {2, 4 * trained, 12 * trained};
    };
    mix(module.bytes);
    for (Tie &tie : module.ties)
      if (tie.bytes)
        mix(*tie.bytes);
    for (LayerKind &kind : module.kinds) {
      if (kind.bytes)
        mix(*kind.bytes);
      halveOps(kind);
      for (Linear *value :
           {&kind.reduced, &kind.output, &kind.exchanged, &kind.dispatched})
        halve(*value);
      for (Linear &kept : concat<Linear>(kind.keptSplit, kind.keptSequence))
        halve(kept);
    }
    for (auto &[layout, layers] : module.partitioned)
      for (RankLayer &layer : layers) {
        halveOps(layer);
        for (auto [key, bytes] : kRankLayer)
          halve(layer.*bytes);
        for (Exchange &exchange : concat<Exchange>(layer.forwardExchanges,
                                                   layer.backwardExchanges)) {
          halve(exchange.bytes);
          halveOps(exchange.beside, false);
        }
      }
  }
  for (ModelEdge &edge : model.edges)
    halve(edge.bytes);
  return Error::success();
}

} // namespace dt::planner

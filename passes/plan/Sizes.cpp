//===- Sizes.cpp - One program described at several sizes -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/Sizes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace llvm;

namespace dt::plan {

namespace {

/// Figures are sums and products of integers below 2^53, so what differs by
/// more is no rounding.
constexpr double kTolerance = 1e-9;
/// Coefficients are fractions of this (a level of a UNet has 1/64 of its
/// positions).
constexpr double kDenominator = 4096;

Error wrong(const Twine &what) {
  return createStringError(inconvertibleErrorCode(), what);
}

/// All figures of a model in one order, and what is the same at every size.
struct Figures {
  struct Figure {
    std::string name;
    Linear *grows = nullptr; ///< with items and their tokens
    double *fixed = nullptr; ///< of a part; what grows of it goes to `grows`
  };
  std::vector<Figure> figures;
  std::vector<std::string> shape;

  explicit Figures(Model &model) {
    for (Module &module : model.modules) {
      std::string where = "module '" + module.name + "'";
      shape.push_back(formatv("{0}: {1} layers of {2} kinds, TP {3}", where,
                              module.layers.size(), module.kinds.size(),
                              module.maxTP));
      for (LayerKind &kind : module.kinds)
        add(where + ", layer '" + kind.name + "'", kind);
      for (auto &[layout, layers] : module.partitioned)
        for (auto [kind, layer] : zip(module.kinds, layers))
          add(formatv("{0}, layer '{1}' at TP {2} and '{3}'", where, kind.name,
                      layout.first, getName(layout.second))
                  .str(),
              layer);
    }
    for (ModelEdge &edge : model.edges) {
      std::string where =
          formatv("edge from '{0}' to '{1}'", model.modules[edge.from].name,
                  model.modules[edge.to].name);
      shape.push_back(where);
      add(where, edge.bytes);
    }
  }

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
    for (std::vector<Exchange> *exchanges :
         {&layer.forwardExchanges, &layer.backwardExchanges})
      for (Exchange &exchange : *exchanges) {
        shape.push_back(
            formatv("{0}, collective {1}", where, int(exchange.kind)));
        add(where + ": a collective", exchange.bytes);
      }
    add(where + ": kept bytes", layer.kept);
    add(where + ": bytes kept for weights", layer.keptForWeights);
  }
};

/// Noise of the division is no part of a coefficient.
double tidy(double value, double share, double whole) {
  if (std::fabs(value * share) <= kTolerance * std::fabs(whole))
    return 0;
  double round = std::round(value * kDenominator) / kDenominator;
  return std::fabs(value - round) <= kTolerance * std::fabs(value) ? round
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
  explicit Fitter(std::vector<SizedModel> all) : sizes(std::move(all)) {
    llvm::stable_sort(sizes, [](const SizedModel &a, const SizedModel &b) {
      return a.tokens < b.tokens;
    });
    for (SizedModel &size : sizes)
      figures.emplace_back(size.model);
  }

  Expected<Model> run() {
    if (Error error = check())
      return std::move(error);
    size_t middle = 1, last = sizes.size() - 1;
    double aim = (sizes[0].tokens + sizes[last].tokens) / 2;
    for (size_t i = 1; i < last; ++i)
      if (std::fabs(sizes[i].tokens - aim) <
          std::fabs(sizes[middle].tokens - aim))
        middle = i;
    chosen = {0, middle, last};
    for (size_t f = 0; f < figures[0].figures.size(); ++f)
      if (Error error = solve(f))
        return std::move(error);
    // Into the largest, whose parameters stay. Written last: the points are
    // read from the same model.
    for (size_t f = 0; f < solved.size(); ++f) {
      Figures::Figure &figure = figures.back().figures[f];
      if (!figure.fixed) {
        *figure.grows = solved[f];
        continue;
      }
      *figure.fixed = solved[f].item;
      figure.grows->token += solved[f].token;
      figure.grows->square += solved[f].square;
    }
    if (Error error = sizes.back().model.check())
      return std::move(error);
    return std::move(sizes.back().model);
  }

private:
  Error check() {
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
      const auto &base = figures.back().shape, &own = figures[s].shape;
      auto [a, b] =
          std::mismatch(own.begin(), own.end(), base.begin(), base.end());
      if (a != own.end() || b != base.end())
        return wrong(sizes[s].file + " and " + sizes.back().file +
                     " are not one program at two sizes: " +
                     (a != own.end() ? *a : "less") + " there, " +
                     (b != base.end() ? *b : "less") + " here");
    }
    return Error::success();
  }

  double at(size_t size, size_t figure) const {
    const Figures::Figure &f = figures[size].figures[figure];
    return f.fixed ? *f.fixed : f.grows->item;
  }

  Error solve(size_t f) {
    std::array<double, 3> t, y;
    for (int i = 0; i < 3; ++i) {
      t[i] = sizes[chosen[i]].tokens;
      y[i] = at(chosen[i], f);
    }
    Linear line = fit(t, y);
    solved.push_back(line);
    const std::string &name = figures[0].figures[f].name;
    if (line.item < 0 || line.token < 0 || line.square < 0)
      return wrong(formatv("{0}: no figure of items and tokens: {1} + {2} t + "
                           "{3} t^2",
                           name, line.item, line.token, line.square));
    for (size_t s = 0; s < sizes.size(); ++s) {
      double says = line.at(Moments::of(sizes[s].tokens)), is = at(s, f);
      if (std::fabs(says - is) > kTolerance * std::max(says, is))
        return wrong(formatv("{0}: {1} at {2} tokens, where the other sizes "
                             "say {3}",
                             name, is, sizes[s].tokens, says));
    }
    return Error::success();
  }

  std::vector<SizedModel> sizes;
  std::vector<Figures> figures;
  std::array<size_t, 3> chosen;
  std::vector<Linear> solved;
};

bool operator==(const Linear &a, const Linear &b) {
  return a.item == b.item && a.token == b.token && a.square == b.square;
}

void add(Linear &sum, const Linear &value) {
  sum.item += value.item;
  sum.token += value.token;
  sum.square += value.square;
}

bool isPricedAlike(const Op &a, const Op &b) {
  if (a.kind != b.kind || a.split != b.split || a.cheap != b.cheap)
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
    add(sum.bytes, op.bytes);
    if (sum.kind != Op::Gemm)
      add(sum.flops, op.flops);
  }
  ops = std::move(sums);
}

void halve(Linear &value) {
  value = {value.item / 2, value.token / 2, value.square / 2};
}

template <typename Layer> void halveOps(Layer &layer) {
  for (std::vector<Op> *ops : {&layer.forward, &layer.input, &layer.weight})
    for (Op &op : *ops) {
      halve(op.bytes);
      if (ops != &layer.weight) // there it is the gradient
        op.fixedBytes /= 2;
    }
}

} // namespace

Expected<Model> fitTokens(ArrayRef<SizedModel> sizes) {
  return Fitter(sizes.vec()).run();
}

void condense(Model &model) {
  for (Module &module : model.modules)
    for (auto &[layout, layers] : module.partitioned)
      for (RankLayer &layer : layers)
        for (std::vector<Op> *ops :
             {&layer.forward, &layer.input, &layer.weight})
          condense(*ops);
}

Error setMixedPrecision(Model &model, StringRef precision) {
  for (Module &module : model.modules) {
    if (module.precision != "f32" || module.weightBytes != 4)
      return wrong("module '" + module.name + "' computes in " +
                   module.precision + ", expected f32");
    double trained = module.gradientBytes / module.weightBytes;
    module.precision = precision.str();
    module.weightBytes = 2;
    module.gradientBytes = 4 * trained;
    module.optimizerBytes = 12 * trained;
    for (LayerKind &kind : module.kinds) {
      halveOps(kind);
      for (Linear *value :
           {&kind.reduced, &kind.output, &kind.exchanged, &kind.dispatched})
        halve(*value);
      for (int save = 0; save < 3; ++save) {
        halve(kind.keptSplit[save]);
        halve(kind.keptSequence[save]);
      }
    }
    for (auto &[layout, layers] : module.partitioned)
      for (RankLayer &layer : layers) {
        halveOps(layer);
        halve(layer.kept);
        halve(layer.keptForWeights);
        for (std::vector<Exchange> *exchanges :
             {&layer.forwardExchanges, &layer.backwardExchanges})
          for (Exchange &exchange : *exchanges)
            halve(exchange.bytes);
      }
  }
  for (ModelEdge &edge : model.edges)
    halve(edge.bytes);
  return Error::success();
}

} // namespace dt::plan

//===- Optimizers.h - what each optimizer is --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The one description of every optimizer: its name and settings in recipes, IR
// and checkpoints, the moments that it keeps, and the update of an element,
// which all targets compute with these lines. A further optimizer is a struct
// here, as OptimizerRule.h says, and its name in DT_OPTIMIZERS. What is common
// to all (learning rate, its course, weight decay's value, clipping, groups) is
// OptimizerInfo's.
//
// Compiled by the compiler, for the CPU and as CUDA; needs neither MLIR nor the
// rest of the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OPTIMIZERS_H
#define DT_RUNTIME_OPTIMIZERS_H

#include "runtime/Enums.h"
#include "runtime/OptimizerRule.h"
#include "runtime/PluginOptimizers.h"
#include "runtime/Span.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace dt::rt {

namespace optimizers {

/// torch.optim.AdamW (torch/optim/adamw.py, the single-tensor form):
///   p *= 1 - lr * weightDecay
///   m += (g - m) * (1 - beta1); v = beta2 * v + (1 - beta2) * g * g
///   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
/// with t counted from 1.
struct AdamW {
  static constexpr const char *name = "adamw";
  static constexpr OptimizerSetting settings[] = {
      {"beta1", "betas", 0.9, kBelowOne, "decay of the mean of gradients"},
      {"beta2", "betas", 0.999, kBelowOne, "decay of the mean of squares"},
      {"eps", "eps", 1e-8, kNotNegative, "added to the root of the mean"}};
  static constexpr const char *moments[] = {"exp_avg", "exp_avg_sq"};
  static constexpr size_t countMoments(const double *) { return 2; }

  explicit AdamW(const UpdateStep &s)
      : AdamW(s, s.settings[0], s.settings[1], double(s.step + 1)) {}
  AdamW(const UpdateStep &s, double beta1, double beta2, double t)
      : keep(float(1 - s.lr * s.weightDecay)), weight1(float(1 - beta1)),
        beta2(float(beta2)), weight2(float(1 - beta2)),
        stepSize(float(s.lr / (1 - std::pow(beta1, t)))),
        perRoot(float(1 / std::sqrt(1 - std::pow(beta2, t)))),
        eps(float(s.settings[2])) {}

  template <size_t kept>
  DT_HOST_DEVICE void update(float &p, float g, float scale, float *m) const {
    float gi = g * scale;
    float mi = m[0] + (gi - m[0]) * weight1;
    float vi = m[1] * beta2 + gi * gi * weight2;
    m[0] = mi, m[1] = vi;
    p = p * keep - stepSize * (mi / (std::sqrt(vi) * perRoot + eps));
  }

  float keep, weight1, beta2, weight2, stepSize, perRoot, eps;
};

/// torch.optim.SGD (torch/optim/sgd.py) without dampening or Nesterov:
///   g += weightDecay * p
///   with momentum: b = g at step 0, then momentum * b + g; p -= lr * b
///   without: p -= lr * g
struct SGD {
  static constexpr const char *name = "sgd";
  static constexpr OptimizerSetting settings[] = {
      {"momentum", "momentum", 0, kNotNegative, "decay of the sum of steps"}};
  static constexpr const char *moments[] = {"momentum"};
  static constexpr size_t countMoments(const double *settings) {
    return settings[0] != 0;
  }

  explicit SGD(const UpdateStep &s)
      : decay(float(s.weightDecay)), lr(float(s.lr)),
        momentum(s.step == 0 ? 0.f : float(s.settings[0])) {}

  template <size_t kept>
  DT_HOST_DEVICE void update(float &p, float g, float scale, float *m) const {
    float gi = g * scale + decay * p;
    if constexpr (kept > 0) {
      gi = momentum * m[0] + gi;
      m[0] = gi;
    }
    p -= lr * gi;
  }

  float decay, lr, momentum;
};

/// Chen et al., Symbolic Discovery of Optimization Algorithms, 2023:
///   p *= 1 - lr * weightDecay
///   p -= lr * sign(beta1 * m + (1 - beta1) * g)
///   m = beta2 * m + (1 - beta2) * g
struct Lion {
  static constexpr const char *name = "lion";
  static constexpr OptimizerSetting settings[] = {
      {"beta1", "betas", 0.9, kBelowOne, "weight of the mean in the update"},
      {"beta2", "betas", 0.99, kBelowOne, "decay of the mean of gradients"}};
  static constexpr const char *moments[] = {"exp_avg"};
  /// A mean that keeps all of itself stays 0.
  static constexpr size_t countMoments(const double *settings) {
    return settings[1] < 1;
  }

  explicit Lion(const UpdateStep &s)
      : keep(float(1 - s.lr * s.weightDecay)), beta1(float(s.settings[0])),
        weight1(float(1 - s.settings[0])), beta2(float(s.settings[1])),
        weight2(float(1 - s.settings[1])), lr(float(s.lr)) {}

  /// What is no number stays none (u * 0).
  template <size_t kept>
  DT_HOST_DEVICE void update(float &p, float g, float scale, float *m) const {
    float gi = g * scale;
    float u = m[0] * beta1 + gi * weight1;
    m[0] = m[0] * beta2 + gi * weight2;
    p = p * keep - (u > 0 ? lr : u < 0 ? -lr : u * 0);
  }

  float keep, beta1, weight1, beta2, weight2, lr;
};

/// torch.optim.Adafactor (torch/optim/_adafactor.py, the single-tensor form) of
/// a parameter p with gradient g, t counted from 1, w = t^beta2_decay:
///   rate = max(eps2, rms(p)) * min(lr, 1 / sqrt(t)); p *= 1 - lr * weightDecay
///   matrices: r = r + (mean of g^2 over columns - r) * w, c = the same over
///             rows; v = r c^T / max(mean of r, eps1)
///   others:   v = v + (g^2 - v) * w
///   u = g / sqrt(max(v, eps1^2)); p -= rate / max(1, rms(u) / d) * u
struct Adafactor {
  static constexpr const char *name = "adafactor";
  static constexpr OptimizerSetting settings[] = {
      {"beta2_decay", "beta2_decay", -0.8, kNotPositive,
       "exponent of a step's weight in means of squares"},
      {"eps1", "eps", 1.1920928955078125e-07, kNotNegative,
       "least root of a mean of squares"},
      {"eps2", "eps", 1e-3, kNotNegative, "least size of a parameter"},
      {"d", "d", 1, kFromOne, "size of an update that is not clipped"}};
  static constexpr const char *moments[] = {"row_var", "col_var", "variance"};
  static constexpr size_t countMoments(const double *) { return 3; }
  static constexpr Matrices matrices = Matrices::Axes;
  static constexpr MomentShapes shapes[] = {
      {MomentShape::None, MomentShape::Rows},
      {MomentShape::None, MomentShape::Columns},
      {MomentShape::Elements, MomentShape::None}};

  explicit Adafactor(const UpdateStep &s)
      : keep(float(1 - s.lr * s.weightDecay)),
        weight(float(std::pow(double(s.step + 1), s.settings[0]))),
        rho(float(std::min(s.lr, 1 / std::sqrt(double(s.step + 1))))),
        eps1(float(s.settings[1])),
        leastSquare(float(s.settings[1] * s.settings[1])), eps2(s.settings[2]),
        d(s.settings[3]) {}

  DT_HOST_DEVICE float blend(float mean, float now) const {
    return mean + (now - mean) * weight;
  }
  /// Of an element, from its row's and column's means and the mean of rows'.
  DT_HOST_DEVICE float estimate(float row, float column, float mean) const {
    return row * column / (mean > eps1 ? mean : eps1);
  }
  /// g / its size. What is no number stays none.
  DT_HOST_DEVICE float direction(float g, float v) const {
    return g / std::sqrt(v < leastSquare ? leastSquare : v);
  }
  /// From the sums of squares of `n` parameters and of their directions.
  DT_HOST_DEVICE float rate(double parameters, double directions,
                            double n) const {
    double size = std::sqrt(parameters / n),
           clip = std::sqrt(directions / n) / d;
    return float((size < eps2 ? eps2 : size) * rho / (clip < 1 ? 1 : clip));
  }
  DT_HOST_DEVICE void apply(float &p, float direction, float rate) const {
    p = p * keep - rate * direction;
  }

  float keep, weight, rho, eps1, leastSquare;
  double eps2, d;
};

/// How Muon's rate goes with a matrix [rows, columns]: torch.optim.Muon's
/// adjust_lr_fn.
inline constexpr const char *kMuonRates[] = {"original", "match_rms_adamw",
                                             "spectral_unclamped"};
inline constexpr SettingRange kMuonRate = {0, 2, "0, 1 or 2", true};
inline constexpr SettingRange kMuonSteps = {1, 99, "an integer from 1 to 99",
                                            true};

/// torch.optim.Muon (torch/optim/_muon.py) of weights of products:
///   m += (g - m) * (1 - momentum); u = nesterov ? g + (m - g) * momentum : m
///   p *= 1 - lr * weightDecay; p -= lr * ratio * orthogonal(u)
/// with Newton-Schulz iterations in bf16 (device/Orthogonal.h). AdamW of all
/// else, with a rate of its own.
struct Muon : AdamW {
  static constexpr const char *name = "muon";
  static constexpr OptimizerSetting settings[] = {
      {"momentum", "momentum", 0.95, kBelowOne, "decay of the mean"},
      {"nesterov", "nesterov", 1, kSwitch, "1: mean and gradient together"},
      {"ns_a", "ns_coefficients", 3.4445, kAnyNumber, "of X"},
      {"ns_b", "ns_coefficients", -4.7750, kAnyNumber, "of X X^T X"},
      {"ns_c", "ns_coefficients", 2.0315, kAnyNumber, "of (X X^T)^2 X"},
      {"ns_steps", "ns_steps", 5, kMuonSteps, "iterations"},
      {"ns_eps", "ns_eps", 1e-7, kNotNegative, "least norm"},
      {"adjust_lr", "adjust_lr", 0, kMuonRate, "rate by shape", kMuonRates},
      {"adamw_lr_factor", "adamw_lr_factor", 1, kNotNegative,
       "AdamW's rate by lr"},
      {"beta1", "betas", 0.9, kBelowOne, "AdamW's"},
      {"beta2", "betas", 0.999, kBelowOne, "AdamW's"},
      {"eps", "eps", 1e-8, kNotNegative, "AdamW's"}};
  static constexpr const char *moments[] = {"exp_avg", "exp_avg_sq",
                                            "momentum_buffer"};
  static constexpr size_t countMoments(const double *) { return 3; }
  static constexpr Matrices matrices = Matrices::Products;
  static constexpr MomentShapes shapes[] = {
      {MomentShape::Elements, MomentShape::None},
      {MomentShape::Elements, MomentShape::None},
      {MomentShape::None, MomentShape::Elements}};

  explicit Muon(const UpdateStep &s)
      : AdamW({s.settings + 9, s.lr * s.settings[8], s.weightDecay, s.step}),
        decayed(float(1 - s.lr * s.weightDecay)),
        momentum(float(s.settings[0])), fresh(float(1 - s.settings[0])),
        a(float(s.settings[2])), b(float(s.settings[3])),
        c(float(s.settings[4])), leastNorm(float(s.settings[6])),
        iterations(int(s.settings[5])), nesterov(s.settings[1] != 0),
        ratio(int(s.settings[7])), lr(s.lr) {}

  /// What is to be orthogonal.
  DT_HOST_DEVICE float mean(float &m, float g) const {
    m += (g - m) * fresh;
    return nesterov ? g + (m - g) * momentum : m;
  }
  float rate(double rows, double columns) const {
    double by = ratio == 0   ? std::sqrt(std::max(1., rows / columns))
                : ratio == 1 ? 0.2 * std::sqrt(std::max(rows, columns))
                             : std::sqrt(rows / columns);
    return float(lr * by);
  }
  DT_HOST_DEVICE void apply(float &p, float direction, float rate) const {
    p = p * decayed - rate * direction;
  }

  float decayed, momentum, fresh, a, b, c, leastNorm;
  int iterations;
  bool nesterov;
  int ratio;
  double lr;
};

} // namespace optimizers

/// All of them; recipes that name none have the first. Emitted programs hold
/// the number: new ones come last.
#define DT_OPTIMIZERS(OPTIMIZER)                                               \
  OPTIMIZER(AdamW)                                                             \
  OPTIMIZER(SGD) OPTIMIZER(Lion) OPTIMIZER(Adafactor) OPTIMIZER(Muon)

#define DT_NAME(Rule) Rule,
#define DT_CASE(Rule) {#Rule, optimizers::Rule::name},
enum class OptimizerKind : uint8_t {
  DT_OPTIMIZERS(DT_NAME) DT_PLUGIN_OPTIMIZERS(DT_NAME)
};
inline constexpr EnumCase kOptimizerCases[] = {
    DT_OPTIMIZERS(DT_CASE) DT_PLUGIN_OPTIMIZERS(DT_CASE)};
template <> struct EnumTable<OptimizerKind> {
  static constexpr const char *name = "OptimizerKind";
  /// In the compiler those of its plugins, too (dialects/dist).
  static inline Span<EnumCase> cases = kOptimizerCases;
};
#undef DT_NAME
#undef DT_CASE

struct OptimizerDescription {
  const char *name; ///< in recipes, IR and checkpoints
  Span<OptimizerSetting> settings;
  Span<const char *> moments; ///< names in checkpoints
  size_t (*countMoments)(const double *settings);
  Matrices matrices = Matrices::None;
  Span<MomentShapes> shapes = {}; ///< empty: elements

  /// Of moment k of a parameter that is a matrix (ParameterInfo::matrix).
  constexpr MomentShape shapeOf(size_t k, bool matrix) const {
    return shapes.empty() ? MomentShape::Elements
           : matrix       ? shapes[k].matrix
                          : shapes[k].plain;
  }
  /// Whether the update of such a parameter sees all of it.
  constexpr bool isWhole(bool matrix) const {
    return matrices == Matrices::Axes ||
           (matrices == Matrices::Products && matrix);
  }
  /// Moments of a parameter that is updated by element: the first so many.
  size_t countElementMoments(const double *settings) const {
    size_t count = countMoments(settings), k = 0;
    while (k < count && shapeOf(k, false) == MomentShape::Elements)
      ++k;
    return k;
  }
};

/// What a rule says of matrices; most say nothing.
template <typename Rule, typename = void> struct SeenMatrices {
  static constexpr Matrices matrices = Matrices::None;
  static constexpr Span<MomentShapes> shapes = {};
};
template <typename Rule>
struct SeenMatrices<Rule, std::void_t<decltype(Rule::matrices)>> {
  static constexpr Matrices matrices = Rule::matrices;
  static constexpr Span<MomentShapes> shapes = Rule::shapes;
};

#define DT_DESCRIPTION(Rule)                                                   \
  {optimizers::Rule::name,                                                     \
   optimizers::Rule::settings,                                                 \
   optimizers::Rule::moments,                                                  \
   optimizers::Rule::countMoments,                                             \
   SeenMatrices<optimizers::Rule>::matrices,                                   \
   SeenMatrices<optimizers::Rule>::shapes},
/// By number.
inline constexpr OptimizerDescription kOptimizers[] = {
    DT_OPTIMIZERS(DT_DESCRIPTION) DT_PLUGIN_OPTIMIZERS(DT_DESCRIPTION)};
#undef DT_DESCRIPTION

/// The same; in the compiler those of its plugins, too (dialects/dist).
inline Span<OptimizerDescription> knownOptimizers = kOptimizers;

inline const OptimizerDescription &describe(OptimizerKind kind) {
  return knownOptimizers[size_t(kind)];
}

constexpr size_t countMostMoments() {
  size_t most = 0;
  for (const OptimizerDescription &optimizer : kOptimizers)
    most = std::max(most, optimizer.moments.size);
  return most;
}
/// Of any optimizer.
inline constexpr size_t kMostMoments = countMostMoments();

/// Moments of one element or, as arrays, of a range.
template <typename T> struct Moments {
  T at[kMostMoments];
};

/// One element of a range, for a target's loop. `scale`: of clipping. `g`:
/// gradients, in any type.
template <size_t kept, typename Rule, typename Gradients>
DT_HOST_DEVICE void updateElement(const Rule &rule, float scale, float *p,
                                  const Gradients &g,
                                  const Moments<float *> &moments, size_t i) {
  Moments<float> m{};
  for (int k = 0; k < int(kept); ++k)
    m.at[k] = moments.at[k][i];
  rule.template update<kept>(p[i], float(g[i]), scale, m.at);
  for (int k = 0; k < int(kept); ++k)
    moments.at[k][i] = m.at[k];
}

/// An average of parameters, after their update. `weight`: 1 - averageDecay.
DT_HOST_DEVICE inline void averageElement(float *average, float p,
                                          float weight) {
  *average += (p - *average) * weight;
}

/// Calls `f(rule, kept)`, `kept` being `count` as a std::integral_constant.
template <size_t kept, typename Rule, typename F>
void withMoments(const Rule &rule, size_t count, const F &f) {
  if (count == kept)
    f(rule, std::integral_constant<size_t, kept>());
  else if constexpr (kept > 0)
    withMoments<kept - 1>(rule, count, f);
}

/// The same with the optimizer of that kind, made for a step; nothing if it
/// updates no parameter by element.
template <typename F>
void withOptimizer(OptimizerKind kind, const UpdateStep &step, const F &f) {
  size_t count = describe(kind).countElementMoments(step.settings);
  switch (kind) {
#define DT_CASE(Rule)                                                          \
  case OptimizerKind::Rule:                                                    \
    if constexpr (SeenMatrices<optimizers::Rule>::matrices != Matrices::Axes)  \
      withMoments<kOptimizers[size_t(OptimizerKind::Rule)].moments.size>(      \
          optimizers::Rule(step), count, f);                                   \
    return;
    DT_OPTIMIZERS(DT_CASE)
    DT_PLUGIN_OPTIMIZERS(DT_CASE)
#undef DT_CASE
  }
}

} // namespace dt::rt

#endif // DT_RUNTIME_OPTIMIZERS_H

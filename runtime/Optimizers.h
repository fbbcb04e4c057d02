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
  static constexpr size_t countMoments(const double *) { return 1; }

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

} // namespace optimizers

/// All of them; recipes that name none have the first. Emitted programs hold
/// the number: new ones come last.
#define DT_OPTIMIZERS(OPTIMIZER) OPTIMIZER(AdamW) OPTIMIZER(SGD) OPTIMIZER(Lion)

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
};

#define DT_DESCRIPTION(Rule)                                                   \
  {optimizers::Rule::name, optimizers::Rule::settings,                         \
   optimizers::Rule::moments, optimizers::Rule::countMoments},
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

/// One element of a range, for a target's loop. `scale`: of clipping.
template <size_t kept, typename Rule>
DT_HOST_DEVICE void updateElement(const Rule &rule, float scale, float *p,
                                  const float *g,
                                  const Moments<float *> &moments, size_t i) {
  Moments<float> m{};
  for (int k = 0; k < int(kept); ++k)
    m.at[k] = moments.at[k][i];
  rule.template update<kept>(p[i], g[i], scale, m.at);
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

/// The same with the optimizer of that kind, made for a step.
template <typename F>
void withOptimizer(OptimizerKind kind, const UpdateStep &step, const F &f) {
  size_t count = describe(kind).countMoments(step.settings);
  switch (kind) {
#define DT_CASE(Rule)                                                          \
  case OptimizerKind::Rule:                                                    \
    return withMoments<kOptimizers[size_t(OptimizerKind::Rule)].moments.size>( \
        optimizers::Rule(step), count, f);
    DT_OPTIMIZERS(DT_CASE)
    DT_PLUGIN_OPTIMIZERS(DT_CASE)
#undef DT_CASE
  }
}

} // namespace dt::rt

#endif // DT_RUNTIME_OPTIMIZERS_H

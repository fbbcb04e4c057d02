//===- Init.cpp - initial values of parameters by rule ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Init.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace dt::rt {

namespace {

struct Rule {
  std::string name;
  std::vector<double> arguments;

  double argument(size_t i, double otherwise) const {
    return i < arguments.size() ? arguments[i] : otherwise;
  }
};

[[noreturn]] void fail(const std::string &parameter, const std::string &rule,
                       const char *what) {
  throw Error("parameter '" + parameter + "': init rule '" + rule + "' " +
              what);
}

/// name | name(number, ...)
Rule parse(std::string text, const std::string &parameter) {
  std::string original = text;
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  size_t open = text.find('(');
  Rule rule{text.substr(0, open), {}};
  if (open == std::string::npos)
    return rule;
  if (text.back() != ')')
    fail(parameter, original, "lacks its closing parenthesis");
  const char *at = text.c_str() + open + 1,
             *last = text.c_str() + text.size() - 1;
  while (at < last) {
    char *end;
    double value = std::strtod(at, &end);
    if (end == at || !std::isfinite(value) || (end < last && *end != ','))
      fail(parameter, original, "has an argument that is not a number");
    rule.arguments.push_back(value);
    at = end + 1;
  }
  return rule;
}

/// As torch.nn.init._calculate_fan_in_and_fan_out.
struct Fans {
  double in, out;
};
Fans fansOf(const std::vector<int64_t> &shape, const std::string &parameter,
            const std::string &rule) {
  if (shape.size() < 2)
    fail(parameter, rule, "needs a tensor of at least two dims");
  double field = 1;
  for (size_t i = 2; i < shape.size(); ++i)
    field *= double(shape[i]);
  return {double(shape[1]) * field, double(shape[0]) * field};
}

using Draw = Initializer::Draw;
using Sampler = Initializer::Sampler;

Sampler resolve(const std::string &text, const std::vector<int64_t> &shape,
                const std::string &parameter) {
  Rule rule = parse(text, parameter);
  const std::string &n = rule.name;
  auto count = [&](size_t least, size_t most) {
    if (rule.arguments.size() < least || rule.arguments.size() > most)
      fail(parameter, text, "has the wrong number of arguments");
  };
  if (n == "zeros" || n == "ones")
    return count(0, 0), Sampler{Draw::Constant, n == "ones" ? 1.0 : 0.0, 0};
  if (n == "constant")
    return count(1, 1), Sampler{Draw::Constant, rule.arguments[0], 0};
  auto expect = [&](bool holds, const char *what) {
    if (!holds)
      fail(parameter, text, what);
  };
  if (n == "normal") {
    count(0, 2);
    expect(rule.argument(1, 1) >= 0, "has a negative std");
    return {Draw::Normal, rule.argument(0, 0), rule.argument(1, 1)};
  }
  if (n == "uniform") {
    count(0, 2);
    expect(rule.argument(0, 0) <= rule.argument(1, 1),
           "has its low end above its high end");
    return {Draw::Uniform, rule.argument(0, 0), rule.argument(1, 1)};
  }
  if (n == "trunc_normal") {
    bool only = rule.arguments.size() == 1; // trunc_normal(std)
    count(0, 4);
    double mean = only ? 0 : rule.argument(0, 0),
           std = only ? rule.arguments[0] : rule.argument(1, 1),
           low = rule.argument(2, -2), high = rule.argument(3, 2);
    expect(std > 0, "needs a std above 0");
    expect(low < high, "has its low end above its high end");
    // Beyond that nothing is left of the distribution in double.
    expect(low < mean + 8 * std && high > mean - 8 * std,
           "has bounds more than 8 std away from the mean");
    return {Draw::Truncated, mean, std, low, high};
  }
  if (n == "kaiming_uniform") {
    count(0, 1);
    double a = rule.argument(0, std::sqrt(5.0)),
           bound =
               std::sqrt(6 / ((1 + a * a) * fansOf(shape, parameter, text).in));
    return {Draw::Uniform, -bound, bound};
  }
  if (n == "kaiming_normal") {
    count(0, 1);
    double a = rule.argument(0, 0);
    return {Draw::Normal, 0,
            std::sqrt(2 / ((1 + a * a) * fansOf(shape, parameter, text).in))};
  }
  if (n == "xavier_uniform" || n == "xavier_normal") {
    count(0, 1);
    Fans fans = fansOf(shape, parameter, text);
    double std = rule.argument(0, 1) * std::sqrt(2 / (fans.in + fans.out)),
           bound = std::sqrt(3.0) * std;
    return n == "xavier_normal" ? Sampler{Draw::Normal, 0, std}
                                : Sampler{Draw::Uniform, -bound, bound};
  }
  fail(parameter, text,
       "is not known (zeros, ones, constant, normal, uniform, trunc_normal, "
       "kaiming_uniform, "
       "kaiming_normal, xavier_uniform, xavier_normal)");
}

/// Inverse of the standard normal distribution by bisection on erfc: exact to
/// double, and needs one draw an element however narrow the bounds are.
double truncated(double u, double mean, double std, double low, double high) {
  auto cdf = [](double x) { return 0.5 * std::erfc(-x * 0.7071067811865476); };
  double a = (low - mean) / std, b = (high - mean) / std, ca = cdf(a),
         target = ca + u * (cdf(b) - ca);
  double from = std::max(a, -9.0), to = std::min(b, 9.0);
  for (int i = 0; i < 60 && from < to; ++i) {
    double middle = 0.5 * (from + to);
    (cdf(middle) < target ? from : to) = middle;
  }
  return mean + std * 0.5 * (from + to);
}

/// Calls use(element, index in its block) for `count` elements from `first` on,
/// after begin(block) for each block of four that they are in: what a block's
/// draws have in common is computed once.
template <typename Begin, typename Use>
void byBlocks(int64_t first, int64_t count, Begin begin, Use use) {
  for (int64_t i = 0; i < count;) {
    int64_t at = first + i, in = at % 4;
    begin(uint64_t(at / 4));
    for (; in < 4 && i < count; ++in, ++i)
      use(i, in);
  }
}

} // namespace

Initializer::Initializer(const std::string &rule,
                         const std::vector<int64_t> &shape,
                         const std::string &name, uint64_t seed)
    : sampler(resolve(rule, shape, name)),
      random(seed, philoxPurpose(("init " + name).c_str())) {}

void Initializer::draw(float *values, int64_t first, int64_t count) const {
  const Sampler &s = sampler;
  float four[4];
  auto uniforms = [&](uint64_t block) { random.fourUniforms(block, four); };
  switch (s.draw) {
  case Draw::Constant:
    std::fill_n(values, count, float(s.a));
    break;
  case Draw::Uniform:
    byBlocks(first, count, uniforms, [&](int64_t i, int64_t in) {
      values[i] = float(s.a + (s.b - s.a) * four[in]);
    });
    break;
  case Draw::Normal:
    byBlocks(
        first, count, [&](uint64_t block) { random.fourNormals(block, four); },
        [&](int64_t i, int64_t in) {
          values[i] = float(s.a + s.b * four[in]);
        });
    break;
  case Draw::Truncated:
    byBlocks(first, count, uniforms, [&](int64_t i, int64_t in) {
      values[i] = float(truncated(four[in], s.a, s.b, s.low, s.high));
    });
    break;
  }
}

void initialize(float *values, const std::vector<int64_t> &shape,
                const std::string &rule, const std::string &name,
                uint64_t seed) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  Initializer(rule, shape, name, seed).draw(values, 0, count);
}

void checkInitRule(const std::string &rule, const std::vector<int64_t> &shape,
                   const std::string &name) {
  resolve(rule, shape, name);
}

} // namespace dt::rt

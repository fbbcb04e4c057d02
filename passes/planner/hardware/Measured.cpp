//===- Measured.cpp - Figures measured at several sizes -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/hardware/Measured.h"

#include <algorithm>
#include <cmath>

namespace dt::planner {

namespace {

std::vector<double> logarithms(std::vector<double> values) {
  for (double &value : values)
    value = std::log(value);
  return values;
}

/// The measured size at or before this one, and how far it is to the next.
struct Place {
  Place(const std::vector<double> &sizes, double size) {
    auto after = std::upper_bound(sizes.begin(), sizes.end(), size);
    first = size_t(std::max<std::ptrdiff_t>(0, after - sizes.begin() - 1));
    if (first + 1 < sizes.size() && size > sizes[first])
      fraction = (size - sizes[first]) / (sizes[first + 1] - sizes[first]);
  }
  size_t next() const { return fraction > 0 ? first + 1 : first; }
  size_t first;
  double fraction = 0;
};

} // namespace

Curve::Curve(const std::vector<double> &sizes, const std::vector<double> &rates)
    : sizes(logarithms(sizes)), rates(logarithms(rates)) {}

double Curve::at(double size) const {
  Place place(sizes, std::log(size));
  return std::exp(rates[place.first] * (1 - place.fraction) +
                  rates[place.next()] * place.fraction);
}

Curve Curve::times(double factor) const {
  Curve curve = *this;
  for (double &rate : curve.rates)
    rate += std::log(factor);
  return curve;
}

ProductRates::ProductRates(const std::array<std::vector<double>, 3> &sizes,
                           const std::vector<double> &rates)
    : rates(logarithms(rates)) {
  for (size_t i = 0; i < sizes.size(); ++i)
    this->sizes[i] = logarithms(sizes[i]);
}

Curve ProductRates::at(double columns, double depth) const {
  Place n(sizes[1], std::log(columns)), k(sizes[2], std::log(depth));
  Curve curve;
  curve.sizes = sizes[0];
  for (size_t row = 0; row < sizes[0].size(); ++row) {
    auto rate = [&](size_t column, size_t level) {
      return rates[(row * sizes[1].size() + column) * sizes[2].size() + level];
    };
    auto over = [&](size_t column) {
      return rate(column, k.first) * (1 - k.fraction) +
             rate(column, k.next()) * k.fraction;
    };
    curve.rates.push_back(over(n.first) * (1 - n.fraction) +
                          over(n.next()) * n.fraction);
  }
  return curve;
}

} // namespace dt::planner

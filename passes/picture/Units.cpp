//===- Units.cpp - Figures as people read them ----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/picture/Units.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::picture {

namespace {

std::string fixed(double value, int digits) {
  std::string text;
  raw_string_ostream(text) << format("%.*f", digits, value);
  return text;
}

std::string threeDigits(double value) {
  double size = std::abs(value);
  return fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

/// The largest unit of which `value` has at least one, else the smallest.
AxisUnit unitOf(double value, ArrayRef<AxisUnit> units) {
  for (const AxisUnit &unit : reverse(units))
    if (value >= 0.9995 * unit.size)
      return unit;
  return units.front();
}

} // namespace

AxisUnit getTimeUnit(double end) {
  static const AxisUnit units[] = {
      {"ns", 1}, {"\u00b5s", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  return unitOf(end, units);
}

AxisUnit getByteUnit(double most) {
  static const AxisUnit units[] = {{"B", 1},
                                   {"KiB", 1024.},
                                   {"MiB", 1024. * 1024},
                                   {"GiB", 1024. * 1024 * 1024},
                                   {"TiB", 1024. * 1024 * 1024 * 1024}};
  return unitOf(most, units);
}

std::string printTime(double seconds) {
  AxisUnit unit = getTimeUnit(std::abs(seconds) * 1e9);
  return seconds == 0
             ? "0 s"
             : threeDigits(seconds * 1e9 / unit.size) + " " + unit.name;
}

std::string printBytes(double bytes) {
  AxisUnit unit = getByteUnit(std::abs(bytes));
  return (unit.size == 1 ? fixed(bytes, 0) : threeDigits(bytes / unit.size)) +
         " " + unit.name;
}

std::string printCount(double count) {
  static const AxisUnit units[] = {{"", 1},    {"k", 1e3},  {"M", 1e6},
                                   {"G", 1e9}, {"T", 1e12}, {"P", 1e15}};
  AxisUnit unit = unitOf(std::abs(count), units);
  if (unit.size > 1)
    return threeDigits(count / unit.size) + " " + unit.name;
  return count == std::floor(count) ? fixed(count, 0) : threeDigits(count);
}

std::string printShare(double share) { return fixed(100 * share, 1) + " %"; }

std::string printRanges(const std::vector<int64_t> &numbers,
                        const char *separator) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
      ++end;
    text += (i ? separator : "") + std::to_string(numbers[i]);
    if (end - i > 1)
      text += "-" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string Ticks::print(double value) const { return fixed(value, digits); }

Ticks getTicks(double end, int count) {
  if (!(end > 0))
    return {};
  double rough = end / std::max(1, count);
  double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (double factor : {1., 2., 5.})
    if (factor * power >= rough * 0.999) {
      step = factor * power;
      break;
    }
  return {step, std::max(0, -int(std::floor(std::log10(step) + 1e-9)))};
}

} // namespace dt::picture

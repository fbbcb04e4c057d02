//===- Units.h - Figures as people read them --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PICTURE_UNITS_H
#define PASSES_PICTURE_UNITS_H

#include <cstdint>
#include <string>
#include <vector>

namespace dt::picture {

/// Three digits that mean something: "4.19 ms", "33.9 s".
std::string printTime(double seconds);
/// "512 B", "1.50 KiB", "76.0 GiB".
std::string printBytes(double bytes);
/// Of counts: "1.23 M", "70.6 G".
std::string printCount(double count);
/// "5.3 %".
std::string printShare(double share);
/// "0-3, 6": ascending numbers.
std::string printRanges(const std::vector<int64_t> &numbers,
                        const char *separator = ", ");

/// What an axis counts, and its size in figures of the data.
struct AxisUnit {
  std::string name;
  double size = 1;
};
/// The unit for times up to `end` nanoseconds, and for bytes up to `most`.
AxisUnit getTimeUnit(double end);
AxisUnit getByteUnit(double most);

/// Marks of an axis from 0 to `end`: round numbers, about `count` of them.
struct Ticks {
  double step = 1;
  int digits = 0; ///< behind the point
  std::string print(double value) const;
};
Ticks getTicks(double end, int count);

} // namespace dt::picture

#endif // PASSES_PICTURE_UNITS_H

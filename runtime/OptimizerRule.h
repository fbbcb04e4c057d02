//===- OptimizerRule.h - what an optimizer is written with ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Optimizers.h has the optimizers, a plugin may have more (docs/sdk.md).
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OPTIMIZERRULE_H
#define DT_RUNTIME_OPTIMIZERRULE_H

#include "runtime/HostDevice.h"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace dt::rt {

/// The values that a setting may have; `low` and `high` are among them, what is
/// infinite or no number never is.
struct SettingRange {
  double low, high;
  const char *text;
  bool integral = false; ///< whole numbers only
};
inline constexpr SettingRange kNotNegative = {
    0, std::numeric_limits<double>::infinity(),
    "a number that is not negative"};
inline constexpr SettingRange kBelowOne = {
    0, 1 - std::numeric_limits<double>::epsilon() / 2, "in [0, 1)"};
inline constexpr SettingRange kAnyNumber = {-std::numeric_limits<double>::max(),
                                            std::numeric_limits<double>::max(),
                                            "a number"};
inline constexpr SettingRange kNotPositive = {
    -std::numeric_limits<double>::max(), 0, "a number that is not positive"};
inline constexpr SettingRange kFromOne = {1, std::numeric_limits<double>::max(),
                                          "a number from 1 on"};
inline constexpr SettingRange kSwitch = {0, 1, "0 or 1", true};

/// A number that an optimizer has beside what is common to all.
struct OptimizerSetting {
  const char *name; ///< in IR and checkpoints
  /// In recipes. Settings of one key are the elements of a list, in order.
  const char *key;
  double initial; ///< where nothing is said
  const SettingRange &range;
  const char *help;
  /// What the numbers from range.low on are called in recipes; null: they are
  /// numbers there, too.
  const char *const *words = nullptr;
};

/// Which parameters an optimizer updates as a whole, knowing their shape, and
/// which of these are matrices to it (ParameterInfo::matrix). A tensor of more
/// than two axes is as many matrices as its other axes have places.
enum class Matrices : uint8_t {
  None,     ///< all are elements to it
  Products, ///< weights of products are matrices, all else are elements
  Axes      ///< all as a whole; those of two axes or more are matrices
};

/// What a moment has a number for, of a parameter: nothing, each of its
/// elements, each row (all axes but the last), each column (all but the one
/// before the last).
enum class MomentShape : uint8_t { None, Elements, Rows, Columns };
struct MomentShapes {
  MomentShape plain, matrix; ///< of what is no matrix, of a matrix
};

/// What the update of a range of elements depends on.
struct UpdateStep {
  const double *settings; ///< in the optimizer's order
  double lr, weightDecay;
  int64_t step; ///< 0-based
  /// Of the average of parameters, where a range has one; no rule looks at it.
  double averageDecay = 0;
};

/// An optimizer is a struct in this namespace that has
///
///   name, settings, moments   as in OptimizerDescription
///   countMoments(settings)    how many moments it keeps: the first so many
///   a constructor             from an UpdateStep: scalars computed in double
///                             and rounded once, for every target (1 - 0.999f
///                             is off by 5e-5)
///   update<kept>(p, g, scale, m)
///                             of a parameter, its gradient, which is to be
///                             multiplied with `scale` first (clipping), and
///                             the `kept` moments at `m`, 0 before step 0
///
/// One that sees matrices (docs/optimizers.md) has also
///
///   matrices                  which, and with Products the `update` of all
///                             else, with the moments that these keep, the
///                             first ones
///   shapes                    of each moment
///
/// and what it does to a whole parameter is in runtime/device: Factored.h,
/// Orthogonal.h.
namespace optimizers {}

} // namespace dt::rt

#endif // DT_RUNTIME_OPTIMIZERRULE_H

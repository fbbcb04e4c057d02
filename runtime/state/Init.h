//===- Init.h - initial values of parameters by rule ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Parameters that no file holds are drawn by rule from a counter-based
// generator: a value depends on seed, parameter name and element index only,
// never on order, layout or number of ranks.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STATE_INIT_H
#define DT_RUNTIME_STATE_INIT_H

#include "runtime/base/Philox.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dt::rt {

/// The values that a rule gives a parameter's tensor of `shape`. Rules
/// (torch.nn.init's names and defaults):
///   zeros, ones, constant(c), normal(mean,std), uniform(a,b),
///   trunc_normal(std) or trunc_normal(mean,std,a,b)   [a, b default to mean -+
///   2 std ... as in torch: -2 and 2], kaiming_uniform or kaiming_uniform(a)
///   (fan_in; a = sqrt(5) is torch.nn.Linear's default, default here),
///   kaiming_normal, xavier_uniform, xavier_normal, each with an optional gain
///   argument.
/// Throws Error naming the parameter for a rule that does not parse or does not
/// fit the shape.
class Initializer {
public:
  Initializer(const std::string &rule, const std::vector<int64_t> &shape,
              const std::string &name, uint64_t seed);

  /// Fills `values` with elements [first, first + count) of the tensor. Any
  /// threads may call it together.
  void draw(float *values, int64_t first, int64_t count) const;

  enum class Draw { Constant, Uniform, Normal, Truncated };
  struct Sampler {
    Draw draw;
    double a, b;              ///< constant | low, high | mean, std
    double low = 0, high = 0; ///< bounds of a truncated normal
  };

private:
  Sampler sampler;
  Random random;
};

/// All elements, on the calling thread. Throws Error as Initializer does.
void initialize(float *values, const std::vector<int64_t> &shape,
                const std::string &rule, const std::string &name,
                uint64_t seed);

/// Checks a rule without drawing.
void checkInitRule(const std::string &rule, const std::vector<int64_t> &shape,
                   const std::string &name);

} // namespace dt::rt

#endif // DT_RUNTIME_STATE_INIT_H

//===- RankState.h - What a rank keeps of gradients -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Which replica keeps what of the optimizer's state is said by the runtime
// (runtime/state/Ownership.h), so that the rule is in one place only. Its
// headers and those of the rt dialect share a namespace: nothing here knows
// either.
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_OPT_RANKSTATE_H
#define TOOLS_DT_OPT_RANKSTATE_H

#include <cstdint>
#include <string>
#include <vector>

namespace dt {

/// As much of a program's tables as matters: names as in runtime/Program.h.
struct StateTables {
  struct Module {
    std::string name;
    bool wholeBatch;
    int64_t trainableBytes;
    int32_t tp, dp, zero;
    std::vector<int32_t> ranks;
  };
  struct Parameter {
    int32_t module;
    int64_t offset, gradient, elements;
    bool narrow; ///< BF16
    bool trainable, hasGradient, decay;
    double lrFactor, weightDecay;
    int32_t tied;
  };
  std::vector<Module> modules;
  std::vector<Parameter> parameters;
  int64_t bucketBytes;
  int32_t ranks;
};

/// Of a module on a rank, in bytes.
struct RankState {
  bool runs = false;
  int64_t moment = 0;  ///< of one moment of the optimizer
  int64_t masters = 0; ///< of what is not stored in float32
  int64_t sums = 0;    ///< blocks of gradients while they are summed
};

/// By rank and module. Nothing, and an error, if the tables contradict one
/// another.
std::vector<std::vector<RankState>> getRankStates(const StateTables &tables,
                                                  std::string &error);

} // namespace dt

#endif // TOOLS_DT_OPT_RANKSTATE_H

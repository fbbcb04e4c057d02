//===- WeightFiles.h - which files hold a model's weights -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_SAVE_WEIGHTFILES_H
#define DT_RUNTIME_SAVE_WEIGHTFILES_H

#include "runtime/comm/Comm.h"

#include <string>
#include <vector>

namespace dt::rt {

struct WeightFiles {
  std::string name; ///< for messages
  std::vector<std::string> paths;
  bool checkpoint = false; ///< of this project: optimizer state is there too
  /// Tensors that an index promises; they need not be in `paths`.
  std::vector<std::string> promised;
  std::vector<std::string> warnings; ///< damaged checkpoints
};

/// The files of a path as WeightSource has it; all ranks call it. Throws
/// CommonError if there are none, or if an index is not one.
WeightFiles findWeights(Comm &comm, const std::string &path);

} // namespace dt::rt

#endif // DT_RUNTIME_SAVE_WEIGHTFILES_H

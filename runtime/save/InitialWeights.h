//===- InitialWeights.h - beginning from other weights ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// --init-from: parameters take the values of tensors of the same name, from a
// checkpoint of any plan or from safetensors files of others, such as those of
// the model that a graph was exported from. Wrappers that stand in front of
// names on one side only ("model.", "net.") are found without help. Everything
// else of the run is new: step, optimizer state and place in the data.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_SAVE_INITIALWEIGHTS_H
#define DT_RUNTIME_SAVE_INITIALWEIGHTS_H

#include "runtime/step/Trainer.h"

#include <string>
#include <vector>

namespace dt::rt {

/// `path`: a safetensors file, a folder of such (with the index that Hugging
/// Face writes, if it is there), a checkpoint (step-N) or a folder of
/// checkpoints, of which the newest whole one counts. `module`: only its
/// parameters; empty: all.
struct WeightSource {
  std::string module, path;

  /// "PATH" or "MODULE=PATH".
  static WeightSource parse(const std::string &text);
};

/// A tensor whose name begins with `from` is looked for as if that were `to`.
struct NameRule {
  std::string from, to;
  bool used = false;

  /// "FROM=TO", of which one may be empty. Throws Error.
  static NameRule parse(const std::string &text);
};

struct InitialValues {
  std::vector<WeightSource> sources;
  std::vector<std::string> skip;   ///< patterns (*, ?, [a-z]) over
                                   ///< "module.parameter" of what stays
  std::vector<NameRule> renames{}; ///< the first that fits a tensor counts
  bool partial = false;            ///< parameters may be in no source
};

/// After initializeParameters(): gives values to the parameters that the
/// sources name, in order. A parameter is looked for as "module.parameter", by
/// its names in the ONNX files, and as "parameter", in this order; if none of
/// them is there, by all these without what WeightMatcher.h takes for wrappers.
/// Floats of other types are converted. All ranks call it. Returns what to tell
/// the user, a line each. Throws CommonError, with nothing changed, if a source
/// gives nothing, has another shape or type, or does not say which of two
/// parameters is meant, if a renaming applies to nothing, and, unless
/// `partial`, if a parameter (of the sources' modules) is in none of them.
std::vector<std::string> initializeFrom(Trainer &trainer,
                                        InitialValues request);

} // namespace dt::rt

#endif // DT_RUNTIME_SAVE_INITIALWEIGHTS_H

//===- InitialWeights.h - beginning from other weights ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// --init-from: parameters take the values of tensors of the same name, from a
// checkpoint of any plan or from safetensors files of others, such as those of
// the model that a graph was exported from. Everything else of the run is new:
// step, optimizer state and place in the data.
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

/// After initializeParameters(): gives values to the parameters that the
/// sources name, in order, but to those that match a pattern of `skip` (*, ?,
/// [a-z] over "module.parameter"). A parameter is looked for as
/// "module.parameter", by its names in the ONNX files, and as "parameter", in
/// this order; floats of other types are converted. All ranks call it.
/// Returns what to tell the user, a line each. Throws CommonError, with nothing
/// changed, if a source gives nothing, has another shape or type, or does not
/// say which of two parameters is meant.
std::vector<std::string>
initializeFrom(Trainer &trainer, const std::vector<WeightSource> &sources,
               const std::vector<std::string> &skip);

} // namespace dt::rt

#endif // DT_RUNTIME_SAVE_INITIALWEIGHTS_H

//===- Outputs.h - dumps of the first step ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// --save-outputs and --save-gradients: what a step computed, under the names
// that the ONNX files use, for comparison with another implementation.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OUTPUTS_H
#define DT_RUNTIME_OUTPUTS_H

#include "runtime/Trainer.h"

namespace dt::rt {

/// Joins the parts' outputs to those of the global batch: rows of items are put
/// where the items stand in the batch. An output without an item axis is kept
/// if there is one part only.
class OutputCollector {
public:
  OutputCollector(const Trainer &trainer, const Batch &batch);

  void add(const TaskRow &row, const Part &part);

  /// Tensors "<module>.<output>", "loss" and "loss.<term>".
  void write(const std::string &path, const StepResult &result) const;

private:
  struct Output {
    int module, index, axis; ///< axis -1: no item axis
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;
    bool complete = true;
  };
  void place(Output &output, const Part &part,
             const std::vector<std::byte> &bytes) const;

  const Trainer &trainer;
  std::vector<Output> outputs;
};

/// Tensors "module.parameter" of all parameters with a gradient.
void writeGradients(const Trainer &trainer, const std::string &path);

} // namespace dt::rt

#endif // DT_RUNTIME_OUTPUTS_H

//===- Prepare.cpp - what is made before the first step -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// For the largest parts that there may be, so that no step allocates anything.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Safetensors.h"
#include "runtime/device/Device.h"
#include "runtime/step/Trainer.h"

namespace dt::rt {

/// What no part's dims are above.
static std::vector<int64_t> mostDims(const ModuleInfo &module) {
  std::vector<int64_t> most;
  for (const SymbolInfo &symbol : module.symbols)
    most.push_back(symbol.max);
  return most;
}

/// No part needs more than the largest one. Collectives of cut modules make
/// what they need on this rank and move nothing (Fabric.h).
void Trainer::rehearse() {
  if (!device::rehearse(true))
    return;
  for (size_t m = 0; m < info.modules.size; ++m) {
    const ModuleInfo &module = info.modules[m];
    if (!places.at(m).runs())
      continue;
    std::vector<int64_t> most = mostDims(module);
    TaskContext context = contextFor(m, {}, most.data());
    for (TaskFn function : {module.forward, module.backward,
                            module.backwardInput, module.backwardWeight})
      if (function)
        function(context);
    for (const LossInfo &loss : info.losses)
      if (size_t(loss.module) == m && loss.denominator)
        loss.denominator(context);
  }
  device::rehearse(false);
}

/// Of a step's inputs, where all parts are as large as they may be, and of its
/// wishes.
void Trainer::reserveUploads() const {
  size_t bytes = StepNumbers::kWishes * sizeof(double), copies = 1;
  auto add = [&](const ModuleInfo &module, size_t input) {
    std::vector<int64_t> most = mostDims(module);
    const TensorInfo &tensor = module.inputs[input].buffer.tensor;
    bytes += size_t(elementCount(shapeOf(tensor, most.data()))) *
             sizeOf(tensor.type);
    ++copies;
  };
  for (const TaskRow &row : info.ranks[size_t(places.rank())].rows)
    if (row.kind == TaskKind::Denominator) {
      const LossInfo &loss = info.losses[row.index];
      for (int32_t input : loss.denominatorInputs)
        add(info.modules[size_t(loss.module)], size_t(input));
    } else if (row.kind == TaskKind::Forward) {
      const ModuleInfo &module = info.modules[row.index];
      for (size_t i = 0; i < module.inputs.size; ++i)
        if (module.inputs[i].fromModule < 0)
          add(module, i);
    }
  device::reserveUploads(bytes, copies);
}

} // namespace dt::rt

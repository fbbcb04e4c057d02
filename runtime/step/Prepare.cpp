//===- Prepare.cpp - what is made before the first step -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// For the largest parts that there may be, so that no step allocates anything.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Device.h"
#include "runtime/step/MessagePlan.h"
#include "runtime/step/StepScalars.h"
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

void Trainer::reserveMessages() {
  carrier->reserve(planned);
  ranks.combining().reserve(planned.combined);
  UploadSize inputs = uploadsOf(info, places.rank());
  device::reserveUploads(inputs.bytes, inputs.copies);
}

Trainer::MessageBytes Trainer::messageBytes() const {
  return {carrier->carrier(),
          carrier->pool().bytes() + carrier->besidePool().bytes(),
          carrier->pinnedBytes() + ranks.combining().bytes() +
              device::uploadBytes() + scalars->readBackBytes()};
}

} // namespace dt::rt

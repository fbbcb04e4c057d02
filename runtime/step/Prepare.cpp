//===- Prepare.cpp - what is made before the first step -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// For the largest parts that there may be, so that no step allocates anything.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/FileActivity.h"
#include "runtime/device/Device.h"
#include "runtime/step/MessagePlan.h"
#include "runtime/step/StepScalars.h"
#include "runtime/step/Trainer.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace dt::rt {

namespace {

/// Of so many samples of a task, what its parts can have.
void addShares(std::set<int64_t> &sizes, int64_t samples, int64_t parts) {
  sizes.insert(samples / parts);
  sizes.insert((samples + parts - 1) / parts);
}

/// Sizes of a module's parts, from the largest that there may be on: where
/// samples are what counts, and are dealt out evenly, all that there are.
std::vector<std::vector<int64_t>>
partDims(const ProgramInfo &program, const Placement &placement, size_t m) {
  const ModuleInfo &module = program.modules[m];
  std::vector<int64_t> most;
  bool counts = false, even = module.speeds.empty();
  for (const SymbolInfo &symbol : module.symbols) {
    most.push_back(symbol.max);
    counts |= symbol.item != nullptr;
    even &= !symbol.item || std::strcmp(symbol.item, "sample") == 0;
  }
  std::vector<std::vector<int64_t>> all{most};
  if (!counts || !even || module.wholeBatch || program.microBatch < 1)
    return all;
  int64_t whole = program.globalBatch / program.microBatch,
          rest = program.globalBatch % program.microBatch, span = module.span,
          parts = placement.replicas(m) * module.sub;
  std::set<int64_t> sizes;
  if (whole >= span)
    addShares(sizes, span * program.microBatch, parts);
  if (int64_t last = whole % span * program.microBatch + rest)
    addShares(sizes, last, parts);
  for (int64_t size : sizes) {
    std::vector<int64_t> dims = most;
    for (size_t i = 0; i < dims.size(); ++i)
      if (module.symbols[i].item)
        dims[i] = std::min(size, most[i]);
    if (size && dims != most)
      all.push_back(dims);
  }
  return all;
}

} // namespace

/// No part needs more than the largest one. Collectives of cut modules make
/// what they need on this rank and move nothing (Fabric.h).
void Trainer::rehearse() {
  if (!device::rehearse(true))
    return;
  for (size_t m = 0; m < info.modules.size; ++m)
    if (places.at(m).runs())
      for (const std::vector<int64_t> &dims : partDims(info, places, m))
        rehearse(m, dims.data());
  // What a step computes beside functions: no memory is touched.
  device::sumCells(nullptr, nullptr, nullptr, 1);
  device::sumOfSquares(nullptr, {});
  StepNumbers numbers(nullptr, 1);
  device::makeSeeds(nullptr, numbers, nullptr);
  device::judge(numbers, nullptr, 0);
  device::accumulate(nullptr, nullptr, 1);
  device::narrow(nullptr, nullptr, 1);
  device::widen(nullptr, nullptr, 1);
  updates->run(0, 0, nullptr);
  device::rehearse(false);
  memory.clear(); // on the stream of the calls: collectives only are beside it
}

void Trainer::rehearse(size_t m, const int64_t *dims) {
  const ModuleInfo &module = info.modules[m];
  TaskContext context = contextFor(m, {}, dims);
  for (TaskFn function : {module.forward, module.backward, module.backwardInput,
                          module.backwardWeight})
    if (function) {
      function(context);
      progressed(); // plans of libraries may have taken seconds
    }
  for (const LossInfo &loss : info.losses)
    if (size_t(loss.module) == m && loss.denominator)
      loss.denominator(context);
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

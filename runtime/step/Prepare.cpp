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
#include <map>
#include <set>
#include <string>

namespace dt::rt {

namespace {

/// Of a kind of items that a part may have more of, only the largest number is
/// rehearsed: for each number every library call has a plan, and cuDNN may
/// compile for a second to make one.
constexpr int64_t kMostSizes = 64;

/// Of so many samples of a task, what its parts can have.
void addShares(std::set<int64_t> &sizes, int64_t samples, int64_t parts) {
  sizes.insert(samples / parts);
  sizes.insert((samples + parts - 1) / parts);
}

bool isSamples(const SymbolInfo &symbol) {
  return symbol.item && std::strcmp(symbol.item, "sample") == 0;
}

/// Whether all parts of a module get as many samples, or one more: samples are
/// all that counts, and ranks are as fast as one another.
bool dealsEvenly(const ProgramInfo &program, const ModuleInfo &module) {
  bool even = module.speeds.empty() && !program.parts;
  for (const SymbolInfo &symbol : module.symbols)
    even &= !symbol.item || (isSamples(symbol) && !symbol.measure);
  return even;
}

/// Numbers of samples that a part has where they are dealt evenly.
std::set<int64_t> evenSizes(const ProgramInfo &program,
                            const Placement &placement, size_t m) {
  const ModuleInfo &module = program.modules[m];
  int64_t whole = program.globalBatch / program.microBatch,
          rest = program.globalBatch % program.microBatch, span = module.span,
          parts = placement.replicas(m) * module.sub;
  std::set<int64_t> sizes;
  if (whole >= span)
    addShares(sizes, span * program.microBatch, parts);
  if (int64_t last = whole % span * program.microBatch + rest)
    addShares(sizes, last, parts);
  return sizes;
}

/// The sizes with `number` items of a kind, or as many as there may be.
std::vector<int64_t> withItems(const ModuleInfo &module, const char *kind,
                               int64_t number) {
  std::vector<int64_t> dims;
  for (const SymbolInfo &symbol : module.symbols)
    dims.push_back(symbol.item && std::strcmp(symbol.item, kind) == 0
                       ? std::min(number * symbol.largest, symbol.max)
                       : symbol.max);
  return dims;
}

/// Sizes of a module's parts, from the largest that there may be on. What a
/// library computes depends on one kind of items: each is varied by itself.
std::vector<std::vector<int64_t>>
partDims(const ProgramInfo &program, const Placement &placement, size_t m) {
  const ModuleInfo &module = program.modules[m];
  std::vector<std::vector<int64_t>> all{withItems(module, "", 0)};
  if (module.wholeBatch || program.microBatch < 1)
    return all;
  std::set<int64_t> even;
  if (dealsEvenly(program, module))
    even = evenSizes(program, placement, m);
  std::map<std::string, int64_t> kinds; ///< the largest number of each
  for (const SymbolInfo &symbol : module.symbols)
    if (symbol.item)
      kinds[symbol.item] =
          std::max(kinds[symbol.item],
                   symbol.max / std::max<int64_t>(1, symbol.largest));
  for (const auto &[kind, most] : kinds)
    for (int64_t number = most - 1; number > 0; --number)
      if (even.empty() ? most <= kMostSizes : even.count(number) > 0)
        all.push_back(withItems(module, kind.c_str(), number));
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
  wholeUpdates->run(0, 0, nullptr);
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

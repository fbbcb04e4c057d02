//===- Parcels.cpp - inputs of a replica's parts --------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Parcels.h"
#include "runtime/base/Safetensors.h"

#include <algorithm>

namespace dt::rt {

namespace {

constexpr size_t kAlignment = 16;

size_t bytesOf(const TensorInfo &tensor, const Part &part) {
  return size_t(elementCount(shapeOf(tensor, part.dims.data()))) *
         sizeOf(tensor.type);
}

/// Calls run(part, items) for all parts of a replica.
template <typename Run>
void forEachPart(const ProgramInfo &program, const StepFacts &facts,
                 const Batch &batch, size_t module, int32_t replica, Run run) {
  int32_t pieces = piecesOf(program.modules[module]);
  for (const auto &parts : batch.assignment.modules[module])
    for (int32_t p = 0; p < pieces; ++p) {
      const PartItems &items = parts[size_t(replica * pieces + p)];
      run(beginPart(program, batch.assignment, module, items,
                    facts.symbols[module], facts.path),
          items);
    }
}

/// Calls run(input, at, size) for a part's raw inputs; moves `at` behind them.
template <typename Run>
void forEachPlace(const ModuleInfo &module, const Part &part, size_t &at,
                  Run run) {
  for (size_t i = 0; i < module.inputs.size; ++i) {
    if (module.inputs[i].fromModule >= 0)
      continue;
    size_t size = bytesOf(module.inputs[i].buffer.tensor, part);
    run(i, at, size);
    at += (size + kAlignment - 1) / kAlignment * kAlignment;
  }
}

std::vector<int> ranksOf(const ModuleInfo &module, int32_t replica) {
  const int32_t *begin = module.ranks.begin(), *end = module.ranks.end();
  if (!module.wholeBatch) {
    begin += replica * std::max(1, module.tp);
    end = begin + std::max(1, module.tp);
  }
  return {begin, end};
}

} // namespace

bool Parcel::isFor(int rank) const {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

std::vector<Parcel> parcelsOf(const ProgramInfo &program,
                              const StepFacts &facts, const Batch &batch) {
  std::vector<Parcel> parcels;
  for (size_t m = 0; m < program.modules.size; ++m) {
    const ModuleInfo &module = program.modules[m];
    int32_t replicas = module.wholeBatch ? 1 : replicasOf(module);
    for (int32_t r = 0; r < replicas; ++r) {
      Parcel parcel{m, r, ranksOf(module, r), 0, {}};
      forEachPart(program, facts, batch, m, r,
                  [&](const Part &part, const PartItems &) {
                    forEachPlace(module, part, parcel.size,
                                 [](size_t, size_t, size_t) {});
                  });
      if (parcel.size)
        parcels.push_back(std::move(parcel));
    }
  }
  return parcels;
}

void forEachInput(const ProgramInfo &program, const StepFacts &facts,
                  const Batch &batch, const Parcel &parcel,
                  const std::function<void(const ParcelInput &)> &run) {
  size_t at = 0;
  forEachPart(program, facts, batch, parcel.module, parcel.replica,
              [&](const Part &part, const PartItems &items) {
                forEachPlace(program.modules[parcel.module], part, at,
                             [&](size_t input, size_t begin, size_t size) {
                               run({part, items, input, begin, size});
                             });
              });
}

void placeParts(const ProgramInfo &program, const StepFacts &facts,
                const RankView &view, const std::vector<Parcel> &parcels,
                Batch &batch) {
  for (size_t m = 0; m < program.modules.size; ++m) {
    const ModuleInfo &module = program.modules[m];
    if (view.replica[m] < 0)
      continue;
    int32_t replica = module.wholeBatch ? 0 : view.replica[m];
    auto found =
        std::find_if(parcels.begin(), parcels.end(), [&](const Parcel &parcel) {
          return parcel.module == m && parcel.replica == replica;
        });
    const std::byte *data =
        found == parcels.end() ? nullptr : found->bytes.data();
    size_t at = 0;
    forEachPart(
        program, facts, batch, m, replica, [&](Part part, const PartItems &) {
          forEachPlace(
              module, part, at, [&](size_t input, size_t begin, size_t size) {
                part.inputs[input] = {data ? data + begin : nullptr, size};
              });
          batch.modules[m].push_back(std::move(part));
        });
  }
}

} // namespace dt::rt

//===- FileParts.cpp - a batch file cut into parts -----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See FileBatch.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Error.h"
#include "runtime/data/Convert.h"
#include "runtime/data/FileBatch.h"
#include "runtime/data/Padding.h"
#include "runtime/data/PartGroups.h"

#include <cstring>
#include <numeric>

namespace dt::rt {

/// A part of items that are not cut by sample has no samples to point to.
void FileBatch::checkParts() const {
  for (const PartGroup &group : partGroups(program))
    for (int32_t m : group.modules) {
      const ModuleInfo &module = program.modules[size_t(m)];
      for (auto &[i, whole] : inputs[size_t(m)])
        if ((whole.index || whole.itemOf) && !hasSamples(module, group))
          throw Error(file.path() + ": tensor '" + whole.name +
                      "' points to samples, but the module '" + module.name +
                      "' works by '" + itemOf(module) + "' in " +
                      std::to_string(partsOf(module)) + " parts");
    }
}

namespace {

/// The first axis that adds up a measure, or that counts items; or the rank.
int32_t itemAxis(const ModuleInfo &module, const TensorInfo &tensor,
                 bool measured) {
  for (int32_t axis = 0; axis < tensor.rank; ++axis)
    if (int32_t symbol = tensor.shape[axis].symbol; symbol >= 0)
      if (const SymbolInfo &info = module.symbols[size_t(symbol)];
          info.item && bool(info.measure) == measured)
        return axis;
  return tensor.rank;
}

} // namespace

/// Whether two rows are in one part however the batch is cut: those of an item,
/// and of a sample where parts are of whole samples.
bool FileBatch::together(const Numbered &a, const Numbered &b,
                         bool bySample) const {
  if (std::strcmp(a.kind, b.kind) == 0 && a.item == b.item)
    return true;
  auto ownerOf = [&](const Numbered &one) {
    auto found = step.owners.find(one.kind);
    return found == step.owners.end() ? -1 : found->second[one.item];
  };
  int64_t owner = ownerOf(a);
  return bySample && owner >= 0 && owner == ownerOf(b);
}

/// Items of one number would see one another where they are in one part.
void FileBatch::checkApart(size_t module, size_t input, Numbers &known) const {
  const WholeInput &whole = inputs[module].at(input);
  const ModuleInfo &info = program.modules[module];
  const TensorInfo &tensor = info.inputs[input].buffer.tensor;
  // The axis of the items' rows, or that which counts items, one row each.
  int32_t axis = itemAxis(info, tensor, true);
  axis = axis < tensor.rank ? axis : itemAxis(info, tensor, false);
  if (axis == tensor.rank || tensor.shape[axis].offset != 0)
    return;
  const Extent &extent = tensor.shape[axis];
  const SymbolInfo &symbol = info.symbols[size_t(extent.symbol)];
  std::vector<int64_t> sizes =
      symbol.measure
          ? *step.measures.at(quantityOf(symbol))
          : std::vector<int64_t>(size_t(step.counts.at(symbol.item)), 1);
  bool bySample = std::strcmp(itemOf(info), kSample) == 0;
  size_t inner = 1;
  for (size_t i = size_t(axis) + 1; i < whole.shape.size(); ++i)
    inner *= size_t(whole.shape[i]);
  size_t elements = whole.bytes.size() / sizeOf(tensor.type);
  for (size_t at = 0; at < elements;)
    for (size_t item = 0; item < sizes.size(); ++item)
      for (size_t n = size_t(sizes[item] * extent.scale) * inner; n > 0;
           --n, ++at) {
        int64_t value = loadInteger(tensor.type, whole.bytes.data() +
                                                     at * sizeOf(tensor.type));
        Numbered own{symbol.item, item, &whole.name};
        auto [found, fresh] = known.try_emplace(value, own);
        const Numbered &other = found->second;
        if (fresh || together(own, other, bySample))
          continue;
        auto rowsOf = [](const Numbered &one) {
          return one.kind + (" " + std::to_string(one.item));
        };
        throw Error(file.path() + ": tensor '" + whole.name + "' has " +
                    std::to_string(value) + " for rows of " +
                    (*other.tensor == whole.name
                         ? rowsOf(other) + " and " + std::to_string(item)
                         : rowsOf(own) + ", tensor '" + *other.tensor +
                               "' for those of " + rowsOf(other)) +
                    ", which would see one another in module '" + info.name +
                    "'; expected other numbers for each " +
                    (bySample ? kSample : symbol.item) + " of the step");
      }
}

void FileBatch::checkApart() const {
  // By the recipe's module: its stages compare the same numbers.
  std::map<std::pair<std::string, std::string>, Numbers> known;
  for (size_t m = 0; m < program.modules.size; ++m)
    for (auto &entry : inputs[m])
      if (const char *with = program.modules[m].inputs[entry.first].apart)
        checkApart(m, entry.first, known[{program.modules[m].origin, with}]);
}

/// Gathers the rows of the part's items along an axis.
void FileBatch::cutAxis(size_t module, size_t input, int32_t axis,
                        const Part &part, std::vector<std::byte> &bytes,
                        std::vector<int64_t> &shape) const {
  const TensorInfo &tensor =
      program.modules[module].inputs[input].buffer.tensor;
  const Extent &e = tensor.shape[axis];
  const Items &items = part.items[size_t(e.symbol)];
  ItemRows rows = part.rows(size_t(e.symbol));
  const std::vector<int64_t> *measure = rows.measure;
  std::vector<int64_t> begins;
  if (measure) {
    begins.resize(measure->size());
    std::exclusive_scan(measure->begin(), measure->end(), begins.begin(),
                        int64_t(0));
  }
  size_t outer = 1, unit = sizeOf(tensor.type) * size_t(e.scale);
  for (int32_t i = 0; i < tensor.rank; ++i)
    (i < axis ? outer : unit) *= i == axis ? 1 : size_t(shape[size_t(i)]);
  int64_t own = rows.total();
  std::vector<std::byte> cut(outer * size_t(own) * unit);
  size_t stride = unit * size_t(step.symbols[module][size_t(e.symbol)]);
  std::byte *to = cut.data();
  for (size_t o = 0; o < outer; ++o)
    for (size_t i = 0; i < items.size() && unit; ++i) {
      size_t size = size_t(rows.of(i)) * unit;
      int64_t first = measure ? begins[size_t(items[i])] : items[i];
      if (size)
        std::memcpy(to, bytes.data() + o * stride + size_t(first) * unit, size);
      to += size;
    }
  bytes = std::move(cut);
  shape[size_t(axis)] = e.scale * own;
}

/// Gathers the part's items along each axis that counts items.
std::vector<std::byte> FileBatch::cutInput(size_t module, size_t input,
                                           const Part &part,
                                           const Items &samples) const {
  const WholeInput &whole = inputs[module].at(input);
  const TensorInfo &tensor =
      program.modules[module].inputs[input].buffer.tensor;
  std::vector<std::byte> bytes = whole.bytes;
  std::vector<int64_t> shape = whole.shape;
  for (int32_t axis = 0; axis < tensor.rank; ++axis) {
    const Extent &e = tensor.shape[axis];
    if (e.symbol < 0 || !program.modules[module].symbols[e.symbol].item)
      continue;
    if (part.rows(size_t(e.symbol)).total() == step.symbols[module][e.symbol])
      continue; // all of them, and they are in order
    if (e.offset != 0)
      throw Error(file.path() + ": tensor '" + whole.name +
                  "' cannot be cut along dim " + std::to_string(axis));
    cutAxis(module, input, axis, part, bytes, shape);
  }
  if (whole.refers())
    rebaseInput(module, input, part, samples, bytes);
  padInput(program.modules[module].inputs[input], part, bytes, shape);
  return bytes;
}

/// Points what is cut into what the part has: its samples, or its items.
void FileBatch::rebaseInput(size_t module, size_t input, const Part &part,
                            const Items &samples,
                            std::vector<std::byte> &bytes) const {
  const WholeInput &whole = inputs[module].at(input);
  const ModuleInfo &info = program.modules[module];
  const Items *targets = whole.rebase.empty() ? &samples : nullptr;
  for (size_t s = 0; s < info.symbols.size && !targets; ++s)
    if (info.symbols[s].measure && quantityOf(info.symbols[s]) == whole.rebase)
      targets = &part.items[s];
  if (!targets)
    throw Error(file.path() + ": tensor '" + whole.name +
                "' points into rows of '" + whole.rebase +
                "', of which the "
                "module '" +
                info.name + "' has no dim");
  if (targets->size() + 1 < whole.begins.size())
    rebase(whole, info.inputs[input].buffer.tensor.type, bytes, *targets,
           file.path());
}

std::vector<std::byte> FileBatch::fill(const Batch &batch,
                                       const Parcel &parcel) const {
  std::vector<std::byte> bytes(parcel.size);
  forEachInput(program, step, batch, parcel, [&](const ParcelInput &to) {
    std::vector<std::byte> cut =
        cutInput(parcel.module, to.input, to.part, to.items.samples);
    if (cut.size() != to.size)
      throw Error(file.path() + ": tensor '" +
                  inputs[parcel.module].at(to.input).name + "' has " +
                  std::to_string(cut.size()) + " bytes for a part of " +
                  std::to_string(to.size));
    if (to.size)
      std::memcpy(bytes.data() + to.at, cut.data(), to.size);
  });
  return bytes;
}

} // namespace dt::rt

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
#include "runtime/data/Manifest.h"
#include "runtime/data/ModelFlops.h"
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
    auto found = owners.find(one.kind);
    return found == owners.end() ? -1 : found->second[one.item];
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
      symbol.measure ? *measures.at(quantityOf(symbol))
                     : std::vector<int64_t>(size_t(counts.at(symbol.item)), 1);
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

/// Into which the samples fit as they come; empty: they do not.
std::vector<int64_t>
FileBatch::partBegins(const std::vector<int64_t> &tokens) const {
  data::StepRule rule{program.parts, program.partTokens,
                      program.globalBatch / program.parts};
  std::vector<int64_t> parts = data::fillParts(rule, [&](int64_t i) {
    return i < int64_t(tokens.size()) ? tokens[size_t(i)] : -1;
  });
  return parts.back() == samples() ? parts : std::vector<int64_t>();
}

StepItems FileBatch::stepItems() const {
  StepItems out;
  out.where = file.path();
  out.samples = samples();
  for (auto &[kind, count] : counts) {
    if (kind == kSample || measures.count(kind))
      continue;
    auto found = owners.find(kind);
    out.kinds.push_back(
        {kind, count,
         found == owners.end() ? std::vector<int64_t>() : found->second});
  }
  for (auto &[quantity, measure] : measures) {
    size_t dot = quantity.find('.');
    std::string kind = quantity.substr(0, dot), name = quantity.substr(dot + 1);
    if (kind == kSample)
      out.measures[name] = measure;
    for (StepItems::Kind &other : out.kinds)
      if (other.name == kind)
        other.measures[name] = measure;
  }
  if (auto tokens = measures.find(kSampleTokens);
      program.parts && tokens != measures.end())
    out.parts = partBegins(*tokens->second);
  return out;
}

Part FileBatch::makePart(size_t module, const PartItems &items) {
  Part part = beginPart(program, batch.assignment, module, items,
                        symbols[module], file.path());
  for (auto &entry : inputs[module]) {
    storage.push_back(cutInput(module, entry.first, part, items.samples));
    part.inputs[entry.first] = {storage.back().data(), storage.back().size()};
  }
  return part;
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
  std::vector<std::byte> cut(outer * size_t(part.dims[size_t(e.symbol)]) *
                             unit);
  size_t stride = unit * size_t(symbols[module][size_t(e.symbol)]);
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
  shape[size_t(axis)] = e.scale * part.dims[size_t(e.symbol)];
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
    if (part.dims[e.symbol] == symbols[module][e.symbol])
      continue; // all of them, and they are in order
    if (e.offset != 0)
      throw Error(file.path() + ": tensor '" + whole.name +
                  "' cannot be cut along dim " + std::to_string(axis));
    cutAxis(module, input, axis, part, bytes, shape);
  }
  if (whole.refers())
    rebaseInput(module, input, part, samples, bytes);
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

void FileBatch::cut(Reorder reorder) {
  batch.samples = samples();
  Assigner assigner(program, reorder);
  batch.assignment = assigner.assign(stepItems());
  batch.utilisation = utilisation(program, batch.assignment);
  batch.flops = modelFlops(program, batch.assignment, symbols);
  if (auto tokens = counts.find(kSampleTokens); tokens != counts.end())
    batch.tokens = tokens->second;
  if (reorder != Reorder::None)
    batch.plain =
        std::make_shared<const Assignment>(assigner.given(stepItems()));
  batch.hash = batch.assignment.hash() * 31 + fingerprint;
  for (auto &entry : owners)
    for (int64_t owner : entry.second)
      batch.hash = (batch.hash ^ uint64_t(owner)) * 0x100000001B3ull;
  batch.modules.resize(program.modules.size);
  for (size_t m = 0; m < program.modules.size; ++m) {
    int32_t pieces = piecesOf(program.modules[m]);
    for (const auto &parts : batch.assignment.modules[m])
      for (int32_t p = 0; view.replica[m] >= 0 && p < pieces; ++p)
        batch.modules[m].push_back(
            makePart(m, parts[size_t(view.replica[m] * pieces + p)]));
  }
}

} // namespace dt::rt

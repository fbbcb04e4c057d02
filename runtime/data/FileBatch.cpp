//===- FileBatch.cpp - one batch from a safetensors file --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A batch is cut into parts by lists of items. Whose items
// (images, targets) are whose follows, in this order, from
//   - an index input that sections["inputs"] declares: {"index": ["sample",
//     "token"]}. Its values are positions in the flattened [sample, token];
//     value / tokens is the sample;
//   - a tensor "item_of.<kind>": the sample of each item.
// If neither is there, more than one part is an error. Items keep the order
// that they have in the file. Index values and samples (inputs declared
// {"item_of": kind}) are rebased in every part.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Error.h"
#include "runtime/base/Safetensors.h"
#include "runtime/data/BatchFiles.h"
#include "runtime/data/Convert.h"
#include "runtime/data/Fault.h"
#include "runtime/data/PartGroups.h"
#include "runtime/data/References.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

namespace dt::rt {

namespace {

//===----------------------------------------------------------------------===//
// The cut
//===----------------------------------------------------------------------===//

class FileBatch : public BatchSource {
public:
  FileBatch(const ProgramInfo &program, const nlohmann::json &sections,
            std::unique_ptr<SafetensorsFile> from, const RankView &view,
            Reorder reorder, uint64_t fingerprint)
      : program(program), sections(sections), content(std::move(from)),
        file(*content), view(view), fingerprint(fingerprint) {
    readInputs();
    bindSymbols();
    findOwners();
    checkParts();
    cut(reorder);
  }

  const Batch &next(int64_t) override { return batch; }
  uint64_t hash() const override { return fingerprint; }
  std::string summary() const override {
    std::vector<std::string> unused;
    for (auto &[name, tensor] : file.tensors())
      if (!taken.count(name))
        unused.push_back(name);
    for (auto &[name, tensor] : file.otherTensors())
      unused.push_back(name);
    return "batch of " + std::to_string(program.globalBatch) +
           " samples from " + file.path() +
           (unused.empty() ? "" : "\nnot used of it: " + listed(unused));
  }

private:
  // Reading
  std::pair<std::string, const TensorView *>
  findTensor(const std::string &module, const std::string &input) const;
  const nlohmann::json *declaration(const std::string &module,
                                    const std::string &input) const;
  void readInputs();
  // Symbols
  void bind(size_t module, const TensorInfo &tensor,
            const std::vector<int64_t> &shape, const std::string &where);
  void bindEdge(size_t module, const InputInfo &input);
  void setSymbol(size_t module, int symbol, int64_t value,
                 const std::string &where);
  void bindSymbols();
  // Ownership
  int64_t tokensFor(size_t module, const nlohmann::json &declared) const;
  void ownFromIndex(size_t module, size_t input);
  void findOwners();
  void setOwners(const std::string &kind, std::vector<int64_t> owners,
                 const std::string &where);
  // Parts
  void checkParts() const;
  StepItems stepItems() const;
  void cut(Reorder reorder);
  Part makePart(size_t module, const PartItems &items);
  std::vector<std::byte> cutInput(size_t module, size_t input, const Part &part,
                                  const Items &samples) const;

  const ProgramInfo &program;
  const nlohmann::json &sections;
  std::unique_ptr<SafetensorsFile> content;
  const SafetensorsFile &file;
  RankView view;
  std::vector<std::map<size_t, WholeInput>>
      inputs; ///< [module][input], raw ones
  std::vector<std::vector<int64_t>>
      symbols; ///< [module][symbol], of the global batch; -1 not known yet
  std::map<std::string, int64_t> counts; ///< items of a kind in the batch
  std::map<std::string, std::string>
      countedBy; ///< where a count comes from, for errors
  std::map<std::string, std::vector<int64_t>>
      owners; ///< kind -> sample of each item
  std::vector<std::vector<std::byte>> storage;
  Batch batch;
  std::set<std::string> taken; ///< names in the file
  uint64_t fingerprint;        ///< of the file
};

std::pair<std::string, const TensorView *>
FileBatch::findTensor(const std::string &module,
                      const std::string &input) const {
  std::string full = module + "." + input;
  for (const std::string &name : {full, "in." + full, input, "in." + input})
    if (const TensorView *view = file.find(name))
      return {name, view};
  throw Error(file.path() + ": " + describeMissing(program, module, input));
}

const nlohmann::json *FileBatch::declaration(const std::string &module,
                                             const std::string &input) const {
  auto table = sections.find("inputs");
  if (table == sections.end() || !table->is_object())
    return nullptr;
  for (const std::string &name : {module + "." + input, input})
    if (auto found = table->find(name);
        found != table->end() && found->is_object())
      return &*found;
  return nullptr;
}

void FileBatch::readInputs() {
  inputs.resize(program.modules.size);
  for (size_t m = 0; m < program.modules.size; ++m) {
    const ModuleInfo &module = program.modules[m];
    for (size_t i = 0; i < module.inputs.size; ++i) {
      const TensorInfo &tensor = module.inputs[i].buffer.tensor;
      if (module.inputs[i].fromModule >= 0)
        continue;
      auto [name, tensorView] = findTensor(module.origin, tensor.name);
      taken.insert(name);
      std::string where = file.path() + ": tensor '" + name + "'";
      if (tensorView->shape.size() != size_t(tensor.rank))
        throw Error(where + " has shape " + shapeText(tensorView->shape) +
                    ", expected " + std::to_string(tensor.rank) + " dims");
      WholeInput whole{name, tensorView->shape, {}};
      if (const nlohmann::json *declared =
              declaration(module.origin, tensor.name)) {
        whole.index = declared->contains("index");
        whole.itemOf = declared->contains("item_of");
        if (auto pad = declared->find("pad");
            pad != declared->end() && pad->is_number_integer())
          whole.pad = pad->get<int64_t>();
        if (isFloat(tensor.type) && (whole.index || whole.itemOf))
          throw Error(where + " is an index but not of an integer type");
      }
      if (view.replica[m] >= 0 || whole.index || whole.itemOf)
        whole.bytes = convert(*tensorView, tensor.type, where);
      inputs[m].emplace(i, std::move(whole));
    }
  }
}

void FileBatch::setSymbol(size_t module, int symbol, int64_t value,
                          const std::string &where) {
  const SymbolInfo &info = program.modules[module].symbols[symbol];
  int64_t &known = symbols[module][symbol];
  if (known >= 0 && known != value)
    throw Error(where + " gives dim '" + info.name + "' the value " +
                std::to_string(value) + ", other tensors give " +
                std::to_string(known));
  known = value;
  if (!info.item)
    return;
  auto [entry, inserted] = counts.emplace(info.item, value);
  if (inserted)
    countedBy[info.item] = where;
  else if (entry->second != value)
    throw Error(where + " has " + std::to_string(value) + " items of kind '" +
                info.item + "', but " + countedBy[info.item] + " has " +
                std::to_string(entry->second));
}

/// Solves the extents of a tensor for its module's symbols.
void FileBatch::bind(size_t module, const TensorInfo &tensor,
                     const std::vector<int64_t> &shape,
                     const std::string &where) {
  for (int32_t axis = 0; axis < tensor.rank; ++axis) {
    const Extent &e = tensor.shape[axis];
    int64_t rest = shape[axis] - e.offset;
    if (e.symbol < 0 ? rest != 0 : (rest < 0 || e.scale == 0 || rest % e.scale))
      throw Error(where + " has shape " + shapeText(shape) + ": dim " +
                  std::to_string(axis) + " should be " +
                  (e.symbol < 0 ? std::to_string(e.offset)
                                : "a multiple of " + std::to_string(e.scale) +
                                      " plus " + std::to_string(e.offset)));
    if (e.symbol >= 0)
      setSymbol(module, e.symbol, rest / e.scale, where);
  }
}

/// The producer's symbols tell those of an edge; other dims may be cut there.
void FileBatch::bindEdge(size_t module, const InputInfo &input) {
  const TensorInfo &
      to = input.buffer.tensor,
     &from = program.modules[input.fromModule].outputs[input.fromOutput].tensor;
  for (int32_t axis = 0; axis < std::min(from.rank, to.rank); ++axis) {
    const Extent &e = to.shape[axis], &f = from.shape[axis];
    if (e.symbol < 0 || f.symbol < 0 || e.scale == 0)
      continue;
    int64_t extent =
        f.scale * symbols[input.fromModule][f.symbol] + f.offset - e.offset;
    if (extent >= 0 && extent % e.scale == 0)
      setSymbol(module, e.symbol, extent / e.scale,
                std::string("edge ") + program.modules[module].name + "." +
                    to.name);
  }
}

void FileBatch::bindSymbols() {
  for (const ModuleInfo &module : program.modules)
    symbols.emplace_back(module.symbols.size, -1);
  counts[kSample] = program.globalBatch;
  countedBy[kSample] = "the program's batch";
  for (size_t m = 0; m < program.modules.size; ++m)
    for (auto &[i, whole] : inputs[m])
      bind(m, program.modules[m].inputs[i].buffer.tensor, whole.shape,
           file.path() + ": tensor '" + whole.name + "'");
  for (size_t m = 0; m < program.modules.size; ++m) {
    const ModuleInfo &module = program.modules[m];
    for (size_t s = 0; s < module.symbols.size; ++s)
      if (module.symbols[s].item && symbols[m][s] < 0)
        if (auto found = counts.find(module.symbols[s].item);
            found != counts.end())
          symbols[m][s] = found->second;
    // What is left follows from the producers' shapes; modules are in
    // topological order.
    for (const InputInfo &input : module.inputs)
      if (input.fromModule >= 0)
        bindEdge(m, input);
    for (size_t s = 0; s < module.symbols.size; ++s)
      if (symbols[m][s] < 0)
        throw Error(file.path() + ": nothing in the file tells dim '" +
                    module.symbols[s].name + "' of module '" + module.name +
                    "'");
  }
}

/// Tokens of a sample: said by the declaration, or the second extent of the
/// first integer input [sample, token].
int64_t FileBatch::tokensFor(size_t module,
                             const nlohmann::json &declared) const {
  if (auto found = declared.find("tokens_per_sample");
      found != declared.end() && found->is_number_unsigned())
    return found->get<int64_t>();
  std::vector<size_t> order(program.modules.size);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[module]); // its own module first
  for (size_t m : order)
    for (auto &[i, whole] : inputs[m]) {
      const TensorInfo &tensor = program.modules[m].inputs[i].buffer.tensor;
      int symbol = tensor.rank >= 2 ? tensor.shape[0].symbol : -1;
      const char *item =
          symbol >= 0 ? program.modules[m].symbols[symbol].item : nullptr;
      if (item && std::strcmp(item, kSample) == 0 && !isFloat(tensor.type) &&
          !whole.index)
        return whole.shape[1];
    }
  return 0;
}

void FileBatch::setOwners(const std::string &kind, std::vector<int64_t> found,
                          const std::string &where) {
  for (int64_t owner : found)
    if (owner < 0 || owner >= program.globalBatch)
      throw Error(where + ": sample " + std::to_string(owner) +
                  " is not in the batch of " +
                  std::to_string(program.globalBatch));
  owners.emplace(kind, std::move(found));
}

void FileBatch::ownFromIndex(size_t module, size_t input) {
  WholeInput &whole = inputs[module].at(input);
  const ModuleInfo &info = program.modules[module];
  const TensorInfo &tensor = info.inputs[input].buffer.tensor;
  std::string where = file.path() + ": tensor '" + whole.name + "'";
  whole.tokens = tokensFor(module, *declaration(info.origin, tensor.name));
  if (whole.tokens <= 0)
    throw Error(
        where +
        ": no input [sample, token] tells how many tokens a sample has");
  int symbol = tensor.rank ? tensor.shape[0].symbol : -1;
  const char *kind = symbol >= 0 ? info.symbols[symbol].item : nullptr;
  size_t elements = whole.bytes.size() / sizeOf(tensor.type),
         rows = symbol >= 0 ? symbols[module][symbol] : 0;
  checkReferences(whole, tensor.type, program.globalBatch, file.path());
  std::vector<int64_t> found;
  for (size_t row = 0; row < rows; ++row) {
    int64_t owner = -1;
    for (size_t i = row * (elements / rows); i < (row + 1) * (elements / rows);
         ++i) {
      int64_t value = loadInteger(tensor.type,
                                  whole.bytes.data() + i * sizeOf(tensor.type));
      if (isPadding(whole, value, program.globalBatch))
        continue;
      if (owner >= 0 && owner != value / whole.tokens)
        throw Error(where + ": item " + std::to_string(row) +
                    " points into two samples");
      owner = value / whole.tokens;
    }
    found.push_back(owner);
  }
  bool known = std::find(found.begin(), found.end(), -1) == found.end();
  if (kind && std::strcmp(kind, kSample) != 0 && known && !owners.count(kind))
    setOwners(kind, std::move(found), where);
}

void FileBatch::findOwners() {
  std::vector<int64_t> identity(program.globalBatch);
  std::iota(identity.begin(), identity.end(), 0);
  owners[kSample] = identity;
  for (size_t m = 0; m < program.modules.size; ++m)
    for (auto &[i, whole] : inputs[m])
      if (whole.index)
        ownFromIndex(m, i);
      else if (whole.itemOf)
        checkReferences(whole, program.modules[m].inputs[i].buffer.tensor.type,
                        program.globalBatch, file.path());
  for (auto &[kind, count] : counts) {
    std::string name = "item_of." + kind;
    const TensorView *view =
        file.find(name) ? file.find(name) : file.find("in." + name);
    if (owners.count(kind) || !view)
      continue;
    taken.insert(file.find(name) ? name : "in." + name);
    std::string where = file.path() + ": tensor '" + name + "'";
    if (isFloat(view->type) || view->shape != std::vector<int64_t>{count})
      throw Error(where + " should be integers of shape " + shapeText({count}));
    std::vector<int64_t> found(count);
    for (int64_t i = 0; i < count; ++i)
      found[i] = loadInteger(view->type, view->data + i * sizeOf(view->type));
    setOwners(kind, std::move(found), where);
  }
}

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

StepItems FileBatch::stepItems() const {
  StepItems out;
  out.where = file.path();
  out.samples = program.globalBatch;
  for (auto &[kind, count] : counts) {
    if (kind == kSample)
      continue;
    auto found = owners.find(kind);
    out.kinds.push_back(
        {kind, count,
         found == owners.end() ? std::vector<int64_t>() : found->second});
  }
  return out;
}

Part FileBatch::makePart(size_t module, const PartItems &items) {
  const ModuleInfo &info = program.modules[module];
  Part part;
  part.items = items.symbols;
  part.inputs.resize(info.inputs.size);
  for (size_t s = 0; s < info.symbols.size; ++s) {
    bool counts = info.symbols[s].item != nullptr;
    int64_t value =
        counts ? int64_t(items.symbols[s].size()) : symbols[module][s];
    if (value > info.symbols[s].max)
      throw Error(file.path() + ": dim " + info.name + "." +
                  info.symbols[s].name + " is " + std::to_string(value) +
                  "; the program was compiled for at most " +
                  std::to_string(info.symbols[s].max));
    part.dims.push_back(value);
  }
  for (auto &entry : inputs[module]) {
    storage.push_back(cutInput(module, entry.first, part, items.samples));
    part.inputs[entry.first] = {storage.back().data(), storage.back().size()};
  }
  return part;
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
    const std::vector<int64_t> &items = part.items[e.symbol];
    if (part.dims[e.symbol] == symbols[module][e.symbol])
      continue; // all of them, and they are in order
    if (e.offset != 0)
      throw Error(file.path() + ": tensor '" + whole.name +
                  "' cannot be cut along dim " + std::to_string(axis));
    size_t outer = 1, unit = sizeOf(tensor.type) * e.scale;
    for (int32_t i = 0; i < tensor.rank; ++i)
      (i < axis ? outer : unit) *= i == axis ? 1 : shape[i];
    std::vector<std::byte> cut(outer * items.size() * unit);
    size_t stride = unit * symbols[module][e.symbol];
    for (size_t o = 0; o < outer; ++o)
      for (size_t r = 0; r < items.size() && unit; ++r)
        std::memcpy(cut.data() + (o * items.size() + r) * unit,
                    bytes.data() + o * stride + items[r] * unit, unit);
    bytes = std::move(cut);
    shape[axis] = e.scale * int64_t(items.size());
  }
  if ((whole.index || whole.itemOf) &&
      int64_t(samples.size()) < program.globalBatch)
    rebase(whole, tensor.type, bytes, samples, program.globalBatch,
           file.path());
  return bytes;
}

void FileBatch::cut(Reorder reorder) {
  batch.samples = program.globalBatch;
  Assigner assigner(program, reorder);
  batch.assignment = assigner.assign(stepItems());
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

} // namespace

std::unique_ptr<BatchSource>
openFileBatch(const ProgramInfo &program, const nlohmann::json &sections,
              const std::string &file, const RankView &view, Reorder reorder) {
  return std::make_unique<FileBatch>(
      program, sections, std::make_unique<SafetensorsFile>(file), view, reorder,
      SafetensorsReader(file).hash());
}

std::unique_ptr<BatchSource> cutBatch(const ProgramInfo &program,
                                      const nlohmann::json &sections,
                                      std::unique_ptr<SafetensorsFile> file,
                                      const RankView &view, Reorder reorder) {
  return std::make_unique<FileBatch>(program, sections, std::move(file), view,
                                     reorder, /*fingerprint=*/0);
}

} // namespace dt::rt

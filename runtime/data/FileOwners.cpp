//===- FileOwners.cpp - whose items are whose, and how large -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See FileBatch.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Error.h"
#include "runtime/data/Convert.h"
#include "runtime/data/FileBatch.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace dt::rt {

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
    if (owner < 0 || owner >= step.samples())
      throw Error(where + ": sample " + std::to_string(owner) +
                  " is not in the batch of " + std::to_string(step.samples()));
  step.owners.emplace(kind, std::move(found));
}

/// Where each sample's positions begin, and where they end: of the module's
/// samples that have a measure by that, else alike.
std::vector<int64_t> FileBatch::positionsOf(size_t module, size_t input) const {
  const WholeInput &whole = inputs[module].at(input);
  std::vector<size_t> order(program.modules.size);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[module]);
  for (size_t m : order)
    for (const SymbolInfo &symbol : program.modules[m].symbols)
      if (symbol.measure && std::strcmp(symbol.item, kSample) == 0)
        return beginsOf(quantityOf(symbol), 1, whole.name);
  const ModuleInfo &info = program.modules[module];
  int64_t tokens = tokensFor(
      module, *declaration(info.origin, info.inputs[input].buffer.tensor.name));
  if (tokens <= 0)
    throw Error(
        file.path() + ": tensor '" + whole.name +
        "': no input [sample, token] tells how many tokens a sample has");
  std::vector<int64_t> begins;
  for (int64_t s = 0; s <= step.samples(); ++s)
    begins.push_back(s * tokens);
  return begins;
}

/// Of each item the first of its `rows` rows for each 1 of a measure.
std::vector<int64_t> FileBatch::beginsOf(const std::string &quantity,
                                         int64_t rows,
                                         const std::string &where) const {
  auto found = step.measures.find(quantity);
  if (found == step.measures.end())
    throw Error(file.path() + ": tensor '" + where + "' points into rows of '" +
                quantity + "', which no dim of a module adds up");
  std::vector<int64_t> begins{0};
  for (int64_t size : *found->second)
    begins.push_back(begins.back() + rows * size);
  return begins;
}

/// What a symbol adds up, from the sums with each item.
Measure FileBatch::readOffsets(const SymbolInfo &symbol,
                               const std::string &dim) {
  std::string name = "offsets." + quantityOf(symbol);
  const TensorView *view = file.find(name);
  if (!view)
    view = file.find(name = "in." + name);
  if (!view)
    throw Error(file.path() + ": tensor 'offsets." + quantityOf(symbol) +
                "' is missing: dim " + dim + " adds it up");
  taken.insert(name);
  std::string where = file.path() + ": tensor '" + name + "'";
  if (isFloat(view->type) || view->shape.size() != 1 || view->shape[0] < 1)
    throw Error(where + " should be integers of shape [items + 1]");
  auto sizes = std::make_shared<std::vector<int64_t>>();
  int64_t before = 0;
  for (int64_t i = 0; i < view->shape[0]; ++i) {
    int64_t offset =
        loadInteger(view->type, view->data + size_t(i) * sizeOf(view->type));
    if (i == 0 ? offset != 0 : offset < before)
      throw Error(where + ", element " + std::to_string(i) + ": " +
                  std::to_string(offset) +
                  (i ? " is below the one before it, " + std::to_string(before)
                     : " is not 0, where the first item begins"));
    if (i)
      sizes->push_back(offset - before);
    before = offset;
  }
  return sizes;
}

/// As many as the program trains on in a step; of steps of as many samples as
/// fit those that the file has.
void FileBatch::countSamples() {
  step.counts[kSample] = program.globalBatch;
  countedBy[kSample] = "the program's batch";
  std::string name = std::string("offsets.") + kSampleTokens;
  const TensorView *view = nullptr;
  for (const std::string &known : {name, "in." + name})
    if (program.parts && !view && (view = file.find(known)))
      name = known;
  if (!program.parts)
    return;
  std::string where = file.path() + ": tensor '" + name + "'";
  if (!view)
    throw Error(where + " is missing: it says how many samples the step has");
  if (view->shape.size() != 1 || view->shape[0] < 1)
    throw Error(where + " should be integers of shape [items + 1]");
  taken.insert(name);
  step.counts[kSample] = view->shape[0] - 1;
  countedBy[kSample] = "tensor '" + name + "'";
  if (step.samples() > program.globalBatch)
    throw Error(where + " is of " + std::to_string(step.samples()) +
                " samples; the program was compiled for at most " +
                std::to_string(program.globalBatch));
}

void FileBatch::readMeasures() {
  countSamples();
  for (const ModuleInfo &module : program.modules)
    for (const SymbolInfo &symbol : module.symbols) {
      if (!symbol.measure || step.measures.count(quantityOf(symbol)))
        continue;
      Measure sizes =
          readOffsets(symbol, std::string(module.name) + "." + symbol.name);
      std::string quantity = quantityOf(symbol),
                  where = "tensor 'offsets." + quantity + "'";
      auto items = int64_t(sizes->size());
      auto [known, fresh] = step.counts.emplace(symbol.item, items);
      if (fresh)
        countedBy[symbol.item] = where;
      else if (known->second != items)
        throw Error(file.path() + ": " + where + " is of " +
                    std::to_string(items) + " items of kind '" + symbol.item +
                    "', but " + countedBy[symbol.item] + " has " +
                    std::to_string(known->second));
      step.counts[quantity] =
          std::accumulate(sizes->begin(), sizes->end(), int64_t(0));
      countedBy[quantity] = where;
      step.measures[quantity] = std::move(sizes);
    }
}

/// Checks what an input points to.
void FileBatch::readReferences(size_t module, size_t input) {
  WholeInput &whole = inputs[module].at(input);
  const ModuleInfo &info = program.modules[module];
  const TensorInfo &tensor = info.inputs[input].buffer.tensor;
  if (!whole.rebase.empty()) {
    const nlohmann::json *declared = declaration(info.origin, tensor.name);
    whole.begins =
        beginsOf(whole.rebase, declared->value("rows", int64_t(1)), whole.name);
  } else if (whole.index) {
    whole.begins = positionsOf(module, input);
  } else {
    whole.begins.resize(size_t(step.samples()) + 1);
    std::iota(whole.begins.begin(), whole.begins.end(), 0);
  }
  checkReferences(whole, tensor.type, file.path());
}

void FileBatch::ownFromIndex(size_t module, size_t input) {
  WholeInput &whole = inputs[module].at(input);
  const ModuleInfo &info = program.modules[module];
  const TensorInfo &tensor = info.inputs[input].buffer.tensor;
  std::string where = file.path() + ": tensor '" + whole.name + "'";
  int symbol = tensor.rank ? tensor.shape[0].symbol : -1;
  if (symbol < 0 || !info.symbols[size_t(symbol)].item)
    return;
  const SymbolInfo &counted = info.symbols[size_t(symbol)];
  Measure measure =
      counted.measure ? step.measures.at(quantityOf(counted)) : nullptr;
  int64_t rows = step.symbols[module][size_t(symbol)],
          items = measure ? int64_t(measure->size()) : rows;
  size_t elements = whole.bytes.size() / sizeOf(tensor.type), at = 0;
  std::vector<int64_t> found;
  for (int64_t item = 0; item < items; ++item) {
    int64_t owner = -1, own = measure ? (*measure)[size_t(item)] : 1;
    size_t end = at + (rows ? size_t(own) * (elements / size_t(rows)) : 0);
    for (; at < end; ++at) {
      int64_t target = targetOf(
          whole, loadInteger(tensor.type,
                             whole.bytes.data() + at * sizeOf(tensor.type)));
      if (target < 0)
        continue;
      if (owner >= 0 && owner != target)
        throw Error(where + ": item " + std::to_string(item) +
                    " points into two samples");
      owner = target;
    }
    found.push_back(owner);
  }
  const char *kind = counted.item;
  bool known = std::find(found.begin(), found.end(), -1) == found.end();
  if (std::strcmp(kind, kSample) != 0 && known && !step.owners.count(kind))
    setOwners(kind, std::move(found), where);
}

void FileBatch::findOwners() {
  step.owners[kSample] = ownersOfSamples(step);
  for (size_t m = 0; m < program.modules.size; ++m)
    for (auto &[i, whole] : inputs[m]) {
      if (whole.refers())
        readReferences(m, i);
      if (whole.index)
        ownFromIndex(m, i);
    }
  for (auto &[kind, count] : step.counts) {
    std::string name = "item_of." + kind;
    const TensorView *view =
        file.find(name) ? file.find(name) : file.find("in." + name);
    if (step.owners.count(kind) || !view)
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

} // namespace dt::rt

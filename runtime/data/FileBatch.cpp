//===- FileBatch.cpp - inputs and sizes of a batch file ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See FileBatch.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/FileBatch.h"
#include "runtime/base/Error.h"
#include "runtime/data/BatchFiles.h"
#include "runtime/data/Convert.h"
#include "runtime/data/Fault.h"

namespace dt::rt {

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
      WholeInput whole;
      whole.name = name;
      whole.shape = tensorView->shape;
      if (const nlohmann::json *declared =
              declaration(module.origin, tensor.name)) {
        whole.index = declared->contains("index");
        whole.itemOf = declared->contains("item_of");
        whole.rebase = declared->value("rebase", std::string());
        if (auto pad = declared->find("pad");
            pad != declared->end() && pad->is_number_integer())
          whole.pad = pad->get<int64_t>();
        if (isFloat(tensor.type) && whole.refers())
          throw Error(where + " is an index but not of an integer type");
      }
      if (!view || view->replica[m] >= 0 || whole.refers() ||
          module.inputs[i].apart)
        whole.bytes = convert(*tensorView, tensor.type, where);
      inputs[m].emplace(i, std::move(whole));
    }
  }
}

std::string quantityOf(const SymbolInfo &symbol) {
  return symbol.measure ? std::string(symbol.item) + "." + symbol.measure
                        : symbol.item;
}

void FileBatch::setSymbol(size_t module, int symbol, int64_t value,
                          const std::string &where) {
  const SymbolInfo &info = program.modules[module].symbols[symbol];
  int64_t &known = step.symbols[module][symbol];
  if (known >= 0 && known != value)
    throw Error(where + " gives dim '" + info.name + "' the value " +
                std::to_string(value) + ", other tensors give " +
                std::to_string(known));
  known = value;
  if (!info.item)
    return;
  std::string quantity = quantityOf(info);
  auto [entry, inserted] = step.counts.emplace(quantity, value);
  if (inserted)
    countedBy[quantity] = where;
  else if (entry->second != value)
    throw Error(where + " has " + std::to_string(value) +
                (info.measure ? " rows of '" : " items of kind '") + quantity +
                "', but " + countedBy[quantity] + " has " +
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
    int64_t extent = f.scale * step.symbols[input.fromModule][f.symbol] +
                     f.offset - e.offset;
    if (extent >= 0 && extent % e.scale == 0)
      setSymbol(module, e.symbol, extent / e.scale,
                std::string("edge ") + program.modules[module].name + "." +
                    to.name);
  }
}

void FileBatch::bindSymbols() {
  for (const ModuleInfo &module : program.modules)
    step.symbols.emplace_back(module.symbols.size, -1);
  for (size_t m = 0; m < program.modules.size; ++m)
    for (auto &[i, whole] : inputs[m])
      bind(m, program.modules[m].inputs[i].buffer.tensor, whole.shape,
           file.path() + ": tensor '" + whole.name + "'");
  for (size_t m = 0; m < program.modules.size; ++m) {
    const ModuleInfo &module = program.modules[m];
    for (size_t s = 0; s < module.symbols.size; ++s)
      if (module.symbols[s].item && step.symbols[m][s] < 0)
        if (auto found = step.counts.find(quantityOf(module.symbols[s]));
            found != step.counts.end())
          step.symbols[m][s] = found->second;
    // What is left follows from the producers' shapes; modules are in
    // topological order.
    for (const InputInfo &input : module.inputs)
      if (input.fromModule >= 0)
        bindEdge(m, input);
    for (size_t s = 0; s < module.symbols.size; ++s)
      if (step.symbols[m][s] < 0)
        throw Error(file.path() + ": nothing in the file tells dim '" +
                    module.symbols[s].name + "' of module '" + module.name +
                    "'");
  }
}

std::string FileBatch::summary() const {
  std::vector<std::string> unused;
  for (auto &[name, tensor] : file.tensors())
    if (!taken.count(name))
      unused.push_back(name);
  for (auto &[name, tensor] : file.otherTensors())
    unused.push_back(name);
  return "batch of " + std::to_string(step.samples()) + " samples from " +
         file.path() +
         (unused.empty() ? "" : "\nnot used of it: " + listed(unused));
}

namespace {

/// A file of which each rank reads what it needs.
class OwnBatch final : public BatchSource {
public:
  OwnBatch(const ProgramInfo &program, const nlohmann::json &sections,
           std::unique_ptr<SafetensorsFile> from, const RankView &view,
           Reorder reorder, uint64_t fingerprint)
      : view(view),
        file(program, sections, std::move(from), &this->view, fingerprint),
        batch(assignParts(program, file.facts(), reorder)),
        parcels(parcelsOf(program, file.facts(), batch)) {
    for (Parcel &parcel : parcels)
      if (parcel.isFor(view.rank))
        parcel.bytes = file.fill(batch, parcel);
    placeParts(program, file.facts(), view, parcels, batch);
  }

  const Batch &next(int64_t) override { return batch; }
  uint64_t hash() const override { return file.facts().fingerprint; }
  std::string summary() const override { return file.summary(); }

private:
  RankView view;
  FileBatch file;
  Batch batch;
  std::vector<Parcel> parcels;
};

} // namespace

std::unique_ptr<BatchSource>
openFileBatch(const ProgramInfo &program, const nlohmann::json &sections,
              const std::string &file, const RankView &view, Reorder reorder) {
  return std::make_unique<OwnBatch>(
      program, sections, std::make_unique<SafetensorsFile>(file), view, reorder,
      SafetensorsReader(file).hash());
}

std::unique_ptr<BatchSource> cutBatch(const ProgramInfo &program,
                                      const nlohmann::json &sections,
                                      std::unique_ptr<SafetensorsFile> file,
                                      const RankView &view, Reorder reorder) {
  return std::make_unique<OwnBatch>(program, sections, std::move(file), view,
                                    reorder, /*fingerprint=*/0);
}

} // namespace dt::rt

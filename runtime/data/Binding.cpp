//===- Binding.cpp - a program's tables against the data sections ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Binding.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Binding.h"

#include "runtime/base/Error.h"
#include "runtime/data/PartGroups.h"

using namespace dt::rt;
using namespace dt::rt::data;

std::vector<int64_t> ModuleBinding::values() const {
  std::vector<int64_t> all;
  for (const Symbol &symbol : symbols)
    all.push_back(symbol.value);
  return all;
}

namespace {
class Binder {
public:
  Binder(const ProgramInfo &program, const Config &config)
      : program(program), config(config) {}

  std::vector<ModuleBinding> bind() const {
    std::vector<ModuleBinding> out;
    for (const ModuleInfo &module : program.modules) {
      ModuleBinding binding;
      binding.needsPixels.resize(config.pictures.size(), false);
      for (const SymbolInfo &symbol : module.symbols)
        binding.symbols.push_back(bindSymbol(module, symbol));
      for (const InputInfo &input : module.inputs) {
        int entry = input.fromModule >= 0 ? -1 : bindInput(module, input);
        binding.entries.push_back(entry);
        if (entry >= 0)
          need(entry, binding);
      }
      out.push_back(std::move(binding));
    }
    for (const PartGroup &group : partGroups(program))
      for (int32_t m : group.modules)
        if (!hasSamples(program.modules[size_t(m)], group))
          cutByItem(program.modules[size_t(m)], out[size_t(m)]);
    return out;
  }

private:
  /// Whether shards say a measure of a picture kind, or of samples.
  bool knows(int kind, const std::string &quantity) const {
    if (kind < 0)
      return config.packed && quantity == kSampleTokens;
    const PictureKind &picture = config.pictures[size_t(kind)];
    return picture.grid && quantity == picture.name + "." + picture.measure;
  }

  ModuleBinding::Symbol bindSymbol(const ModuleInfo &module,
                                   const SymbolInfo &symbol) const {
    if (symbol.item) {
      std::string item = symbol.item;
      int kind = config.findPicture(item);
      if (symbol.measure && !knows(kind, item + "." + symbol.measure))
        throw Error(std::string("data.json: dim ") + module.name + "." +
                    symbol.name + " adds up \"" + item + "." + symbol.measure +
                    "\", which shards do not say; such data come with "
                    "--batch");
      if (item == "sample")
        return {true, sampleItem, 0};
      if (kind < 0 || !config.pictures[size_t(kind)].ragged)
        throw Error(
            std::string("data.json: dim ") + module.name + "." + symbol.name +
            " counts \"" + item +
            "\", which is not a kind in items with an entry in data.pictures");
      return {true, kind, 0};
    }
    for (const std::string &name :
         {std::string(module.origin) + "." + symbol.name,
          std::string(symbol.name)})
      if (auto found = config.dims.find(name); found != config.dims.end())
        return {false, sampleItem, found->second};
    return {false, sampleItem, symbol.max};
  }

  int bindInput(const ModuleInfo &module, const InputInfo &input) const {
    std::string name = input.buffer.tensor.name;
    for (const std::string &key :
         {std::string(module.origin) + "." + name, name})
      if (int entry = config.findInput(key); entry >= 0)
        return entry;
    // A name that already has its module in front may be given plainly.
    std::string prefix = std::string(module.origin) + ".";
    int entry = name.rfind(prefix, 0) == 0
                    ? config.findInput(name.substr(prefix.size()))
                    : -1;
    if (entry < 0)
      throw Error("data.json: inputs says nothing about \"" + name +
                  "\", which the module " + module.name + " takes");
    return entry;
  }

  /// What an entry is made from, through the entries that it mixes.
  void need(int entry, ModuleBinding &binding) const {
    const InputEntry &input = config.inputs[size_t(entry)];
    if (input.kind != InputKind::Random && input.kind != InputKind::Value &&
        input.kind != InputKind::Noised)
      binding.needsDocument = true;
    if (input.kind == InputKind::Pixels)
      binding.needsPixels[size_t(input.picture)] = true;
    for (int other : {input.clean, input.noise, input.time, input.index})
      if (other >= 0)
        need(other, binding);
  }

  /// Such a part has items but no samples of its own, so nothing in it can
  /// point to samples.
  void cutByItem(const ModuleInfo &module, ModuleBinding &binding) const {
    std::string item = itemOf(module);
    binding.item = config.findPicture(item);
    for (size_t i = 0; i < module.inputs.size; ++i) {
      if (binding.entries[i] < 0)
        continue;
      const InputEntry &entry = config.inputs[size_t(binding.entries[i])];
      if (entry.item != binding.item || entry.kind == InputKind::Index ||
          entry.kind == InputKind::ItemOf)
        throw Error("data.json: inputs: \"" + entry.name + "\", which " +
                    module.name + "." + module.inputs[i].buffer.tensor.name +
                    " takes, is about samples, but the module works by \"" +
                    item + "\" in " + std::to_string(partsOf(module)) +
                    " parts");
    }
  }

  const ProgramInfo &program;
  const Config &config;
};
} // namespace

std::vector<ModuleBinding> data::bindModules(const ProgramInfo &program,
                                             const Config &config) {
  return Binder(program, config).bind();
}

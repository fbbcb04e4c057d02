//===- Runner.cpp - a program's modules on samples made up here -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Runner.h"

#include "runtime/base/Error.h"
#include "runtime/data/Convert.h"

#include <cstring>

using namespace dt;
using namespace dt::demo;
using rt::Error;
using rt::data::HostTensor;

namespace {
rt::data::PartSamples
partOf(const std::vector<rt::data::DecodedSample> &samples) {
  rt::data::PartSamples part;
  for (size_t i = 0; i < samples.size(); ++i) {
    part.samples.push_back(&samples[i]);
    part.places.push_back(int64_t(i));
  }
  return part;
}
} // namespace

Runner::Runner(rt::Evaluation &evaluation, const rt::data::Config &config,
               const std::vector<rt::data::DecodedSample> &samples)
    : evaluation(evaluation), config(config), part(partOf(samples)),
      tensors(config, part), states(evaluation.program().modules.size) {}

const HostTensor &Runner::entry(const std::string &name) {
  int index = config.findInput(name);
  if (index < 0)
    throw Error("data.json: inputs has no \"" + name +
                "\", which the demonstration evaluates");
  return tensors.get(index);
}

/// Dims that count items follow from the samples; the others are as compiled.
int64_t Runner::countOf(const rt::SymbolInfo &symbol) const {
  if (!symbol.item)
    return symbol.max;
  std::string item = symbol.item;
  return part.count(item == "sample" ? rt::data::sampleItem
                                     : config.findPicture(item));
}

std::vector<size_t> Runner::stages(const std::string &module) const {
  std::vector<size_t> list;
  const rt::ProgramInfo &program = evaluation.program();
  for (size_t m = 0; m < program.modules.size; ++m)
    if (module == program.modules[m].origin)
      list.push_back(m);
  if (list.empty())
    throw Error("module '" + module + "' is not in the program");
  return list;
}

/// A raw input, which all stages of a module share.
HostTensor &Runner::value(const rt::ModuleInfo &module,
                          const rt::TensorInfo &tensor) {
  std::string full = std::string(module.origin) + "." + tensor.name;
  auto found = values.find(full);
  if (found == values.end())
    found = values
                .emplace(full, convert(entry(config.findInput(full) >= 0
                                                 ? full
                                                 : std::string(tensor.name)),
                                       tensor.type, tensor.name))
                .first;
  return found->second;
}

HostTensor &Runner::input(const std::string &module, const std::string &name) {
  for (size_t m : stages(module)) {
    const rt::ModuleInfo &info = evaluation.program().modules[m];
    for (const rt::InputInfo &input : info.inputs)
      if (input.fromModule < 0 && name == input.buffer.tensor.name)
        return value(info, input.buffer.tensor);
  }
  throw Error("module '" + module + "' has no raw input '" + name + "'");
}

void Runner::run(const std::string &module) {
  for (size_t m : stages(module))
    runStage(m);
}

void Runner::runStage(size_t index) {
  State &state = states[index];
  const rt::ModuleInfo &info = evaluation.program().modules[index];
  state.part = {};
  for (const rt::SymbolInfo &symbol : info.symbols)
    state.part.dims.push_back(countOf(symbol));
  for (const rt::InputInfo &input : info.inputs) {
    const std::vector<std::byte> *bytes = nullptr;
    if (input.fromModule < 0)
      bytes = &value(info, input.buffer.tensor).bytes;
    else if (const State &from = states[size_t(input.fromModule)]; from.ran)
      bytes = &from.outputs[size_t(input.fromOutput)];
    state.part.inputs.emplace_back();
    if (bytes)
      state.part.inputs.back() = {bytes->data(), bytes->size()};
  }
  evaluation.forward(int(index), state.part);
  state.outputs.clear();
  for (size_t o = 0; o < info.outputs.size; ++o)
    state.outputs.push_back(evaluation.output(int(index), int(o), state.part));
  state.ran = true;
}

std::vector<float> Runner::output(const std::string &module,
                                  const std::string &name) const {
  for (size_t m : stages(module)) {
    const rt::ModuleInfo &info = evaluation.program().modules[m];
    const State &state = states[m];
    for (size_t o = 0; state.ran && o < info.outputs.size; ++o) {
      const rt::TensorInfo &tensor = info.outputs[o].tensor;
      if (name != tensor.name)
        continue;
      // A program with narrow products has narrow outputs.
      std::vector<std::byte> bytes =
          rt::convert(state.outputs[o], tensor.type, rt::DType::F32, name);
      std::vector<float> floats(bytes.size() / sizeof(float));
      std::memcpy(floats.data(), bytes.data(), bytes.size());
      return floats;
    }
  }
  throw Error("module '" + module + "' has no output '" + name + "'");
}

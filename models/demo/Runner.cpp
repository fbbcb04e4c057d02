//===- Runner.cpp - a program's modules on samples made up here -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Runner.h"

#include "runtime/Error.h"

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

Runner::Runner(rt::Trainer &trainer, const rt::data::Config &config,
               const std::vector<rt::data::DecodedSample> &samples)
    : trainer(trainer), config(config), part(partOf(samples)),
      tensors(config, part), states(trainer.program().modules.size) {}

const HostTensor &Runner::entry(const std::string &name) {
  int index = config.findInput(name);
  if (index < 0)
    throw Error("plan.json: inputs has no \"" + name +
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

void Runner::fill(int index, State &state) {
  const rt::ModuleInfo &module = trainer.program().modules[size_t(index)];
  for (const rt::SymbolInfo &symbol : module.symbols)
    state.part.dims.push_back(countOf(symbol));
  for (const rt::InputInfo &input : module.inputs) {
    const rt::TensorInfo &info = input.buffer.tensor;
    state.inputs.emplace_back();
    state.part.inputs.emplace_back();
    if (input.fromModule >= 0)
      continue;
    std::string full = std::string(module.name) + "." + info.name;
    state.inputs.back() =
        convert(entry(config.findInput(full) >= 0 ? full : info.name),
                info.type, info.name);
  }
  state.filled = true;
}

Runner::State &Runner::filled(const std::string &module) {
  int index = trainer.moduleIndex(module);
  State &state = states[size_t(index)];
  if (!state.filled)
    fill(index, state);
  return state;
}

HostTensor &Runner::input(const std::string &module, const std::string &name) {
  State &state = filled(module);
  const rt::ModuleInfo &info =
      trainer.program().modules[size_t(trainer.moduleIndex(module))];
  for (size_t i = 0; i < info.inputs.size; ++i)
    if (info.inputs[i].fromModule < 0 &&
        name == info.inputs[i].buffer.tensor.name)
      return state.inputs[i];
  throw Error("module '" + module + "' has no raw input '" + name + "'");
}

void Runner::run(const std::string &module) {
  State &state = filled(module);
  int index = trainer.moduleIndex(module);
  const rt::ModuleInfo &info = trainer.program().modules[size_t(index)];
  for (size_t i = 0; i < info.inputs.size; ++i) {
    const rt::InputInfo &input = info.inputs[i];
    if (input.fromModule < 0) {
      state.part.inputs[i] = {state.inputs[i].bytes.data(),
                              state.inputs[i].bytes.size()};
    } else if (const State &from = states[size_t(input.fromModule)]; from.ran) {
      const std::vector<std::byte> &bytes =
          from.outputs[size_t(input.fromOutput)];
      state.part.inputs[i] = {bytes.data(), bytes.size()};
    }
  }
  trainer.forward(index, state.part);
  state.outputs.clear();
  for (size_t o = 0; o < info.outputs.size; ++o)
    state.outputs.push_back(trainer.output(index, int(o), state.part));
  state.ran = true;
}

std::vector<float> Runner::output(const std::string &module,
                                  const std::string &name) const {
  int index = trainer.moduleIndex(module);
  const rt::ModuleInfo &info = trainer.program().modules[size_t(index)];
  const State &state = states[size_t(index)];
  for (size_t o = 0; state.ran && o < info.outputs.size; ++o) {
    const rt::TensorInfo &tensor = info.outputs[o].tensor;
    if (name != tensor.name || tensor.type != rt::DType::F32)
      continue;
    std::vector<float> values(state.outputs[o].size() / sizeof(float));
    std::memcpy(values.data(), state.outputs[o].data(),
                state.outputs[o].size());
    return values;
  }
  throw Error("module '" + module + "' has no float output '" + name + "'");
}

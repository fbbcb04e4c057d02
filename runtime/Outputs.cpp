//===- Outputs.cpp - dumps of the first step
//-------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Outputs.h"
#include "runtime/Safetensors.h"

#include <cstring>

namespace dt::rt {

namespace {

/// The first axis whose extent counts items; -1 if there is none.
int itemAxis(const TensorInfo &tensor, const ModuleInfo &module) {
  for (int32_t i = 0; i < tensor.rank; ++i)
    if (tensor.shape[i].symbol >= 0 &&
        module.symbols[tensor.shape[i].symbol].item)
      return i;
  return -1;
}

} // namespace

OutputCollector::OutputCollector(const Trainer &trainer, const Batch &batch)
    : trainer(trainer) {
  const ProgramInfo &program = trainer.program();
  for (size_t m = 0; m < program.modules.size; ++m) {
    const ModuleInfo &module = program.modules[m];
    std::vector<int64_t> total(module.symbols.size, 0);
    for (const Part &part : batch.modules[m])
      for (size_t s = 0; s < total.size(); ++s)
        total[s] =
            module.symbols[s].item ? total[s] + part.dims[s] : part.dims[s];
    for (size_t o = 0; o < module.outputs.size; ++o) {
      const TensorInfo &tensor = module.outputs[o].tensor;
      Output output{int(m),
                    int(o),
                    itemAxis(tensor, module),
                    shapeOf(tensor, total.data()),
                    {}};
      output.complete = output.axis >= 0 || batch.modules[m].size() == 1;
      output.bytes.resize(size_t(elementCount(output.shape)) *
                          sizeOf(tensor.type));
      outputs.push_back(std::move(output));
    }
  }
}

void OutputCollector::add(const TaskRow &row, const Part &part) {
  if (row.kind != TaskKind::Forward)
    return;
  for (Output &output : outputs)
    if (output.module == row.index && output.complete)
      place(output, part,
            trainer.output(output.module, output.index, part, row.slot));
}

void OutputCollector::place(Output &output, const Part &part,
                            const std::vector<std::byte> &bytes) const {
  const TensorInfo &tensor =
      trainer.program().modules[output.module].outputs[output.index].tensor;
  if (output.axis < 0) {
    output.bytes = bytes;
    return;
  }
  const Extent &extent = tensor.shape[output.axis];
  size_t unit = sizeOf(tensor.type) * extent.scale,
         outer = 1; // bytes of one item
  for (size_t i = 0; i < output.shape.size(); ++i) {
    if (int(i) < output.axis)
      outer *= output.shape[i];
    else if (int(i) > output.axis)
      unit *= output.shape[i];
  }
  int64_t count = part.dims[extent.symbol];
  size_t total = outer ? output.bytes.size() / outer : 0,
         own = outer ? bytes.size() / outer : 0;
  const auto *items = part.items.empty() || part.items[extent.symbol].empty()
                          ? nullptr
                          : part.items[extent.symbol].data();
  for (size_t o = 0; o < outer; ++o)
    for (int64_t r = 0; r < count; ++r) {
      size_t at =
          o * total +
          size_t(items ? items[r] : part.rows[extent.symbol] + r) * unit;
      if (at + unit <= output.bytes.size() && (r + 1) * unit <= own)
        std::memcpy(output.bytes.data() + at, bytes.data() + o * own + r * unit,
                    unit);
    }
}

void OutputCollector::write(const std::string &path,
                            const StepResult &result) const {
  const ProgramInfo &program = trainer.program();
  SafetensorsWriter writer;
  for (const Output &output : outputs) {
    if (!output.complete)
      continue;
    const ModuleInfo &module = program.modules[output.module];
    const TensorInfo &tensor = module.outputs[output.index].tensor;
    writer.add(std::string(module.origin) + "." + tensor.name,
               tensor.type, output.shape, output.bytes.data());
  }
  std::vector<float> losses = {float(result.loss)};
  losses.insert(losses.end(), result.terms.begin(), result.terms.end());
  writer.add("loss", DType::F32, {}, &losses[0]);
  for (size_t l = 0; l < program.losses.size; ++l)
    writer.add(std::string("loss.") + program.losses[l].name, DType::F32, {},
               &losses[l + 1]);
  writer.write(path);
}

void writeGradients(const Trainer &trainer, const std::string &path) {
  SafetensorsWriter writer;
  for (const ParameterInfo &p : trainer.program().parameters)
    if (p.trainable && p.hasGradient)
      writer.addDevice(p.tensor.name, DType::F32, shapeOf(p.tensor, nullptr),
                       trainer.gradientData() + p.offset);
  writer.write(path);
}

} // namespace dt::rt

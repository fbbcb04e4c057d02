//===- Trainer.cpp - the state of a program and its step
//-------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Trainer.h"
#include "runtime/Device.h"
#include "runtime/Error.h"
#include "runtime/Init.h"
#include "runtime/Safetensors.h"

#include <chrono>
#include <cstring>
#include <memory>

namespace dt::rt {

double now() {
  using Clock = std::chrono::steady_clock;
  static const Clock::time_point start = Clock::now();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<int64_t> shapeOf(const TensorInfo &tensor, const int64_t *dims) {
  std::vector<int64_t> shape(tensor.rank);
  for (int32_t i = 0; i < tensor.rank; ++i) {
    const Extent &e = tensor.shape[i];
    shape[i] = e.symbol < 0 ? e.offset : e.scale * dims[e.symbol] + e.offset;
  }
  return shape;
}

int64_t microbatchesOf(const ProgramInfo &program) {
  return (program.globalBatch + program.microBatch - 1) / program.microBatch;
}

Trainer::Trainer(const ProgramInfo &program, const Settings &settings)
    : info(program), options(settings), updater(program, settings.optimizer),
      microbatches(microbatchesOf(program)) {
  device::initialize(settings.threads);
  auto allocate = [](size_t bytes, const char *what) {
    return static_cast<std::byte *>(device::allocate(bytes, what));
  };
  size_t trainable = trainableBytes(program);
  arena = allocate(program.arenaBytes, "the arena");
  parameters = allocate(program.parameterBytes, "parameters");
  gradients = allocate(trainable, "gradients");
  for (int i = 0; i < updater.moments(); ++i)
    moments[i] =
        reinterpret_cast<float *>(allocate(trainable, "optimizer moments"));
  lossCells = allocate(2 * sizeof(float) * program.losses.size * microbatches,
                       "losses");
  seeds.resize(program.losses.size);
  denominators.resize(program.losses.size);
}

Trainer::~Trainer() {
  for (void *memory :
       {static_cast<void *>(arena), static_cast<void *>(parameters),
        static_cast<void *>(gradients), static_cast<void *>(lossCells),
        static_cast<void *>(moments[0]), static_cast<void *>(moments[1])})
    if (memory)
      device::release(memory);
}

int64_t Trainer::elements(const ParameterInfo &parameter) const {
  return elementCount(shapeOf(parameter.tensor, nullptr));
}

void Trainer::initializeParameters(const std::string &weightsFile) {
  std::unique_ptr<SafetensorsFile> file;
  std::vector<float> host;
  for (const ParameterInfo &p : info.parameters) {
    std::vector<int64_t> shape = shapeOf(p.tensor, nullptr);
    int64_t count = elementCount(shape);
    if (p.init) {
      if (p.tensor.type != DType::F32)
        throw Error(std::string("parameter '") + p.tensor.name +
                    "': init rules make F32 only");
      host.resize(count);
      initialize(host.data(), shape, p.init, p.tensor.name, options.seed);
      device::copyToDevice(parameters + p.offset, host.data(),
                           count * sizeof(float));
      continue;
    }
    if (!file)
      file = std::make_unique<SafetensorsFile>(weightsFile);
    const TensorView &view = file->get(p.tensor.name, p.tensor.type, shape);
    device::copyToDevice(parameters + p.offset, view.data, view.size);
  }
}

int Trainer::moduleIndex(const std::string &name) const {
  for (size_t m = 0; m < info.modules.size; ++m)
    if (name == info.modules[m].name)
      return int(m);
  throw Error("module '" + name + "' is not in the program");
}

//===----------------------------------------------------------------------===//
// Parts and buffers
//===----------------------------------------------------------------------===//

std::byte *Trainer::address(const BufferInfo &buffer, const Part &part,
                            int slot) const {
  size_t offset = buffer.offset + size_t(slot) * buffer.slotStride;
  if (buffer.rowSymbol >= 0 && buffer.tensor.rank > 0) {
    size_t rowBytes = sizeOf(buffer.tensor.type) * buffer.tensor.shape[0].scale;
    std::vector<int64_t> shape = shapeOf(buffer.tensor, part.dims.data());
    for (size_t i = 1; i < shape.size(); ++i)
      rowBytes *= shape[i];
    offset += size_t(part.rows[buffer.rowSymbol]) * rowBytes;
  }
  return arena + offset;
}

const Part &Trainer::partOf(const Batch &batch, int module,
                            uint32_t microbatch) const {
  return batch
      .modules[module][info.modules[module].wholeBatch ? 0 : microbatch];
}

void Trainer::checkPart(int module, const Part &part) const {
  const ModuleInfo &m = info.modules[module];
  std::string where = std::string("module '") + m.name + "': ";
  if (part.dims.size() != m.symbols.size ||
      part.rows.size() != m.symbols.size || part.inputs.size() != m.inputs.size)
    throw Error(where + "the batch does not fit the program's tables");
  for (size_t s = 0; s < m.symbols.size; ++s)
    if (part.dims[s] < 0 || part.dims[s] > m.symbols[s].max)
      throw Error(where + "dim '" + m.symbols[s].name + "' is " +
                  std::to_string(part.dims[s]) + ", at most " +
                  std::to_string(m.symbols[s].max) + " fit");
  for (size_t i = 0; i < m.inputs.size; ++i) {
    const TensorInfo &tensor = m.inputs[i].buffer.tensor;
    if (m.inputs[i].fromModule >= 0 && part.inputs[i].size == 0)
      continue;
    std::vector<int64_t> shape = shapeOf(tensor, part.dims.data());
    if (part.inputs[i].size !=
        size_t(elementCount(shape)) * sizeOf(tensor.type))
      throw Error(where + "input '" + tensor.name + "' has " +
                  std::to_string(part.inputs[i].size) + " bytes, expected " +
                  dtypeName(tensor.type) + " " + shapeText(shape));
  }
}

void Trainer::checkBatch(const Batch &batch) const {
  if (batch.modules.size() != info.modules.size)
    throw Error("the batch does not fit the program's modules");
  for (size_t m = 0; m < info.modules.size; ++m) {
    if (batch.modules[m].size() !=
        (info.modules[m].wholeBatch ? 1 : size_t(microbatches)))
      throw Error(std::string("module '") + info.modules[m].name +
                  "': the batch has the wrong number of parts");
    for (const Part &part : batch.modules[m])
      checkPart(int(m), part);
  }
}

void Trainer::upload(int module, int input, const Part &part, int slot) {
  const InputBytes &bytes = part.inputs[input];
  if (bytes.size)
    device::copyToDevice(
        address(info.modules[module].inputs[input].buffer, part, slot),
        bytes.data, bytes.size);
}

void Trainer::run(TaskFn function, const Part &part, int slot,
                  uint32_t microbatch, int64_t step) {
  TaskContext context{arena,
                      parameters,
                      gradients,
                      part.dims.data(),
                      part.rows.data(),
                      slot,
                      int32_t(microbatch),
                      seeds.data(),
                      step,
                      options.seed,
                      device::stream()};
  function(context);
}

void Trainer::forward(int module, const Part &part) {
  checkPart(module, part);
  for (size_t i = 0; i < part.inputs.size(); ++i)
    upload(module, int(i), part, 0);
  run(info.modules[module].forward, part, 0, 0, 0);
  device::synchronize();
}

std::vector<std::byte> Trainer::output(int module, int index, const Part &part,
                                       int slot) const {
  const BufferInfo &buffer = info.modules[module].outputs[index];
  std::vector<std::byte> bytes(
      size_t(elementCount(shapeOf(buffer.tensor, part.dims.data()))) *
      sizeOf(buffer.tensor.type));
  device::copyToHost(bytes.data(), address(buffer, part, slot), bytes.size());
  return bytes;
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

/// Where a loss's denominator of a microbatch is kept until all are known; its
/// numerator lies losses * microbatches floats further on.
std::byte *Trainer::lossCell(int loss, uint32_t microbatch) const {
  return lossCells + sizeof(float) * (size_t(loss) * microbatches + microbatch);
}

void Trainer::runRow(const TaskRow &row, const Batch &batch, int64_t step) {
  size_t numerators = sizeof(float) * info.losses.size * microbatches;
  if (row.kind == TaskKind::Denominator) {
    const LossInfo &loss = info.losses[row.index];
    const Part &part = partOf(batch, loss.module, row.microbatch);
    for (int32_t input : loss.denominatorInputs)
      upload(loss.module, input, part, row.slot);
    run(loss.denominator, part, row.slot, row.microbatch, step);
    device::copy(lossCell(row.index, row.microbatch),
                 address(loss.denominatorOut, part, row.slot), sizeof(float));
    return;
  }
  const ModuleInfo &module = info.modules[row.index];
  const Part &part = partOf(batch, row.index, row.microbatch);
  if (row.kind == TaskKind::Backward) {
    run(module.backward, part, row.slot, row.microbatch, step);
    return;
  }
  for (size_t i = 0; i < module.inputs.size; ++i)
    if (module.inputs[i].fromModule < 0)
      upload(row.index, int(i), part, row.slot);
  run(module.forward, part, row.slot, row.microbatch, step);
  for (size_t l = 0; l < info.losses.size; ++l)
    if (info.losses[l].module == row.index)
      device::copy(lossCell(int(l), row.microbatch) + numerators,
                   address(info.losses[l].numerator, part, row.slot),
                   sizeof(float));
}

/// Global denominators are known once all Denominator rows have run.
void Trainer::makeSeeds() {
  std::vector<float> cells(info.losses.size * microbatches);
  device::copyToHost(cells.data(), lossCells, cells.size() * sizeof(float));
  for (size_t l = 0; l < info.losses.size; ++l) {
    const LossInfo &loss = info.losses[l];
    int64_t parts = info.modules[loss.module].wholeBatch ? 1 : microbatches;
    double sum = 0;
    for (int64_t k = 0; k < parts; ++k)
      sum += loss.denominator ? double(cells[l * microbatches + k]) : 1.0;
    denominators[l] = sum;
    seeds[l] = sum == 0 ? 0.f : float(double(loss.weight) / sum);
  }
}

void Trainer::finishLosses(StepResult &result) const {
  size_t count = info.losses.size * microbatches;
  std::vector<float> cells(count);
  device::copyToHost(cells.data(), lossCells + count * sizeof(float),
                     count * sizeof(float));
  result.terms.assign(info.losses.size, 0);
  for (size_t l = 0; l < info.losses.size; ++l) {
    double sum = 0;
    int64_t parts =
        info.modules[info.losses[l].module].wholeBatch ? 1 : microbatches;
    for (int64_t k = 0; k < parts; ++k)
      sum += cells[l * microbatches + k];
    result.terms[l] = denominators[l] == 0 ? 0 : sum / denominators[l];
    result.loss += double(info.losses[l].weight) * result.terms[l];
  }
}

StepResult Trainer::step(const Batch &batch, int64_t step,
                         StepObserver *observer) {
  checkBatch(batch);
  device::zero(gradients, trainableBytes(info));
  bool seeded = false, times = observer && observer->wantsTimes();
  for (const TaskRow &row : info.rows) {
    if (row.kind != TaskKind::Denominator && !seeded) {
      makeSeeds();
      seeded = true;
    }
    double begin = observer ? now() : 0;
    runRow(row, batch, step);
    if (times)
      device::synchronize();
    if (observer) {
      int module = row.kind == TaskKind::Denominator
                       ? info.losses[row.index].module
                       : row.index;
      observer->rowDone(row, partOf(batch, module, row.microbatch), begin,
                        now());
    }
  }
  StepResult result;
  finishLosses(result);
  auto *g = reinterpret_cast<const float *>(gradients);
  result.norm = updater.norm(g);
  if (observer)
    observer->gradientsDone(result);
  result.lr = learningRate(options.optimizer, step, options.totalSteps);
  updater.update(reinterpret_cast<float *>(parameters), g, moments[0],
                 moments[1], step, result.lr, result.norm);
  return result;
}

} // namespace dt::rt

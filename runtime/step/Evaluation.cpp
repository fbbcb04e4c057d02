//===- Evaluation.cpp - all modules on one rank, forward only -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/Evaluation.h"
#include "runtime/base/Error.h"
#include "runtime/base/Safetensors.h"
#include "runtime/data/Fault.h"
#include "runtime/device/Device.h"

#include <algorithm>

namespace dt::rt {

Evaluation::Evaluation(Trainer &trainer, int root)
    : trainer(trainer), root(root), arenas(program().modules.size),
      parameters(program().modules.size) {
  std::string failure;
  try {
    for (const ModuleInfo &module : program().modules)
      if (module.tp > 1)
        throw Error(std::string("module '") + module.name +
                    "': evaluation runs modules on one rank, but this one is "
                    "cut over tp * cp = " +
                    std::to_string(module.tp) + " ranks");
    if (here())
      allocate();
  } catch (const Error &e) {
    failure = e.what();
  }
  try {
    trainer.comm().agree(failure);
  } catch (...) {
    for (void *memory : owned)
      device::release(memory);
    throw;
  }
  alone = makeTensorParallel(trainer.fabric(), {root}, "evaluation", {});
}

Evaluation::~Evaluation() {
  for (void *memory : owned)
    device::release(memory);
}

std::byte *Evaluation::make(size_t bytes, const char *what) {
  owned.reserve(owned.size() + 1);
  void *memory = device::allocate(bytes, what);
  owned.push_back(memory);
  return static_cast<std::byte *>(memory);
}

/// Modules that this rank trains are run where they are.
void Evaluation::allocate() {
  size_t scratchBytes = 0;
  for (size_t m = 0; m < arenas.size(); ++m) {
    const ModuleInfo &module = program().modules[m];
    scratchBytes = std::max(scratchBytes, module.scratchBytes);
    if (trainer.placement().at(m).runs()) {
      arenas[m] = trainer.regions().at(m).arena;
      parameters[m] = trainer.regions().at(m).parameters;
      continue;
    }
    std::string what =
        std::string("the evaluation of module '") + module.name + "'";
    arenas[m] = make(module.arenaBytes, what.c_str());
    parameters[m] = make(module.parameterBytes, what.c_str());
  }
  scratch = owned.empty() ? trainer.regions().scratch()
                          : make(scratchBytes, "the evaluation's scratch");
}

/// All replicas have all parameters between steps, with sharded optimizer
/// state too.
int Evaluation::sourceOf(size_t module) const {
  const Span<int32_t> &ranks = program().modules[module].ranks;
  return std::find(ranks.begin(), ranks.end(), root) == ranks.end()
             ? trainer.placement().rankOf(module, 0, 0)
             : root;
}

void Evaluation::update() {
  Comm &comm = trainer.comm();
  device::synchronize();
  std::vector<std::vector<std::byte>> host(arenas.size());
  std::vector<Request> requests;
  for (size_t m = 0; m < arenas.size(); ++m) {
    size_t bytes = program().modules[m].parameterBytes;
    int source = sourceOf(m);
    if (source == root || (!here() && comm.rank() != source))
      continue;
    host[m].resize(bytes);
    int tag = comm.tag(0, 1, 0, false); // nothing else is under way
    if (here()) {
      requests.push_back(comm.irecv(host[m].data(), bytes, source, tag));
      continue;
    }
    device::copyToHost(host[m].data(), trainer.regions().at(m).parameters,
                       bytes);
    requests.push_back(
        comm.isend(host[m].data(), bytes, root, tag, "evaluation"));
  }
  waitAll(requests);
  for (size_t m = 0; here() && m < arenas.size(); ++m)
    if (!host[m].empty())
      device::copyToDevice(parameters[m], host[m].data(), host[m].size());
  device::synchronize();
}

void Evaluation::forward(int module, const Part &part) {
  size_t m = size_t(module);
  const ModuleInfo &info = program().modules[m];
  checkPart(info, part);
  for (size_t i = 0; i < part.inputs.size(); ++i)
    if (part.inputs[i].size)
      device::copyToDevice(address(m, info.inputs[i].buffer),
                           part.inputs[i].data, part.inputs[i].size);
  TaskContext context{};
  context.arena = arenas[m];
  context.scratch = scratch;
  context.parameters = parameters[m];
  context.dims = part.dims.data();
  context.seeds = nullptr; // for backward functions only
  context.stream = context.tpStream = device::stream();
  context.group = alone.get();
  Fault &fault = *(context.fault = device::faultRecord());
  device::Unrehearsed unrehearsed;
  info.forward(context);
  device::synchronize();
  if (!fault.found)
    return;
  std::string text = describeFault(fault, program(), &part, {});
  fault.found = 0;
  throw Error(text);
}

std::vector<std::byte> Evaluation::output(int module, int index,
                                          const Part &part) const {
  const BufferInfo &buffer =
      program().modules[size_t(module)].outputs[size_t(index)];
  std::vector<std::byte> bytes(
      size_t(elementCount(shapeOf(buffer.tensor, part.dims.data()))) *
      sizeOf(buffer.tensor.type));
  device::copyToHost(bytes.data(), address(size_t(module), buffer),
                     bytes.size());
  return bytes;
}

} // namespace dt::rt

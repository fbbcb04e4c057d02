//===- Trainer.cpp - the state of a program and its step ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/Trainer.h"
#include "runtime/base/Error.h"
#include "runtime/base/FileActivity.h"
#include "runtime/base/Files.h"
#include "runtime/base/Safetensors.h"
#include "runtime/comm/Agreement.h"
#include "runtime/data/Fault.h"
#include "runtime/device/Device.h"
#include "runtime/step/LinkPlan.h"
#include "runtime/step/MessagePlan.h"
#include "runtime/step/Reducer.h"
#include "runtime/step/StepScalars.h"
#include "runtime/step/Transfers.h"

#include <algorithm>
#include <cmath>

namespace dt::rt {

bool isAdapter(const ParameterInfo &original) {
  std::string name = original.tensor.name;
  return original.onnx.empty() &&
         (endsWith(name, ".lora_A.weight") || endsWith(name, ".lora_B.weight"));
}

std::vector<int64_t> wholeShape(const ParameterInfo &p) {
  const Span<int64_t> &list = p.unpadded.empty() ? p.whole : p.unpadded;
  return list.empty() ? shapeOf(p.tensor, nullptr)
                      : std::vector<int64_t>(list.begin(), list.end());
}

Trainer::Trainer(const ProgramInfo &program, const Settings &settings,
                 Comm &comm)
    : info(program), options(settings), ranks(comm),
      places(program, comm.rank(), comm.size()), owners(program, places),
      updater(settings.optimizer),
      memory((initializeDevice(comm, settings.threads), program), places,
             owners, updater.moments().size, updater.averages()),
      parameterValues(info, places, owners, memory),
      recordings(program, comm.rank()), inputPlaces(info.modules.size) {
  LinkPlan links = planLinks(info);
  carrier = makeFabric(comm, links.needs);
  planned = planMessages(info, places, owners, carrier->carrier());
  std::vector<FabricGroup *> groups(info.modules.size);
  tensorParallel.resize(info.modules.size);
  for (size_t m = 0; m < info.modules.size; ++m)
    for (int32_t d = 0; d < places.replicas(m); ++d) {
      std::vector<int> members = places.replicaRanks(m, d);
      FabricGroup *group =
          links.modules[m].gathers ? carrier->group(members) : nullptr;
      auto parallel = makeTensorParallel(
          *carrier, members, info.modules[m].name, links.modules[m].axes);
      if (places.at(m).replica == d) {
        groups[m] = group;
        tensorParallel[m] = parallel;
      }
    }
  transfers = std::make_unique<Transfers>(info, places, memory, *carrier,
                                          groups, planned);
  reducer = std::make_unique<Reducer>(info, places, owners, memory, comm,
                                      *carrier, tensorParallel);
  scalars = std::make_unique<StepScalars>(info, places, owners, memory, comm,
                                          *carrier);
  makeUpdates();
  findLastBackwards();
  reserveMessages();
  rehearse();
}

void Trainer::makeUpdates() {
  updates =
      std::make_unique<Updates>(updater, owners, memory, info.modules.size);
  WholeRanks groups;
  for (size_t m = 0; m < info.modules.size; ++m) {
    groups.axes.push_back(tensorParallel[m].get());
    groups.groups.push_back(reducer->groupsOf(m));
  }
  wholeUpdates = std::make_unique<WholeUpdates>(
      updater, info, places, owners, memory, parameterValues, groups);
}

/// Input halves add to no gradient of a parameter.
void Trainer::findLastBackwards() {
  const Span<TaskRow> &rows = info.ranks[size_t(places.rank())].rows;
  endsBackward.assign(rows.size, false);
  std::vector<char> seen(info.modules.size);
  for (size_t i = rows.size; i-- > 0;)
    if (goesBack(rows[i].kind) && !seen[rows[i].index]) {
      seen[rows[i].index] = true;
      endsBackward[i] = rows[i].kind != TaskKind::BackwardInput;
    }
}

Trainer::~Trainer() = default;

bool StepResult::finite() const {
  return std::isfinite(loss) && std::isfinite(norm) &&
         std::all_of(terms.begin(), terms.end(),
                     [](double term) { return std::isfinite(term); });
}

int64_t Trainer::elements(const ParameterInfo &parameter) const {
  return elementCount(wholeShape(parameter));
}

int Trainer::moduleIndex(const std::string &name) const {
  for (size_t m = 0; m < info.modules.size; ++m)
    if (name == info.modules[m].name)
      return int(m);
  throw Error("module '" + name + "' is not in the program");
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

const Part *Trainer::partOf(const TaskRow &row, const Batch &batch) const {
  if (!runsFunction(row.kind))
    return nullptr;
  size_t module = row.kind == TaskKind::Denominator
                      ? size_t(info.losses[row.index].module)
                      : row.index;
  return &batch.part(info, module, row.microbatch, row.piece);
}

void checkPart(const ModuleInfo &m, const Part &part) {
  std::string where = std::string("module '") + m.name + "': ";
  if (part.dims.size() != m.symbols.size || part.inputs.size() != m.inputs.size)
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
                  textOf(tensor.type) + " " + shapeText(shape));
  }
}

void Trainer::checkBatch(const Batch &batch) const {
  if (batch.modules.size() != info.modules.size)
    throw Error("the batch does not fit the program's modules");
  for (size_t m = 0; m < info.modules.size; ++m) {
    const ModuleInfo &module = info.modules[m];
    if (!places.at(m).runs())
      continue;
    if (batch.modules[m].size() !=
        size_t(tasksOf(info, module) * piecesOf(module)))
      throw Error(std::string("module '") + module.name +
                  "': the batch has the wrong number of parts");
    for (const Part &part : batch.modules[m])
      checkPart(module, part);
  }
}

void Trainer::upload(size_t module, int32_t input, const Part &part,
                     const TaskRow &row) {
  const InputBytes &bytes = part.inputs[size_t(input)];
  const BufferInfo &buffer = info.modules[module].inputs[size_t(input)].buffer;
  if (bytes.size)
    device::copyBehind(inputPlaces.lastUse(module, buffer, row),
                       memory.address(module, buffer, row), bytes.data,
                       bytes.size);
}

TaskContext Trainer::contextFor(size_t module, const TaskRow &row,
                                const int64_t *dims) const {
  const Region &region = memory.at(module);
  TaskContext context{};
  context.arena = region.arena;
  context.scratch = memory.scratch();
  context.parameters = region.parameters;
  context.gradients = region.gradients;
  context.dims = dims;
  context.slot = row.slot;
  context.received = row.received;
  context.early = row.early;
  context.late = row.late;
  context.seeds = scalars->seeds();
  context.stream = device::stream();
  context.tpStream = carrier->tpStream();
  context.group = tensorParallel[module].get();
  context.fault = device::faultRecord();
  return context;
}

void Trainer::run(TaskFn function, size_t module, const Part &part,
                  const TaskRow &row) {
  TaskContext context = contextFor(module, row, part.dims.data());
  if (goesBack(row.kind))
    context.listener = reducer->during(
        module, endsBackward[size_t(
                    &row - info.ranks[size_t(places.rank())].rows.begin())]);
  device::awaitCopies();
  recordings.run(module, function, context);
  inputPlaces.used(module, row);
  // A device is not there yet: what it notes is seen when the step is over, and
  // keeps the update from being applied.
  if (!context.stream)
    checkFault(&part);
}

void Trainer::checkFault(const Part *part) const {
  Fault &fault = *device::faultRecord();
  if (!fault.found)
    return;
  std::string text = describeFault(
      fault, info, part, current ? current->nameOf : decltype(Batch::nameOf)());
  fault.found = 0;
  throw Error(text);
}

std::vector<std::byte> Trainer::output(int module, int index, const Part &part,
                                       const TaskRow &row) const {
  const BufferInfo &buffer =
      info.modules[size_t(module)].outputs[size_t(index)];
  std::vector<std::byte> bytes(
      size_t(elementCount(shapeOf(buffer.tensor, part.dims.data()))) *
      sizeOf(buffer.tensor.type));
  device::copyToHost(bytes.data(), memory.address(size_t(module), buffer, row),
                     bytes.size());
  return bytes;
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

void Trainer::runForward(const TaskRow &row, const Part &part) {
  const ModuleInfo &module = info.modules[row.index];
  for (size_t i = 0; i < module.inputs.size; ++i)
    if (module.inputs[i].fromModule < 0)
      upload(row.index, int32_t(i), part, row);
  run(module.forward, row.index, part, row);
  for (size_t l = 0; l < info.losses.size; ++l)
    if (info.losses[l].module == row.index)
      scalars->numerator(
          l, row, memory.address(row.index, info.losses[l].numerator, row));
}

void Trainer::runDenominator(const TaskRow &row, const Part &part) {
  const LossInfo &loss = info.losses[row.index];
  size_t module = size_t(loss.module);
  for (int32_t input : loss.denominatorInputs)
    upload(module, input, part, row);
  run(loss.denominator, module, part, row);
  scalars->denominator(row.index, row,
                       memory.address(module, loss.denominatorOut, row));
}

uint64_t Trainer::runRow(const TaskRow &row, const Part *part) {
  const ModuleInfo &module =
      info.modules[part && row.kind != TaskKind::Denominator ? row.index : 0];
  switch (row.kind) {
  case TaskKind::Denominator:
    runDenominator(row, *part);
    break;
  case TaskKind::Forward:
    runForward(row, *part);
    break;
  case TaskKind::Backward:
    run(module.backward, row.index, *part, row);
    break;
  case TaskKind::BackwardInput:
    run(module.backwardInput, row.index, *part, row);
    break;
  case TaskKind::BackwardWeight:
    run(module.backwardWeight, row.index, *part, row);
    break;
  case TaskKind::Receive:
    transfers->receive(row);
    break;
  case TaskKind::Send:
    return transfers->send(row);
  case TaskKind::Copy:
    transfers->copy(row);
    break;
  case TaskKind::Reduce:
    reducer->begin(row.index);
    break;
  }
  return 0;
}

/// Walks this rank's rows. Seeds need the denominators of all ranks, so these
/// are exchanged after the last Denominator row; also where a rank has none.
void Trainer::runRows(const Batch &batch, StepObserver *observer,
                      bool forwardOnly) {
  StepObserver nobody;
  StepObserver &watch = observer ? *observer : nobody;
  bool seeded = false;
  int32_t number = -1;
  ran.clear();
  stamps.begin(watch.wantsTimes());
  for (const TaskRow &row : info.ranks[size_t(places.rank())].rows) {
    ++number;
    if (forwardOnly && !leadsToLosses(row))
      continue;
    const Blocking &blocked = ranks.blocking();
    stamps.add();
    double cpu = threadSeconds() - blocked.cpu;
    watch.enters(number, true);
    if (ranks.size() > 1)
      transfers->poll(), reducer->poll();
    if (row.kind != TaskKind::Denominator && !seeded) {
      scalars->makeSeeds();
      seeded = true;
    }
    const Part *part = partOf(row, batch);
    transfers->prepare(row);
    watch.enters(number, false);
    stamps.add();
    size_t calls = blocked.collectives.size();
    uint64_t sent = runRow(row, part);
    device::noteProgress();
    stamps.add();
    double spent = threadSeconds() - blocked.cpu - cpu - reducer->takeSpent();
    watch.rowDone(number, row, part);
    ran.push_back({number,
                   part,
                   {0,
                    0,
                    0,
                    spent,
                    sent,
                    {blocked.collectives.begin() + ptrdiff_t(calls),
                     blocked.collectives.end()}}});
  }
  watch.enters(-1, true);
  if (!seeded)
    scalars->makeSeeds();
}

/// All ranks have the same batch, or none goes on.
void Trainer::beginRows(const Batch &batch, StepObserver *observer) {
  std::string failure;
  current = &batch;
  try {
    checkBatch(batch);
  } catch (const Error &e) {
    failure = e.what();
  }
  if (observer)
    observer->enters(-1, true);
  ranks.clearCollectives();
  scalars->agree(batch.hash, failure);
  transfers->beginStep(batch);
}

StepResult Trainer::step(const Batch &batch, int64_t step,
                         StepObserver *observer, StepWishes wishes) {
  beginRows(batch, observer);
  for (size_t m = 0; m < info.modules.size; ++m)
    if (places.at(m).runs())
      device::zero(memory.at(m).gradients, info.modules[m].trainableBytes);
  reducer->beginStep();
  runRows(batch, observer);
  return finishStep(step, observer, wishes);
}

/// A schedule without the rows that go back is in the order of one that has
/// them, so what it waits for comes. Slots are written again no earlier than in
/// a step: their last reader is a forward function now. What is sent is no
/// traffic of the training's.
LossSums Trainer::evaluate(const Batch &batch, StepObserver *observer) {
  std::map<std::string, Traffic> before = ranks.traffic();
  beginRows(batch, observer);
  runRows(batch, observer, /*forwardOnly=*/true);
  transfers->finish();
  LossSums sums = scalars->lossSums();
  checkFault(nullptr);
  tellTimes(observer);
  ranks.restoreTraffic(std::move(before));
  return sums;
}

/// The host has waited for all rows.
void Trainer::tellTimes(StepObserver *observer) {
  if (!observer)
    return;
  const Span<TaskRow> &rows = info.ranks[size_t(places.rank())].rows;
  std::vector<double> times = stamps.take();
  for (size_t i = 0; i < ran.size(); ++i) {
    RowTime &time = ran[i].time;
    time.wait = times[3 * i];
    time.begin = times[3 * i + 1];
    time.end = times[3 * i + 2];
    observer->rowTimed(ran[i].number, rows[ran[i].number], ran[i].part, time);
  }
}

/// Reductions, scalars, update. Whatever is left to wait for is waited for
/// here, but for the end of the update.
StepResult Trainer::finishStep(int64_t step, StepObserver *observer,
                               const StepWishes &wishes) {
  double before = ranks.blocking().cpu;
  reducer->finish();
  scalars->finish(wishes, updater.clipNorm());
  double lr = learningRate(options.optimizer, step, options.totalSteps);
  // The verdict is the same on all ranks. Where it says no, what is left is the
  // state before the step.
  updates->run(step, lr, scalars->verdict());
  wholeUpdates->run(step, lr, scalars->verdict());
  device::noteProgress();
  reducer->gatherParameters();
  transfers->finish();
  carrier->settle();
  StepResult result = scalars->result();
  result.lr = lr;
  checkFault(nullptr);
  tellTimes(observer);
  if (observer)
    observer->gradientsDone(result);
  if (observer) {
    for (const Reducer::Sum &sum : reducer->sums())
      observer->reduced(sum.module, sum.bytes, sum.begin, sum.end);
    observer->exchanged(ranks.blocking().cpu - before);
    observer->enters(-1, false);
  }
  return result;
}

void Trainer::stepFailed(const std::string &failure) {
  scalars->agree(0, failure.empty() ? "the step failed" : failure);
  throw CommonError(failure);
}

} // namespace dt::rt

//===- ShardParts.cpp - a step of shards cut into parts ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See ShardBatch.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Error.h"
#include "runtime/base/FileActivity.h"
#include "runtime/base/Safetensors.h"
#include "runtime/data/ModelFlops.h"
#include "runtime/data/Padding.h"
#include "runtime/data/ShardBatch.h"

#include <algorithm>

namespace dt::rt::data {

/// Which samples the step has.
void ShardBatch::choose(StepWork &step) const {
  if (!starts) {
    step.manifest =
        makeManifest(table, program.globalBatch, config.seed, step.step);
    return;
  }
  step.parts = starts->parts(step.step);
  step.manifest = makeManifest(table, starts->begin(step.step),
                               step.parts.back(), config.seed, step.step);
}

StepItems ShardBatch::itemsOf(const StepWork &step) const {
  StepItems out;
  out.where = "step " + std::to_string(step.step);
  out.samples = int64_t(step.manifest.samples.size());
  out.parts = step.parts;
  out.nameOf = [this, &step](int64_t place) {
    return dataSet.sample(step.manifest.samples[size_t(place)]).key;
  };
  for (size_t k = 0; k < config.pictures.size(); ++k) {
    if (!config.pictures[k].ragged)
      continue;
    StepItems::Kind kind;
    kind.name = config.pictures[k].name;
    kind.count = int64_t(step.manifest.items[k].size());
    std::vector<int64_t> squares;
    for (const ItemRef &item : step.manifest.items[k]) {
      kind.owner.push_back(item.place);
      if (config.pictures[k].grid)
        squares.push_back(
            dataSet.sample(step.manifest.samples[size_t(item.place)])
                .squares[k][size_t(item.number)]
                .count());
    }
    if (config.pictures[k].grid)
      kind.measures[config.pictures[k].measure] =
          std::make_shared<const std::vector<int64_t>>(std::move(squares));
    out.kinds.push_back(std::move(kind));
  }
  if (config.packed) {
    std::vector<int64_t> tokens;
    for (int64_t sample : step.manifest.samples)
      tokens.push_back(table.tokens[size_t(sample)]);
    out.measures["tokens"] =
        std::make_shared<const std::vector<int64_t>>(std::move(tokens));
  }
  return out;
}

/// Sizes alone decide: nothing is decoded. How full parts are does not depend
/// on who works on what, so the mode's search is for steps that do not fit as
/// they come.
BatchSource::Fullness ShardBatch::fullness(int64_t first, int64_t end,
                                           int64_t stride) const {
  Fullness all;
  Assigner plain(program, Reorder::None);
  for (int64_t step = first; config.packed && step < end; step += stride) {
    StepWork work;
    work.step = step;
    choose(work);
    StepItems items = itemsOf(work);
    Assignment assignment;
    try {
      assignment = plain.assign(items);
    } catch (const Error &) {
      assignment = assigner.assign(items);
    }
    progressed();
    double full = utilisation(program, assignment);
    all.least = std::min(all.least, full);
    all.sum += full;
    ++all.steps;
  }
  return all;
}

/// Marks what a part of this rank is made from.
void ShardBatch::want(StepWork &step, size_t module,
                      const PartItems &part) const {
  const ModuleBinding &binding = bindings[module];
  if (!binding.needsDocument)
    return;
  for (int64_t place : part.samples)
    step.wanted[size_t(place)] = true;
  for (size_t k = 0; k < binding.needsPixels.size(); ++k) {
    if (!binding.needsPixels[k])
      continue;
    const std::vector<ItemRef> &all = step.manifest.items[k];
    if (binding.item == sampleItem) {
      for (int64_t place : part.samples)
        for (size_t i = size_t(step.firstItem[k][size_t(place)]);
             i < all.size() && all[i].place == place; ++i)
          step.wantedPixels[k][i] = true;
    } else if (int(k) == binding.item) {
      for (size_t s = 0; s < binding.symbols.size(); ++s)
        if (binding.symbols[s].counts && binding.symbols[s].item == int(k))
          for (int64_t position : part.symbols[s])
            step.wantedPixels[k][size_t(position)] = true;
    }
  }
}

/// Who works on what, and what this rank has to decode for its share.
void ShardBatch::plan(StepWork &step) const {
  choose(step);
  size_t samples = step.manifest.samples.size();
  step.batch.samples = int64_t(samples);
  step.batch.tokens = step.manifest.tokens;
  step.batch.nameOf = [this, samples = step.manifest.samples](int64_t place) {
    return dataSet.sample(samples[size_t(place)]).key;
  };
  StepItems items = itemsOf(step);
  step.batch.assignment = assigner.assign(items);
  if (reorder != Reorder::None)
    step.batch.plain =
        std::make_shared<const Assignment>(assigner.given(items));
  const Assignment &assignment = step.batch.assignment;
  step.batch.utilisation = utilisation(program, assignment);
  std::vector<std::vector<int64_t>> fixed;
  for (const ModuleBinding &binding : bindings)
    fixed.push_back(binding.values());
  step.batch.flops = modelFlops(program, assignment, fixed);
  step.batch.hash = step.manifest.hash() * 31 + assignment.hash();
  step.samples.resize(samples);
  step.wanted.resize(samples, false);
  for (const std::vector<ItemRef> &items : step.manifest.items) {
    step.firstItem.emplace_back(samples, 0);
    for (size_t i = items.size(); i-- > 0;)
      step.firstItem.back()[size_t(items[i].place)] = int64_t(i);
    step.wantedPixels.emplace_back(items.size(), false);
  }
  step.batch.modules.resize(program.modules.size);
  for (size_t m = 0; m < program.modules.size; ++m) {
    if (view.replica[m] < 0)
      continue;
    int32_t pieces = piecesOf(program.modules[m]);
    step.batch.modules[m].resize(assignment.modules[m].size() * size_t(pieces));
    for (const auto &parts : assignment.modules[m])
      for (int32_t p = 0; p < pieces; ++p)
        want(step, m, parts[size_t(view.replica[m] * pieces + p)]);
  }
  for (size_t k = 0; k < assignment.microbatches.size();) {
    size_t before = step.jobs.size();
    int64_t number = int64_t(step.missing.size());
    size_t end = std::min(k + size_t(round), assignment.microbatches.size());
    for (; k < end; ++k)
      for (int64_t place : assignment.microbatches[k])
        if (step.wanted[size_t(place)])
          step.jobs.push_back({place, number});
    if (step.jobs.size() == before)
      step.jobs.push_back({-1, number});
    step.missing.push_back(int64_t(step.jobs.size() - before));
  }
  step.roundsLeft = int64_t(step.missing.size());
}

void ShardBatch::runJob(StepWork &step, StepWork::Job job) {
  if (job.place >= 0)
    step.samples[size_t(job.place)] = dataSet.decode(
        config, step.manifest.samples[size_t(job.place)],
        [&](size_t kind, size_t item) {
          return step.wantedPixels
              [kind][size_t(step.firstItem[kind][size_t(job.place)]) + item];
        });
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (--step.missing[size_t(job.round)] != 0)
      return;
  }
  assemble(step, job.round);
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (--step.roundsLeft != 0)
      return;
  }
  assemble(step, -1);
  std::lock_guard<std::mutex> lock(mutex);
  step.samples.clear();
  step.ready = true;
}

/// This rank's parts of the tasks of one round in all modules that work by
/// microbatches; -1: of the whole-batch modules.
void ShardBatch::assemble(StepWork &step, int64_t number) {
  std::deque<Assembly> made;
  for (size_t m = 0; m < program.modules.size; ++m) {
    const ModuleInfo &module = program.modules[m];
    if (view.replica[m] < 0 || module.wholeBatch != (number < 0))
      continue;
    int64_t tasks = (round + spanOf(module) - 1) / spanOf(module),
            first = std::max<int64_t>(number, 0) * tasks,
            all = tasksOf(program, module);
    for (int64_t task = first; task < std::min(first + tasks, all); ++task)
      for (int32_t p = 0; p < piecesOf(module); ++p)
        assemblePart(step, m, task, p, made);
  }
}

PartAssembler &ShardBatch::assemblerFor(const StepWork &step, size_t module,
                                        const PartItems &items,
                                        std::deque<Assembly> &made) const {
  int item = bindings[module].item;
  const Items *content = &items.samples;
  for (size_t s = 0; item != sampleItem && s < items.symbols.size(); ++s)
    if (bindings[module].symbols[s].counts)
      content = &items.symbols[s];
  for (Assembly &other : made)
    if (other.item == item && other.content == *content)
      return *other.tensors;
  made.push_back({item, *content, {}, nullptr});
  PartSamples &part = made.back().part;
  part.step = step.step;
  part.places = items.samples;
  part.items.resize(config.pictures.size());
  for (size_t s = 0; s < part.places.size(); ++s) {
    int64_t place = part.places[s];
    part.samples.push_back(&step.samples[size_t(place)]);
    for (size_t k = 0; item == sampleItem && k < part.items.size(); ++k) {
      const std::vector<ItemRef> &all = step.manifest.items[k];
      for (size_t i = size_t(step.firstItem[k][size_t(place)]);
           i < all.size() && all[i].place == place; ++i)
        part.items[k].push_back({s, size_t(all[i].number)});
    }
  }
  if (item != sampleItem)
    for (int64_t position : *content) {
      const ItemRef &ref = step.manifest.items[size_t(item)][size_t(position)];
      auto at =
          std::lower_bound(part.places.begin(), part.places.end(), ref.place);
      part.items[size_t(item)].push_back(
          {size_t(at - part.places.begin()), size_t(ref.number)});
    }
  made.back().tensors = std::make_unique<PartAssembler>(config, part);
  return *made.back().tensors;
}

void ShardBatch::assemblePart(StepWork &step, size_t m, int64_t task,
                              int32_t piece, std::deque<Assembly> &made) {
  const ModuleInfo &module = program.modules[m];
  int32_t pieces = piecesOf(module);
  const PartItems &part =
      step.batch.assignment.part(m, task, view.replica[m] * pieces + piece);
  PartAssembler &tensors = assemblerFor(step, m, part, made);
  Part out = beginPart(program, step.batch.assignment, m, part,
                       bindings[m].values(), "data.json");
  for (size_t i = 0; i < module.inputs.size; ++i) {
    if (bindings[m].entries[i] < 0)
      continue;
    const TensorInfo &info = module.inputs[i].buffer.tensor;
    std::vector<int64_t> shape = shapeOf(info, out.dims.data());
    const HostTensor &made = tensors.get(bindings[m].entries[i]);
    HostTensor typed = convert(made, info.type, info.name);
    padInput(module.inputs[i], out, typed.bytes, typed.shape);
    if (typed.shape != shape)
      throw Error("data.json: inputs: \"" +
                  config.inputs[size_t(bindings[m].entries[i])].name +
                  "\" gives a tensor " + shapeText(made.shape) + ", but " +
                  module.name + "." + info.name + " takes " + shapeText(shape));
    std::lock_guard<std::mutex> lock(mutex);
    step.storage.push_back(
        std::move(typed)); // a deque: earlier elements stay where they are
    out.inputs[i] = {step.storage.back().bytes.data(),
                     step.storage.back().bytes.size()};
  }
  step.batch.modules[m][size_t(task * pieces + piece)] = std::move(out);
}

} // namespace dt::rt::data

//===- ShardBatch.cpp - batches from tar shards, decoded ahead --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The BatchSource of --data. Worker threads plan the coming steps and decode
// what this rank needs of them; whoever decodes the last sample of a microbatch
// also assembles its tensors. At most two steps are made ahead, which bounds
// memory. What a step holds comes from the manifest and the tables alone, so
// the number of workers, a restart at any step and the rank change nothing.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Error.h"
#include "runtime/base/FileActivity.h"
#include "runtime/base/Thread.h"
#include "runtime/data/Assemble.h"
#include "runtime/data/BatchSource.h"
#include "runtime/data/Binding.h"
#include "runtime/data/Index.h"
#include "runtime/data/Manifest.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

using namespace dt::rt;
using namespace dt::rt::data;

namespace {
/// A step in the making or ready.
struct StepWork {
  enum class State { New, Planning, Planned };
  /// A sample to decode (-1: none, there is only something to assemble).
  struct Job {
    int64_t place, round;
  };
  int64_t step = 0;
  State state = State::New;
  StepManifest manifest;
  std::vector<std::vector<int64_t>>
      firstItem; ///< [kind][place]: position of the sample's first item
  std::vector<bool> wanted; ///< by place: something of the sample is needed
  std::vector<std::vector<bool>> wantedPixels; ///< [kind][position]
  std::vector<Job> jobs;
  size_t nextJob = 0;
  std::vector<int64_t> missing; ///< per round: jobs that are not done
  int64_t roundsLeft = 0;
  std::vector<DecodedSample> samples; ///< by place
  bool cancelled = false, ready = false;
  std::exception_ptr failure;
  Batch batch;
  std::deque<HostTensor> storage; ///< what batch points into; guarded by the
                                  ///< source's mutex while growing
};

/// The tensors of parts with the same content, whichever modules they are of.
struct Assembly {
  int item = sampleItem; ///< what `content` are
  Items content;
  PartSamples part;
  std::unique_ptr<PartAssembler> tensors;
};

Config readConfig(const nlohmann::json &sections, const ShardOptions &options) {
  size_t slash = options.pattern.find_last_of('/');
  if (!sections.contains("data"))
    throw Error("--data: the program's recipe has no \"data\", so it does not "
                "say how samples become tensors; --batch takes ready ones");
  Config config = Config::parse(sections, "data.json",
                                {".", slash == std::string::npos
                                          ? "."
                                          : options.pattern.substr(0, slash)});
  config.seed = options.seed;
  return config;
}

class ShardBatch : public BatchSource {
public:
  ShardBatch(const ProgramInfo &program, const nlohmann::json &sections,
             const ShardOptions &options, const RankView &view,
             Reorder reorder);
  ~ShardBatch() override;
  const Batch &next(int64_t step) override;
  int64_t batches() const override {
    return std::max<int64_t>(1, dataSet.size() / program.globalBatch);
  }
  Fullness fullness(int64_t first, int64_t end, int64_t stride) const override;
  std::string summary() const override;
  uint64_t hash() const override { return dataSet.hash(); }

private:
  void work();
  void plan(StepWork &step) const;
  StepItems itemsOf(const StepWork &step) const;
  void want(StepWork &step, size_t module, const PartItems &part) const;
  void runJob(StepWork &step, StepWork::Job job);
  void assemble(StepWork &step, int64_t microbatch);
  PartAssembler &assemblerFor(const StepWork &step, size_t module,
                              const PartItems &part,
                              std::deque<Assembly> &made) const;
  void assemblePart(StepWork &step, size_t module, int64_t microbatch,
                    int32_t piece, std::deque<Assembly> &made);

  const ProgramInfo &program;
  Config config;
  DataSet dataSet;
  SampleTable table;
  std::vector<ModuleBinding> bindings;
  RankView view;
  int64_t round; ///< microbatches after which tasks of all modules end together
  Reorder reorder;
  Assigner assigner;

  std::mutex mutex;
  std::condition_variable wake, done;
  std::deque<std::unique_ptr<StepWork>> window; ///< consecutive steps
  std::unique_ptr<StepWork> current;            ///< what next() handed out
  int64_t nextStep = 0; ///< first step not in the window
  int busy = 0;         ///< workers inside a job
  bool stop = false;
  std::vector<std::thread> threads;
};

constexpr size_t stepsAhead = 2;

int64_t roundOf(const ProgramInfo &program) {
  int64_t round = 1, all = microbatchCount(program);
  for (const ModuleInfo &module : program.modules)
    round = std::min(all, std::lcm(round, int64_t(spanOf(module))));
  return round;
}

ShardBatch::ShardBatch(const ProgramInfo &program,
                       const nlohmann::json &sections,
                       const ShardOptions &options, const RankView &view,
                       Reorder reorder)
    : program(program), config(readConfig(sections, options)),
      dataSet(config, options.pattern,
              options.workers > 1 ? options.workers : 0, options.peers),
      bindings(bindModules(program, config)), view(view),
      round(roundOf(program)), reorder(reorder), assigner(program, reorder) {
  table.samples = dataSet.size();
  table.kinds = int32_t(config.pictures.size());
  for (int64_t i = 0; i < table.samples; ++i) {
    const IndexedSample &sample = dataSet.sample(i);
    table.tokens.push_back(sample.tokens);
    table.labels.push_back(sample.labels);
    table.items.insert(table.items.end(), sample.items.begin(),
                       sample.items.end());
  }
  try {
    for (int i = 0; i < std::max(options.workers, 1); ++i)
      threads.push_back(startThread("reading samples", [this] { work(); }));
  } catch (const SystemError &) {
    if (threads.empty()) // fewer do it, too
      throw;
  }
}

ShardBatch::~ShardBatch() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stop = true;
  }
  wake.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

std::string ShardBatch::summary() const {
  std::string text = std::to_string(dataSet.size()) + " samples in " +
                     std::to_string(dataSet.shards()) + " shard" +
                     (dataSet.shards() == 1 ? "" : "s");
  if (dataSet.size() < config.globalBatch)
    text += ", fewer than the " + std::to_string(config.globalBatch) +
            " of a step: samples repeat within it";
  if (dataSet.broken())
    text += ", " + std::to_string(dataSet.broken()) + " broken ones left out";
  for (const std::string &file : dataSet.leftOut())
    text += "\nleft out: " + file;
  return text;
}

const Batch &ShardBatch::next(int64_t step) {
  std::unique_lock<std::mutex> lock(mutex);
  if (window.empty() || window.front()->step != step) {
    for (auto &work : window)
      work->cancelled = true; // no new jobs; wait for those that run
    done.wait(lock, [&] { return busy == 0; });
    window.clear();
    nextStep = step;
  }
  while (window.size() < stepsAhead + 1) {
    window.push_back(std::make_unique<StepWork>());
    window.back()->step = nextStep++;
  }
  wake.notify_all();
  done.wait(lock,
            [&] { return window.front()->ready || window.front()->failure; });
  if (window.front()->failure)
    std::rethrow_exception(window.front()->failure);
  current = std::move(window.front());
  window.pop_front();
  return current->batch;
}

void ShardBatch::work() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    StepWork *step = nullptr;
    wake.wait(lock, [&] {
      for (auto &work : window)
        if (!work->failure && !work->cancelled &&
            (work->state == StepWork::State::New ||
             (work->state == StepWork::State::Planned &&
              work->nextJob < work->jobs.size()))) {
          step = work.get();
          break;
        }
      return stop || step;
    });
    if (stop)
      return;
    bool planning = step->state == StepWork::State::New;
    StepWork::Job job{};
    if (planning)
      step->state = StepWork::State::Planning;
    else
      job = step->jobs[step->nextJob++];
    ++busy;
    lock.unlock();
    std::exception_ptr failure;
    try {
      planning ? plan(*step) : runJob(*step, job);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --busy;
    progressed();
    if (planning)
      step->state = StepWork::State::Planned;
    if (failure && !step->failure)
      step->failure = failure;
    done.notify_all();
    wake.notify_all();
  }
}

StepItems ShardBatch::itemsOf(const StepWork &step) const {
  StepItems out;
  out.where = "step " + std::to_string(step.step);
  out.samples = program.globalBatch;
  out.nameOf = [this, &step](int64_t place) {
    return dataSet.sample(step.manifest.samples[size_t(place)]).key;
  };
  for (size_t k = 0; k < config.pictures.size(); ++k) {
    if (!config.pictures[k].ragged)
      continue;
    StepItems::Kind kind;
    kind.name = config.pictures[k].name;
    kind.count = int64_t(step.manifest.items[k].size());
    for (const ItemRef &item : step.manifest.items[k])
      kind.owner.push_back(item.place);
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

/// Sizes alone decide: nothing is decoded.
BatchSource::Fullness ShardBatch::fullness(int64_t first, int64_t end,
                                           int64_t stride) const {
  Fullness all;
  for (int64_t step = first; config.packed && step < end; step += stride) {
    StepWork work;
    work.step = step;
    work.manifest = makeManifest(table, program.globalBatch, config.seed, step);
    double full = utilisation(program, assigner.assign(itemsOf(work)));
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
  step.manifest =
      makeManifest(table, program.globalBatch, config.seed, step.step);
  step.batch.samples = program.globalBatch;
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
  step.batch.hash = step.manifest.hash() * 31 + assignment.hash();
  step.samples.resize(size_t(program.globalBatch));
  step.wanted.resize(size_t(program.globalBatch), false);
  for (const std::vector<ItemRef> &items : step.manifest.items) {
    step.firstItem.emplace_back(size_t(program.globalBatch), 0);
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

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t extent : shape)
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

void ShardBatch::assemblePart(StepWork &step, size_t m, int64_t task,
                              int32_t piece, std::deque<Assembly> &made) {
  const ModuleInfo &module = program.modules[m];
  int32_t pieces = piecesOf(module);
  const PartItems &part =
      step.batch.assignment.part(m, task, view.replica[m] * pieces + piece);
  PartAssembler &tensors = assemblerFor(step, m, part, made);
  Part out;
  out.items = part.symbols;
  out.measures = step.batch.assignment.measures[m];
  for (size_t s = 0; s < module.symbols.size; ++s) {
    const ModuleBinding::Symbol &symbol = bindings[m].symbols[s];
    int64_t value = symbol.counts ? part.dims[s] : symbol.value;
    if (value > module.symbols[s].max)
      throw Error(std::string("data.json: dim ") + module.name + "." +
                  module.symbols[s].name + " is " + std::to_string(value) +
                  "; the program was compiled for at most " +
                  std::to_string(module.symbols[s].max));
    out.dims.push_back(value);
  }
  for (size_t i = 0; i < module.inputs.size; ++i) {
    out.inputs.emplace_back();
    if (bindings[m].entries[i] < 0)
      continue;
    const TensorInfo &info = module.inputs[i].buffer.tensor;
    std::vector<int64_t> shape;
    for (int32_t d = 0; d < info.rank; ++d) {
      const Extent &extent = info.shape[d];
      shape.push_back(extent.symbol < 0
                          ? extent.offset
                          : extent.scale * out.dims[size_t(extent.symbol)] +
                                extent.offset);
    }
    const HostTensor &made = tensors.get(bindings[m].entries[i]);
    if (made.shape != shape)
      throw Error("data.json: inputs: \"" +
                  config.inputs[size_t(bindings[m].entries[i])].name +
                  "\" gives a tensor " + shapeText(made.shape) + ", but " +
                  module.name + "." + info.name + " takes " + shapeText(shape));
    HostTensor typed = convert(made, info.type, info.name);
    std::lock_guard<std::mutex> lock(mutex);
    step.storage.push_back(
        std::move(typed)); // a deque: earlier elements stay where they are
    out.inputs.back() = {step.storage.back().bytes.data(),
                         step.storage.back().bytes.size()};
  }
  step.batch.modules[m][size_t(task * pieces + piece)] = std::move(out);
}
} // namespace

void dt::rt::checkShardConfig(const nlohmann::json &sections,
                              const ShardOptions &options) {
  readConfig(sections, options);
}

std::unique_ptr<BatchSource> dt::rt::openShardBatch(
    const ProgramInfo &program, const nlohmann::json &sections,
    const ShardOptions &options, const RankView &view, Reorder reorder) {
  return std::make_unique<ShardBatch>(program, sections, options, view,
                                      reorder);
}

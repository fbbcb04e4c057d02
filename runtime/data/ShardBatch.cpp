//===- ShardBatch.cpp - batches from tar shards, decoded ahead --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The BatchSource of --data. Worker threads decode the samples of the coming
// steps; whoever decodes the last sample of a microbatch also assembles its
// tensors. At most two steps are made ahead, which bounds memory. What a step
// holds comes from the manifest alone, so the number of workers and a restart
// at any step change nothing.
//
//===----------------------------------------------------------------------===//

#include "runtime/Error.h"
#include "runtime/data/Assemble.h"
#include "runtime/data/BatchSource.h"
#include "runtime/data/Index.h"
#include "runtime/data/Manifest.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

using namespace dt::rt;
using namespace dt::rt::data;

namespace {
/// How the parts of one module are made: for each symbol its item (or a fixed
/// value), for each input its entry.
struct ModuleBinding {
  struct Symbol {
    bool counts = false;
    int item = sampleItem;
    int64_t value = 0;
  };
  std::vector<Symbol> symbols;
  std::vector<int> entries; ///< -1: an edge
};

class Binder {
public:
  Binder(const ProgramInfo &program, const Config &config)
      : program(program), config(config) {}

  std::vector<ModuleBinding> bind() const {
    std::vector<ModuleBinding> out;
    for (const ModuleInfo &module : program.modules) {
      ModuleBinding binding;
      for (const SymbolInfo &symbol : module.symbols)
        binding.symbols.push_back(bindSymbol(module, symbol));
      for (const InputInfo &input : module.inputs)
        binding.entries.push_back(
            input.fromModule >= 0 ? -1 : bindInput(module, input));
      out.push_back(std::move(binding));
    }
    return out;
  }

private:
  ModuleBinding::Symbol bindSymbol(const ModuleInfo &module,
                                   const SymbolInfo &symbol) const {
    if (symbol.item) {
      std::string item = symbol.item;
      if (item == "sample")
        return {true, sampleItem, 0};
      int kind = config.findPicture(item);
      if (kind < 0 || !config.pictures[size_t(kind)].ragged)
        throw Error(
            std::string("plan.json: dim ") + module.name + "." + symbol.name +
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
    for (const std::string &key : {std::string(module.origin) + "." + name, name})
      if (int entry = config.findInput(key); entry >= 0)
        return entry;
    // A name that already has its module in front may be given plainly.
    std::string prefix = std::string(module.origin) + ".";
    int entry = name.rfind(prefix, 0) == 0
                    ? config.findInput(name.substr(prefix.size()))
                    : -1;
    if (entry < 0)
      throw Error("plan.json: inputs says nothing about \"" + name +
                  "\", which the module " + module.name + " takes");
    return entry;
  }

  const ProgramInfo &program;
  const Config &config;
};

/// A step in the making or ready.
struct StepWork {
  StepManifest manifest;
  std::vector<DecodedSample> samples; ///< by place
  std::vector<int64_t> missing; ///< per microbatch: samples not decoded yet
  int64_t nextPlace = 0, microbatchesLeft = 0;
  bool ready = false;
  std::exception_ptr failure;
  Batch batch;
  std::deque<HostTensor> storage; ///< what batch points into; guarded by the
                                  ///< source's mutex while growing
};

class ShardBatch : public BatchSource {
public:
  ShardBatch(const ProgramInfo &program, const nlohmann::json &plan,
             const ShardOptions &options);
  ~ShardBatch() override;
  const Batch &next(int64_t step) override;
  std::string summary() const override;
  uint64_t hash() const override { return dataSet.hash(); }

private:
  static Config readConfig(const nlohmann::json &plan,
                           const ShardOptions &options);
  void start(int64_t step);
  void work();
  void decodeOne(StepWork &step, int64_t place);
  void assemble(StepWork &step, int64_t microbatch);
  void assembleModule(StepWork &step, size_t module, size_t slot,
                      const PartSamples &part, PartAssembler &tensors);

  const ProgramInfo &program;
  Config config;
  DataSet dataSet;
  SampleTable table;
  BatchSizes sizes;
  std::vector<ModuleBinding> bindings;

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

Config ShardBatch::readConfig(const nlohmann::json &plan,
                              const ShardOptions &options) {
  size_t slash = options.pattern.find_last_of('/');
  Config config = Config::parse(plan, "plan.json",
                                {".", slash == std::string::npos
                                          ? "."
                                          : options.pattern.substr(0, slash)});
  config.seed = options.seed;
  return config;
}

ShardBatch::ShardBatch(const ProgramInfo &program, const nlohmann::json &plan,
                       const ShardOptions &options)
    : program(program), config(readConfig(plan, options)),
      dataSet(
          config, options.pattern,
          std::max(options.workers, int(std::thread::hardware_concurrency()))),
      sizes{program.globalBatch, program.microBatch},
      bindings(Binder(program, config).bind()) {
  table.samples = dataSet.size();
  table.kinds = int32_t(config.pictures.size());
  for (int64_t i = 0; i < table.samples; ++i) {
    const IndexedSample &sample = dataSet.sample(i);
    table.tokens.push_back(sample.tokens);
    table.labels.push_back(sample.labels);
    table.items.insert(table.items.end(), sample.items.begin(),
                       sample.items.end());
  }
  for (int i = 0; i < std::max(options.workers, 1); ++i)
    threads.emplace_back([this] { work(); });
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
  return dataSet.broken() ? text + ", " + std::to_string(dataSet.broken()) +
                                " broken ones left out"
                          : text;
}

/// Under the mutex: adds the next step to the window.
void ShardBatch::start(int64_t step) {
  auto work = std::make_unique<StepWork>();
  work->manifest = makeManifest(table, sizes, config.seed, step);
  work->samples.resize(size_t(sizes.global));
  for (const MicrobatchManifest &micro : work->manifest.microbatches)
    work->missing.push_back(int64_t(micro.samples.size()));
  work->microbatchesLeft = int64_t(work->missing.size());
  work->batch.samples = sizes.global;
  for (const ModuleInfo &module : program.modules)
    work->batch.modules.emplace_back(module.wholeBatch ? 1
                                                       : work->missing.size());
  window.push_back(std::move(work));
  nextStep = step + 1;
}

const Batch &ShardBatch::next(int64_t step) {
  std::unique_lock<std::mutex> lock(mutex);
  if (window.empty() || window.front()->manifest.step != step) {
    for (auto &work : window)
      work->nextPlace = sizes.global; // no new jobs; wait for those that run
    done.wait(lock, [&] { return busy == 0; });
    window.clear();
    start(step);
  }
  while (window.size() < stepsAhead + 1)
    start(nextStep);
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
        if (work->nextPlace < sizes.global && !work->failure) {
          step = work.get();
          break;
        }
      return stop || step;
    });
    if (stop)
      return;
    int64_t place = step->nextPlace++;
    ++busy;
    lock.unlock();
    std::exception_ptr failure;
    try {
      decodeOne(*step, place);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --busy;
    if (failure && !step->failure)
      step->failure = failure;
    done.notify_all();
  }
}

void ShardBatch::decodeOne(StepWork &step, int64_t place) {
  int64_t microbatch = place / sizes.micro;
  const MicrobatchManifest &micro =
      step.manifest.microbatches[size_t(microbatch)];
  step.samples[size_t(place)] =
      dataSet.decode(config, micro.samples[size_t(place % sizes.micro)]);
  bool last;
  {
    std::lock_guard<std::mutex> lock(mutex);
    last = --step.missing[size_t(microbatch)] == 0;
  }
  if (!last)
    return;
  assemble(step, microbatch);
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (--step.microbatchesLeft != 0)
      return;
  }
  bool whole = false;
  for (const ModuleInfo &module : program.modules)
    whole |= module.wholeBatch;
  if (whole)
    assemble(step, -1);
  std::lock_guard<std::mutex> lock(mutex);
  step.samples.clear();
  step.ready = true;
}

/// The parts of one microbatch in all modules that work by microbatch; -1: of
/// the whole-batch modules.
void ShardBatch::assemble(StepWork &step, int64_t microbatch) {
  PartSamples part;
  part.step = step.manifest.step;
  for (const MicrobatchManifest &micro : step.manifest.microbatches)
    if (microbatch < 0 ||
        &micro == &step.manifest.microbatches[size_t(microbatch)])
      for (int64_t place : micro.places) {
        part.places.push_back(place);
        part.samples.push_back(&step.samples[size_t(place)]);
      }
  PartAssembler tensors(config, part);
  for (size_t m = 0; m < program.modules.size; ++m)
    if (program.modules[m].wholeBatch == (microbatch < 0))
      assembleModule(step, m, size_t(std::max<int64_t>(microbatch, 0)), part,
                     tensors);
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t extent : shape)
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

void ShardBatch::assembleModule(StepWork &step, size_t m, size_t slot,
                                const PartSamples &part,
                                PartAssembler &tensors) {
  const ModuleInfo &module = program.modules[m];
  const MicrobatchManifest &micro = step.manifest.microbatches[slot];
  Part out;
  for (size_t s = 0; s < module.symbols.size; ++s) {
    const ModuleBinding::Symbol &symbol = bindings[m].symbols[s];
    int64_t value = symbol.counts ? part.count(symbol.item) : symbol.value;
    if (value > module.symbols[s].max)
      throw Error("step " + std::to_string(part.step) + ": dim " + module.name +
                  "." + module.symbols[s].name + " is " +
                  std::to_string(value) + " in microbatch " +
                  std::to_string(slot) +
                  "; the program was compiled for at most " +
                  std::to_string(module.symbols[s].max));
    out.dims.push_back(value);
    int64_t before = symbol.item == sampleItem
                         ? micro.places[0]
                         : micro.itemsBefore[size_t(symbol.item)];
    out.rows.push_back(symbol.counts && !module.wholeBatch ? before : 0);
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
      throw Error("plan.json: inputs: \"" +
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
  step.batch.modules[m][slot] = std::move(out);
}
} // namespace

std::unique_ptr<BatchSource>
dt::rt::openShardBatch(const ProgramInfo &program, const nlohmann::json &plan,
                       const ShardOptions &options) {
  return std::make_unique<ShardBatch>(program, plan, options);
}

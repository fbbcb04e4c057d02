//===- ShardBatch.cpp - the threads behind --data ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See ShardBatch.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/ShardBatch.h"

#include "runtime/base/Error.h"
#include "runtime/base/FileActivity.h"
#include "runtime/base/Thread.h"

#include <algorithm>
#include <numeric>

namespace dt::rt {
namespace data {
namespace {
constexpr size_t stepsAhead = 2;

int64_t roundOf(const ProgramInfo &program) {
  int64_t round = 1, all = microbatchCount(program);
  for (const ModuleInfo &module : program.modules)
    round = std::min(all, std::lcm(round, int64_t(spanOf(module))));
  return round;
}

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
} // namespace

ShardBatch::ShardBatch(const ProgramInfo &program, Config given,
                       const ShardOptions &options, const RankView &view,
                       Reorder reorder)
    : program(program), config(std::move(given)),
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
  if (config.rule.parts)
    starts.emplace(table, config.rule, config.seed);
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
  int64_t own = starts ? starts->begin(1) : config.globalBatch;
  if (dataSet.size() < own)
    text += ", fewer than the " + std::to_string(own) + " of a step" +
            (starts ? " (the first)" : "") + ": samples repeat within it";
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
} // namespace data

void checkShardConfig(const nlohmann::json &sections,
                      const ShardOptions &options) {
  data::readConfig(sections, options);
}

std::unique_ptr<BatchSource> openShardBatch(const ProgramInfo &program,
                                            const nlohmann::json &sections,
                                            const ShardOptions &options,
                                            const RankView &view,
                                            Reorder reorder) {
  return std::make_unique<data::ShardBatch>(
      program, data::readConfig(sections, options), options, view, reorder);
}

} // namespace dt::rt

//===- Profile.cpp - how long tasks take ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/observe/Profile.h"
#include "runtime/base/Clock.h"
#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/base/ReadJson.h"
#include "runtime/comm/Agreement.h"
#include "runtime/data/MadeBatch.h"
#include "runtime/device/Device.h"
#include "runtime/observe/TaskTimes.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace dt::rt {

namespace {

using nlohmann::json;

/// Sizes take turns, so that whatever else the machine does meets all of them.
/// A turn's first step does not count; then steps for so many seconds, at
/// least two.
constexpr int kTurns = 4;
constexpr double kSecondsOfTurn = 0.4;
constexpr int64_t kMostSteps = 30;

/// Seconds of a stage's task, without and of its collectives.
struct Samples {
  std::vector<double> seconds, collectives;
};
constexpr const char *kTasks[kComputeKinds] = {"forward", "backward", "input",
                                               "weight"};

/// What one size of parts has taken.
class Measured final : public StepObserver {
public:
  explicit Measured(size_t modules)
      : tasks(modules * kComputeKinds), items(modules) {}

  bool wantsTimes() const override { return true; }
  void rowTimed(int32_t, const TaskRow &row, const Part *part,
                const RowTime &time) override {
    rows += time.cpu;
    int task = computeKindOf(row.kind);
    if (!counts || task < 0 || !part)
      return;
    Samples &all = tasks[size_t(row.index) * kComputeKinds + size_t(task)];
    double moved =
        std::accumulate(time.collectives.begin(), time.collectives.end(), 0.0);
    // Work on an accelerator is none of the thread's.
    all.seconds.push_back(device::stream() ? time.end - time.begin - moved
                                           : time.cpu);
    all.collectives.push_back(moved);
  }

  bool counts = false;
  double rows = 0;            ///< processor seconds of the step under way
  std::vector<Samples> tasks; ///< [module * kComputeKinds + task]
  std::vector<int64_t> items; ///< of the part, by module
  std::vector<double> tails;  ///< outside of rows
};

/// Items of its own kind that a module works on in the first microbatch.
int64_t itemsOf(const ModuleInfo &module, const std::vector<Part> &parts,
                int64_t samples) {
  if (!module.item || parts.empty())
    return samples;
  for (size_t s = 0; s < module.symbols.size; ++s)
    if (module.symbols[s].item &&
        std::string(module.symbols[s].item) == module.item)
      return int64_t(parts[0].items[s].size());
  return samples;
}

/// One size of parts.
struct Size {
  int64_t samples, items;
};

class Profiler {
public:
  Profiler(const ProgramInfo &given, const Trainer::Settings &settings,
           const std::string &weights, Comm &comm,
           const std::vector<int64_t> &samples)
      : program(given), comm(comm), trainer(program, settings, comm),
        maker(program, viewOf(program, comm.rank())),
        microbatches(microbatchCount(program)) {
    trainer.initializeParameters(weights);
    if (hasOtherItems())
      sizes.push_back({samples[0], 1});
    for (int64_t count : samples)
      sizes.push_back({count, INT64_MAX});
    for (size_t i = 0; i < sizes.size(); ++i)
      measured.emplace_back(program.modules.size);
  }

  void run() {
    for (int turn = 0; turn < kTurns; ++turn)
      for (size_t i = 0; i < sizes.size(); ++i) {
        if (comm.rank() == 0)
          printLog("turn %d of %d, parts of %lld samples\n", turn + 1, kTurns,
                   (long long)sizes[i].samples);
        takeTurn(sizes[i], measured[i]);
      }
  }
  void measureMessages();
  void write(const std::string &file);

private:
  bool hasOtherItems() const {
    for (const ModuleInfo &module : program.modules)
      for (const SymbolInfo &symbol : module.symbols)
        if (symbol.item && std::string(symbol.item) != "sample")
          return true;
    return false;
  }
  void takeTurn(const Size &size, Measured &into);
  double step(const Batch &batch, Measured &into);
  json pack() const;
  json stageOf(size_t module, size_t size,
               const std::vector<json> &ranks) const;
  double exchange(size_t bytes, int times);
  double reduce(size_t bytes, int times);

  ProgramInfo program; ///< with the batch of the size under way
  Comm &comm;
  Trainer trainer;
  BatchMaker maker;
  int64_t microbatches, number = 0;
  std::vector<Size> sizes;
  std::vector<Measured> measured;
  json links;
};

/// Returns the seconds of the slowest rank, so that all count alike.
double Profiler::step(const Batch &batch, Measured &into) {
  into.rows = 0;
  double begin = now(), cpu = threadSeconds(), blocked = comm.blocking().cpu;
  trainer.step(batch, number++, &into);
  device::synchronize();
  // Without what waits for others, which is none of the work of one rank.
  double tail =
      threadSeconds() - cpu - (comm.blocking().cpu - blocked) - into.rows;
  if (into.counts)
    into.tails.push_back(tail);
  double slowest = 0;
  for (double seconds : comm.allGather({now() - begin}, "report"))
    slowest = std::max(slowest, seconds);
  return slowest;
}

void Profiler::takeTurn(const Size &size, Measured &into) {
  program.microBatch = size.samples;
  program.globalBatch = size.samples * microbatches;
  const Batch &batch = maker.make(size.items);
  for (size_t m = 0; m < program.modules.size; ++m)
    into.items[m] = itemsOf(program.modules[m], batch.modules[m], size.samples);
  into.counts = false;
  step(batch, into);
  into.counts = true;
  double spent = 0;
  for (int64_t i = 0; i < kMostSteps && (i < 2 || spent < kSecondsOfTurn); ++i)
    spent += step(batch, into);
}

json Profiler::pack() const {
  json out;
  for (const Measured &size : measured) {
    json entry;
    for (size_t m = 0; m < program.modules.size; ++m) {
      json tasks;
      for (size_t t = 0; t < kComputeKinds; ++t) {
        const Samples &all = size.tasks[m * kComputeKinds + t];
        if (!all.seconds.empty())
          tasks[kTasks[t]] = {median(all.seconds), median(all.collectives)};
      }
      entry["modules"].push_back(std::move(tasks));
    }
    entry["items"] = size.items;
    entry["tail"] = median(size.tails);
    out["sizes"].push_back(std::move(entry));
  }
  int64_t trained = 0;
  for (size_t m = 0; m < program.modules.size; ++m)
    for (const UpdateRange &update : trainer.ownership().updates(m))
      trained += int64_t(update.range.count);
  out["trained"] = trained;
  return out;
}

/// Ranks of a group do a task together: the slowest one counts, and of the
/// collectives the shortest, which waits for nobody.
json Profiler::stageOf(size_t m, size_t size,
                       const std::vector<json> &ranks) const {
  const ModuleInfo &module = program.modules[m];
  json out = {{"unit", module.unit}, {"stage", module.stage}};
  for (const json &rank : ranks) {
    const json &entry = rank["sizes"][size];
    const json &tasks = entry["modules"][m];
    if (tasks.is_null())
      continue;
    out["items"] = entry["items"][m];
    for (auto &[task, times] : tasks.items()) {
      json &own = out[task];
      double cpu = times[0], moved = times[1];
      own = {
          {"seconds",
           own.is_null() ? cpu : std::max(cpu, own["seconds"].get<double>())},
          {"collectives",
           own.is_null() ? moved
                         : std::min(moved, own["collectives"].get<double>())}};
    }
  }
  return out;
}

/// Seconds that a message takes between the first two ranks.
double Profiler::exchange(size_t bytes, int times) {
  std::vector<std::byte> data(bytes);
  std::vector<double> all;
  int self = comm.rank();
  for (int i = 0; i < times; ++i) {
    comm.world().barrier();
    if (self > 1)
      continue;
    double begin = now();
    for (int turn = 0; turn < 2; ++turn)
      if ((self == 0) == (turn == 0))
        comm.isend(data.data(), bytes, 1 - self, 0, "profile").wait();
      else
        comm.irecv(data.data(), bytes, 1 - self, 0).wait();
    all.push_back((now() - begin) / 2);
  }
  return median(all);
}

/// Seconds of a sum over all ranks.
double Profiler::reduce(size_t bytes, int times) {
  std::vector<float> data(bytes / sizeof(float));
  std::vector<double> all;
  for (int i = 0; i < times; ++i) {
    comm.world().barrier();
    double begin = now();
    comm.world().allReduce(Reduction::Sum, DType::F32, data.data(), data.data(),
                           int64_t(data.size()), "profile");
    all.push_back(now() - begin);
  }
  return median(all);
}

/// alpha-beta by a short and a long message; of sums as a ring has it: twice
/// (n - 1) messages and (n - 1) / n of the bytes.
void Profiler::measureMessages() {
  constexpr size_t kShort = 1024, kLong = size_t(4) << 20;
  constexpr int kTimes = 40;
  if (comm.size() < 2)
    return;
  if (comm.rank() == 0)
    printLog("messages and sums between ranks\n");
  auto fit = [&](double low, double high, double messages, double share) {
    double latency = low / messages;
    double rest = std::max(1e-9, high - low);
    return json{{"latency", latency},
                {"bandwidth", share * double(kLong - kShort) / rest}};
  };
  double low = exchange(kShort, kTimes), high = exchange(kLong, kTimes);
  links["inside"] = fit(low, high, 1, 1);
  double n = double(comm.size());
  low = reduce(kShort, kTimes), high = reduce(kLong, kTimes);
  links["reduce"] = fit(low, high, 2 * (n - 1), 2 * (n - 1) / n);
}

void Profiler::write(const std::string &file) {
  std::vector<json> ranks;
  for (const std::string &text : comm.allGatherText(pack().dump()))
    ranks.push_back(readJson(text, "another rank's profile"));
  std::string failure;
  if (comm.rank() == 0) {
    json out = links;
    out["version"] = 1;
    out["ranks"] = comm.size();
    for (size_t i = 0; i < sizes.size(); ++i) {
      json entry = {{"samples", sizes[i].samples}};
      for (size_t m = 0; m < program.modules.size; ++m)
        if (!program.modules[m].wholeBatch)
          entry["stages"].push_back(stageOf(m, i, ranks));
      out["sizes"].push_back(std::move(entry));
    }
    out["trained"] = ranks[0]["trained"];
    out["tail"] = ranks[0]["sizes"][0]["tail"];
    failure = failureOf([&] { writeWhole(file, out.dump(1) + "\n"); });
  }
  comm.agree(failure);
}

} // namespace

void writeProfile(const ProgramInfo &program, const Trainer::Settings &settings,
                  const std::string &weights, Comm &comm,
                  const std::vector<int64_t> &samples,
                  const std::string &file) {
  if (samples.back() > program.microBatch)
    throw CommonError("--rows: the program was compiled for parts of at most " +
                      std::to_string(program.microBatch) + " samples");
  Profiler profiler(program, settings, weights, comm, samples);
  profiler.run();
  profiler.measureMessages();
  profiler.write(file);
}

} // namespace dt::rt

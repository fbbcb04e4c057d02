//===- ShardBatch.h - batches from tar shards, decoded ahead ----*- C++ -*-===//
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

#ifndef DT_RUNTIME_DATA_SHARDBATCH_H
#define DT_RUNTIME_DATA_SHARDBATCH_H

#include "runtime/data/Assemble.h"
#include "runtime/data/BatchSource.h"
#include "runtime/data/Binding.h"
#include "runtime/data/Index.h"
#include "runtime/data/Manifest.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace dt::rt::data {

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
  std::vector<int64_t> parts; ///< StepItems::parts
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

class ShardBatch : public BatchSource {
public:
  /// `config` is kept.
  ShardBatch(const ProgramInfo &program, Config config,
             const ShardOptions &options, const RankView &view,
             Reorder reorder);
  ~ShardBatch() override;
  const Batch &next(int64_t step) override;
  int64_t batches() const override {
    return starts ? starts->stepsOfEpoch()
                  : std::max<int64_t>(1, dataSet.size() / program.globalBatch);
  }
  Fullness fullness(int64_t first, int64_t end, int64_t stride) const override;
  std::string summary() const override;
  uint64_t hash() const override { return dataSet.hash(); }

private:
  void work();
  void plan(StepWork &step) const;
  void choose(StepWork &step) const;
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
  std::optional<StepStarts> starts; ///< of steps of as many samples as fit
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

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_SHARDBATCH_H

//===- Sources.cpp - where a run's batches come from ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Sources.h"
#include "runtime/base/Stop.h"
#include "runtime/comm/Agreement.h"
#include "runtime/data/PythonSource.h"
#include "runtime/step/BatchRanks.h"
#ifndef DT_RUNTIME_NO_SHARDS
#include "runtime/data/Index.h"
#endif

namespace dt::rt {

namespace {

#ifndef DT_RUNTIME_NO_SHARDS
/// Ranks index shards together.
class RankPeers final : public data::IndexPeers {
public:
  explicit RankPeers(Comm &comm) : comm(comm) {}
  int rank() const override { return comm.rank(); }
  std::vector<std::string> exchange(const std::string &mine) override {
    return comm.allGatherText(mine);
  }

private:
  Comm &comm;
};
#endif

std::unique_ptr<BatchSource> makeSource(const ProgramInfo &program,
                                        const nlohmann::json &sections,
                                        const Options &options,
                                        const std::vector<std::string> &paths,
                                        bool areBatches, Comm &comm) {
  RankView view = viewOf(program, comm.rank());
  Reorder reorder = options.reorder.value_or(program.reorder);
  if (areBatches)
    return openBatches(program, sections, paths, view, reorder,
                       makeBatchPeers(comm));
  const std::string &path = paths.front();
  if (data::hasPythonSource(sections))
    throw Error(path + ": this program's samples come from \"data.source\", "
                       "which no rank runs: tools/feed starts the program and "
                       "makes them (docs/feed.md)");
#ifndef DT_RUNTIME_NO_SHARDS
  RankPeers peers(comm);
  ShardOptions shards{path, options.seed.value_or(program.seed),
                      options.workers, &peers};
  comm.agree(failureOf([&] { checkShardConfig(sections, shards); }));
  return openShardBatch(program, sections, shards, view, reorder);
#else
  throw Error(path + ": this program was built without shards; only batch "
                     "files can be read");
#endif
}

} // namespace

bool openSource(std::unique_ptr<BatchSource> &source,
                const ProgramInfo &program, const nlohmann::json &sections,
                const Options &options, const std::vector<std::string> &paths,
                bool areBatches, Comm &comm) {
  try {
    source = makeSource(program, sections, options, paths, areBatches, comm);
  } catch (const Error &e) {
    if (e.what() != std::string(Stopped().what()))
      throw;
    return false;
  }
  return true;
}

} // namespace dt::rt

//===- BatchSource.h - where the data of a step come from -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The step loop knows neither files nor shards: it asks a source for the batch
// of step s, cut into the parts that its rank works on. The batch is a function
// of the step alone, so that a resumed run needs no other data state.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_BATCHSOURCE_H
#define DT_RUNTIME_DATA_BATCHSOURCE_H

#include "runtime/Program.h"
#include "runtime/base/Error.h"
#include "runtime/data/Assignment.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dt::rt {

/// Bytes of one raw input of one part, row-major, of the type and shape that
/// the input's TensorInfo has with the part's dims. Owned by the source.
struct InputBytes {
  const std::byte *data = nullptr;
  size_t size = 0;
};

/// Who asks: the parts of other ranks are known but not made.
struct RankView {
  int32_t rank = 0;
  /// Per module: the replica that this rank is of (of a whole-batch module: its
  /// place in `ranks`), or -1. All ranks of a replica get the same.
  std::vector<int32_t> replica;
};
RankView viewOf(const ProgramInfo &program, int32_t rank);

/// What a module's function works on in one call: a piece of a replica's share
/// of a microbatch or several (or, for a whole-batch module, all of the step).
struct Part {
  std::vector<int64_t>
      dims; ///< a value for each of ModuleInfo::symbols, 0 <= value <= max
  std::vector<InputBytes>
      inputs; ///< a place for each of ModuleInfo::inputs; empty for edges
  /// Per symbol with an item kind: positions of the part's items in the global
  /// batch (Assignment.h), in order; dims[i] of them.
  std::vector<Items> items;
  /// Per symbol: what it adds up of them; null: dims[i] is their number.
  std::vector<Measure> measures{};

  ItemRows rows(size_t symbol) const {
    return {&items[symbol],
            symbol < measures.size() ? measures[symbol].get() : nullptr};
  }
};

/// A part without bytes. `fixed`: values of the symbols that count nothing.
/// Throws Error, beginning with `where`, if a value is above its bound.
Part beginPart(const ProgramInfo &program, const Assignment &assignment,
               size_t module, const PartItems &items,
               const std::vector<int64_t> &fixed, const std::string &where);

struct Batch {
  /// [module][task * pieces + piece], one part for a whole-batch module; empty
  /// for the modules that are not on this rank.
  std::vector<std::vector<Part>> modules;
  /// This rank's; of a whole-batch module whatever the microbatch.
  const Part &part(const ProgramInfo &program, size_t module,
                   int64_t microbatch, int32_t piece) const {
    const ModuleInfo &info = program.modules[module];
    return modules[module]
                  [size_t(taskOf(info, microbatch)) * size_t(piecesOf(info)) +
                   size_t(info.wholeBatch ? 0 : piece)];
  }
  int64_t samples = 0;
  int64_t tokens = 0;     ///< of all samples, without padding; 0: nobody knows
  double utilisation = 0; ///< of the parts (Assignment.h); 0: no dim has rows
  double flops = 0;       ///< of the model (ModelFlops.h)
  Assignment assignment;  ///< of the whole step, equal on all ranks
  /// With Reorder::None, for reports; null: as `assignment`.
  std::shared_ptr<const Assignment> plain;
  /// Of samples, items and assignment, and of a single batch file's contents:
  /// equal on all ranks or something is wrong.
  uint64_t hash = 0;
  /// What the data call the sample at a place of the global batch; empty: they
  /// have no names.
  std::function<std::string(int64_t)> nameOf;
};

/// There is no batch of this step, and no other rank has one: the run ends with
/// the steps that it has done.
class BatchesEnded : public Error {
public:
  using Error::Error;
  /// Because the run was asked to end while it waited for data.
  static BatchesEnded asked() { return BatchesEnded(""); }
  bool wasAsked() const { return !*what(); }
};

class BatchSource {
public:
  virtual ~BatchSource() = default;

  /// The batch of a step (0-based). Valid until the next call; throws Error
  /// (Error.h) with one line that names file and sample; BatchesEnded on all
  /// ranks. May prefetch step + 1.
  virtual const Batch &next(int64_t step) = 0;

  /// Steps in which no sample comes twice: all of the data but for what does
  /// not fill a batch. At least 1.
  virtual int64_t batches() const { return 1; }

  /// How full the parts of several steps are (Batch::utilisation).
  struct Fullness {
    double least = 1, sum = 0;
    int64_t steps = 0; ///< 0: nobody knows before the batches are read
  };
  /// Of every `stride`th of the steps [first, end). Reads no batch; throws
  /// Error naming the step whose parts do not keep to their bounds.
  virtual Fullness fullness(int64_t /*first*/, int64_t /*end*/,
                            int64_t /*stride*/) const {
    return {};
  }

  /// One line for the log at the start, e.g. how many samples there are and how
  /// many broken ones are left out.
  virtual std::string summary() const { return {}; }

  /// Identifies the data for checkpoints (say a hash over shard names and
  /// sizes); a resumed run with another value is refused. 0: not checked.
  virtual uint64_t hash() const { return 0; }
};

/// The same batch every step, from a safetensors file with tensors named
/// "module.input" or "input" (either with the prefix "in."). See FileBatch.cpp
/// for how it is cut.
std::unique_ptr<BatchSource>
openFileBatch(const ProgramInfo &program, const nlohmann::json &sections,
              const std::string &file, const RankView &view, Reorder reorder);

struct Parcel;

/// The ranks of a run, of which the first has a batch and the others have none.
/// Each function is called by all of them in turn.
class BatchPeers {
public:
  virtual ~BatchPeers() = default;
  /// The first rank's text, on all ranks.
  virtual void share(std::string &text) = 0;
  /// The bytes that the first rank has in parcels, on the ranks that each is
  /// for. They leave it once a parcel: a replica's ranks tell one another.
  virtual void deal(std::vector<Parcel> &parcels) = 0;
};

/// Batches of one's own. `paths` are files as openFileBatch reads them, or
/// patterns of them (as of the shell): step s has the batch s % N of N files,
/// in their order, those of a pattern by name. Or one pipe ("-": standard
/// input) through which a file a step comes: the first rank reads it, and
/// `peers` get their parts of it. Throws Error.
std::unique_ptr<BatchSource> openBatches(const ProgramInfo &program,
                                         const nlohmann::json &sections,
                                         const std::vector<std::string> &paths,
                                         const RankView &view, Reorder reorder,
                                         std::shared_ptr<BatchPeers> peers);

/// Whether a path, or the first file of a pattern, is a batch file or a pipe.
bool isBatch(const std::string &path);
/// Whether a path is a pipe, or "-".
bool isPipe(const std::string &path);

namespace data {
class IndexPeers;
}

struct ShardOptions {
  std::string pattern; ///< as given to --data: a path, or one with * and ? in
                       ///< its last component
  uint64_t seed = 0;
  int workers = 1;                   ///< decoding threads
  data::IndexPeers *peers = nullptr; ///< who opens the same shards (Index.h)
};

/// Throws Error if "data" is not what openShardBatch needs; to be agreed on
/// before peers open shards together.
void checkShardConfig(const nlohmann::json &sections,
                      const ShardOptions &options);

/// WebDataset tar shards, as sections["data"] says.
std::unique_ptr<BatchSource> openShardBatch(const ProgramInfo &program,
                                            const nlohmann::json &sections,
                                            const ShardOptions &options,
                                            const RankView &view,
                                            Reorder reorder);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_BATCHSOURCE_H

//===- Outputs.h - dumps of the first step ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// --save-outputs and --save-gradients: what a step computed, under the names
// that the ONNX files use, for comparison with another implementation. Every
// rank writes what it has to `F.rank-R`; rank 0 joins these to F.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_SAVE_OUTPUTS_H
#define DT_RUNTIME_SAVE_OUTPUTS_H

#include "runtime/state/Pieces.h"
#include "runtime/step/Trainer.h"

#include <functional>
#include <optional>

namespace dt::rt {

/// One rank's part of a file on its way: removed by the rank that wrote it,
/// also when something fails.
struct RankFile {
  explicit RankFile(std::string path) : path(std::move(path)) {}
  ~RankFile();
  RankFile(const RankFile &) = delete;
  RankFile &operator=(const RankFile &) = delete;
  std::string path;
};

/// Joins the parts' outputs to those of the global batch: rows of items are put
/// where the items stand in the batch, what tensor-parallel ranks have of a row
/// where it stands in the row, and padding is dropped. The only part there is
/// is written as it is. Of several parts, an output without an item axis is
/// left out, as one that is unjoined is; rank 0 prints a line for each.
class OutputCollector {
public:
  /// Throws CommonError if parts cannot be joined: where an axis has rows
  /// beside those of items, or two axes count items.
  OutputCollector(const Trainer &trainer, const Batch &batch);

  void add(const TaskRow &row, const Part &part);

  /// Tensors "<module>.<output>", "loss" and "loss.<term>". All ranks call it;
  /// throws CommonError.
  void write(const std::string &path, const StepResult &result) const;

private:
  /// Rows of an output: [outer][rows][inner bytes], and of each item where its
  /// rows begin in the batch's and how many there are.
  struct Block {
    std::vector<int64_t> first, rows;
    /// The part's shape, the same with padding, and how that is cut: axis,
    /// chunk, over and this rank's place for each cut.
    std::vector<int64_t> whole, padded, cuts;
    std::vector<std::byte> bytes;
  };
  struct Output {
    std::string name;
    int module, index;
    DType type;
    int axis;                   ///< -1: no item axis, or one part only
    std::vector<int64_t> shape; ///< where this rank runs the module
    std::vector<Block> blocks;
  };
  std::optional<std::vector<std::byte>>
  whole(const Output &output, size_t number, std::vector<int64_t> &shape,
        const std::vector<std::unique_ptr<SafetensorsFile>> &files) const;
  const BufferInfo &infoOf(const Output &output) const;
  /// Says so.
  void leaveOut(size_t module, const BufferInfo &output,
                const std::string &name) const;
  void writeBlocks(const std::string &path) const;
  void join(const std::vector<std::string> &paths, const std::string &path,
            const StepResult &result) const;

  const Trainer &trainer;
  std::vector<Output> outputs; ///< equal on all ranks but for the blocks
};

/// Tensors "module.parameter" of all parameters with a gradient. All ranks call
/// it; throws CommonError.
void writeGradients(const Trainer &trainer, const std::string &path);

/// Whole parameters on rank 0, gathered through files `F.rank-R` beside `path`
/// if there are several ranks. All ranks construct and destroy it; throws
/// CommonError.
class WholeParameters {
public:
  /// `averages`: of what trains, these.
  WholeParameters(const Trainer &trainer, const std::string &path,
                  bool averages = false);
  ~WholeParameters();
  /// As ParameterValues::type has it; rank 0 only.
  std::vector<std::byte> get(const ParameterInfo &parameter) const;

private:
  const Trainer &trainer;
  bool averages;
  std::unique_ptr<RankFile> own; ///< outlives the reader of all
  std::unique_ptr<PieceReader> reader;
};

/// `F.rank-0`, `F.rank-1`, …
std::vector<std::string> rankFiles(const std::string &path, int ranks);

/// Runs `body` on rank 0 after all ranks have come here; all go on when it is
/// done. Its Error becomes a CommonError, as `failure` of any rank does.
void onFirstRank(Comm &comm, const std::string &failure,
                 const std::function<void()> &body);

/// For a folder, which is there, that several ranks write to or read from: all
/// must see what rank 0 makes in it. All ranks call it; throws CommonError,
/// with the flag, that names a rank and machines. Without other machines it
/// does nothing.
void expectShared(Comm &comm, const std::string &flag,
                  const std::string &folder);

} // namespace dt::rt

#endif // DT_RUNTIME_SAVE_OUTPUTS_H

//===- Options.h - the command line of a training program -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_OPTIONS_H
#define DT_RUNTIME_BASE_OPTIONS_H

#include "runtime/Program.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dt::rt {

/// After a step whose loss or gradient norm is no number (its update is left
/// out): end the run, go on, or go back to the newest checkpoint.
enum class OnNaN { Stop, Skip, Back };

struct Options {
  std::string program; ///< --program DIR: weights.safetensors, data.json, onnx/
  std::string data;    ///< --data 'shards/*.tar'
  /// --batch FILE.safetensors: batches of one's own (openBatches)
  std::vector<std::string> batch;
  int64_t steps = -1; ///< --steps N: train until N steps are done (default: the
                      ///< schedule's length)
  int threads = 0;    ///< --threads N (default: OMP_NUM_THREADS or all cores)
  int workers = 1;    ///< --workers N: decoding threads
  std::string checkpoint; ///< --checkpoint DIR
  int64_t saveEvery =
      0;            ///< --save-every K steps (0: only at the end and on Ctrl-C)
  int64_t keep = 2; ///< --keep K newest checkpoints
  /// --snapshot-memory SIZE: bytes for the copy that checkpoints are written
  /// from (0: a share of the machine's)
  uint64_t snapshotMemory = 0;
  bool resume = false;  ///< --resume: continue from the newest checkpoint
  bool best = false;    ///< --resume=best: from the best one
  bool newData = false; ///< --new-data: resume with other data
  /// --init-from [MODULE=]PATH, each: initial weights (InitialWeights.h)
  std::vector<std::string> initFrom;
  std::vector<std::string> initSkip;   ///< --init-skip PATTERN, each
  std::vector<std::string> initRename; ///< --init-rename FROM=TO, each
  bool initPartial = false;  ///< --init-partial: sources may lack parameters
  std::string validate;      ///< --validate FILE: batches, or shards as --data
  int64_t validateEvery = 0; ///< --validate-every N steps (0: at the end only)
  std::string metrics;       ///< --metrics F.jsonl
  std::string tensorboard;   ///< --tensorboard DIR
  std::string trace;         ///< --trace F.json (Chrome, Perfetto)
  std::string saveOutputs; ///< --save-outputs F.safetensors: of the first step
  std::string
      saveGradients; ///< --save-gradients F.safetensors: of the first step
  std::string
      exportTo; ///< --export DIR: the ONNX files with the trained weights
  std::string exportAverages; ///< --export-ema DIR: those with averages
  bool exportNarrow = false;  ///< --export-precision bf16
  struct Export {
    std::string folder;
    bool averages;
  };
  /// Those that are asked for.
  std::vector<Export> exports() const {
    std::vector<Export> list;
    for (bool averages : {false, true})
      if (const std::string &to = averages ? exportAverages : exportTo;
          !to.empty())
        list.push_back({to, averages});
    return list;
  }
  std::optional<uint64_t> seed;   ///< --seed S
  std::optional<double> lr;       ///< --lr X
  std::optional<Reorder> reorder; ///< --reorder none|intra|inter|both
  double logEvery = 15; ///< --log-every SECONDS between lines when the output
                        ///< is not a terminal
  int ranks = 0;        ///< --ranks N: starts N ranks under mpirun
  OnNaN onNaN = OnNaN::Stop; ///< --on-nan stop|skip|back
  /// --check-replicas N: compare replicas every N steps (0: never)
  int64_t checkReplicas = 1000;
  double stall = 120;  ///< --stall SECONDS without progress of any rank
  std::string report;  ///< --report F.json: predicted and measured step
  std::string profile; ///< --profile F.json: times of tasks instead of training
  /// --rows 1,2,4: samples of the parts that --profile measures, ascending
  std::vector<int64_t> rows;
  std::string traffic; ///< --traffic F.json: bytes that ranks sent
  bool help = false;   ///< --help
  /// What the command line says: flag and value, several joined by commas.
  std::map<std::string, std::string> given;
};

/// What ranks of one run must have in common of a flag (SameStart.h).
enum class Sameness {
  Value, ///< all of them the same value, or none of them the flag
  Given, ///< that it is given: paths lead to copies on each machine
  Free,  ///< nothing
};
Sameness sameness(const std::string &flag);

/// Flags as `--name value` or `--name=value`. Throws Error naming the flag.
Options parseOptions(int argc, const char *const *argv);

/// Throws Error if a flag asks for more threads than make sense on the cores
/// that this process may use.
void expectThreads(const char *flag, int threads);

/// The text of --help.
const char *optionsHelp();

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_OPTIONS_H

//===- Program.h - what an emitted program tells the runtime ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The contract between generated code and the runtime. A generated program is a
// constant `kProgram` made of the tables below plus the functions they point
// to; everything else (data, step loop, optimizer, checkpoints, command line)
// is the runtime's and is the same for every program. Tables are plain
// aggregates of pointers and numbers, so that they are constant-initialised and
// readable in the generated source. No MLIR, no target: the CUDA program has
// the same tables.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_PROGRAM_H
#define DT_RUNTIME_PROGRAM_H

#include <cstddef>
#include <cstdint>
#include <limits>

namespace dt::rt {

/// A constant array seen by reference: `{array, length}` or just the array.
template <typename T> struct Span {
  const T *data = nullptr;
  size_t size = 0;

  constexpr Span() = default;
  constexpr Span(const T *data, size_t size) : data(data), size(size) {}
  template <size_t N>
  constexpr Span(const T (&array)[N]) : data(array), size(N) {}
  constexpr const T *begin() const { return data; }
  constexpr const T *end() const { return data + size; }
  constexpr const T &operator[](size_t i) const { return data[i]; }
  constexpr bool empty() const { return size == 0; }
};

enum class DType : uint8_t { F32, F64, F16, BF16, I64, I32, I8, U8, Bool };

/// Bytes of one element; Bool is one byte.
constexpr size_t sizeOf(DType type) {
  switch (type) {
  case DType::F64:
  case DType::I64:
    return 8;
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::F16:
  case DType::BF16:
    return 2;
  default:
    return 1;
  }
}

/// One dim of a tensor: scale * dims[symbol] + offset, where `dims` are the
/// values of the symbols of the *tensor's module* for the part at hand. Symbol
/// -1: the plain number `offset` (scale is ignored).
struct Extent {
  int64_t scale;
  int32_t symbol;
  int64_t offset;
};

/// `rank` extents; rank 0 is a scalar and `shape` may be null.
struct TensorInfo {
  const char *name;
  DType type;
  int32_t rank;
  const Extent *shape;
};

/// Where a parameter lives in an ONNX file (for --export). A tied parameter has
/// one row in the table and several of these.
struct OnnxRef {
  const char
      *file; ///< relative to the program directory's `onnx/`, e.g. "llm.onnx"
  const char *initializer; ///< name in that file
};

/// One axis of a tensor-parallel group, `over` n with `stride` s (ranks of the
/// group that differ only in (rank / s) mod n), cuts dim `dim`, seen as
/// [outer][over][chunk]: the rank's place on the axis is its index in the
/// middle (#dist.cut).
struct CutInfo {
  int32_t dim;
  int64_t chunk, over, stride;
};

/// One trained or frozen tensor of a module. `tensor.name` is
/// "module.initializer" ("llm.layers.0.mlp.up_proj.weight", with the module's
/// origin): the key in weights.safetensors, checkpoints and --save-gradients.
/// `tensor`'s shape has no symbols and is what one rank stores. F32 if
/// trainable.
///
/// Offsets are multiples of 64 bytes in the module's parameter region,
/// ascending in the table within a module. Gradients use the same offsets in a
/// region of their own, which ends with the module's last trainable parameter:
/// trainable parameters come first, of these what a backward function is done
/// with first. So what is complete is one range from the region's begin.
struct ParameterInfo {
  TensorInfo tensor;
  int32_t module; ///< index in the table of modules
  size_t offset;  ///< bytes from the start of the module's parameter region
  bool trainable; ///< false: the gradient block has no place for it and nothing
                  ///< writes to it
  bool hasGradient; ///< some backward function accumulates into it; if not, the
                    ///< optimizer does not touch it (no decay)
  bool decay;       ///< weight decay applies
  const char *init; ///< rule, e.g. "normal(0,0.02)" (see Init.h), or null: the
                    ///< value is in weights.safetensors
  Span<OnnxRef> onnx;
  /// The row that this one is a copy of (recipe `tie`, or a parameter that
  /// several stages read), or -1. Copies have equal cuts; their gradients are
  /// summed, all of them are updated alike. A copy has no place in checkpoints.
  int32_t tied = -1;
  /// Shape before the cuts (with padding), and in files; empty: not cut.
  Span<int64_t> whole{};
  Span<int64_t> unpadded{}; ///< empty: as `whole`
  Span<CutInfo> cuts{};     ///< applied one after another
  /// Axes over which each rank has a partial sum of the gradient (dim and chunk
  /// unused): summed once a step. On every other axis that is not cut all ranks
  /// have the same gradient.
  Span<CutInfo> partial{};
  double lrFactor = 1;     ///< of the step's learning rate
  double weightDecay = -1; ///< where `decay`; below 0: the optimizer's
};

/// A dim symbol of a module. `item`: the kind of item whose number it counts in
/// a part ("sample", "image"), or null for a dim that the data fixes and that
/// is the same in all parts (say "seq"). The arena is planned for `max`; a
/// larger value is an error before anything runs.
struct SymbolInfo {
  const char *name;
  const char *item;
  int64_t max;
  /// Predicted time (ns) of forward and backward of each of its items in a
  /// part. What reordering balances.
  double cost = 0;
};

/// A tensor in the module's arena region. In slot s it begins at offset + s *
/// slotStride. Which slot: TaskContext::received if `received` (inputs that
/// edges bring: they come before the microbatch has a slot), else
/// TaskContext::slot.
struct BufferInfo {
  TensorInfo tensor;
  size_t offset;
  size_t slotStride;
  bool received = false;
  bool cut = false; ///< a rank has a part only: not for --save-outputs
};

/// An input of a module. Edge: output `fromOutput` of module `fromModule`; rows
/// get here by Receive and Copy rows. Raw (fromModule = -1): comes with the
/// batch under the name "module.input" or, if unique or absent there, plain
/// "input"; the runtime copies it into the buffer right before the Forward row
/// of its part. It stays untouched in its slot until the last backward row of
/// the part is done.
struct InputInfo {
  BufferInfo buffer;
  int32_t fromModule = -1;
  int32_t fromOutput = -1;
};

/// A tensor that goes from one module to another: output `fromOutput` of `from`
/// into input `toInput` of `to`. Its first dim counts items (scale * items),
/// with the kind of the symbol in the target's input shape; then it is cut and
/// routed by items. Without a symbol there it is one piece (one part only).
/// Into a whole-batch module rows are put where their items stand in the global
/// batch.
///
/// `produced`: where the target's backward leaves the gradient, in the target's
/// region; `consumed`: where the source's backward reads it, in the source's.
/// Both are only looked at if `gradient`.
struct EdgeInfo {
  int32_t from, fromOutput, to, toInput;
  bool gradient;
  BufferInfo produced, consumed;
};

struct Fault;           // runtime/data/Fault.h
struct TensorParallel;  // runtime/comm/Collectives.h
class GradientListener; // runtime/comm/Collectives.h

/// What a generated function gets. `arena`, `parameters`, `gradients` are the
/// module's regions on this rank (64-byte aligned; device memory in a CUDA
/// program), `scratch` at least ModuleInfo::scratchBytes that live for the call
/// only; the rest is host memory, valid during the call only.
struct TaskContext {
  std::byte *arena;
  std::byte *scratch;
  std::byte *parameters;
  std::byte *gradients;
  const int64_t *dims; ///< values of the module's symbols in this part
  int32_t slot;
  int32_t received;
  int32_t microbatch;
  const float *seeds; ///< per loss: weight / global denominator, 0 if that is 0
  int64_t step; ///< 0-based; with `seed`: keys of random draws (see Philox.h)
  uint64_t seed;
  void *stream;          ///< cudaStream_t in a CUDA program, else null
  TensorParallel *group; ///< the replica's ranks; never null
  /// Is told by backward functions which gradients are complete; may be null.
  GradientListener *listener = nullptr;
  /// Takes down an index from data that is out of range; null: nobody asks.
  Fault *fault = nullptr;
};

using TaskFn = void (*)(const TaskContext &);

/// One dist.module: a unit, or one stage of a unit. `forward` is @forward.fwd:
/// writes outputs and residuals of the slot. `backward` accumulates parameter
/// gradients (+=) and writes the gradients of edges; null if nothing upstream
/// or inside trains. Where the backward is split, `backwardInput` writes
/// gradients of edges (and what the other half needs), `backwardWeight`
/// accumulates; both null otherwise. With `wholeBatch` the module runs once a
/// step over the global batch, on every rank of `ranks` alike (batch-sync): its
/// dims are those of the global batch. Functions are called also when a dim is
/// 0.
///
/// Replica d (of `dp`) runs on ranks[d * tp] .. ranks[d * tp + tp - 1]. Of a
/// whole-batch module every rank is a replica of its own, with equal work. A
/// replica's share of a microbatch is `sub` parts: d * sub, d * sub + 1, …
struct ModuleInfo {
  const char *name;
  const char *origin; ///< files know its tensors as "origin.tensor": several
                      ///< modules cut from one share it
  const char *unit;   ///< name of the plan's unit, stages share it
  int32_t stage;      ///< of the unit
  const char *item;   ///< what its work is divided by: "sample", "image", …
  Span<SymbolInfo> symbols;
  Span<InputInfo> inputs;
  Span<BufferInfo>
      outputs; ///< what --save-outputs writes; valid right after Forward
  TaskFn forward;
  TaskFn backward;
  TaskFn backwardInput, backwardWeight;
  bool wholeBatch;
  size_t arenaBytes, scratchBytes;
  size_t parameterBytes, trainableBytes; ///< of its region; of gradients
  int32_t tp, dp;
  Span<int32_t> ranks;
  int32_t zero;    ///< 1: optimizer state is sharded over the replicas
  int32_t sub = 1; ///< pieces of a replica's share; 1 of a whole batch
};

/// A part of a size: factor * the product of dims[symbol] over `symbols` (a
/// symbol twice: its square).
struct SizeTerm {
  int64_t factor;
  Span<int32_t> symbols;
};

enum class CollectiveKind : uint8_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll
};

/// What one call of `function` gives to the collectives of one kind on one axis
/// of its group (docs/sharding.md), on every rank: `calls` calls, together the
/// sum of `elements` of `type`, by the dims of the part. Code does not look at
/// it: --traffic compares it with what was sent.
struct CollectiveInfo {
  TaskFn function;
  CollectiveKind kind;
  DType type;
  int64_t over, stride;
  int64_t calls;
  Span<SizeTerm> elements;
};

/// A loss term. `numerator` (F32 scalar) is written by the Forward of `module`
/// for its part. `denominator` writes the part's denominator (F32 scalar) from
/// raw inputs only and runs for all parts before the first Forward; null: 1,
/// the term is a sum. `denominatorInputs`: which inputs of the module it reads
/// (indices): only these are copied beforehand. With D = max(sum of
/// denominators, atLeast) + plus: term = (sum of numerators) / D, 0 if that is
/// 0; loss = sum of weight * term. seeds[index in the table] = weight / D.
struct LossInfo {
  const char *name;
  float weight;
  int32_t module;
  BufferInfo numerator;
  TaskFn denominator;
  BufferInfo denominatorOut;
  Span<int32_t> denominatorInputs;
  double atLeast = -std::numeric_limits<double>::infinity(), plus = 0;
};

/// One row of a rank's step. `index` is the loss for Denominator, the edge for
/// rows that move data, else the module. All Denominator rows come first.
/// Whole-batch modules have microbatch 0. `piece`: of the replica's share of
/// the microbatch, which makes the part that the row is about.
///
/// Messages: microbatch `microbatch` of edge `index` (its gradient if
/// `gradient`), between this rank's part and part `peer` of the other end.
/// `slot` is that of this rank's buffer. Both ends know from the manifest
/// which rows go; a message without rows does not exist. Receive *posts*: the
/// rows are there when a row that reads them begins. Send *begins*: whoever
/// writes to the slot next waits for its end. A rank may send to itself. Copy:
/// both ends are on this rank with equal parts; `slot` is where rows are read,
/// `peer` the slot where they go.
///
/// Into a whole-batch module there are messages from every part to every
/// rank (peer: its index in `ranks`), also of a rank to itself; gradients come
/// from the own rank or, if that does not run the module, from the one with
/// index rank mod ranks.
///
/// Reduce: the module's gradients are complete on this rank; what of their sums
/// over replicas has not begun inside the last backward (GradientListener)
/// begins. They end, with the optimizer's update, after the last row.
enum class TaskKind : uint8_t {
  Denominator,
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  Receive,
  Send,
  Copy,
  Reduce
};
struct TaskRow {
  TaskKind kind;
  uint16_t index;
  uint32_t microbatch;
  int16_t slot;
  int16_t received = 0; ///< Forward, Backward…: slot of received buffers
  int32_t peer = 0;
  bool gradient = false;
  int16_t piece = 0;
};

/// What one rank does in a step, in order. Ranks with equal lists share them.
struct RankInfo {
  Span<TaskRow> rows;
};

/// How microbatches are formed (docs/parallel.md); the value of --reorder.
enum class Reorder : uint8_t { None, Intra, Inter, Both };

enum class OptimizerKind : uint8_t { AdamW, SGD };
enum class ScheduleKind : uint8_t { Constant, Linear, Cosine };

/// PyTorch's formulas (torch.optim.AdamW, torch.optim.SGD without dampening or
/// Nesterov, torch.nn.utils.clip_grad_norm_).
///
/// Learning rate of step s (0-based) of `totalSteps` (0: --steps):
///   s < warmupSteps: lr * (s + 1) / warmupSteps
///   s <= start:      lr, start = warmupSteps + decayFrom * (totalSteps -
///   warmupSteps) after:           lr * (final + (1 - final) * f(x)), x = (s -
///   start) / (totalSteps - start), at most 1,
///                    f = 1 - x (Linear), (1 + cos(pi x)) / 2 (Cosine), 1
///                    (Constant)
struct OptimizerInfo {
  OptimizerKind kind;
  double lr;
  double beta1, beta2, eps; ///< AdamW
  double momentum;          ///< SGD
  double weightDecay; ///< decoupled for AdamW, added to the gradient for SGD
  double clipNorm;    ///< global norm; 0: no clipping
  int64_t warmupSteps;
  ScheduleKind schedule;
  int64_t totalSteps;
  double
      decayFrom; ///< fraction of the steps after warm-up at which decay begins
  double finalFraction; ///< of lr
};

struct ProgramInfo {
  const char *name;
  uint64_t planHash; ///< identifies tables and layout; a checkpoint of another
                     ///< hash is converted when it is loaded
  Span<ParameterInfo> parameters; ///< by module
  Span<ModuleInfo> modules;       ///< in topological order of the edges
  Span<EdgeInfo> edges;
  Span<LossInfo> losses;
  Span<RankInfo> ranks;
  int32_t pace; ///< module whose replicas together hold a microbatch's samples
  const char *schedule; ///< name, for reports
  OptimizerInfo optimizer;
  int64_t globalBatch; ///< samples a step
  int64_t microBatch;  ///< samples a microbatch, the last may have fewer; n =
                       ///< ceil(global / micro)
  uint64_t seed;
  Reorder reorder;
  size_t bucketBytes; ///< of gradient reductions
  Span<CollectiveInfo> collectives{};
};

/// Runs the command line of a program (see Options.h for the flags) and returns
/// the exit code; errors are one line on stderr. A generated main() is this
/// call. `directory` holds weights.safetensors, plan.json and onnx/; the flag
/// --program overrides it.
int trainMain(const ProgramInfo &program, const char *directory, int argc,
              char **argv);

} // namespace dt::rt

/// Defined by the generated program.cpp.
extern const dt::rt::ProgramInfo kProgram;

#endif // DT_RUNTIME_PROGRAM_H

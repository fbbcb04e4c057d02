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

/// One trained or frozen tensor. `tensor.name` is "module.initializer"
/// ("llm.layers.0.mlp.up_proj.weight"): the key in weights.safetensors,
/// checkpoints and --save-gradients. The shape has no symbols. F32 if
/// trainable.
///
/// Offsets are multiples of 64 bytes, ascending in the table. The gradient and
/// both moments use the same offset in blocks of their own, which end with the
/// last trainable parameter: put trainable parameters first.
struct ParameterInfo {
  TensorInfo tensor;
  size_t offset;  ///< bytes from the start of the parameter block
  bool trainable; ///< false: the gradient block has no place for it and nothing
                  ///< writes to it
  bool hasGradient; ///< some backward function accumulates into it; if not, the
                    ///< optimizer does not touch it (no decay)
  bool decay;       ///< weight decay applies
  const char *init; ///< rule, e.g. "normal(0,0.02)" (see Init.h), or null: the
                    ///< value is in weights.safetensors
  Span<OnnxRef> onnx;
};

/// A dim symbol of a module. `item`: the kind of item whose number it counts in
/// a part ("sample", "image"), or null for a dim that the data fixes and that
/// is the same in all parts (say "seq"). The arena is planned for `max`; a
/// larger value is an error before anything runs.
struct SymbolInfo {
  const char *name;
  const char *item;
  int64_t max;
};

/// A tensor in the arena. In slot s it begins at
///   offset + s * slotStride + (rowSymbol < 0 ? 0 : rows[rowSymbol] * rowBytes)
/// where rowBytes = bytes of what one unit of that symbol occupies (axis 0's
/// scale times the inner dims). rowSymbol is used by outputs that go straight
/// into the global-batch input of a whole-batch head.
struct BufferInfo {
  TensorInfo tensor;
  size_t offset;
  size_t slotStride;
  int32_t rowSymbol = -1;
};

/// An input of a module. Edge: the value is output `fromOutput` of module
/// `fromModule`; codegen has placed both, the runtime copies nothing. Raw
/// (fromModule = -1): comes with the batch under the name "module.input" or, if
/// unique or absent there, plain "input"; the runtime copies it into the buffer
/// right before the Forward row of its part. It stays untouched in its slot
/// until the Backward row of the part is done.
struct InputInfo {
  BufferInfo buffer;
  int32_t fromModule = -1;
  int32_t fromOutput = -1;
};

/// What a generated function gets. `arena`, `parameters`, `gradients` are base
/// addresses (64-byte aligned; device memory in a CUDA program); the rest is
/// host memory, valid during the call only.
struct TaskContext {
  std::byte *arena;
  std::byte *parameters;
  std::byte *gradients;
  const int64_t *dims; ///< values of the module's symbols in this part
  const int64_t *rows; ///< per symbol of the module: number of such items in
                       ///< the global batch before this part
  int32_t slot;
  int32_t microbatch;
  const float *seeds; ///< per loss: weight / global denominator, 0 if that is 0
  int64_t step; ///< 0-based; with `seed`: keys of random draws (see Philox.h)
  uint64_t seed;
  void *stream; ///< cudaStream_t in a CUDA program, else null
};

using TaskFn = void (*)(const TaskContext &);

/// One dist.module. `forward` is @forward.fwd: writes outputs and residuals of
/// the slot. `backward` accumulates parameter gradients (+=) and writes the
/// gradients of edges; null if nothing upstream or inside trains. With
/// `wholeBatch` the module runs once a step over the global batch: its dims are
/// those of the global batch, rows are 0. Functions are called also when a dim
/// is 0.
struct ModuleInfo {
  const char *name;
  const char *origin; ///< files know its tensors as "origin.tensor": several
                      ///< modules cut from one share it
  Span<SymbolInfo> symbols;
  Span<InputInfo> inputs;
  Span<BufferInfo>
      outputs; ///< what --save-outputs writes; valid right after Forward
  TaskFn forward;
  TaskFn backward;
  bool wholeBatch;
};

/// A loss term. `numerator` (F32 scalar) is written by the Forward of `module`
/// for its part. `denominator` writes the part's denominator (F32 scalar) from
/// raw inputs only and runs for all parts before the first Forward; null: each
/// part counts 1. `denominatorInputs`: which inputs of the module it reads
/// (indices): only these are copied beforehand. term = (sum of numerators) /
/// (sum of denominators), 0 if that is 0; loss = sum of weight * term.
/// seeds[index in the table] = weight / sum of denominators.
struct LossInfo {
  const char *name;
  float weight;
  int32_t module;
  BufferInfo numerator;
  TaskFn denominator;
  BufferInfo denominatorOut;
  Span<int32_t> denominatorInputs;
};

/// One row of the step. `index` is the loss for Denominator and the module
/// otherwise. All Denominator rows come first. Whole-batch modules have
/// microbatch 0.
enum class TaskKind : uint8_t { Denominator, Forward, Backward };
struct TaskRow {
  TaskKind kind;
  uint16_t index;
  uint32_t microbatch;
  uint16_t slot;
};

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
                     ///< hash is refused
  Span<ParameterInfo> parameters;
  Span<ModuleInfo> modules; ///< in topological order of the edges
  Span<LossInfo> losses;
  Span<TaskRow> rows; ///< one step, in execution order
  OptimizerInfo optimizer;
  size_t arenaBytes;
  size_t parameterBytes;
  int64_t globalBatch; ///< samples a step
  int64_t microBatch;  ///< samples a microbatch, the last may have fewer; n =
                       ///< ceil(global / micro)
  uint64_t seed;
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

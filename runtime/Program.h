//===- Program.h - what an emitted program tells the runtime ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The contract between generated code and the runtime. A generated program is a
// constant `kProgram` made of the tables of Tables.def plus the functions they
// point to; everything else (data, step loop, optimizer, checkpoints, command
// line) is the runtime's and is the same for every program. Tables are plain
// aggregates of pointers and numbers, so that they are constant-initialised and
// readable in the generated source. No MLIR, no target: the CUDA program has
// the same tables.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_PROGRAM_H
#define DT_RUNTIME_PROGRAM_H

#include "runtime/Enums.h"
#include "runtime/Span.h"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace dt::rt {

enum class OptimizerKind : uint8_t; // runtime/Optimizers.h
struct TaskContext;
using TaskFn = void (*)(const TaskContext &);

#define DT_TABLE(name) struct name {
#define DT_COLUMN(type, name) type name;
#define DT_OPTIONAL(type, name, value) type name = value;
#define DT_END }
#include "runtime/Tables.def"

struct Fault;           // runtime/data/Fault.h
struct TensorParallel;  // runtime/comm/Collectives.h
class GradientListener; // runtime/comm/Collectives.h

/// What a generated function gets. `arena`, `parameters`, `gradients` are the
/// module's regions on this rank (64-byte aligned; device memory in a CUDA
/// program, as `seeds`), `scratch` at least ModuleInfo::scratchBytes that live
/// for the call only; the rest is host memory, valid during the call only.
/// Nothing here changes from step to step, as calls are recorded
/// (TaskRecordings.h): what does is in device memory.
struct TaskContext {
  std::byte *arena;
  std::byte *scratch;
  std::byte *parameters;
  std::byte *gradients;
  const int64_t *dims; ///< values of the module's symbols in this part
  int32_t slot, received, early, late; ///< as in TaskRow
  /// Per loss: weight / global denominator, 0 if that is 0. For backward
  /// functions.
  const float *seeds;
  void *stream;          ///< cudaStream_t in a CUDA program, else null
  void *tpStream;        ///< Fabric::tpStream()
  TensorParallel *group; ///< the replica's ranks; never null
  /// Is told by backward functions which gradients are complete; may be null.
  GradientListener *listener = nullptr;
  /// Takes down an index from data that is out of range; null: nobody asks.
  Fault *fault = nullptr;
};

/// The slot of that kind in a TaskRow of a task, or in a TaskContext.
template <typename T> constexpr int32_t getSlot(const T &of, SlotKind kind) {
  const int32_t slots[] = {of.slot, of.received, of.early, of.late};
  static_assert(sizeof(slots) == kCases<SlotKind> * sizeof(int32_t));
  return slots[size_t(kind)];
}

/// Runs the command line of a program (see Options.h for the flags) and returns
/// the exit code; errors are one line on stderr. A generated main() is this
/// call. `directory` holds weights.safetensors, data.json and onnx/; the flag
/// --program overrides it.
int trainMain(const ProgramInfo &program, const char *directory, int argc,
              char **argv);

} // namespace dt::rt

/// Defined by the generated program.cpp.
extern const dt::rt::ProgramInfo kProgram;

#endif // DT_RUNTIME_PROGRAM_H

//===- Enums.h - enums of the tables and of the IR --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The enums of the emitted tables (Tables.def), of the calls in generated code
// and of plans. They are described here only: the compiler's IR has the same
// types (dialects/dist/RuntimeEnums.h) and reads and prints the texts of this
// file. Optimizers.h has one more.
// Numbers are given by the order; IR and emitted programs depend on it.
//
// A case is CASE(name in C++, text in IR, flags and files); a collective's has
// its CollectiveForm behind them. Every file of an emitted program includes
// this one: it includes no more than it must. Texts are read by EnumTexts.h.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_ENUMS_H
#define DT_RUNTIME_ENUMS_H

#include <cstddef>
#include <cstdint>

namespace dt::rt {

/// What an axis over which gradients are partial sums has for a dim, where its
/// ranks have other tokens (ParameterInfo::partial).
inline constexpr int64_t kTokenAxis = 1;

struct EnumCase {
  const char *name, *text;
};

/// Of each enum below: its `name` and its `cases`, by number.
template <typename E> struct EnumTable;

template <size_t N> constexpr size_t countCases(const EnumCase (&)[N]) {
  return N;
}
/// The number of cases, of an enum that has the same ones everywhere.
template <typename E>
inline constexpr size_t kCases = countCases(EnumTable<E>::cases);

template <typename E> constexpr const char *textOf(E value) {
  return EnumTable<E>::cases[size_t(value)].text;
}

#define DT_CASE_NAME(name, text, ...) name,
#define DT_CASE_ROW(name, text, ...) {#name, text},
#define DT_CASE_FORM(name, text, ...) {__VA_ARGS__},
#define DT_ENUM(Enum, CASES)                                                   \
  enum class Enum : uint8_t { CASES(DT_CASE_NAME) };                           \
  template <> struct EnumTable<Enum> {                                         \
    static constexpr const char *name = #Enum;                                 \
    static constexpr EnumCase cases[] = {CASES(DT_CASE_ROW)};                  \
  };

/// An element's type; the texts are those of safetensors.
#define DT_CASES(CASE)                                                         \
  CASE(F32, "F32")                                                             \
  CASE(F64, "F64")                                                             \
  CASE(F16, "F16")                                                             \
  CASE(BF16, "BF16")                                                           \
  CASE(I64, "I64")                                                             \
  CASE(I32, "I32")                                                             \
  CASE(I8, "I8")                                                               \
  CASE(U8, "U8")                                                               \
  CASE(Bool, "BOOL")
DT_ENUM(DType, DT_CASES)
#undef DT_CASES

/// What a row of a rank's step does (TaskRow).
#define DT_CASES(CASE)                                                         \
  CASE(Denominator, "denominator")                                             \
  CASE(Forward, "forward")                                                     \
  CASE(Backward, "backward")                                                   \
  CASE(BackwardInput, "backward_input")                                        \
  CASE(BackwardWeight, "backward_weight")                                      \
  CASE(Receive, "receive")                                                     \
  CASE(Send, "send")                                                           \
  CASE(Copy, "copy")                                                           \
  CASE(Reduce, "reduce")
DT_ENUM(TaskKind, DT_CASES)
#undef DT_CASES

/// From when to when a buffer is a microbatch's: of each kind a module has as
/// many slots as are in use at once (docs/memory.md#slots).
#define DT_CASES(CASE)                                                         \
  /* the forward to the last backward */                                       \
  CASE(Whole, "whole")                                                         \
  /* what edges bring: the post of its first message to its last reader */     \
  CASE(Received, "received")                                                   \
  /* the forward to the gradients of inputs */                                 \
  CASE(Early, "early")                                                         \
  /* the gradients of inputs to those of weights */                            \
  CASE(Late, "late")
DT_ENUM(SlotKind, DT_CASES)
#undef DT_CASES

/// How the bytes of a collective of n ranks travel; what planners price it by.
enum class Travel : uint8_t {
  Ring,      ///< n - 1 steps, in each of which a rank passes an n-th on
  Step,      ///< one of these
  RoundTrip, ///< a ring or a tree there and back, with sums on the way
  Pairs      ///< every rank has a message for every other one
};

/// What a collective does with blocks. A block is what one rank has of a cut
/// tensor, or all of one that is not cut.
struct CollectiveForm {
  bool scatters = false; ///< `in` has a block for every rank, else one block
  bool gathers = false;  ///< `out` has a block of every rank, else one block
  bool combines = false; ///< numbers of all ranks become one: F32, BF16, I64
  Travel travel = Travel::Ring;
};

/// What the ranks of an axis do together.
#define DT_CASES(CASE)                                                         \
  CASE(AllReduce, "all_reduce", .combines = true, .travel = Travel::RoundTrip) \
  CASE(AllGather, "all_gather", .gathers = true)                               \
  CASE(ReduceScatter, "reduce_scatter", .scatters = true, .combines = true)    \
  CASE(AllToAll, "all_to_all", .scatters = true, .gathers = true,              \
       .travel = Travel::Pairs)                                                \
  /* a block goes to the next rank of the axis, the last one's to the first */ \
  CASE(Shift, "shift", .travel = Travel::Step)
DT_ENUM(CollectiveKind, DT_CASES)
inline constexpr CollectiveForm kCollectiveForms[] = {DT_CASES(DT_CASE_FORM)};
#undef DT_CASES

constexpr const CollectiveForm &formOf(CollectiveKind kind) {
  return kCollectiveForms[size_t(kind)];
}

/// How an all-reduce combines the ranks' values.
#define DT_CASES(CASE)                                                         \
  CASE(Sum, "sum")                                                             \
  CASE(Max, "max")                                                             \
  CASE(Min, "min")
DT_ENUM(Reduction, DT_CASES)
#undef DT_CASES

/// How microbatches are formed (docs/reordering.md); the value of --reorder.
#define DT_CASES(CASE)                                                         \
  CASE(None, "none")                                                           \
  CASE(Intra, "intra")                                                         \
  CASE(Inter, "inter")                                                         \
  CASE(Both, "both")
DT_ENUM(Reorder, DT_CASES)
#undef DT_CASES

/// The saved set (docs/architecture.md): a forward keeps inputs only; what
/// gradients ask for, without cheap results; all that gradients ask for.
#define DT_CASES(CASE)                                                         \
  CASE(None, "none")                                                           \
  CASE(Vjp, "vjp")                                                             \
  CASE(All, "all")
DT_ENUM(Save, DT_CASES)
#undef DT_CASES

/// How queries come by the keys of other ranks, where tokens are cut
/// (docs/context.md): keys are gathered; tokens are exchanged for heads; keys
/// go round, a rank's block at a time.
#define DT_CASES(CASE)                                                         \
  CASE(Gather, "gather")                                                       \
  CASE(Heads, "heads")                                                         \
  CASE(Ring, "ring")
DT_ENUM(ContextKeys, DT_CASES)
#undef DT_CASES

/// What a query gets that no key is visible to: the mean over all keys' values
/// (what one finite mask constant gives in softmax where it is added to scores;
/// its gradient flows accordingly), zero, not-a-number (what -inf gives in
/// softmax), or the mean where query and key have no gradient (what the
/// constant gives in place of the scores).
#define DT_CASES(CASE)                                                         \
  CASE(Mean, "mean")                                                           \
  CASE(Zero, "zero")                                                           \
  CASE(NaN, "nan")                                                             \
  CASE(Filled, "filled")
DT_ENUM(EmptyRow, DT_CASES)
#undef DT_CASES

/// The course of the learning rate.
#define DT_CASES(CASE)                                                         \
  CASE(Constant, "constant")                                                   \
  CASE(Linear, "linear")                                                       \
  CASE(Cosine, "cosine")
DT_ENUM(ScheduleKind, DT_CASES)
#undef DT_CASES

#undef DT_ENUM
#undef DT_CASE_FORM
#undef DT_CASE_ROW
#undef DT_CASE_NAME

/// A backward of a module, or a half of one.
constexpr bool goesBack(TaskKind kind) {
  return kind == TaskKind::Backward || kind == TaskKind::BackwardInput ||
         kind == TaskKind::BackwardWeight;
}
/// A forward or a backward.
constexpr bool computes(TaskKind kind) {
  return kind == TaskKind::Forward || goesBack(kind);
}
/// Whether rows of this kind run a function of the module (rt.entry).
constexpr bool runsFunction(TaskKind kind) {
  return kind == TaskKind::Denominator || computes(kind);
}

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

} // namespace dt::rt

#endif // DT_RUNTIME_ENUMS_H

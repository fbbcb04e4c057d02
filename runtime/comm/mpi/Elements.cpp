//===- Elements.cpp - what MPI calls elements and reductions ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/mpi/Elements.h"
#include "runtime/comm/Combine.h"
#include "runtime/comm/mpi/Calls.h"
#include "runtime/device/BFloat16.h"

namespace dt::rt {

/// MPI's reduction of bf16, which it has no type for: float32 of each pair is
/// rounded.
static void addNarrow(void *in, void *inOut, int *n, MPI_Datatype *) {
  auto *from = static_cast<const bf16 *>(in);
  auto *to = static_cast<bf16 *>(inOut);
  for (int i = 0; i < *n; ++i)
    to[i] = float(to[i]) + float(from[i]);
}

static MPI_Op narrowSum() {
  static MPI_Op op = [] {
    MPI_Op made;
    mpiCheck(MPI_Op_create(addNarrow, /*commute=*/1, &made), "MPI_Op_create");
    return made;
  }();
  return op;
}

MPI_Datatype mpiType(DType type) {
  switch (type) {
  case DType::BF16:
    return MPI_UINT16_T;
  case DType::F32:
    return MPI_FLOAT;
  case DType::F64:
    return MPI_DOUBLE;
  case DType::I64:
    return MPI_INT64_T;
  default:
    expectCombined(type);
    return MPI_DATATYPE_NULL;
  }
}

MPI_Op mpiOp(Reduction kind, DType type) {
  if (type == DType::BF16 && kind != Reduction::Sum)
    throw Error("bf16 is only summed while other work goes on");
  if (type == DType::BF16)
    return narrowSum();
  return kind == Reduction::Sum   ? MPI_SUM
         : kind == Reduction::Max ? MPI_MAX
                                  : MPI_MIN;
}

} // namespace dt::rt

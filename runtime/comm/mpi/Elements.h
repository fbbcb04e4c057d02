//===- Elements.h - what MPI calls elements and reductions ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_MPI_ELEMENTS_H
#define DT_RUNTIME_COMM_MPI_ELEMENTS_H

#include "runtime/Enums.h"

#include <mpi.h>

namespace dt::rt {

/// Throws Error for a type that ranks do not combine. BF16 travels as its bits.
MPI_Datatype mpiType(DType type);
/// Of such elements. Throws Error for BF16 unless it is a sum.
MPI_Op mpiOp(Reduction kind, DType type = DType::F32);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_MPI_ELEMENTS_H

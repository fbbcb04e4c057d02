//===- ModelFlops.h - FLOPs of a step's model -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_MODELFLOPS_H
#define DT_RUNTIME_DATA_MODELFLOPS_H

#include "runtime/data/Assignment.h"

namespace dt::rt {

/// FLOPs of a step's parts by the compiler's tables (ModuleInfo::work, pairs):
/// products, convolutions and attention, forward and for the gradients that are
/// wanted, once, on however many ranks and however often they are computed.
/// `fixed`: [module][symbol], values of the symbols that count nothing.
double modelFlops(const ProgramInfo &program, const Assignment &assignment,
                  const std::vector<std::vector<int64_t>> &fixed);

/// FLOP/s of all ranks' devices together; 0 if that of any is not known.
double peakFlops(const ProgramInfo &program);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_MODELFLOPS_H

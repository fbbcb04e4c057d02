//===- SlowCalls.h - library calls that a device does not speed up -*- C++ -*-//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_COMMON_SLOWCALLS_H
#define CODEGEN_COMMON_SLOWCALLS_H

#include "codegen/common/Target.h"

namespace dt::codegen {

/// The module's products, convolutions and attentions for which the target has
/// a reason (Target::getSlowness) why they do not run on the units that
/// multiply fastest, as one line: numbers of each kind, where in the model they
/// come from unless it is all of their kind, and the reason. Empty: there are
/// none.
std::string describeSlowCalls(rt::ModuleOp module, const Target &target);

/// A remark for each module that has such calls.
void remarkSlowCalls(rt::ProgramOp program, const Target &target);

} // namespace dt::codegen

#endif // CODEGEN_COMMON_SLOWCALLS_H

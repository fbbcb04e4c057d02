//===- Fault.h - indices from data that are out of range --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Labels, token ids and whatever else selects rows comes from data. Generated
// code clamps such indices, so that none of them can touch other memory, and
// calls checkIndices before it uses them: of a task's first index that is out
// of range this record says what is known about it. The runtime looks at the
// record after each task and ends the run, before the task's results go
// anywhere; a device leaves the step's update out, and the runtime looks when
// it has the step's numbers (docs/program.md, "Indices from data").
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_FAULT_H
#define DT_RUNTIME_DATA_FAULT_H

#include "runtime/Program.h"
#include "runtime/data/IndexCheck.h"

#include <functional>
#include <string>

namespace dt::rt {

/// One line about the fault. `part`: what the task worked on, or null where
/// that is not known any more. `nameOf`: of a sample by its place in the global
/// batch; may be empty.
std::string describeFault(const Fault &fault, const ProgramInfo &program,
                          const struct Part *part,
                          const std::function<std::string(int64_t)> &nameOf);

/// "tensor 'labels' (or 'llm.labels'), which the loss 'text' compares with, is
/// missing": of a raw input of the module, by the recipe's words.
std::string describeMissing(const ProgramInfo &program,
                            const std::string &module,
                            const std::string &input);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_FAULT_H

//===- MeasuredTrace.h - A step as a run has done it ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_OPT_MEASUREDTRACE_H
#define TOOLS_DT_OPT_MEASUREDTRACE_H

#include "passes/picture/Timeline.h"
#include "passes/scheduler/core/Problem.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <nlohmann/json_fwd.hpp>

namespace dt {

/// The step of median length in what `train --trace` wrote, which `json` is;
/// the first step, which warms up, counts only where it is alone. `problem` is
/// the program's: errors name the file and what it says that the program has
/// not.
llvm::Expected<picture::TimelineChart>
readTrace(const nlohmann::json &json, const scheduler::Problem &problem,
          llvm::StringRef file);

} // namespace dt

#endif // TOOLS_DT_OPT_MEASUREDTRACE_H

//===- Sources.h - where a run's batches come from --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_TRAIN_SOURCES_H
#define DT_RUNTIME_TRAIN_SOURCES_H

#include "runtime/base/Options.h"
#include "runtime/comm/Comm.h"
#include "runtime/data/BatchSource.h"

#include <memory>
#include <string>

namespace dt::rt {

/// Opens batches of one's own or shards (`paths` as --batch and --data have
/// them, of shards one), to train or to validate on. All ranks call it; those
/// that index shards together have the same error, as text. False if some
/// process was asked to end before it was done. Throws Error.
bool openSource(std::unique_ptr<BatchSource> &source,
                const ProgramInfo &program, const nlohmann::json &sections,
                const Options &options, const std::vector<std::string> &paths,
                bool areBatches, Comm &comm);

} // namespace dt::rt

#endif // DT_RUNTIME_TRAIN_SOURCES_H

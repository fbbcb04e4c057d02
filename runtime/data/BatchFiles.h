//===- BatchFiles.h - batches from files and pipes --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_BATCHFILES_H
#define DT_RUNTIME_DATA_BATCHFILES_H

#include "runtime/base/Safetensors.h"
#include "runtime/data/BatchSource.h"

namespace dt::rt {

/// One batch, cut for a rank (FileBatch.cpp): the same in every step. Its hash
/// is not known.
std::unique_ptr<BatchSource> cutBatch(const ProgramInfo &program,
                                      const nlohmann::json &sections,
                                      std::unique_ptr<SafetensorsFile> file,
                                      const RankView &view, Reorder reorder);

/// Makes a batch of a file.
using CutBatch = std::function<std::unique_ptr<BatchSource>(
    std::unique_ptr<SafetensorsFile>)>;

/// Batches that come through a pipe, one behind another (BatchStream.cpp). The
/// first rank reads it.
std::unique_ptr<BatchSource>
openBatchStream(const ProgramInfo &program, const nlohmann::json &sections,
                const std::string &path, const RankView &view, Reorder reorder,
                std::shared_ptr<BatchPeers> peers);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_BATCHFILES_H

//===- MadeBatch.h - batches without data -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Parts of a wanted size with made-up contents, to measure how long tasks take:
// that depends on shapes. Floats are random in [0, 1); masks are all ones;
// other integers are 0, which is a valid token, label and position everywhere.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_MADEBATCH_H
#define DT_RUNTIME_DATA_MADEBATCH_H

#include "runtime/data/BatchSource.h"

namespace dt::rt {

/// Batches of one program, as large as its `globalBatch` says when it is asked.
/// Made while `program` has the bounds that it was compiled for.
class BatchMaker {
public:
  BatchMaker(const ProgramInfo &program, const RankView &view);

  /// With so many items of every other kind a sample, or as many as it may
  /// have if that is less. Valid until the next call.
  const Batch &make(int64_t items);

private:
  Measures measuresOf(const std::string &kind, int64_t count) const;
  Part makePart(size_t module, const PartItems &items);
  std::vector<std::byte> contents(const TensorInfo &tensor, size_t count);

  const ProgramInfo &program;
  RankView view;
  /// Most items of a kind that a sample may have.
  std::vector<std::pair<std::string, int64_t>> kinds;
  std::vector<std::vector<std::byte>> storage;
  Batch batch;
};

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_MADEBATCH_H

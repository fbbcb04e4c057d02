//===- Trace.h - when each rank did what ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// --trace: Chrome's trace event format ("X" events, for sums of gradients "b"
// and "e"; microseconds), which ui.perfetto.dev shows; a lane a rank. Each rank
// writes `F.rank-R`, an event a line; rank 0 joins these to F. Times are those
// of one machine's clock.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OBSERVE_TRACE_H
#define DT_RUNTIME_OBSERVE_TRACE_H

#include "runtime/base/Files.h"
#include "runtime/step/Trainer.h"

namespace dt::rt {

class Trace {
public:
  /// An empty path: nothing is written. Throws Error.
  Trace(const Trainer &trainer, const std::string &path);
  /// Without finish(): this rank's file is removed.
  ~Trace();

  bool enabled() const { return stream.isOpen(); }
  void row(const TaskRow &row, int64_t step, const RowTime &time);
  void event(const std::string &name, int64_t step, double begin, double end);
  /// Of one bucket of a module's gradients over the replicas.
  void sum(size_t module, size_t bytes, int64_t step, double begin, double end);
  /// All ranks call it; throws CommonError.
  void finish();

private:
  std::string own() const;
  void join() const;

  const Trainer &trainer;
  std::string path;
  FileWriter stream;
  int64_t sums = 0; ///< written so far
};

/// "forward llm.0 3": what a row does, on which microbatch.
std::string nameOf(const TaskRow &row, const ProgramInfo &program);

} // namespace dt::rt

#endif // DT_RUNTIME_OBSERVE_TRACE_H

//===- EventFile.h - scalars for TensorBoard --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An event file is a sequence of records, each a protobuf message
// tensorflow.Event between its length and checksums. Of that message a run
// needs a few fields of plain types (Protobuf.h).
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_OBSERVE_EVENTFILE_H
#define DT_RUNTIME_OBSERVE_EVENTFILE_H

#include "runtime/base/Files.h"

#include <string>
#include <vector>

namespace dt::rt {

class EventFile {
public:
  struct Scalar {
    std::string name;
    float value;
  };

  /// A new file events.out.tfevents.… in the folder, which is made. `first`: if
  /// not 0 the run was resumed there, and TensorBoard is to forget later steps
  /// of the folder's other files. Throws SystemError.
  void open(const std::string &folder, int64_t first);
  /// The same as when it was opened, for steps after `step`.
  void forgetAfter(int64_t step);
  bool isOpen() const { return file.isOpen(); }
  /// Does nothing if no file is open.
  void write(int64_t step, const std::vector<Scalar> &scalars);
  /// What went wrong so far; empty: nothing.
  const std::string &failure() const { return file.failure(); }

private:
  void record(const std::string &event);

  FileWriter file;
};

/// CRC-32C (Castagnoli) of some bytes.
uint32_t crc32c(const std::string &bytes);

} // namespace dt::rt

#endif // DT_RUNTIME_OBSERVE_EVENTFILE_H

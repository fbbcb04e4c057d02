//===- FileActivity.h - who reads and writes files --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A file that is slow is no fault; one whose reading or writing stands still
// is. Whoever reads or writes says so here, with every piece that has moved,
// and the watchdog (Watchdog.h) looks at it. For the whole process: files are
// read deep inside of functions that know nothing of ranks.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_FILEACTIVITY_H
#define DT_RUNTIME_BASE_FILEACTIVITY_H

#include <atomic>
#include <cstdint>
#include <string>

namespace dt::rt {

/// Bytes of one call that reads or writes: the file shows progress between two.
constexpr size_t kMostAtOnce = size_t(1) << 20;
/// Bytes after which a writer waits for the disk, so that the sync at the end
/// does not take as long as all of the file.
constexpr size_t kMostUnsynced = size_t(64) << 20;

/// A thread reads or writes a file as long as this object lives. What moves in
/// an inner one moves in the outer ones of the thread as well.
class FileActivity {
public:
  /// `verb`: "reading" or "writing".
  FileActivity(const char *verb, const std::string &file);
  ~FileActivity();
  FileActivity(const FileActivity &) = delete;
  FileActivity &operator=(const FileActivity &) = delete;
  /// Something has moved.
  void moved();

private:
  friend std::string silentActivity(double);
  friend void restartActivities();
  const char *verb;
  std::string file;
  std::atomic<double> last; ///< as now() has it
  FileActivity *next = nullptr, *previous = nullptr, *outer;
};

/// Work that has no task: a sample is indexed, a parameter loaded.
void progressed();
/// Grows with every moved() and progressed() of the process.
uint64_t progressCount();

/// While this object lives a thread waits for what rank `rank` writes.
class AwaitsWriter {
public:
  explicit AwaitsWriter(int rank);
  ~AwaitsWriter();
};
/// That rank; -1: none.
int awaitedWriter();

/// "writing FILE" of an activity in which nothing has moved for so many
/// seconds; empty: there is none.
std::string silentActivity(double seconds);

/// Takes it that all activities have moved now: the process itself stood still.
void restartActivities();

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_FILEACTIVITY_H

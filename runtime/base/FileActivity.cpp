//===- FileActivity.cpp - who reads and writes files, and how far ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/FileActivity.h"
#include "runtime/base/Clock.h"

#include <mutex>

namespace dt::rt {

namespace {

/// Of the process.
struct Registry {
  std::mutex mutex;
  FileActivity *first = nullptr;
  std::atomic<uint64_t> progress{0};
  std::atomic<int> awaited{-1};
};
thread_local FileActivity *innermost = nullptr;

Registry &registry() {
  static Registry one;
  return one;
}

} // namespace

FileActivity::FileActivity(const char *verb, const std::string &file)
    : verb(verb), file(file), last(now()), outer(innermost) {
  innermost = this;
  Registry &all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  next = all.first;
  if (next)
    next->previous = this;
  all.first = this;
}

FileActivity::~FileActivity() {
  moved();
  innermost = outer;
  Registry &all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  (previous ? previous->next : all.first) = next;
  if (next)
    next->previous = previous;
}

void FileActivity::moved() {
  for (FileActivity *a = this; a; a = a->outer)
    a->last.store(now(), std::memory_order_relaxed);
  progressed();
}

void progressed() {
  registry().progress.fetch_add(1, std::memory_order_relaxed);
}

uint64_t progressCount() {
  return registry().progress.load(std::memory_order_relaxed);
}

AwaitsWriter::AwaitsWriter(int rank) { registry().awaited = rank; }
AwaitsWriter::~AwaitsWriter() { registry().awaited = -1; }
int awaitedWriter() { return registry().awaited; }

void restartActivities() {
  Registry &all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (FileActivity *a = all.first; a; a = a->next)
    a->last.store(now(), std::memory_order_relaxed);
}

std::string silentActivity(double seconds) {
  Registry &all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  double time = now();
  for (FileActivity *a = all.first; a; a = a->next)
    if (time - a->last.load(std::memory_order_relaxed) >= seconds)
      return std::string(a->verb) + " " + a->file;
  return {};
}

} // namespace dt::rt

//===- Streams.cpp - work that runs as late as it may -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Calls queue work and note what it comes after: the work before it in its
// stream, an event's, and what the default stream's rules add. Nothing runs
// before somebody waits; then only what that must wait for runs, and where
// several pieces of work may be next, a draw decides.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <set>
#include <thread>
#include <unistd.h>
#include <unordered_map>

namespace cuda_double {

using Clock = std::chrono::steady_clock;

struct Work {
  std::function<void()> run;
  std::function<bool()> attempt; ///< instead: true once it has run
  const void *kernel = nullptr;
  std::vector<std::shared_ptr<Work>> after;
  bool done = false;
  Clock::time_point ended; ///< if done
};

namespace {

/// The thread that does device work: shared memory is its thread-local storage.
class Device {
public:
  void run(const std::function<void()> &work) {
    if (!started) {
      started = true;
      std::thread([this] { loop(); }).detach();
    }
    std::unique_lock<std::mutex> lock(mutex);
    job = &work;
    changed.notify_all();
    changed.wait(lock, [this] { return !job; });
  }
  std::thread::id id;

private:
  void loop() {
    std::unique_lock<std::mutex> lock(mutex);
    id = std::this_thread::get_id();
    for (;;) {
      changed.wait(lock, [this] { return job; });
      (*job)();
      job = nullptr;
      changed.notify_all();
    }
  }

  bool started = false;
  std::mutex mutex;
  std::condition_variable changed;
  const std::function<void()> *job = nullptr;
};

} // namespace
} // namespace cuda_double

struct CUstream_st {
  bool blocking = true; ///< keeps the default stream's order
  cuda_double::WorkPtr last;
};

struct CUevent_st {
  bool timed = true;
  cuda_double::WorkPtr recorded;
  unsigned asked = 0; ///< in vain, since it was recorded
};

namespace cuda_double {

namespace {

// Never destroyed: the device thread outlives main().
Device &device = *new Device;
CUstream_st &defaultStream = *new CUstream_st;
auto &streams = *new std::set<CUstream_st *>;
auto &events = *new std::set<CUevent_st *>;
auto &attempts = *new std::vector<WorkPtr>; ///< that may not have ended
const void *running = nullptr;

CUstream_st &streamOf(cudaStream_t stream) {
  if (!stream) {
    counts.defaultStreamUses++;
    return defaultStream;
  }
  if (!streams.count(stream))
    die("a stream that does not exist, or no more");
  return *stream;
}

CUevent_st &eventOf(cudaEvent_t event) {
  if (!events.count(event))
    die("an event that does not exist, or no more");
  return *event;
}

void follow(Work &work, const WorkPtr &before) {
  if (before && !before->done)
    work.after.push_back(before);
}

void append(CUstream_st &stream, const WorkPtr &work) {
  follow(*work, stream.last);
  if (&stream == &defaultStream) {
    for (CUstream_st *other : streams)
      if (other->blocking)
        follow(*work, other->last);
  } else if (stream.blocking) {
    follow(*work, defaultStream.last);
  }
  stream.last = work;
}

bool allDone(const std::vector<WorkPtr> &works) {
  return std::all_of(works.begin(), works.end(),
                     [](const WorkPtr &w) { return !w || w->done; });
}

/// Runs what nobody has to wait for, until all that is needed has run. What
/// waits for other processes is tried meanwhile, as they may wait for it, and
/// need not end. Without anything needed: until all that is left waits.
void runAll(const std::vector<WorkPtr> &needed) {
  std::unordered_map<Work *, size_t> missing;
  std::unordered_map<Work *, std::vector<WorkPtr>> behind;
  std::vector<WorkPtr> open, ready;
  auto visit = [&](const WorkPtr &work) {
    if (work && !work->done && missing.emplace(work.get(), 0).second)
      open.push_back(work);
  };
  std::for_each(needed.begin(), needed.end(), visit);
  std::for_each(attempts.begin(), attempts.end(), visit);
  while (!open.empty()) {
    WorkPtr work = open.back();
    open.pop_back();
    for (const WorkPtr &before : work->after) {
      visit(before);
      if (!before->done) {
        missing[work.get()]++;
        behind[before.get()].push_back(work);
      }
    }
    if (missing[work.get()] == 0)
      ready.push_back(work);
  }
  openMemory();
  size_t vain = 0; // attempts
  while (!ready.empty() && (needed.empty() || !allDone(needed))) {
    std::swap(ready[draw(ready.size())], ready.back());
    WorkPtr work = ready.back();
    running = work->kernel;
    if (work->attempt && !work->attempt()) {
      if (++vain <= 2 * ready.size())
        continue;
      if (needed.empty())
        break;
      usleep(200);
      continue;
    }
    vain = 0;
    ready.pop_back();
    if (work->run)
      work->run();
    checkBeside(running);
    work->done = true;
    work->ended = Clock::now();
    work->run = nullptr;
    work->after.clear();
    for (const WorkPtr &next : behind[work.get()])
      if (--missing[next.get()] == 0)
        ready.push_back(next);
  }
  running = nullptr;
  closeMemory();
}

void force(const std::vector<WorkPtr> &needed) {
  std::erase_if(attempts, [](const WorkPtr &w) { return w->done; });
  if (!allDone(needed))
    device.run([&] { runAll(needed); });
}

} // namespace

void queue(cudaStream_t stream, std::function<void()> run, const void *kernel) {
  auto work = std::make_shared<Work>();
  work->run = std::move(run);
  work->kernel = kernel;
  append(streamOf(stream), work);
}

/// A device goes on while its host waits for other hosts.
static void goOn() {
  for (;;) {
    usleep(2000);
    std::lock_guard<std::mutex> lock(entryMutex());
    std::erase_if(attempts, [](const WorkPtr &w) { return w->done; });
    if (!attempts.empty())
      device.run([] { runAll({}); });
  }
}

WorkPtr queueAttempts(cudaStream_t stream, std::function<bool()> attempt,
                      const WorkPtr &before) {
  auto work = std::make_shared<Work>();
  work->attempt = std::move(attempt);
  follow(*work, before);
  append(streamOf(stream), work);
  attempts.push_back(work);
  static bool goes = (std::thread(goOn).detach(), true);
  (void)goes;
  return work;
}

void finish(cudaStream_t stream) {
  counts.hostWaits++;
  force({streamOf(stream).last});
}

void finishAll() {
  counts.hostWaits++;
  std::vector<WorkPtr> all{defaultStream.last};
  for (CUstream_st *stream : streams)
    all.push_back(stream->last);
  force(all);
}

const void *runningKernel() { return running; }
bool onDeviceThread() { return std::this_thread::get_id() == device.id; }

} // namespace cuda_double

using namespace cuda_double;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  Entry entry("cudaStreamCreateWithFlags");
  *stream = new CUstream_st{!(flags & cudaStreamNonBlocking), nullptr};
  streams.insert(*stream);
  return cudaSuccess;
}

/// What is queued will still run: here at the latest.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Entry entry("cudaStreamDestroy");
  force({streamOf(stream).last});
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Entry entry("cudaStreamSynchronize");
  finish(stream);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  Entry entry("cudaDeviceSynchronize");
  finishAll();
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  Entry entry("cudaEventCreateWithFlags");
  *event = new CUevent_st{!(flags & cudaEventDisableTiming), nullptr};
  events.insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Entry entry("cudaEventDestroy");
  events.erase(&eventOf(event));
  delete event;
  return cudaSuccess;
}

/// What the stream has by now; what is queued later is not the event's.
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Entry entry("cudaEventRecord");
  auto work = std::make_shared<Work>();
  append(streamOf(stream), work);
  eventOf(event).recorded = work;
  eventOf(event).asked = 0;
  return cudaSuccess;
}

/// Of an event that was not recorded yet: nothing to wait for, as in CUDA.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned) {
  Entry entry("cudaStreamWaitEvent");
  auto work = std::make_shared<Work>();
  follow(*work, eventOf(event).recorded);
  append(streamOf(stream), work);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Entry entry("cudaEventSynchronize");
  counts.hostWaits++;
  force({eventOf(event).recorded});
  return cudaSuccess;
}

/// Who asks often enough has waited: then it runs.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  Entry entry("cudaEventQuery");
  CUevent_st &e = eventOf(event);
  if (!e.recorded || e.recorded->done)
    return cudaSuccess;
  if (++e.asked < 50)
    return cudaErrorNotReady;
  force({e.recorded});
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin,
                                 cudaEvent_t end) {
  Entry entry("cudaEventElapsedTime");
  const CUevent_st &from = eventOf(begin), &to = eventOf(end);
  if (!from.timed || !to.timed || !from.recorded || !to.recorded)
    return refuse(cudaErrorInvalidResourceHandle,
                  "an event that was made without times, or not recorded");
  if (!from.recorded->done || !to.recorded->done)
    return refuse(cudaErrorNotReady, "an event that nobody has waited for");
  *milliseconds = std::chrono::duration<float, std::milli>(to.recorded->ended -
                                                           from.recorded->ended)
                      .count();
  return cudaSuccess;
}

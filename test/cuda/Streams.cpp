//===- Streams.cpp - work that runs as late as it may -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Calls queue work and note what it comes after: the work before it in its
// stream and an event's. Nothing runs before somebody waits; then only what
// that must wait for runs, and where several pieces may be next, a draw
// decides.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <chrono>
#include <set>
#include <thread>
#include <unordered_map>

namespace cuda_double {

using Clock = std::chrono::steady_clock;

struct Work {
  std::function<bool()> run = nullptr; ///< true once it has; null: no work
  const void *kernel = nullptr;
  std::vector<WorkPtr> after = {};
  bool done = false;
  Clock::time_point ended = {}; ///< if done
};

} // namespace cuda_double

struct CUstream_st {
  cuda_double::WorkPtr last = nullptr;
};

struct CUevent_st {
  bool timed = true;
  cuda_double::WorkPtr recorded;
  unsigned asked = 0; ///< in vain, since it was recorded
};

/// What was captured, in the stream's order; an instance is a copy.
struct CUgraph_st {
  std::vector<cuda_double::Work> nodes;
};

namespace cuda_double {

namespace {

// Never destroyed: a device thread may outlive main().
CUstream_st &defaultStream = *new CUstream_st;
auto &streams = *new std::set<CUstream_st *>;
auto &events = *new std::set<CUevent_st *>;
auto &instances = *new std::set<CUgraph_st *>;
/// One stream at a time, and no other that joins it: no graph forks.
struct {
  CUgraph_st *graph = nullptr; ///< null: none
  cudaStream_t stream = nullptr;
  std::thread::id thread = {}; ///< whose calls are captured
} capture;
auto &attempts = *new std::vector<WorkPtr>; ///< that may not have ended
const void *running = nullptr;
std::thread::id deviceThread; ///< while device work runs

template <typename T> T &find(std::set<T *> &all, T *one, const char *what) {
  if (!all.count(one))
    reject(what, " that does not exist, or no more");
  return *one;
}

CUstream_st &streamOf(cudaStream_t stream) {
  counts.defaultStreamUses += !stream;
  return stream ? find(streams, stream, "a stream") : defaultStream;
}
CUevent_st &eventOf(cudaEvent_t event) {
  return find(events, event, "an event");
}

/// Queues work behind `before`, which may be null, and what the stream has.
WorkPtr append(cudaStream_t to, Work work, const WorkPtr &before = nullptr) {
  CUstream_st &stream = streamOf(to);
  auto follow = [&](const WorkPtr &other) {
    if (other && !other->done)
      work.after.push_back(other);
  };
  follow(before);
  follow(stream.last);
  return stream.last = std::make_shared<Work>(std::move(work));
}

bool isOpen(const WorkPtr &work) { return work && !work->done; }

/// Runs what nobody has to wait for, until all that is needed has run. What
/// waits for other processes is tried meanwhile, as they may wait for it, and
/// need not end. Without anything needed: until all that is left waits.
void runAll(const std::vector<WorkPtr> &needed) {
  std::unordered_map<Work *, size_t> missing;
  std::unordered_map<Work *, std::vector<WorkPtr>> behind;
  std::vector<WorkPtr> open, ready;
  auto visit = [&](const WorkPtr &work) {
    if (isOpen(work) && missing.emplace(work.get(), 0).second)
      open.push_back(work);
  };
  std::for_each(needed.begin(), needed.end(), visit);
  std::for_each(attempts.begin(), attempts.end(), visit);
  while (!open.empty()) {
    WorkPtr work = open.back();
    open.pop_back();
    for (const WorkPtr &before : work->after) {
      visit(before);
      if (isOpen(before)) {
        missing[work.get()]++;
        behind[before.get()].push_back(work);
      }
    }
    if (missing[work.get()] == 0)
      ready.push_back(work);
  }
  deviceThread = std::this_thread::get_id();
  openMemory();
  size_t vain = 0; // attempts
  while (!ready.empty() &&
         (needed.empty() || std::ranges::any_of(needed, isOpen))) {
    std::swap(ready[draw(ready.size())], ready.back());
    WorkPtr work = ready.back();
    running = work->kernel;
    if (work->run && !work->run()) {
      if (++vain <= 2 * ready.size())
        continue;
      if (needed.empty())
        break;
      usleep(200);
      continue;
    }
    vain = 0;
    ready.pop_back();
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
  deviceThread = {};
}

/// On a thread of its own: shared memory is thread-local storage.
void force(const std::vector<WorkPtr> &needed) {
  std::erase_if(attempts, std::not_fn(isOpen));
  if (std::ranges::any_of(needed, isOpen))
    std::thread(runAll, needed).join();
}

/// A device goes on while its host waits for other hosts.
void goOn() {
  for (;;) {
    usleep(2000);
    std::lock_guard<std::mutex> lock(entryMutex());
    std::erase_if(attempts, std::not_fn(isOpen));
    if (!attempts.empty())
      runAll({});
  }
}

} // namespace

void queue(cudaStream_t stream, std::function<void()> run, const void *kernel) {
  auto once = [run = std::move(run)] {
    run();
    return true;
  };
  if (!isCaptured())
    append(stream, {once, kernel});
  else if (stream == capture.stream)
    capture.graph->nodes.push_back({once, kernel});
  else
    reject("another stream than the one that is captured");
}

bool isCaptured() {
  return capture.graph && capture.thread == std::this_thread::get_id();
}

/// Of calls that the runtime makes.
void requireCapturable(const std::string &call) {
  auto begins = [&](const char *with) { return call.rfind(with, 0) == 0; };
  if (isCaptured() && !begins("cudaLaunchKernel") && !begins("cudaMem") &&
      !begins("cudaStreamEnd") && !begins("cublasLt") && !begins("cudnn"))
    die(call, ": not while a stream is captured");
}

WorkPtr queueAttempts(cudaStream_t stream, std::function<bool()> attempt,
                      const WorkPtr &before) {
  [[maybe_unused]] static auto *device = new std::thread(goOn);
  attempts.push_back(append(stream, {std::move(attempt)}, before));
  return attempts.back();
}

void finish(cudaStream_t stream) {
  if (isCaptured())
    reject("it waits, while a stream is captured");
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
bool onDeviceThread() { return std::this_thread::get_id() == deviceThread; }

} // namespace cuda_double

using namespace cuda_double;

/// In no order with the default stream. Whose kernels go first cannot be seen
/// here.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int) {
  Entry entry;
  if (flags != cudaStreamNonBlocking)
    reject("a stream that keeps the default stream's order");
  *stream = new CUstream_st;
  streams.insert(*stream);
  return cudaSuccess;
}

/// What is queued will still run: here at the latest.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Entry entry;
  force({streamOf(stream).last});
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Entry entry;
  finish(stream);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  Entry entry;
  *event = new CUevent_st{!(flags & cudaEventDisableTiming), nullptr};
  events.insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Entry entry;
  events.erase(&eventOf(event));
  delete event;
  return cudaSuccess;
}

/// What the stream has by now; what is queued later is not the event's.
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Entry entry;
  eventOf(event).recorded = append(stream, {});
  eventOf(event).asked = 0;
  return cudaSuccess;
}

/// Of an event that was not recorded yet: nothing to wait for, as in CUDA.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned) {
  Entry entry;
  append(stream, {}, eventOf(event).recorded);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Entry entry;
  counts.hostWaits++;
  force({eventOf(event).recorded});
  return cudaSuccess;
}

/// Who asks often enough has waited: then it runs.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  Entry entry;
  CUevent_st &e = eventOf(event);
  if (!isOpen(e.recorded))
    return cudaSuccess;
  if (++e.asked < 50)
    return cudaErrorNotReady;
  force({e.recorded});
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *),
                               void *data) {
  Entry entry;
  queue(stream, [=] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin,
                                 cudaEvent_t end) {
  Entry entry;
  const CUevent_st &from = eventOf(begin), &to = eventOf(end);
  if (!from.timed || !to.timed || !from.recorded || !to.recorded)
    reject("an event that was made without times, or not recorded");
  if (isOpen(from.recorded) || isOpen(to.recorded))
    return refuse(cudaErrorNotReady, "an event that nobody has waited for");
  std::chrono::duration<float, std::milli> passed =
      to.recorded->ended - from.recorded->ended;
  *milliseconds = passed.count();
  return cudaSuccess;
}

//===--- Graphs

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   cudaStreamCaptureMode mode) {
  Entry entry;
  if (!stream || mode != cudaStreamCaptureModeThreadLocal || capture.graph)
    reject("the default stream, another mode, or a second stream");
  capture = {new CUgraph_st, stream, std::this_thread::get_id()};
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  Entry entry;
  if (!isCaptured() || stream != capture.stream)
    reject("the stream is not captured");
  *graph = std::exchange(capture.graph, nullptr);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *,
                              size_t *count) {
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *instance, cudaGraph_t graph,
                                 unsigned long long) {
  Entry entry;
  static size_t most =
      size_t(std::atol(setting("DT_CUDA_DOUBLE_GRAPHS", "-1")));
  if (instances.size() >= most)
    return refuse(cudaErrorMemoryAllocation, text(most, " graphs are there"));
  *instance = *instances.insert(new CUgraph_st(*graph)).first;
  return cudaSuccess;
}

/// Arguments are those of the capture.
cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t stream) {
  Entry entry;
  counts.graphs++;
  for (const Work &node : find(instances, instance, "a graph").nodes)
    append(stream, node);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t instance) {
  Entry entry;
  instances.erase(instance);
  return cudaGraphDestroy(instance);
}

//===- Streams.cpp - work that runs as late as it may -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Calls queue work and note what it comes after. Nothing runs before somebody
// waits; then only what that must wait for runs, in an order that is drawn.
//
//===----------------------------------------------------------------------===//

#include "Double.h"
#include "runtime/base/Clock.h"

#include <set>

using namespace cuda_double;

struct cuda_double::Work {
  std::function<bool()> run = nullptr; ///< true once it has; null: no work
  std::vector<WorkPtr> after = {};
  double ended = 0; ///< when; 0: not yet
};

struct CUstream_st {
  WorkPtr last = nullptr;
};

struct CUevent_st {
  bool timed = true;
  WorkPtr recorded;
  std::thread::id thread = {}; ///< that recorded it
  unsigned asked = 0;          ///< in vain, since then
};

/// What was captured, in the stream's order; an instance is a copy.
struct CUgraph_st {
  std::vector<Work> nodes;
};

namespace {

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
/// Guards what a thread may ask while another one is in a call: which events
/// there are, what they stand behind, and what of that has ended.
auto &asking = *new std::mutex;

template <typename T> T &find(std::set<T *> &all, T *one, const char *what) {
  if (!all.count(one))
    reject(what, " that does not exist, or no more");
  return *one;
}

CUstream_st &streamOf(cudaStream_t stream) {
  counts["uses of the default stream"] += !stream;
  return stream ? find(streams, stream, "a stream") : defaultStream;
}
CUevent_st &eventOf(cudaEvent_t event) {
  return find(events, event, "an event");
}

bool isOpen(const WorkPtr &work) { return work && work->ended == 0; }

bool isCaptured() {
  return capture.graph && capture.thread == std::this_thread::get_id();
}

/// Queues work behind `before`, which may be null, and what the stream has.
WorkPtr append(cudaStream_t to, Work work, const WorkPtr &before = nullptr) {
  CUstream_st &stream = streamOf(to);
  for (const WorkPtr &other : {before, stream.last})
    if (isOpen(other))
      work.after.push_back(other);
  return stream.last = std::make_shared<Work>(std::move(work));
}

/// What can run of `work` and all that it waits for: drawn.
Work &drawReady(Work *work) {
  for (;;) {
    std::erase_if(work->after, std::not_fn(isOpen));
    if (work->after.empty())
      return *work;
    work = work->after[draw(work->after.size())].get();
  }
}

/// Runs what nobody has to wait for, until all that is needed has run. What
/// waits for other processes is tried meanwhile, as they may wait for it, and
/// need not end. Without anything needed: until all that is left waits.
void runAll(const std::vector<WorkPtr> &needed) {
  deviceThread = std::this_thread::get_id();
  size_t vain = 0; // attempts, one behind another
  while (needed.empty() || std::ranges::any_of(needed, isOpen)) {
    std::erase_if(attempts, std::not_fn(isOpen));
    std::vector<WorkPtr> wanted = attempts;
    std::ranges::copy_if(needed, std::back_inserter(wanted), isOpen);
    if (wanted.empty())
      break;
    Work &work = drawReady(wanted[draw(wanted.size())].get());
    runningKernel = nullptr;
    if (!work.run || work.run()) {
      vain = 0;
      if (work.run)
        checkBeside();
      std::lock_guard<std::mutex> lock(asking);
      work = {.ended = dt::rt::now()};
    } else if (++vain > 10) {
      if (needed.empty())
        break;
      usleep(useconds_t(std::min(20 * vain, size_t(2000))));
    }
  }
  openMemory(false);
  deviceThread = {};
}

/// On a thread of its own: shared memory is thread-local storage.
void force(const std::vector<WorkPtr> &needed) {
  if (std::ranges::any_of(needed, isOpen))
    std::thread(runAll, needed).join();
}

/// A device goes on while its host waits for other hosts.
void goOn() {
  for (;;) {
    usleep(2000);
    std::lock_guard<std::mutex> lock(entryMutex);
    if (std::ranges::any_of(attempts, isOpen))
      runAll({});
  }
}

} // namespace

void cuda_double::queue(cudaStream_t stream, std::function<void()> run) {
  auto once = [run = std::move(run)] {
    openMemory(true);
    run();
    return true;
  };
  if (!isCaptured())
    append(stream, {once});
  else if (stream == capture.stream)
    capture.graph->nodes.push_back({once});
  else
    reject("another stream than the one that is captured");
}

/// Of calls that the runtime makes.
void cuda_double::requireCapturable(std::string_view call) {
  auto begins = [&](const char *with) { return call.starts_with(with); };
  if (isCaptured() && !begins("cudaLaunchKernel") && !begins("cudaMem") &&
      !begins("cudaStreamEnd") && !begins("cublasLt") && !begins("cudnn"))
    die(call, ": not while a stream is captured");
}

WorkPtr cuda_double::queueAttempts(cudaStream_t stream,
                                   std::function<bool()> attempt,
                                   const WorkPtr &before) {
  [[maybe_unused]] static auto *device = new std::thread(goOn);
  attempts.push_back(append(stream, {std::move(attempt)}, before));
  return attempts.back();
}

void cuda_double::finish(cudaStream_t stream) {
  if (isCaptured())
    reject("it waits, while a stream is captured");
  counts["host waits"]++;
  force({streamOf(stream).last});
}

void cuda_double::finishAll() {
  counts["host waits"]++;
  std::vector<WorkPtr> all{defaultStream.last};
  for (CUstream_st *stream : streams)
    all.push_back(stream->last);
  force(all);
}

/// Whose kernels go first cannot be seen here.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int) {
  Entry entry;
  if (flags != cudaStreamNonBlocking)
    reject("a stream that keeps the default stream's order");
  *stream = *streams.insert(new CUstream_st).first;
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
  bool timed = !(flags & cudaEventDisableTiming);
  std::lock_guard<std::mutex> lock(asking);
  *event = *events.insert(new CUevent_st{timed, nullptr}).first;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Entry entry;
  std::lock_guard<std::mutex> lock(asking);
  events.erase(&eventOf(event));
  delete event;
  return cudaSuccess;
}

/// What the stream has by now; what is queued later is not the event's.
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Entry entry;
  CUevent_st &e = eventOf(event);
  WorkPtr place = append(stream, {});
  std::lock_guard<std::mutex> lock(asking);
  e = {e.timed, place, std::this_thread::get_id()};
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
  counts["host waits"]++;
  force({eventOf(event).recorded});
  return cudaSuccess;
}

/// Who asks often enough has waited: then it runs. Another thread than the one
/// that recorded it looks only, whatever that one is in.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  {
    std::lock_guard<std::mutex> lock(asking);
    const CUevent_st &e = eventOf(event);
    if (e.thread != std::this_thread::get_id())
      return isOpen(e.recorded) ? cudaErrorNotReady : cudaSuccess;
  }
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
  *milliseconds = float(1e3 * (to.recorded->ended - from.recorded->ended));
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
  static const size_t most = setting("DT_CUDA_DOUBLE_GRAPHS", SIZE_MAX);
  if (instances.size() >= most)
    return refuse(cudaErrorMemoryAllocation, text(most, " graphs are there"));
  *instance = *instances.insert(new CUgraph_st(*graph)).first;
  return cudaSuccess;
}

/// Arguments are those of the capture.
cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t stream) {
  Entry entry;
  counts["graphs"]++;
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

//===- Device.cu - memory and copies on the GPU ---------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// runtime/device/Device.h for CUDA; what a step computes of its own is in
// Step.cu. One stream for everything but what is called inside an OnStream:
// order on it is the order of the calls.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Clock.h"
#include "runtime/base/Error.h"
#include "runtime/base/Log.h"
#include "runtime/base/Stop.h"
#include "runtime/device/Device.h"
#include "runtime/device/cuda/Launch.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <utility>

namespace dt::rt {

namespace {

int theDevice = 0;
size_t mostPitch = 0; ///< bytes between rows that one copy may step over
cudaStream_t theStream = nullptr;
std::string description = "cuda";

struct Block {
  void *data = nullptr;
  size_t bytes = 0;
};
Block scratchBlocks[5];

/// Pinned memory that bytes for the device are copied to first, since the
/// caller uses its own again at once and CUDA may read pageable memory late.
/// Sections are filled in turn; one that is used again waits for the copies
/// from it. They run on a stream of their own.
class Uploads {
public:
  /// Of all sections. Not while copies are on their way.
  void reserve(size_t bytes);
  /// Behind the event; null: behind what the stream of all else has.
  void copy(cudaEvent_t behind, char *to, const char *host, size_t bytes);
  /// That stream goes on when the copies have run.
  void await();
  /// Copies that were ever queued.
  uint64_t count() const { return copies; }
  size_t bytes() const { return kSections * size; }
  /// All of them have run.
  void done() {
    section = used = 0;
    std::fill(std::begin(busy), std::end(busy), false);
  }

private:
  static constexpr size_t kSections = device::kUploadSections;
  void next();

  char *memory = nullptr;
  size_t size = 0; ///< of a section
  size_t section = 0, used = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t read[kSections] = {}, here = nullptr, ended = nullptr;
  bool busy[kSections] = {};
  bool awaited = true; ///< all copies
  uint64_t copies = 0;
} uploads;

constexpr int kThreads = 256;

__global__ void accumulateKernel(float *sum, const float *values, size_t n) {
  for (size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * kThreads)
    sum[i] += values[i];
}

template <typename To, typename From>
__global__ void convertKernel(To *to, const From *from, size_t n) {
  for (size_t i = blockIdx.x * size_t(kThreads) + threadIdx.x; i < n;
       i += size_t(gridDim.x) * kThreads)
    to[i] = To(from[i]);
}

void wait(cudaStream_t stream) {
  cuda::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  uploads.done();
}

void Uploads::reserve(size_t bytes) {
  size_t each = bytes / kSections;
  if (each <= size)
    return;
  if (memory) {
    wait(theStream);
    cuda::check(cudaFreeHost(memory), "cudaFreeHost");
  }
  cuda::check(cudaHostAlloc(&memory, kSections * each, cudaHostAllocDefault),
              "cudaHostAlloc");
  size = each;
  if (stream)
    return;
  stream = cuda::makeStream();
  for (cudaEvent_t &event : read)
    event = cuda::makeEvent();
  here = cuda::makeEvent();
  ended = cuda::makeEvent();
}

void Uploads::next() {
  cuda::check(cudaEventRecord(read[section], stream), "cudaEventRecord");
  busy[section] = true;
  section = (section + 1) % kSections;
  used = 0;
  if (busy[section])
    cuda::check(cudaEventSynchronize(read[section]), "cudaEventSynchronize");
  busy[section] = false;
}

void Uploads::copy(cudaEvent_t behind, char *to, const char *host,
                   size_t bytes) {
  reserve(size ? 0 : device::uploadBytes(0, 0));
  ++copies;
  awaited = false;
  if (!behind)
    cuda::check(cudaEventRecord(here, theStream), "cudaEventRecord");
  cuda::check(cudaStreamWaitEvent(stream, behind ? behind : here, 0),
              "cudaStreamWaitEvent");
  for (size_t done = 0; done < bytes;) {
    if (used == size)
      next();
    size_t n = std::min(bytes - done, size - used);
    char *place = memory + section * size + used;
    std::memcpy(place, host + done, n);
    cuda::check(
        cudaMemcpyAsync(to + done, place, n, cudaMemcpyHostToDevice, stream),
        "cudaMemcpy to the device");
    done += n;
    used = std::min((used + n + 63) / 64 * 64, size);
  }
}

void Uploads::await() {
  if (std::exchange(awaited, true))
    return;
  cuda::check(cudaEventRecord(ended, stream), "cudaEventRecord");
  cuda::check(cudaStreamWaitEvent(theStream, ended, 0), "cudaStreamWaitEvent");
}

} // namespace

/// Handlers would use the device again.
void cuda::fail(const char *call, const char *reason) {
  std::string line = std::string("CUDA: ") + call + ": " + reason;
  if (recording)
    throw Error(line);
  endAtOnce(line);
}

void cuda::failLaunch(const char *kernel, cudaError_t status) {
  fail((std::string("kernel ") + kernel).c_str(), cudaGetErrorString(status));
}

cudaStream_t cuda::makeStream(bool urgent) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest),
        "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     urgent ? greatest : least),
        "cudaStreamCreate");
  return stream;
}

cudaEvent_t cuda::makeEvent() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
        "cudaEventCreate");
  return event;
}

void *cuda::scratch(int purpose, size_t bytes) {
  Block &block = scratchBlocks[purpose];
  if (block.bytes < bytes) {
    scratchMoves += block.data != nullptr;
    if (rehearsed)
      printError("warning: scratch of library calls grows from %zu to %zu "
                 "bytes in a step, for which the GPU is waited for\n",
                 block.bytes, bytes);
    // What is queued may still read the old block; cudaFree waits for it.
    check(cudaFree(block.data), "cudaFree");
    check(cudaMalloc(&block.data, bytes), "cudaMalloc of scratch");
    block.bytes = bytes;
  }
  return block.data;
}

size_t cuda::scratchBytes(int purpose) { return scratchBlocks[purpose].bytes; }

const void *cuda::constantBytes(const void *host, size_t bytes) {
  if (bytes == 0)
    return nullptr;
  static std::map<const void *, void *> copies;
  void *&copy = copies[host];
  if (!copy) {
    check(cudaMalloc(&copy, bytes), "cudaMalloc of a table");
    // On the stream of its readers, which does not wait for the default stream:
    // cudaMemcpy may return before its copy from pageable memory is on the
    // device.
    check(cudaMemcpyAsync(copy, host, bytes, cudaMemcpyHostToDevice, theStream),
          "cudaMemcpy of a table");
    check(cudaStreamSynchronize(theStream), "cudaMemcpy of a table");
  }
  return copy;
}

static cudaEvent_t eventOf(unsigned number) {
  static std::vector<cudaEvent_t> events;
  while (events.size() <= number)
    events.push_back(cuda::makeEvent());
  return events[number];
}

void recordEvent(unsigned number, void *stream) {
  cudaEvent_t event = eventOf(number); // made in a rehearsal, too
  if (!cuda::rehearsing)
    device::hostCall([=] {
      cuda::check(cudaEventRecord(event, static_cast<cudaStream_t>(stream)),
                  "cudaEventRecord");
    });
}

void waitForEvent(unsigned number, void *stream) {
  if (!cuda::rehearsing)
    device::hostCall([=] {
      cuda::check(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream),
                                      eventOf(number), 0),
                  "cudaStreamWaitEvent");
    });
}

namespace device {

bool isHost() { return false; }

std::string address() {
  char text[32];
  cuda::check(cudaDeviceGetPCIBusId(text, sizeof text, theDevice),
              "cudaDeviceGetPCIBusId");
  return text;
}

void initialize(int, int number) {
  // Streams that share a queue of the GPU would wait for one another.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0)
    throw Error(
        std::string("no usable GPU: ") +
        cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status));
  cudaDeviceProp properties;
  theDevice = number % count;
  cuda::check(cudaGetDeviceProperties(&properties, theDevice),
              "cudaGetDeviceProperties");
  cuda::check(cudaSetDevice(theDevice), "cudaSetDevice");
  mostPitch = properties.memPitch;
  cuda::multiprocessors = properties.multiProcessorCount;
  theStream = cuda::makeStream();
  description = std::string("cuda, ") + properties.name;
}

const char *describe() { return description.c_str(); }
void *stream() { return theStream; }

OnStream::OnStream(void *stream) : before(theStream) {
  if (stream)
    theStream = static_cast<cudaStream_t>(stream);
}
OnStream::~OnStream() { theStream = static_cast<cudaStream_t>(before); }

Fault *faultRecord() {
  static Fault *record = [] {
    void *memory = nullptr;
    cuda::check(cudaHostAlloc(&memory, sizeof(Fault), cudaHostAllocMapped),
                "cudaHostAlloc");
    return new (memory) Fault{};
  }();
  return record;
}

void synchronize() { wait(theStream); }

bool rehearse(bool on) {
  cuda::rehearsing = on;
  cuda::rehearsed = !on;
  return true;
}
bool rehearses() { return cuda::rehearsing; }
Unrehearsed::Unrehearsed() : before(std::exchange(cuda::rehearsed, false)) {}
Unrehearsed::~Unrehearsed() { cuda::rehearsed = before; }

void *allocate(size_t bytes, const char *what) {
  void *memory = nullptr;
  cudaError_t status = cudaMalloc(&memory, bytes ? bytes : 1);
  if (status != cudaSuccess)
    throw Error("cannot allocate " + std::to_string(bytes) +
                " bytes on the GPU for " + what + ": " +
                cudaGetErrorString(status));
  zero(memory, bytes);
  return memory;
}

void release(void *memory) { cuda::check(cudaFree(memory), "cudaFree"); }

void *allocatePinned(size_t bytes, const char *what) {
  void *memory = nullptr;
  cudaError_t status =
      cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocDefault);
  if (status != cudaSuccess)
    throw Error("cannot allocate " + std::to_string(bytes) +
                " bytes of pinned memory for " + what + ": " +
                cudaGetErrorString(status));
  return memory;
}

void releasePinned(void *memory) {
  cuda::check(cudaFreeHost(memory), "cudaFreeHost");
}

void copyToDevice(void *to, const void *host, size_t bytes) {
  uploads.copy(nullptr, static_cast<char *>(to),
               static_cast<const char *>(host), bytes);
  uploads.await();
}

Mark::~Mark() {
  if (event)
    cuda::check(cudaEventDestroy(static_cast<cudaEvent_t>(event)),
                "cudaEventDestroy");
}

void Mark::set() {
  if (!event)
    event = cuda::makeEvent();
  cuda::check(cudaEventRecord(static_cast<cudaEvent_t>(event), theStream),
              "cudaEventRecord");
}

void copyBehind(const Mark &mark, void *to, const void *host, size_t bytes) {
  uploads.copy(static_cast<cudaEvent_t>(mark.event), static_cast<char *>(to),
               static_cast<const char *>(host), bytes);
}

void awaitCopies() { uploads.await(); }

void reserveUploads(size_t bytes, size_t copies) {
  uploads.reserve(uploadBytes(bytes, copies));
}
size_t uploadBytes() { return uploads.bytes(); }

void copyToHost(void *host, const void *from, size_t bytes) {
  if (bytes)
    cuda::check(
        cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, theStream),
        "cudaMemcpy to the host");
  synchronize();
}

void copy(void *to, const void *from, size_t bytes) {
  if (bytes && !cuda::rehearsing)
    cuda::check(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, theStream),
        "cudaMemcpy");
}

void copyRows(void *to, size_t toStep, const void *from, size_t fromStep,
              size_t bytes, size_t count) {
  if (!bytes || !count || cuda::rehearsing)
    return;
  // Rows that lie further apart are few.
  if (std::max(toStep, fromStep) > mostPitch)
    for (size_t i = 0; i < count; ++i)
      copy(static_cast<char *>(to) + i * toStep,
           static_cast<const char *>(from) + i * fromStep, bytes);
  else
    cuda::check(cudaMemcpy2DAsync(to, toStep, from, fromStep, bytes, count,
                                  cudaMemcpyDeviceToDevice, theStream),
                "cudaMemcpy of rows");
}

void zero(void *memory, size_t bytes) {
  if (bytes)
    cuda::check(cudaMemsetAsync(memory, 0, bytes, theStream), "cudaMemset");
}

void accumulate(float *sum, const float *values, size_t n) {
  if (n)
    cuda::launch("sum", accumulateKernel, cuda::blocksFor(int64_t(n)), kThreads,
                 0, theStream, cuda::out(sum, int64_t(n)), values, n);
}

void narrow(bf16 *to, const float *from, size_t n) {
  if (n)
    cuda::launch("narrow", convertKernel<bf16, float>,
                 cuda::blocksFor(int64_t(n)), kThreads, 0, theStream,
                 cuda::out(to, int64_t(n)), from, n);
}

void widen(float *to, const bf16 *from, size_t n) {
  if (n)
    cuda::launch("widen", convertKernel<float, bf16>,
                 cuda::blocksFor(int64_t(n)), kThreads, 0, theStream,
                 cuda::out(to, int64_t(n)), from, n);
}

struct ReadBack::Copy {
  cudaEvent_t ended = nullptr;
  uint64_t uploads = 0; ///< that were queued before it
};

ReadBack::ReadBack(size_t bytes) : bytes(bytes), copy(new Copy) {
  copy->ended = cuda::makeEvent();
  cuda::check(cudaHostAlloc(&host, bytes, cudaHostAllocDefault),
              "cudaHostAlloc");
}

ReadBack::~ReadBack() {
  cuda::check(cudaFreeHost(host), "cudaFreeHost");
  cuda::check(cudaEventDestroy(copy->ended), "cudaEventDestroy");
  delete copy;
}

void ReadBack::begin(const void *memory) {
  cuda::check(
      cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDeviceToHost, theStream),
      "cudaMemcpy to the host");
  cuda::check(cudaEventRecord(copy->ended, theStream), "cudaEventRecord");
  copy->uploads = uploads.count();
}

std::byte *ReadBack::end() {
  cuda::check(cudaEventSynchronize(copy->ended), "cudaEventSynchronize");
  if (copy->uploads == uploads.count())
    uploads.done();
  return static_cast<std::byte *>(host);
}

struct Stamps::Events {
  std::vector<cudaEvent_t> all; ///< made as they are needed, and kept
  size_t used = 0;
  bool exact = false;
};

Stamps::Stamps() : events(new Events) {}
Stamps::~Stamps() {
  for (cudaEvent_t event : events->all)
    cuda::check(cudaEventDestroy(event), "cudaEventDestroy");
}

void Stamps::begin(bool exact) {
  times.clear();
  events->used = 0;
  events->exact = exact;
}

void Stamps::add() {
  if (!events->exact)
    return times.push_back(now());
  if (events->used == events->all.size())
    cuda::check(
        cudaEventCreateWithFlags(&events->all.emplace_back(), cudaEventDefault),
        "cudaEventCreate");
  cuda::check(cudaEventRecord(events->all[events->used++], theStream),
              "cudaEventRecord");
}

/// Events know times between them only; the last one was just now.
std::vector<double> Stamps::take() {
  double last = now();
  for (size_t i = 0; i < events->used; ++i) {
    float milliseconds = 0;
    cuda::check(cudaEventElapsedTime(&milliseconds, events->all[i],
                                     events->all[events->used - 1]),
                "cudaEventElapsedTime");
    times.push_back(last - double(milliseconds) * 1e-3);
  }
  events->used = 0;
  return times;
}

} // namespace device
} // namespace dt::rt

//===- Device.h - memory and bulk work of one target ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The step loop is the same for every target; what it does with blocks of
// memory goes through these functions. Each target has one implementation
// (cpu/Device.cpp, cuda/Device.cu) and a program links exactly one of them, so
// there is no table of function pointers. Work is queued on `stream()`: results
// are defined for the host after `synchronize()`, a copy to the host or a
// ReadBack's end. Pointers are to device memory but where `host` is said.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_DEVICE_H
#define DT_RUNTIME_DEVICE_DEVICE_H

#include "runtime/Optimizers.h"
#include "runtime/device/Floats.h"
#include "runtime/device/SnapshotBlocks.h"
#include "runtime/device/StepNumbers.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dt::rt {
struct Fault;
} // namespace dt::rt

namespace dt::rt::device {

/// Whether device memory is host memory.
bool isHost();

/// Prepares the target; throws Error with one line where it cannot be used (no
/// GPU, no driver). `threads`: 0 leaves the default; only the CPU looks at it.
/// `number`: which device, modulo their number.
void initialize(int threads, int number = 0);

/// "cpu, 8 threads" or "cuda, NVIDIA H100".
const char *describe();
/// The device among those of its machine: its place on the bus. The same for
/// all processes.
std::string address();

/// The stream for TaskContext::stream; null on the CPU.
void *stream();

/// While it lives, `stream()` is another one: that of device work which events
/// order with the rest. Uploads, and what the host waits for, are not for it.
/// Null: changes nothing.
class OnStream {
public:
  explicit OnStream(void *stream);
  ~OnStream();
  OnStream(const OnStream &) = delete;
  OnStream &operator=(const OnStream &) = delete;

private:
  [[maybe_unused]] void *before;
};

void synchronize();

/// Where generated code notes an index out of range (Fault.h). The host may
/// read it at once where `stream()` is null, else when it has waited for the
/// work, and puts `found` back to 0.
Fault *faultRecord();

/// A place in the work of stream(), for who looks whether the device moves on
/// while the host waits for much of its work. Not while a function is recorded.
void noteProgress();
/// Any thread: how many of these places the device has passed. Where device
/// memory is the host's the host knows by itself: 0.
uint64_t countProgress();

/// Between rehearse(true) and rehearse(false) a module's function makes what a
/// call of these sizes needs (memory, plans of libraries, tables), loads its
/// kernels and computes nothing but a library's calls, one a plan: what they
/// write is nothing. Afterwards library calls find room in what there is.
/// False: that is not for this target, a call needs nothing like it.
bool rehearse(bool on);
bool rehearses();
/// While one lives, library calls may allocate what they want: between steps,
/// for functions that nobody rehearsed here.
class Unrehearsed {
public:
  Unrehearsed();
  ~Unrehearsed();
  Unrehearsed(const Unrehearsed &) = delete;
  Unrehearsed &operator=(const Unrehearsed &) = delete;

private:
  [[maybe_unused]] bool before;
};

/// What calls of a function queue on stream(), to be queued again with few
/// calls of the host: with the same sizes, places and values.
class Recording {
public:
  ~Recording();
  Recording(const Recording &) = delete;
  Recording &operator=(const Recording &) = delete;

  /// Calls the function, which queues nothing now; it has run like this before,
  /// so that all it needs is there. Null: it cannot be recorded, for the reason
  /// in `why`.
  static std::unique_ptr<Recording> make(const std::function<void()> &function,
                                         std::string &why);
  /// Queues it. False: nothing was queued, since scratch has moved meanwhile.
  bool replay() const;

  struct Pieces; ///< in order: graphs, and calls of the host between them
private:
  explicit Recording(std::unique_ptr<Pieces> pieces);
  std::unique_ptr<Pieces> pieces;
};

/// Whether there are recordings on this target.
bool records();

/// Calls `call`. While a function is recorded: not now, but at its place
/// whenever the recording is replayed. For all that a module's function does
/// but to queue work on stream(): what ranks do together, events, other
/// streams.
void hostCall(const std::function<void()> &call);

/// Zeroed memory, 64-byte aligned at least. Throws Error when there is none
/// left, naming the bytes and `what`.
void *allocate(size_t bytes, const char *what);
void release(void *memory);

/// Host memory that the device copies from and to by itself. Throws as above.
void *allocatePinned(size_t bytes, const char *what);
void releasePinned(void *memory);

/// The host may use its bytes again when this returns. It waits only where more
/// is on its way than reserveUploads() was told.
void copyToDevice(void *device, const void *host, size_t bytes);
/// A place in the work of stream(): what is queued before set().
class Mark {
public:
  Mark() = default;
  ~Mark();
  Mark(const Mark &) = delete;
  Mark &operator=(const Mark &) = delete;
  void set();

private:
  friend void copyBehind(const Mark &, void *, const void *, size_t);
  [[maybe_unused]] void *event = nullptr; ///< once it has been set
};
/// As copyToDevice, beside the work of stream() and behind the mark; one that
/// was never set is at the end of that work. The copy is there for what
/// stream() gets after awaitCopies().
void copyBehind(const Mark &mark, void *device, const void *host, size_t bytes);
void awaitCopies();
/// So many bytes, in `copies` copies, may be on their way to the device at
/// once.
void reserveUploads(size_t bytes, size_t copies);
/// Pinned memory that they go through, as it is, and as reserveUploads() makes
/// it where device memory is not the host's: in sections that are used in turn.
/// What is more than the most waits for its turn.
size_t uploadBytes();
inline constexpr size_t kLeastUploads = size_t(8) << 20,
                        kMostUploads = size_t(512) << 20, kUploadSections = 8;
inline size_t uploadBytes(size_t bytes, size_t copies) {
  bytes += 64 * copies; // each begins at a multiple of 64
  bytes = bytes < kLeastUploads  ? kLeastUploads
          : bytes > kMostUploads ? kMostUploads
                                 : bytes;
  return kUploadSections * ((bytes / kUploadSections + 64) / 64 * 64);
}
void copyToHost(void *host, const void *device,
                size_t bytes); ///< waits for what was queued before
void copy(void *to, const void *from, size_t bytes); ///< within the device
/// `count` rows of `bytes` each, that begin `toStep` and `fromStep` bytes after
/// one another; within the device.
void copyRows(void *to, size_t toStep, const void *from, size_t fromStep,
              size_t bytes, size_t count);
void zero(void *memory, size_t bytes);

/// sum[i] += values[i] for n elements.
void accumulate(float *sum, const float *values, size_t n);

/// n elements, rounded or exact; the arrays do not overlap.
void narrow(bf16 *to, const float *from, size_t n);
void widen(float *to, const bf16 *from, size_t n);

/// sums[i] = the cells of range i, added in double, one after another.
void sumCells(double *sums, const float *cells, const CellRange *ranges,
              size_t n);

/// A table of runs of elements; `longest`: the most elements of one.
template <typename Run> struct Runs {
  const Run *table;
  size_t count, longest;
};

struct FloatRun {
  Floats values;
  size_t count;
};
/// *sum = the squares of all elements, added in double in a fixed order: equal
/// bits run by run.
void sumOfSquares(double *sum, const Runs<FloatRun> &runs);

/// Of the sums of denominators, which are those of all ranks.
void makeSeeds(float *seeds, const StepNumbers &step, const LossInfo *losses);
/// From all sums to terms and verdict, faultRecord() included.
void judge(const StepNumbers &step, const LossInfo *losses, double clipNorm);

/// Contiguous elements that the optimizer changes, with the moments that it
/// keeps (Optimizers.h).
struct UpdateRun {
  float *parameters;
  Floats gradients;
  Moments<float *> moments;
  size_t count;
  /// Gets the new parameters, rounded; null: nobody does. The same parameters
  /// either way.
  bf16 *working;
  /// An average of them, of which UpdateStep::averageDecay is kept; null: none.
  float *average = nullptr;
};
/// One optimizer step over all of them, if the verdict is that it applies; not
/// before a Snapshot has its copies.
void update(OptimizerKind kind, const UpdateStep &step,
            const Runs<UpdateRun> &runs, const Verdict *verdict);

/// Host memory for a copy that the host does not wait for until it needs it.
class ReadBack {
public:
  explicit ReadBack(size_t bytes);
  ~ReadBack();
  ReadBack(const ReadBack &) = delete;
  ReadBack &operator=(const ReadBack &) = delete;

  /// Queues the copy.
  void begin(const void *memory);
  /// Waits for it, and for no work that was queued after it. Host memory, until
  /// the next begin().
  std::byte *end();

private:
  struct Copy; ///< where copies are queued
  size_t bytes;
  void *host = nullptr;
  [[maybe_unused]] Copy *copy = nullptr;
};

/// What device memory was between two steps, for a thread that reads it in host
/// memory while the device goes on: update() waits until all is copied. Where
/// host memory may not have all of it at once, what is copied and read makes
/// room for the rest. One at a time; the thread that queues work calls what is
/// not said to be for others.
class Snapshot {
public:
  /// Of host memory it takes so many bytes at most, at least kLeast.
  explicit Snapshot(size_t most = SIZE_MAX);
  static constexpr size_t kLeast = 2 * SnapshotBlocks::kAlign;
  ~Snapshot(); ///< nobody reads; copies that are on their way have ended
  Snapshot(const Snapshot &) = delete;
  Snapshot &operator=(const Snapshot &) = delete;

  /// Nobody reads any more what it has.
  void clear();
  /// Of what it is to have. Returns its place: read() is asked for that.
  size_t add(const void *memory, size_t bytes);
  /// Begins to copy all that was added, as the queued work leaves it. False:
  /// there is no host memory, and nothing has begun.
  bool begin();
  /// The reader, any one thread: waits for bytes from `place` on. Returns where
  /// they are until the next call, and in `bytes` how many of those wanted: up
  /// to the end of a block, whose size is a multiple of 64. Places ascend; what
  /// stands before is not needed any more.
  const std::byte *read(size_t place, size_t &bytes);
  /// Waits until all is copied, which somebody reads.
  void settle();
  /// Any thread: nothing of it is needed any more.
  void drop();

  /// Host memory that it has had, in bytes: the most at a time.
  size_t mostBytes() const { return mostTaken; }

private:
  struct Copies; ///< where and how far they are
  size_t most, mostTaken = 0;
  std::unique_ptr<Copies> copies;
};

/// When the stream got to its places, without the host's waiting for it.
class Stamps {
public:
  Stamps();
  ~Stamps();
  Stamps(const Stamps &) = delete;
  Stamps &operator=(const Stamps &) = delete;

  /// `exact` false: the next ones say when the host was there.
  void begin(bool exact);
  void add();
  /// Of the stamps since begin(), in order; as now() (Clock.h). The host has
  /// waited for the last one, just now.
  std::vector<double> take();

private:
  struct Events;
  std::vector<double> times;
  std::unique_ptr<Events> events;
};

} // namespace dt::rt::device

#endif // DT_RUNTIME_DEVICE_DEVICE_H

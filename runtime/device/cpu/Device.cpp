//===- Device.cpp - memory and bulk work on the CPU -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The host's implementation of Device.h: plain memory, OpenMP loops.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Device.h"
#include "runtime/base/Clock.h"
#include "runtime/base/Error.h"
#include "runtime/data/Fault.h"
#include "runtime/device/cpu/Snapshot.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <vector>

namespace dt::rt::device {

namespace {

constexpr size_t kHugePage = 2u << 20;
/// Elements a chunk of the norm: fixed, so that the sum does not depend on the
/// thread count.
constexpr size_t kNormChunk = 16384;
/// Elements that are updated and then rounded while they are in the cache.
constexpr size_t kUpdateChunk = 16384;

template <typename T> double sumOfSquares(const T *values, size_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < n; ++i)
    sum += double(float(values[i])) * double(float(values[i]));
  return sum;
}

double chunkSumOfSquares(Floats values, size_t n) {
  return values.wide ? sumOfSquares(values.wide, n)
                     : sumOfSquares(values.narrow, n);
}

template <size_t kept, typename Rule, typename T>
void updateElements(Rule rule, float scale, UpdateRun run, const T *gradients,
                    size_t begin, size_t end) {
#pragma omp simd
  for (size_t i = begin; i < end; ++i)
    updateElement<kept>(rule, scale, run.parameters, gradients, run.moments, i);
}

/// A thread's part. Scalars and addresses are its own: stores of elements
/// cannot change them, so they stay in registers.
template <size_t kept, typename Rule>
void updateChunk(Rule rule, float scale, float weight, UpdateRun run,
                 size_t begin, size_t end) {
  if (run.gradients.wide)
    updateElements<kept>(rule, scale, run, run.gradients.wide, begin, end);
  else
    updateElements<kept>(rule, scale, run, run.gradients.narrow, begin, end);
  if (run.working)
#pragma omp simd
    for (size_t i = begin; i < end; ++i)
      run.working[i] = run.parameters[i];
  if (run.average)
#pragma omp simd
    for (size_t i = begin; i < end; ++i)
      averageElement(run.average + i, run.parameters[i], weight);
}

template <size_t kept, typename Rule>
void updateRun(const Rule &rule, float scale, float weight,
               const UpdateRun &run) {
  int64_t chunks = int64_t((run.count + kUpdateChunk - 1) / kUpdateChunk);
#pragma omp parallel for schedule(static) if (chunks > 1)
  for (int64_t i = 0; i < chunks; ++i)
    updateChunk<kept>(rule, scale, weight, run, size_t(i) * kUpdateChunk,
                      std::min(size_t(i + 1) * kUpdateChunk, run.count));
}

double sumOfSquares(const FloatRun &run) {
  int64_t chunks = int64_t((run.count + kNormChunk - 1) / kNormChunk);
  static thread_local std::vector<double>
      sums; // grows to the largest run and stays
  sums.resize(std::max<size_t>(sums.size(), chunks));
  double *partial = sums.data();
#pragma omp parallel for schedule(static) if (chunks > 1)
  for (int64_t i = 0; i < chunks; ++i)
    partial[i] =
        chunkSumOfSquares(run.values + i * kNormChunk,
                          std::min(kNormChunk, run.count - i * kNormChunk));
  double sum = 0;
  for (int64_t i = 0; i < chunks; ++i)
    sum += partial[i];
  return sum;
}

} // namespace

bool isHost() { return true; }
std::string address() { return ""; }

void initialize(int threads, int) {
  if (threads > 0)
    omp_set_num_threads(threads);
}

const char *describe() {
  static const std::string text =
      "cpu, " + std::to_string(omp_get_max_threads()) + " threads";
  return text.c_str();
}

void *stream() { return nullptr; }
OnStream::OnStream(void *) : before(nullptr) {}
OnStream::~OnStream() = default;
void synchronize() {}

bool rehearse(bool) { return false; }
bool rehearses() { return false; }
Unrehearsed::Unrehearsed() : before(false) {}
Unrehearsed::~Unrehearsed() = default;

struct Recording::Pieces {};
Recording::~Recording() = default;
std::unique_ptr<Recording> Recording::make(const std::function<void()> &,
                                           std::string &) {
  return nullptr;
}
bool Recording::replay() const { return false; }
bool records() { return false; }
void hostCall(const std::function<void()> &call) { call(); }

Fault *faultRecord() {
  static Fault record{};
  return &record;
}

void *allocate(size_t bytes, const char *what) {
  size_t align = bytes >= kHugePage ? kHugePage : 64;
  size_t size = (std::max<size_t>(bytes, 1) + align - 1) / align * align;
  void *memory = std::aligned_alloc(align, size);
  if (!memory)
    throw Error("not enough memory: " + std::to_string(bytes) + " bytes for " +
                what);
  if (align == kHugePage)
    ::madvise(memory, size,
              MADV_HUGEPAGE); // a hint: fewer page faults and TLB misses
  zero(memory, size);
  return memory;
}

void release(void *memory) { std::free(memory); }

void *allocatePinned(size_t bytes, const char *what) {
  return allocate(bytes, what);
}
void releasePinned(void *memory) { release(memory); }

void copyToDevice(void *device, const void *host, size_t bytes) {
  copy(device, host, bytes);
}
void copyToHost(void *host, const void *device, size_t bytes) {
  copy(host, device, bytes);
}
Mark::~Mark() = default;
void Mark::set() {}
void copyBehind(const Mark &, void *device, const void *host, size_t bytes) {
  copy(device, host, bytes);
}
void awaitCopies() {}
void reserveUploads(size_t, size_t) {}
size_t uploadBytes() { return 0; }

void copy(void *to, const void *from, size_t bytes) {
  if (bytes)
    std::memcpy(to, from, bytes);
}

void copyRows(void *to, size_t toStep, const void *from, size_t fromStep,
              size_t bytes, size_t count) {
#pragma omp parallel for schedule(static) if (count * bytes > (1u << 18))
  for (size_t i = 0; i < count; ++i)
    std::memcpy(static_cast<char *>(to) + i * toStep,
                static_cast<const char *>(from) + i * fromStep, bytes);
}

void zero(void *memory, size_t bytes) {
  constexpr size_t kChunk = 1u << 20;
  char *p = static_cast<char *>(memory);
  int64_t chunks = int64_t((bytes + kChunk - 1) / kChunk);
#pragma omp parallel for schedule(static) if (chunks > 1)
  for (int64_t i = 0; i < chunks; ++i)
    std::memset(p + i * kChunk, 0, std::min(kChunk, bytes - i * kChunk));
}

void accumulate(float *sum, const float *values, size_t n) {
#pragma omp parallel for simd schedule(static) if (parallel : n >= 32768)
  for (size_t i = 0; i < n; ++i)
    sum[i] += values[i];
}

void narrow(bf16 *to, const float *from, size_t n) {
#pragma omp parallel for simd schedule(static) if (parallel : n >= 32768)
  for (size_t i = 0; i < n; ++i)
    to[i] = from[i];
}

void widen(float *to, const bf16 *from, size_t n) {
#pragma omp parallel for simd schedule(static) if (parallel : n >= 32768)
  for (size_t i = 0; i < n; ++i)
    to[i] = from[i];
}

void sumCells(double *sums, const float *cells, const CellRange *ranges,
              size_t n) {
  for (size_t i = 0; i < n; ++i)
    sums[i] = sumOf(cells, ranges[i]);
}

void sumOfSquares(double *sum, const Runs<FloatRun> &runs) {
  *sum = 0;
  for (size_t i = 0; i < runs.count; ++i)
    *sum += sumOfSquares(runs.table[i]);
}

void makeSeeds(float *seeds, const StepNumbers &step, const LossInfo *losses) {
  for (size_t l = 0; l < step.losses; ++l)
    seeds[l] = seedOf(losses[l], step.denominators[l]);
}

void judge(const StepNumbers &step, const LossInfo *losses, double clipNorm) {
  dt::rt::judge(step, losses, clipNorm, faultRecord()->found);
}

void update(OptimizerKind kind, const UpdateStep &step,
            const Runs<UpdateRun> &runs, const Verdict *verdict) {
  if (!verdict->applies)
    return;
  awaitSnapshot();
  withOptimizer(kind, step, [&](const auto &rule, auto kept) {
    for (size_t i = 0; i < runs.count; ++i)
      updateRun<decltype(kept)::value>(rule, float(verdict->scale),
                                       float(1 - step.averageDecay),
                                       runs.table[i]);
  });
}

ReadBack::ReadBack(size_t bytes)
    : bytes(bytes), host(allocate(bytes, "what is read back")) {}
ReadBack::~ReadBack() { release(host); }
void ReadBack::begin(const void *memory) { copyToHost(host, memory, bytes); }
std::byte *ReadBack::end() { return static_cast<std::byte *>(host); }

void noteProgress() {}
uint64_t countProgress() { return 0; }

struct Stamps::Events {};
Stamps::Stamps() = default;
Stamps::~Stamps() = default;
void Stamps::begin(bool) { times.clear(); }
void Stamps::add() { times.push_back(now()); }
std::vector<double> Stamps::take() { return times; }

} // namespace dt::rt::device

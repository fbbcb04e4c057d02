//===- Memory.cu - faults of memory and of streams --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/cuda/faults/Faults.h"

#include "runtime/device/cuda/Cuda.h"

#include <cstdlib>

namespace cuda = dt::rt::cuda;

void cuda::failLaunch(const char *, cudaError_t status) {
  ::check(status);
  std::abort();
}

namespace {

constexpr size_t kN = 1000;

Register hostRead("host-read", [](bool fault) {
  float *data = onDevice(kN, 2);
  return (fault ? *data : first(data, nullptr)) == 2;
});

Register hostArgument("host-argument", [](bool fault) {
  static float host[kN];
  check(start(addKernel, 4, 256, 0, nullptr, fault ? host : onDevice(kN, 0), kN,
              1));
  check(cudaStreamSynchronize(nullptr));
  return true;
});

/// One element too many, next to the allocation.
Register writeBeside("write-beside", [](bool fault) {
  float *data = onDevice(kN, 0);
  check(start(addKernel, 4, 256, 0, nullptr, data, kN + fault, 1));
  return first(data, nullptr) == 1;
});

Register writeAhead("write-ahead", [](bool fault) {
  float *data = onDevice(kN, 0);
  check(start(addKernel, 4, 256, 0, nullptr, data - fault, kN, 1));
  return first(data, nullptr) > 0;
});

/// One element too many of one of two tensors that are planned in one
/// allocation.
Register writeNeighbour("write-neighbour", [](bool fault) {
  float *arena = onDevice(2 * kN, 0);
  cuda::launch("add", addKernel, 4, 256, 0, nullptr, cuda::out(arena, kN),
               kN + fault, 1);
  return first(arena, nullptr) == 1;
});

/// Far behind: pages that are nobody's.
Register writeFar("write-far", [](bool fault) {
  float *data = onDevice(kN, 0);
  check(start(addKernel, 64, 256, 0, nullptr, data, fault ? 16 * kN : kN, 1));
  return first(data, nullptr) == 1;
});

Register freed("freed", [](bool fault) {
  float *data = onDevice(kN, 1), *other = onDevice(kN, 1);
  check(cudaFree(other));
  check(start(addKernel, 4, 256, 0, nullptr, fault ? other : data, kN, 1));
  return first(data, nullptr) == 2;
});

Register fresh("fresh-memory", [](bool fault) {
  float *data = nullptr;
  check(cudaMalloc(&data, kN * sizeof(float)));
  if (!fault)
    check(cudaMemsetAsync(data, 0, kN * sizeof(float)));
  check(start(addKernel, 4, 256, 0, nullptr, data, kN, 1));
  return first(data, nullptr) == 1;
});

Register copyTooLong("copy-too-long", [](bool fault) {
  float *data = onDevice(kN, 1), *other = onDevice(kN / 2, 1);
  size_t bytes = (fault ? kN : kN / 2) * sizeof(float);
  check(cudaMemcpyAsync(other, data, bytes, cudaMemcpyDeviceToDevice));
  return first(other, nullptr) == 1;
});

/// A producer and a consumer on two streams.
bool twoStreams(bool wait, bool recordEarly) {
  cudaStream_t producer = makeStream(), consumer = makeStream();
  cudaEvent_t made = nullptr;
  check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
  float *data = onDevice(kN, 1), *copy = onDevice(kN, 0);
  if (recordEarly)
    check(cudaEventRecord(made, producer));
  check(start(addKernel, 4, 256, 0, producer, data, kN, 1));
  if (!recordEarly)
    check(cudaEventRecord(made, producer));
  if (wait)
    check(cudaStreamWaitEvent(consumer, made));
  check(cudaMemcpyAsync(copy, data, kN * sizeof(float),
                        cudaMemcpyDeviceToDevice, consumer));
  return first(copy, consumer) == 2;
}

Register removedWait("removed-wait",
                     [](bool fault) { return twoStreams(!fault, false); });
Register earlyEvent("early-event",
                    [](bool fault) { return twoStreams(true, fault); });

/// The time between two events, before or after somebody has waited for them.
Register earlyTimes("early-times", [](bool fault) {
  cudaStream_t stream = makeStream();
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreateWithFlags(&begin, cudaEventDefault));
  check(cudaEventCreateWithFlags(&end, cudaEventDefault));
  check(cudaEventRecord(begin, stream));
  check(cudaEventRecord(end, stream));
  if (!fault)
    check(cudaEventSynchronize(end));
  float milliseconds = -1;
  check(cudaEventElapsedTime(&milliseconds, begin, end));
  return milliseconds >= 0;
});

/// The default stream and one that does not wait for it.
Register defaultStream("default-stream", [](bool fault) {
  cudaStream_t other = makeStream();
  float *data = onDevice(kN, 1);
  check(start(addKernel, 4, 256, 0, fault ? nullptr : other, data, kN, 1));
  return first(data, other) == 2;
});

/// A buffer of the host that is used again; pageable ones are staged.
bool reuse(bool pinned, bool early) {
  static float pageable;
  float *data = onDevice(kN, 0), *host = &pageable;
  if (pinned)
    check(cudaHostAlloc(&host, sizeof(float), cudaHostAllocMapped));
  cudaStream_t stream = makeStream();
  *host = 5;
  check(cudaMemcpyAsync(data, host, sizeof(float), cudaMemcpyHostToDevice,
                        stream));
  if (!early)
    check(cudaStreamSynchronize(stream));
  *host = 6;
  return first(data, stream) == 5;
}

Register pinnedReuse("pinned-reuse",
                     [](bool fault) { return reuse(true, fault); });
Register pageableReuse("pageable-reuse",
                       [](bool fault) { return reuse(false, fault); });

Register outOfMemory("out-of-memory", [](bool fault) {
  float *data = nullptr;
  check(cudaMalloc(&data, size_t(fault ? 1000 : 1) << 30));
  return true;
});

} // namespace

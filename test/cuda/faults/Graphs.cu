//===- Graphs.cu - faults of CUDA graphs ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/cuda/faults/Faults.h"

#include <functional>

namespace {

constexpr size_t kN = 1000;

void add(float *data, float value, cudaStream_t stream) {
  check(start(addKernel, 4, 256, 0, stream, data, kN, value));
}

/// What `work` queues on the stream, to be launched.
cudaGraphExec_t capture(cudaStream_t stream,
                        const std::function<void()> &work) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t instance = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  work();
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&instance, graph, 0));
  check(cudaGraphDestroy(graph));
  return instance;
}

/// 1 + 2 + 2 of a graph that is launched twice, with `more` beside its kernel.
bool twice(const std::function<void(float *, cudaStream_t)> &more) {
  float *data = onDevice(kN, 1);
  cudaStream_t stream = makeStream();
  cudaGraphExec_t graph = capture(stream, [&] {
    add(data, 2, stream);
    more(data, stream);
  });
  check(cudaGraphLaunch(graph, stream));
  check(cudaGraphLaunch(graph, stream));
  return first(data, stream) == 5;
}

/// A number that the host changes, as an argument or on the device.
Register argument("graph-argument", [](bool fault) {
  float *data = onDevice(kN, 0), *step = onDevice(kN, 0), number = 1;
  cudaStream_t stream = makeStream();
  cudaGraphExec_t graph = capture(stream, [&] {
    add(data, fault ? number : 0, stream);
    if (!fault)
      check(cudaMemcpyAsync(data, step, sizeof number, cudaMemcpyDeviceToDevice,
                            stream));
  });
  number = 2;
  add(step, number, stream);
  check(cudaGraphLaunch(graph, stream));
  return first(data, stream) == 2;
});

Register freed("graph-freed", [](bool fault) {
  float *data = onDevice(kN, 1), *other = onDevice(kN, 1);
  cudaStream_t stream = makeStream();
  cudaGraphExec_t graph =
      capture(stream, [&] { add(fault ? other : data, 1, stream); });
  check(cudaFree(other));
  check(cudaGraphLaunch(graph, stream));
  return first(data, stream) == 2;
});

Register waits("graph-waits", [](bool fault) {
  return twice([&](float *, cudaStream_t stream) {
    if (fault)
      check(cudaStreamSynchronize(stream));
  });
});

Register allocates("graph-allocates", [](bool fault) {
  return twice([&](float *, cudaStream_t) {
    if (fault)
      onDevice(1, 0);
  });
});

/// Work that would run once, and at once.
Register otherStream("graph-other-stream", [](bool fault) {
  float *other = onDevice(kN, 0);
  return twice([&](float *, cudaStream_t stream) {
    add(other, 1, fault ? nullptr : stream);
  });
});

/// An event would let another stream join the capture.
Register fork("graph-fork", [](bool fault) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return twice([&](float *, cudaStream_t stream) {
    if (fault)
      check(cudaEventRecord(event, stream));
  });
});

Register destroyed("graph-destroyed", [](bool fault) {
  float *data = onDevice(kN, 1);
  cudaStream_t stream = makeStream();
  cudaGraphExec_t graph = capture(stream, [&] { add(data, 1, stream); });
  if (!fault)
    check(cudaGraphLaunch(graph, stream));
  check(cudaGraphExecDestroy(graph));
  if (fault)
    check(cudaGraphLaunch(graph, stream));
  return first(data, stream) == 2;
});

} // namespace

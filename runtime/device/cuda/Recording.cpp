//===- Recording.cpp - CUDA graphs of a function --------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a function queues between two calls of the host is one graph:
// docs/cuda-step.md says what that leaves out, and why. Nothing is queued while
// it is captured, so that a function which cannot be recorded can be run as if
// nobody had tried.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Error.h"
#include "runtime/device/Device.h"
#include "runtime/device/cuda/Cuda.h"

namespace dt::rt::device {

namespace {

cudaStream_t compute() { return static_cast<cudaStream_t>(stream()); }

struct Graph {
  cudaGraph_t graph = nullptr;
  ~Graph() {
    if (graph)
      cudaGraphDestroy(graph);
  }
};

/// A graph, or a call.
struct Piece {
  cudaGraphExec_t graph = nullptr;
  std::function<void()> call = nullptr;
};

} // namespace

struct Recording::Pieces {
  std::vector<Piece> all;
  unsigned scratchMoves = cuda::scratchMoves; ///< when it was made
  bool captures = false;

  ~Pieces() {
    for (const Piece &piece : all)
      if (piece.graph)
        cudaGraphExecDestroy(piece.graph);
  }

  /// Of this thread's calls only, those that may wait or allocate are refused:
  /// NCCL has threads of its own.
  void capture() {
    cuda::check(
        cudaStreamBeginCapture(compute(), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
    captures = true;
  }
  /// A graph of what was captured, unless that is nothing.
  void cut() {
    Graph made;
    captures = false;
    cuda::check(cudaStreamEndCapture(compute(), &made.graph),
                "cudaStreamEndCapture");
    size_t nodes = 0;
    cuda::check(cudaGraphGetNodes(made.graph, nullptr, &nodes),
                "cudaGraphGetNodes");
    if (nodes)
      cuda::check(
          cudaGraphInstantiate(&all.emplace_back().graph, made.graph, 0),
          "cudaGraphInstantiate");
  }
  void add(const std::function<void()> &call) {
    cut();
    all.push_back({nullptr, call});
    capture();
  }
  /// The stream is as before; what failed has been said.
  void abandon() {
    Graph unfinished;
    if (captures)
      (void)cudaStreamEndCapture(compute(), &unfinished.graph);
    (void)cudaGetLastError();
  }
};

/// The one that is being made.
static Recording::Pieces *made = nullptr;

Recording::Recording(std::unique_ptr<Pieces> pieces)
    : pieces(std::move(pieces)) {}
Recording::~Recording() = default;

std::unique_ptr<Recording>
Recording::make(const std::function<void()> &function, std::string &why) {
  auto pieces = std::make_unique<Pieces>();
  made = pieces.get();
  cuda::recording = true;
  try {
    pieces->capture();
    function();
    pieces->cut();
  } catch (const Error &e) {
    why = e.what();
    pieces->abandon();
    pieces.reset();
  }
  cuda::recording = false;
  made = nullptr;
  return pieces ? std::unique_ptr<Recording>(new Recording(std::move(pieces)))
                : nullptr;
}

bool Recording::replay() const {
  if (pieces->scratchMoves != cuda::scratchMoves)
    return false;
  for (const Piece &piece : pieces->all)
    if (piece.graph)
      cuda::check(cudaGraphLaunch(piece.graph, compute()), "cudaGraphLaunch");
    else
      piece.call();
  return true;
}

bool records() {
  static bool on = cuda::isWanted("DT_CUDA_GRAPHS");
  return on;
}

void hostCall(const std::function<void()> &call) {
  if (made)
    made->add(call);
  else
    call();
}

} // namespace dt::rt::device

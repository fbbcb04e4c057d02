//===- Nccl.cu - faults between processes -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Each case is two ranks. Rank 0 is the process that was started; it speaks and
// says how both ended.
//
//===----------------------------------------------------------------------===//

#include "test/cuda/faults/Faults.h"

#include <nccl.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr size_t kN = 1000;

void check(ncclResult_t result) {
  if (result != ncclSuccess)
    std::exit(1);
}

struct Ranks {
  int rank;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  pid_t other = 0;

  /// `blocks`: that kernels of the communicator may have.
  explicit Ranks(int blocks = 16) {
    ncclUniqueId id;
    check(ncclGetUniqueId(&id));
    other = fork();
    rank = other == 0;
    if (rank == 1) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::freopen("/dev/null", "w", stderr);
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.maxCTAs = blocks;
    check(ncclCommInitRankConfig(&comm, 2, id, rank, &config));
    stream = makeStream();
  }
  /// Whether both are right.
  bool end(bool right) {
    check(cudaStreamSynchronize(stream));
    check(ncclCommDestroy(comm));
    if (rank == 1)
      std::exit(right ? 0 : 3);
    int status;
    waitpid(other, &status, 0);
    return right && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
};

Register swapped("nccl-swapped", [](bool fault) {
  Ranks ranks;
  float *data = onDevice(kN, 1);
  size_t counts[] = {kN, kN / 2};
  for (int i = 0; i < 2; ++i)
    check(ranks.rank ? ncclSend(data, counts[i], ncclFloat32, 0, ranks.comm,
                                ranks.stream)
                     : ncclRecv(data, counts[fault ? 1 - i : i], ncclFloat32, 1,
                                ranks.comm, ranks.stream));
  return ranks.end(true);
});

Register counts("nccl-counts", [](bool fault) {
  Ranks ranks;
  float *data = onDevice(kN, float(ranks.rank + 1));
  check(ncclAllReduce(data, data, ranks.rank && fault ? kN - 1 : kN,
                      ncclFloat32, ncclSum, ranks.comm, ranks.stream));
  return ranks.end(first(data, ranks.stream) == 3);
});

Register order("nccl-order", [](bool fault) {
  Ranks ranks;
  float *data = onDevice(kN, 1), *all = onDevice(2 * kN, 0);
  for (int i = 0; i < 2; ++i)
    check(i == (ranks.rank && fault)
              ? ncclAllReduce(data, data, kN, ncclFloat32, ncclSum, ranks.comm,
                              ranks.stream)
              : ncclAllGather(data, all, kN, ncclFloat32, ranks.comm,
                              ranks.stream));
  return ranks.end(first(all, ranks.stream) == 2);
});

/// What is sent is computed on another stream.
Register removedWait("nccl-removed-wait", [](bool fault) {
  Ranks ranks;
  float *data = onDevice(kN, 1);
  if (ranks.rank) {
    check(ncclRecv(data, kN, ncclFloat32, 0, ranks.comm, ranks.stream));
    return ranks.end(first(data, ranks.stream) == 3);
  }
  cudaStream_t compute = makeStream();
  cudaEvent_t computed;
  check(cudaEventCreateWithFlags(&computed, cudaEventDisableTiming));
  check(start(addKernel, 4, 256, 0, compute, data, kN, 2));
  check(cudaEventRecord(computed, compute));
  if (!fault)
    check(cudaStreamWaitEvent(ranks.stream, computed));
  check(ncclSend(data, kN, ncclFloat32, 1, ranks.comm, ranks.stream));
  return ranks.end(true);
});

/// Kernels of three streams.
Register room("nccl-room", [](bool fault) {
  Ranks ranks(fault ? NCCL_CONFIG_UNDEF_INT : 32);
  float *data = onDevice(kN, 1);
  for (int i = 0; i < 3; ++i) {
    cudaStream_t stream = i ? makeStream() : ranks.stream;
    check(ncclAllReduce(data, data, kN, ncclFloat32, ncclSum, ranks.comm,
                        stream));
    check(cudaStreamSynchronize(stream));
  }
  return ranks.end(first(data, ranks.stream) == 8);
});

} // namespace

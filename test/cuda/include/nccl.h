//===- nccl.h - NCCL's names, without NCCL ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The part of NCCL that DistTrain's runtime uses: docs/cuda-double.md. Names,
// types and values are NCCL's; Nccl.cpp implements it between processes.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_CUDA_INCLUDE_NCCL_H
#define DT_TEST_CUDA_INCLUDE_NCCL_H

#include <cuda_runtime.h>

enum ncclResult_t { ncclSuccess = 0, ncclSystemError = 2, ncclInProgress = 7 };
enum ncclDataType_t {
  ncclChar = 0,
  ncclInt64 = 4,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};
enum ncclRedOp_t { ncclSum = 0, ncclMax = 2, ncclMin = 3 };

struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  int blocking;
  int maxCTAs;
};
#define NCCL_CONFIG_UNDEF_INT (-2147483647 - 1)
#define NCCL_CONFIG_INITIALIZER {1, NCCL_CONFIG_UNDEF_INT}
using ncclComm_t = struct ncclComm *;

inline ncclResult_t ncclGetVersion(int *version) {
  *version = 0;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t *config);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
inline ncclResult_t ncclCommAbort(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state);
inline const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "unhandled system error";
}
inline const char *ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
namespace cuda_double {
ncclResult_t message(bool sends, void *data, size_t count, ncclDataType_t type,
                     int peer, ncclComm *comm, cudaStream_t stream);
}
inline ncclResult_t ncclSend(const void *data, size_t count,
                             ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
  return cuda_double::message(true, const_cast<void *>(data), count, type, peer,
                              comm, stream);
}
inline ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type,
                             int peer, ncclComm_t comm, cudaStream_t stream) {
  return cuda_double::message(false, data, count, type, peer, comm, stream);
}
ncclResult_t ncclAllReduce(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclAllGather(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *in, void *out, size_t count,
                           ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream);

#endif // DT_TEST_CUDA_INCLUDE_NCCL_H

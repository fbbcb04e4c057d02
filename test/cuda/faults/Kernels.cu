//===- Kernels.cu - faults of kernels and of products -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/cuda/faults/Faults.h"

#include "runtime/device/cuda/Cuda.h"

#include <cublasLt.h>

namespace {

constexpr unsigned kThreads = 64;

/// The sum of a block's values in a tree.
__global__ void treeSum(const float *values, float *sum, bool barrier) {
  __shared__ float part[kThreads];
  part[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      part[threadIdx.x] += part[threadIdx.x + half];
    if (barrier)
      __syncthreads();
  }
  if (threadIdx.x == 0)
    *sum = part[0];
}

Register missingBarrier("missing-barrier", [](bool fault) {
  float *values = onDevice(kThreads, 1), *sum = onDevice(1, 0);
  check(start(treeSum, 1, kThreads, 0, nullptr, values, sum, !fault));
  return first(sum, nullptr) == kThreads;
});

__global__ void divergent(float *data, unsigned most, bool other) {
  if (threadIdx.x < most) {
    __syncthreads();
    data[threadIdx.x] = 1;
  } else if (other) {
    __syncthreads();
  }
}

Register divergentBarrier("divergent-barrier", [](bool fault) {
  float *data = onDevice(kThreads, 0);
  check(start(divergent, 1, kThreads, 0, nullptr, data, fault ? 16 : kThreads,
              false));
  return first(data, nullptr) == 1;
});

Register twoBarriers("two-barriers", [](bool fault) {
  float *data = onDevice(kThreads, 0);
  check(start(divergent, 1, kThreads, 0, nullptr, data, fault ? 16 : kThreads,
              true));
  return first(data, nullptr) == 1;
});

/// The sum of a warp's lanes; lanes from `most` on leave before.
__global__ void warpSum(float *sum, unsigned most, bool other) {
  if (threadIdx.x >= most && !other)
    return;
  float value = 1;
  if (threadIdx.x < most)
    for (unsigned half = 16; half > 0; half /= 2)
      value += __shfl_down_sync(0xFFFFFFFF, value, half);
  else
    value = __shfl_sync(0xFFFFFFFF, value, 0);
  if (threadIdx.x == 0)
    *sum = value;
}

bool warpSums(unsigned most, bool other) {
  float *sum = onDevice(1, 0);
  check(start(warpSum, 1, kThreads, 0, nullptr, sum, most, other));
  return first(sum, nullptr) == 32;
}

Register divergentShuffle("divergent-shuffle", [](bool fault) {
  return warpSums(fault ? 16 : kThreads, false);
});

Register twoShuffles("two-shuffles", [](bool fault) {
  return warpSums(fault ? 16 : kThreads, true);
});

/// Lane 0 reads what the other lanes have written.
__global__ void handOver(float *data, bool barrier) {
  __shared__ float part[32];
  part[threadIdx.x] = 1;
  if (barrier)
    __syncwarp();
  float sum = 0;
  for (unsigned i = 0; i < 32; ++i)
    sum += part[i];
  data[threadIdx.x] = sum;
}

Register missingWarpBarrier("missing-warp-barrier", [](bool fault) {
  float *data = onDevice(32, 0);
  check(start(handOver, 1, 32, 0, nullptr, data, !fault));
  return first(data, nullptr) == 32;
});

/// A block sees nothing of what another one left in shared memory.
__global__ void remembers(float *data, bool sets) {
  __shared__ float kept;
  if (sets || blockIdx.x == 0)
    kept = 1;
  data[blockIdx.x] = kept;
}

Register staleShared("stale-shared", [](bool fault) {
  float *data = onDevice(2, 0);
  check(start(remembers, 2, 1, 0, nullptr, data, !fault));
  return first(data, nullptr) == 1 && first(data + 1, nullptr) == 1;
});

__global__ void fillShared(float *data, unsigned n) {
  DT_DYNAMIC_SHARED(float, values);
  for (unsigned i = 0; i < n; ++i)
    values[i] = float(i);
  *data = values[0];
}

Register behindShared("behind-shared", [](bool fault) {
  float *data = onDevice(1, 1);
  check(start(fillShared, 1, 1, 64, nullptr, data, 16 + fault));
  return first(data, nullptr) == 0;
});

bool launched(unsigned blocks, unsigned threads, size_t shared) {
  float *data = onDevice(2048, 0);
  check(start(addKernel, blocks, threads, shared, nullptr, data, 2048, 1));
  return first(data, nullptr) == 1;
}

Register manyThreads("many-threads",
                     [](bool fault) { return launched(2, 1024 + fault, 0); });
Register noBlocks("no-blocks",
                  [](bool fault) { return launched(!fault, 1, 0); });
Register muchShared("much-shared", [](bool fault) {
  return launched(2, 1024, (48 << 10) + fault);
});

/// More than every GPU's kernels have is asked for.
Register unaskedShared("unasked-shared", [](bool fault) {
  if (!fault)
    check(cudaFuncSetAttribute(
        fillShared, cudaFuncAttributeMaxDynamicSharedMemorySize, 99 << 10));
  float *data = onDevice(1, 1);
  check(start(fillShared, 1, 1, 99 << 10, nullptr, data, 99u << 8));
  return first(data, nullptr) == 0;
});

Register unchecked("unchecked-launch", [](bool fault) {
  float *data = onDevice(2048, 0);
  cudaError_t status = start(addKernel, 1, 1025, 0, nullptr, data, 2048, 1);
  if (!fault && status != cudaSuccess)
    return std::string(cudaGetErrorString(status)).find("1025 threads") !=
           std::string::npos;
  return first(data, nullptr) == 1;
});

//===----------------------------------------------------------------------===//
// Products.
//===----------------------------------------------------------------------===//

void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS)
    std::abort();
}

struct Faulty {
  int64_t ld = 4;         ///< of A, 4 x 8
  int64_t columns = 3;    ///< of D
  uint32_t alignment = 4; ///< promised of A
  size_t shift = 0;       ///< of A
  bool otherLayout = false;
};

/// D (4 x 3) = A (4 x 8) of ones times B (8 x 3) of twos.
bool product(const Faulty &fault) {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, wide, b, d;
  cublasLtMatmulPreference_t preference;
  check(cublasLtCreate(&handle));
  check(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  check(cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, 4, 8, fault.ld));
  check(cublasLtMatrixLayoutCreate(&wide, CUDA_R_32F, 4, 8, 5));
  check(cublasLtMatrixLayoutCreate(&b, CUDA_R_32F, 8, 3, 8));
  check(cublasLtMatrixLayoutCreate(&d, CUDA_R_32F, 4, fault.columns, 4));
  check(cublasLtMatmulPreferenceCreate(&preference));
  check(cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &fault.alignment,
      sizeof fault.alignment));
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, d, d, preference, 1,
                                       &result, &found));
  float one = 1, none = 0, *to = onDevice(12, 0);
  check(cublasLtMatmul(handle, desc, &one, onDevice(64, 1) + fault.shift,
                       fault.otherLayout ? wide : a, onDevice(24, 2), b, &none,
                       to, d, to, d, &result.algo, nullptr, 0, nullptr));
  return first(to, nullptr) == 16;
}

Register leading("leading-dimension",
                 [](bool fault) { return product({.ld = fault ? 3 : 4}); });
Register size("product-size",
              [](bool fault) { return product({.columns = fault ? 2 : 3}); });
Register alignment("alignment", [](bool fault) {
  return product({.alignment = 16, .shift = fault ? 1u : 4u});
});
Register otherProduct("other-product", [](bool fault) {
  return product({.otherLayout = fault});
});
Register outside("product-outside",
                 [](bool fault) { return product({.ld = fault ? 9 : 8}); });

} // namespace

//===- cublasLt.h - cuBLASLt's names, without CUDA --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The part of cuBLASLt that DistTrain's runtime uses: docs/cuda-double.md.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_CUDA_INCLUDE_CUBLASLT_H
#define DT_TEST_CUDA_INCLUDE_CUBLASLT_H

#include "cuda_runtime.h"

#include <array>

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0 };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasComputeType_t {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};
enum cublasLtEpilogue_t { CUBLASLT_EPILOGUE_BIAS = 4 };
enum cublasLtMatrixLayoutAttribute_t {
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,
};
enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_COMPUTE_TYPE = 0,
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4,
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,
};
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
};

namespace cuda_double {
/// By their numbers, as they are set.
using Attributes = std::array<int64_t, 32>;
/// `wide`: the attribute that has 8 bytes; the others have 4.
cublasStatus_t set(Attributes *to, int wide, int name, const void *value,
                   size_t bytes, const char *call = __builtin_FUNCTION());
} // namespace cuda_double
using cublasLtHandle_t = struct cublasLtContext *;
using cublasLtMatrixLayout_t = cuda_double::Attributes *;
using cublasLtMatmulDesc_t = cuda_double::Attributes *;
using cublasLtMatmulPreference_t = cuda_double::Attributes *;
struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
};

inline const char *cublasLtGetStatusString(cublasStatus_t) {
  return "no error"; // what is wrong ends the program
}
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  *handle = nullptr; // nothing is asked of it
  return CUBLAS_STATUS_SUCCESS;
}

/// Of a batch of one.
inline cublasStatus_t
cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *created, cudaDataType_t type,
                           uint64_t rows, uint64_t columns, int64_t ld) {
  *created = new cuda_double::Attributes{
      type, 0, int64_t(rows), int64_t(columns), ld, 1};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                               cublasComputeType_t type,
                                               cudaDataType_t) {
  *desc =
      new cuda_double::Attributes{type}; // CUBLASLT_MATMUL_DESC_COMPUTE_TYPE
  (**desc)[CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE] = -1; // as D
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  *preference = new cuda_double::Attributes{0, 0, 0, 0, 0, 256, 256, 256, 256};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t to,
                                 cublasLtMatrixLayoutAttribute_t name,
                                 const void *value, size_t bytes) {
  return cuda_double::set(to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, name,
                          value, bytes);
}
inline cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t to,
                               cublasLtMatmulDescAttributes_t name,
                               const void *value, size_t bytes) {
  return cuda_double::set(to, CUBLASLT_MATMUL_DESC_BIAS_POINTER, name, value,
                          bytes);
}
inline cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t to,
                                     cublasLtMatmulPreferenceAttributes_t name,
                                     const void *value, size_t bytes) {
  return cuda_double::set(to, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, name,
                          value, bytes);
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int wanted,
    cublasLtMatmulHeuristicResult_t results[], int *found);
cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
               const void *alpha, const void *a, cublasLtMatrixLayout_t layoutA,
               const void *b, cublasLtMatrixLayout_t layoutB, const void *beta,
               const void *c, cublasLtMatrixLayout_t layoutC, void *d,
               cublasLtMatrixLayout_t layoutD, const cublasLtMatmulAlgo_t *algo,
               void *workspace, size_t workspaceBytes, cudaStream_t stream);

#endif // DT_TEST_CUDA_INCLUDE_CUBLASLT_H

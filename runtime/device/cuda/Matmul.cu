//===- Matmul.cu - matrix products by cuBLASLt ----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// cuBLASLt is column-major: a row-major C = A B is its C^T = B^T A^T, so
// operands swap and no data moves. The bias of a row-major column is then the
// bias of its row, which is what the epilogue adds. Descriptors and the chosen
// algorithm are cached by shape and alignment, for each type of elements.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/LibraryMemory.h"
#include "runtime/device/cuda/Calls.h"
#include "runtime/device/cuda/Cuda.h"

#include <cublasLt.h>

#include <map>
#include <tuple>
#include <type_traits>
#include <utility>

namespace dt::rt {

namespace {

constexpr size_t kWorkspace = size_t(kProductWorkspace);

void check(cublasStatus_t status, const char *call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    cuda::fail(call, cublasLtGetStatusString(status));
}

cublasLtHandle_t handle() {
  static cublasLtHandle_t theHandle = [] {
    cublasLtHandle_t h;
    check(cublasLtCreate(&h), "cublasLtCreate");
    return h;
  }();
  return theHandle;
}

/// How cuBLASLt calls elements of a type.
template <typename T> constexpr cudaDataType_t kCudaType = CUDA_R_32F;
template <> constexpr cudaDataType_t kCudaType<bf16> = CUDA_R_16BF;

/// A matrix as cuBLASLt sees it: `rows` x `columns` column-major.
cublasLtMatrixLayout_t layout(cudaDataType_t type, int64_t rows,
                              int64_t columns, int64_t ld, int64_t batch,
                              int64_t stride) {
  cublasLtMatrixLayout_t l;
  check(cublasLtMatrixLayoutCreate(&l, type, rows, columns, ld),
        "cublasLtMatrixLayoutCreate");
  int32_t count = int32_t(batch);
  check(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                         &count, sizeof count),
        "batch count");
  check(cublasLtMatrixLayoutSetAttribute(
            l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
            sizeof stride),
        "batch stride");
  return l;
}

struct Product {
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, c; ///< a is the caller's B, b its A
  cublasLtMatmulAlgo_t algo;
  bool loaded = false; ///< has run
};

/// Leading dim: at least the row length of the stored matrix, 0 = dense.
int64_t leading(int64_t ld, int64_t dense) { return ld ? ld : dense; }

/// Bytes that all three addresses are multiples of, 16 at most. Tensor cores
/// are fed in packs of 16: what is promised less takes several times as long.
uint32_t alignmentOf(const void *a, const void *b, const void *c) {
  auto bits = uintptr_t(a) | uintptr_t(b) | uintptr_t(c) | 16;
  return uint32_t(bits & -bits);
}

/// T are the operands' elements, C those of the result and of the bias.
template <typename T, typename C>
Product create(const MatmulShape &s, bool bias, uint32_t alignment) {
  Product p;
  bool rounds = s.tf32 && std::is_same_v<T, float>;
  check(cublasLtMatmulDescCreate(
            &p.desc, rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
            CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  cublasOperation_t opA = s.transB ? CUBLAS_OP_T : CUBLAS_OP_N,
                    opB = s.transA ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_TRANSA,
                                       &opA, sizeof opA),
        "transpose");
  check(cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_TRANSB,
                                       &opB, sizeof opB),
        "transpose");
  if (bias) {
    cudaDataType_t type = kCudaType<C>;
    check(cublasLtMatmulDescSetAttribute(
              p.desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type),
          "type of the bias");
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    check(cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                         &epilogue, sizeof epilogue),
          "epilogue");
  }
  int64_t rowB = s.transB ? s.k : s.n, rowA = s.transA ? s.m : s.k;
  p.a = layout(kCudaType<T>, rowB, s.transB ? s.n : s.k, leading(s.ldb, rowB),
               s.batch, s.strideB);
  p.b = layout(kCudaType<T>, rowA, s.transA ? s.k : s.m, leading(s.lda, rowA),
               s.batch, s.strideA);
  p.c = layout(kCudaType<C>, s.n, s.m, leading(s.ldc, s.n), s.batch, s.strideC);

  cublasLtMatmulPreference_t preference;
  check(cublasLtMatmulPreferenceCreate(&preference),
        "cublasLtMatmulPreferenceCreate");
  size_t workspace = kWorkspace;
  check(cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
            sizeof workspace),
        "workspace");
  for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    check(cublasLtMatmulPreferenceSetAttribute(preference, attribute,
                                               &alignment, sizeof alignment),
          "alignment");
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle(), p.desc, p.a, p.b, p.c, p.c,
                                       preference, 1, &result, &found),
        "cublasLtMatmulAlgoGetHeuristic");
  if (found == 0)
    cuda::fail("cublasLtMatmulAlgoGetHeuristic",
               "no algorithm for this product");
  p.algo = result.algo;
  cublasLtMatmulPreferenceDestroy(preference);
  return p;
}

template <typename T, typename C>
Product &productFor(const MatmulShape &s, bool bias, float beta,
                    uint32_t alignment) {
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                         int64_t, int64_t, int64_t, int64_t, uint32_t, int>;
  static std::map<Key, Product> cache;
  Key key{s.batch,
          s.m,
          s.n,
          s.k,
          s.strideA,
          s.strideB,
          s.strideC,
          s.lda,
          s.ldb,
          s.ldc,
          alignment,
          s.tf32 * 16 + s.transA * 8 + s.transB * 4 + bias * 2 + (beta != 0)};
  auto it = cache.find(key);
  if (it == cache.end())
    it = cache.emplace(key, create<T, C>(s, bias, alignment)).first;
  return it->second;
}

/// c = bias + beta * c, for products over nothing.
template <typename C>
__global__ void biasKernel(const C *bias, C *c, MatmulShape s, float beta) {
  int64_t ldc = s.ldc ? s.ldc : s.n, n = s.batch * s.m * s.n;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n;
       i += int64_t(gridDim.x) * blockDim.x) {
    C *element =
        c + i / (s.m * s.n) * s.strideC + i / s.n % s.m * ldc + i % s.n;
    *element = (bias ? float(bias[i % s.n]) : 0.f) +
               (beta != 0 ? beta * float(*element) : 0.f);
  }
}

template <typename To>
__global__ void convertKernel(To *to, Floats from, int64_t n) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n;
       i += int64_t(gridDim.x) * blockDim.x)
    to[i] = from[i];
}

const float *stored(Floats f, float) { return f.wide; }
const bf16 *stored(Floats f, bf16) { return f.narrow; }

/// The bias in the result's type, which cuBLASLt adds.
template <typename C> const C *biasAs(Floats bias, int64_t n, void *stream) {
  const C *same = stored(bias, C());
  if (same || !bias)
    return same;
  auto *converted = static_cast<C *>(cuda::scratch(4, n * sizeof(C)));
  cuda::launch("type of a bias", convertKernel<C>, cuda::blocksFor(n), 256, 0,
               stream, converted, bias, n);
  return converted;
}

template <typename T, typename C>
void multiply(const T *a, const T *b, Floats anyBias, C *c,
              const MatmulShape &s, float beta, void *stream) {
  if (s.batch == 0 || s.m == 0 || s.n == 0)
    return;
  auto queue = static_cast<cudaStream_t>(stream);
  const C *bias = biasAs<C>(anyBias, s.n, stream);
  if (s.k == 0) {
    cuda::launch("bias of an empty product", biasKernel<C>,
                 cuda::blocksFor(s.batch * s.m * s.n), 256, 0, stream, bias, c,
                 s, beta);
    return;
  }
  Product &p = productFor<T, C>(s, bias != nullptr, beta, alignmentOf(a, b, c));
  if (bias)
    check(cublasLtMatmulDescSetAttribute(
              p.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
          "bias");
  void *workspace = cuda::scratch(0, kWorkspace);
  // The first run loads kernels.
  if (std::exchange(p.loaded, true) && cuda::rehearsing)
    return;
  const float one = 1;
  check(cublasLtMatmul(handle(), p.desc, &one, b, p.a, a, p.b, &beta, c, p.c, c,
                       p.c, &p.algo, workspace, kWorkspace, queue),
        "cublasLtMatmul");
}

} // namespace

void matmul(const float *a, const float *b, const float *bias, float *c,
            const MatmulShape &s, float beta, void *stream) {
  multiply(a, b, bias, c, s, beta, stream);
}

void matmul(const bf16 *a, const bf16 *b, Floats bias, float *c,
            const MatmulShape &s, float beta, void *stream) {
  multiply(a, b, bias, c, s, beta, stream);
}

void matmul(const bf16 *a, const bf16 *b, Floats bias, bf16 *c,
            const MatmulShape &s, float beta, void *stream) {
  multiply(a, b, bias, c, s, beta, stream);
}

} // namespace dt::rt

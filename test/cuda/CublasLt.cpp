//===- CublasLt.cpp - matrix products that look at their arguments
//----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What cuBLASLt would refuse, and what it would only do wrong: sizes, leading
// dimensions and strides that do not fit, pointers that break a promise, an
// algorithm that was chosen for another product, a workspace that is too small.
// An algorithm takes all that it was promised and may have.
//
//===----------------------------------------------------------------------===//

#include "Double.h"
#include "Product.h"

#include <cublasLt.h>

#include <algorithm>
#include <cstring>

struct cublasLtContext {};

struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType type;
  int64_t rows, columns, ld;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
  int32_t batch = 1;
  int64_t stride = 0;
  bool operator==(const cublasLtMatrixLayoutOpaque_t &) const = default;
};

struct cublasLtMatmulDescOpaque_t {
  cublasOperation_t opA = CUBLAS_OP_N, opB = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void *bias = nullptr;
  int32_t biasType = -1; ///< as the result
};

struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256}; ///< of A, B, C, D
};

using namespace cuda_double;
using Layout = cublasLtMatrixLayoutOpaque_t;

namespace {

/// What an algorithm was chosen for.
struct Chosen {
  cublasLtMatmulDescOpaque_t desc;
  Layout layout[4]; ///< of A, B, C, D
  cublasLtMatmulPreferenceOpaque_t preference;
};
auto &chosen = *new std::vector<Chosen>;
constexpr const char *kNames[] = {"A", "B", "C", "D"};

size_t bytesOf(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }

template <typename T>
void set(T &attribute, const void *value, size_t bytes, const char *call) {
  if (bytes != sizeof attribute)
    die("%s: an attribute of %zu bytes is given as %zu", call, sizeof attribute,
        bytes);
  std::memcpy(&attribute, value, bytes);
}

void checkLayout(const char *call, const char *name, const Layout &l) {
  bool columns = l.order == CUBLASLT_ORDER_COL;
  int64_t run = columns ? l.rows : l.columns,
          runs = columns ? l.columns : l.rows;
  if (l.rows <= 0 || l.columns <= 0)
    die("%s: %s has %ld rows and %ld columns", call, name, long(l.rows),
        long(l.columns));
  if (l.ld < run)
    die("%s: the leading dimension of %s is %ld, below its %ld %s", call, name,
        long(l.ld), long(run), columns ? "rows" : "columns");
  if (l.batch < 1)
    die("%s: %s has a batch of %d", call, name, l.batch);
  if (l.batch > 1 && l.stride != 0 && l.stride < l.ld * (runs - 1) + run)
    die("%s: matrices of %s overlap: batch stride %ld", call, name,
        long(l.stride));
}

/// Ends the program where four layouts are no product.
void checkProduct(const char *call, const cublasLtMatmulDescOpaque_t &desc,
                  const Layout *const (&l)[4]) {
  for (int i = 0; i < 4; ++i)
    checkLayout(call, kNames[i], *l[i]);
  auto size = [&](const Layout &of, cublasOperation_t op, bool rows) {
    return (op == CUBLAS_OP_N) == rows ? of.rows : of.columns;
  };
  int64_t m = size(*l[0], desc.opA, true), n = size(*l[1], desc.opB, false);
  if (size(*l[0], desc.opA, false) != size(*l[1], desc.opB, true))
    die("%s: A has %ld columns, B %ld rows", call,
        long(size(*l[0], desc.opA, false)), long(size(*l[1], desc.opB, true)));
  for (int i = 2; i < 4; ++i)
    if (l[i]->rows != m || l[i]->columns != n)
      die("%s: %s is %ld x %ld, the product %ld x %ld", call, kNames[i],
          long(l[i]->rows), long(l[i]->columns), long(m), long(n));
  for (int i = 0; i < 4; ++i)
    if (l[i]->batch != l[3]->batch)
      die("%s: %s has a batch of %d, D of %d", call, kNames[i], l[i]->batch,
          l[3]->batch);
  if (l[3]->batch > 1 && l[3]->stride == 0)
    die("%s: all results of the batch go to one place", call);
  cudaDataType from = l[0]->type, to = l[3]->type;
  if (l[1]->type != from || l[2]->type != to ||
      (from == CUDA_R_32F && to != CUDA_R_32F))
    die("%s: no product has these types: A %d, B %d, C %d, D %d", call, from,
        l[1]->type, l[2]->type, to);
  if (desc.epilogue == CUBLASLT_EPILOGUE_BIAS) {
    if (desc.biasType >= 0 && desc.biasType != to)
      die("%s: the bias has another type than D", call);
    if (l[3]->order != CUBLASLT_ORDER_COL)
      die("%s: a bias is added to rows of D, which must stand in columns",
          call);
  } else if (desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    die("%s: epilogue %d", call, desc.epilogue);
  }
}

/// From the first byte of the first to the last of the last matrix.
size_t spanOf(const Layout &l) {
  int64_t runs = l.order == CUBLASLT_ORDER_COL ? l.columns : l.rows;
  int64_t run = l.order == CUBLASLT_ORDER_COL ? l.rows : l.columns;
  return size_t((l.batch - 1) * l.stride + (runs - 1) * l.ld + run) *
         bytesOf(l.type);
}

Operand operandOf(const Layout &l, const void *data, cublasOperation_t op) {
  bool down = (l.order == CUBLASLT_ORDER_COL) == (op == CUBLAS_OP_N);
  return {const_cast<void *>(data), l.type == CUDA_R_16BF, down ? 1 : l.ld,
          down ? l.ld : 1, l.stride};
}

/// Of all four: what was promised and where they lie.
void checkPointers(const char *call, const Chosen &c,
                   const void *const (&data)[4]) {
  for (int i = 0; i < 4; ++i) {
    std::string name = std::string(call) + ": " + kNames[i];
    requireDevice(data[i], spanOf(c.layout[i]), name);
    uint32_t promised = c.preference.alignment[i];
    if (reinterpret_cast<uintptr_t>(data[i]) % promised != 0)
      die("%s at %p is not aligned to %u bytes, as was promised", name.c_str(),
          data[i], promised);
  }
  auto *d = static_cast<const char *>(data[3]);
  for (int i = 0; i < 2; ++i) {
    auto *other = static_cast<const char *>(data[i]);
    if (other < d + spanOf(c.layout[3]) && d < other + spanOf(c.layout[i]))
      die("%s: D overlaps %s", call, kNames[i]);
  }
  if (data[2] == data[3] && !(c.layout[2] == c.layout[3]))
    die("%s: C and D are one matrix with two layouts", call);
}

void checkChosen(const char *call, const Chosen &c,
                 const cublasLtMatmulDescOpaque_t &desc,
                 const Layout *const (&l)[4]) {
  for (int i = 0; i < 4; ++i)
    if (!(*l[i] == c.layout[i]))
      die("%s: the algorithm was chosen for another %s", call, kNames[i]);
  if (desc.opA != c.desc.opA || desc.opB != c.desc.opB ||
      desc.epilogue != c.desc.epilogue || desc.biasType != c.desc.biasType)
    die("%s: the algorithm was chosen for other transposes or another epilogue",
        call);
}

} // namespace

const char *cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS"
                                         : "CUBLAS_STATUS_NOT_SUPPORTED";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  Entry entry("cublasLtCreate");
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  Entry entry("cublasLtMatrixLayoutCreate");
  *layout = new Layout{type, int64_t(rows), int64_t(columns), ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *value, size_t bytes) {
  const char *call = "cublasLtMatrixLayoutSetAttribute";
  Entry entry(call);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_ORDER)
    set(layout->order, value, bytes, call);
  else if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    set(layout->batch, value, bytes, call);
  else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    set(layout->stride, value, bytes, call);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  Entry entry("cublasLtMatmulDescCreate");
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
    die("cublasLtMatmulDescCreate: compute type %d, scale type %d", compute,
        scale);
  *desc = new cublasLtMatmulDescOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t bytes) {
  const char *call = "cublasLtMatmulDescSetAttribute";
  Entry entry(call);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA)
    set(desc->opA, value, bytes, call);
  else if (attribute == CUBLASLT_MATMUL_DESC_TRANSB)
    set(desc->opB, value, bytes, call);
  else if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE)
    set(desc->epilogue, value, bytes, call);
  else if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
    set(desc->bias, value, bytes, call);
  else if (attribute == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)
    set(desc->biasType, value, bytes, call);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  Entry entry("cublasLtMatmulPreferenceCreate");
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  Entry entry("cublasLtMatmulPreferenceDestroy");
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
    size_t bytes) {
  const char *call = "cublasLtMatmulPreferenceSetAttribute";
  Entry entry(call);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    set(preference->workspace, value, bytes, call);
  } else {
    auto &alignment =
        preference
            ->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];
    set(alignment, value, bytes, call);
    if (alignment == 0 || (alignment & (alignment - 1)))
      die("%s: an alignment of %u bytes", call, alignment);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int,
    cublasLtMatmulHeuristicResult_t results[], int *found) {
  const char *call = "cublasLtMatmulAlgoGetHeuristic";
  Entry entry(call);
  checkProduct(call, *desc, {a, b, c, d});
  chosen.push_back({*desc, {*a, *b, *c, *d}, *preference});
  results[0] = {
      {{chosen.size()}}, preference->workspace, CUBLAS_STATUS_SUCCESS};
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                              const void *alpha, const void *a,
                              cublasLtMatrixLayout_t layoutA, const void *b,
                              cublasLtMatrixLayout_t layoutB, const void *beta,
                              const void *c, cublasLtMatrixLayout_t layoutC,
                              void *d, cublasLtMatrixLayout_t layoutD,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspaceBytes, cudaStream_t stream) {
  const char *call = "cublasLtMatmul";
  Entry entry(call);
  if (algo->data[0] < 1 || algo->data[0] > chosen.size())
    die("%s: an algorithm that no heuristic gave", call);
  const Chosen &choice = chosen[algo->data[0] - 1];
  checkChosen(call, choice, *desc, {layoutA, layoutB, layoutC, layoutD});
  checkPointers(call, choice, {a, b, c, d});
  if (size_t needed = choice.preference.workspace) {
    if (workspaceBytes < needed)
      die("%s: the algorithm needs %zu bytes of workspace, there are %zu", call,
          needed, workspaceBytes);
    requireDevice(workspace, needed, std::string(call) + ": the workspace");
    if (reinterpret_cast<uintptr_t>(workspace) % 256)
      die("%s: the workspace is not aligned to 256 bytes", call);
  }
  Product p;
  p.a = operandOf(*layoutA, a, desc->opA);
  p.b = operandOf(*layoutB, b, desc->opB);
  p.c = operandOf(*layoutC, c, CUBLAS_OP_N);
  p.d = operandOf(*layoutD, d, CUBLAS_OP_N);
  p.m = layoutD->rows, p.n = layoutD->columns, p.batch = layoutD->batch;
  p.k = desc->opA == CUBLAS_OP_N ? layoutA->columns : layoutA->rows;
  p.alpha = *static_cast<const float *>(alpha);
  p.beta = *static_cast<const float *>(beta);
  if (desc->epilogue == CUBLASLT_EPILOGUE_BIAS) {
    p.bias = desc->bias;
    requireDevice(p.bias, size_t(p.m) * bytesOf(layoutD->type),
                  std::string(call) + ": the bias");
  }
  // What stood in the workspace is gone.
  size_t spoilt = std::min<size_t>(choice.preference.workspace, 4096);
  counts.products++;
  queue(stream, [p, workspace, spoilt] {
    if (spoilt)
      std::memset(workspace, kPoison, spoilt);
    multiply(p);
  });
  return CUBLAS_STATUS_SUCCESS;
}

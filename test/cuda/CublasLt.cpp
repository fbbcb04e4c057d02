//===- CublasLt.cpp - matrix products that look at their arguments --------===//
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

/// Attributes by their numbers, as they are set.
struct Attributes {
  int64_t at[32] = {};
  int64_t operator[](int attribute) const { return at[attribute]; }
  bool operator==(const Attributes &) const = default;
};
struct cublasLtContext {};
struct cublasLtMatrixLayoutOpaque_t : Attributes {};
struct cublasLtMatmulDescOpaque_t : Attributes {};
struct cublasLtMatmulPreferenceOpaque_t : Attributes {};

using namespace cuda_double;

namespace {

constexpr const char *kNames[] = {"A", "B", "C", "D"};

/// A layout with names.
struct Layout {
  explicit Layout(const Attributes &a)
      : type(cudaDataType(a[0])), order(a[CUBLASLT_MATRIX_LAYOUT_ORDER]),
        rows(a[2]), columns(a[3]), ld(a[4]),
        batch(a[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT]),
        stride(a[CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET]),
        byColumns(order == CUBLASLT_ORDER_COL), run(byColumns ? rows : columns),
        runs(byColumns ? columns : rows) {}
  size_t elementBytes() const { return type == CUDA_R_32F ? 4 : 2; }
  /// From the first byte of the first to the last of the last matrix.
  size_t span() const {
    return size_t((batch - 1) * stride + (runs - 1) * ld + run) *
           elementBytes();
  }

  cudaDataType type;
  int64_t order, rows, columns, ld, batch, stride;
  bool byColumns;
  int64_t run, runs; ///< neighbours in memory, and how many of them
};

/// What an algorithm was chosen for.
struct Chosen {
  Attributes desc, layout[4], preference; ///< layouts of A, B, C, D
};
auto &chosen = *new std::vector<Chosen>;

cublasStatus_t set(const char *call, Attributes *to, int attribute, size_t size,
                   const void *value, size_t bytes) {
  Entry entry(call);
  if (bytes != size)
    die("%s: attribute %d has %zu bytes, not %zu", call, attribute, size,
        bytes);
  int32_t small;
  std::memcpy(bytes == 4 ? static_cast<void *>(&small) : &to->at[attribute],
              value, bytes);
  if (bytes == 4)
    to->at[attribute] = small;
  return CUBLAS_STATUS_SUCCESS;
}

void checkLayout(const char *call, const char *name, const Layout &l) {
  if (l.rows <= 0 || l.columns <= 0 || l.batch <= 0)
    die("%s: %s has %ld rows, %ld columns and a batch of %ld", call, name,
        l.rows, l.columns, l.batch);
  if (l.ld < l.run)
    die("%s: the leading dimension of %s is %ld, below its %ld %s", call, name,
        l.ld, l.run, l.byColumns ? "rows" : "columns");
  if (l.batch > 1 && l.stride != 0 && l.stride < l.ld * (l.runs - 1) + l.run)
    die("%s: matrices of %s overlap: batch stride %ld", call, name, l.stride);
}

/// Ends the program where four layouts are no product.
void checkProduct(const char *call, const Attributes &desc,
                  const Layout (&l)[4]) {
  for (int i = 0; i < 4; ++i)
    checkLayout(call, kNames[i], l[i]);
  bool turnA = desc[CUBLASLT_MATMUL_DESC_TRANSA] == CUBLAS_OP_T,
       turnB = desc[CUBLASLT_MATMUL_DESC_TRANSB] == CUBLAS_OP_T;
  int64_t m = turnA ? l[0].columns : l[0].rows,
          n = turnB ? l[1].rows : l[1].columns,
          k = turnA ? l[0].rows : l[0].columns,
          rowsB = turnB ? l[1].columns : l[1].rows;
  if (k != rowsB)
    die("%s: A has %ld columns, B %ld rows", call, k, rowsB);
  for (int i = 2; i < 4; ++i)
    if (l[i].rows != m || l[i].columns != n)
      die("%s: %s is %ld x %ld, the product %ld x %ld", call, kNames[i],
          l[i].rows, l[i].columns, m, n);
  for (int i = 0; i < 4; ++i)
    if (l[i].batch != l[3].batch)
      die("%s: %s has a batch of %ld, D of %ld", call, kNames[i], l[i].batch,
          l[3].batch);
  if (l[3].batch > 1 && l[3].stride == 0)
    die("%s: all results of the batch go to one place", call);
  cudaDataType from = l[0].type, to = l[3].type;
  if (l[1].type != from || l[2].type != to ||
      (from == CUDA_R_32F && to != CUDA_R_32F))
    die("%s: no product has these types: A %d, B %d, C %d, D %d", call, from,
        l[1].type, l[2].type, to);
  if (desc[CUBLASLT_MATMUL_DESC_EPILOGUE] == CUBLASLT_EPILOGUE_BIAS) {
    int64_t type = desc[CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE];
    if (type >= 0 && type != to)
      die("%s: the bias has another type than D", call);
    if (!l[3].byColumns)
      die("%s: a bias is added to rows of D, which must stand in columns",
          call);
  }
}

Operand operandOf(const Layout &l, const void *data, bool turned = false) {
  bool down = l.byColumns != turned;
  return {const_cast<void *>(data), l.type == CUDA_R_16BF, down ? 1 : l.ld,
          down ? l.ld : 1, l.stride};
}

/// Of all four: what was promised and where they lie.
void checkPointers(const char *call, const Chosen &c, const Layout (&l)[4],
                   const void *const (&data)[4]) {
  for (int i = 0; i < 4; ++i) {
    std::string name = std::string(call) + ": " + kNames[i];
    requireDevice(data[i], l[i].span(), name);
    int64_t promised =
        c.preference[CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i];
    if (reinterpret_cast<uintptr_t>(data[i]) % uintptr_t(promised) != 0)
      die("%s at %p is not aligned to %ld bytes, as was promised", name.c_str(),
          data[i], promised);
  }
  auto *d = static_cast<const char *>(data[3]);
  for (int i = 0; i < 2; ++i) {
    auto *other = static_cast<const char *>(data[i]);
    if (other < d + l[3].span() && d < other + l[i].span())
      die("%s: D overlaps %s", call, kNames[i]);
  }
  if (data[2] == data[3] && !(c.layout[2] == c.layout[3]))
    die("%s: C and D are one matrix with two layouts", call);
}

void checkChosen(const char *call, const Chosen &c, Attributes desc,
                 const Attributes *const (&l)[4]) {
  for (int i = 0; i < 4; ++i)
    if (!(*l[i] == c.layout[i]))
      die("%s: the algorithm was chosen for another %s", call, kNames[i]);
  desc.at[CUBLASLT_MATMUL_DESC_BIAS_POINTER] =
      c.desc[CUBLASLT_MATMUL_DESC_BIAS_POINTER];
  if (!(desc == c.desc))
    die("%s: the algorithm was chosen for other transposes or another epilogue",
        call);
}

void checkWorkspace(const char *call, int64_t needed, const void *workspace,
                    size_t bytes) {
  if (needed == 0)
    return;
  if (bytes < size_t(needed))
    die("%s: the algorithm needs %ld bytes of workspace, there are %zu", call,
        needed, bytes);
  requireDevice(workspace, size_t(needed),
                std::string(call) + ": the workspace");
  if (reinterpret_cast<uintptr_t>(workspace) % 256)
    die("%s: the workspace is not aligned to 256 bytes", call);
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
  *layout = new cublasLtMatrixLayoutOpaque_t{
      {{type, CUBLASLT_ORDER_COL, int64_t(rows), int64_t(columns), ld, 1}}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *value, size_t bytes) {
  bool wide = attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
  return set("cublasLtMatrixLayoutSetAttribute", layout, attribute,
             wide ? 8 : 4, value, bytes);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  Entry entry("cublasLtMatmulDescCreate");
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
    die("cublasLtMatmulDescCreate: compute type %d, scale type %d", compute,
        scale);
  *desc = new cublasLtMatmulDescOpaque_t;
  (*desc)->at[CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE] = -1; // as D
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t bytes) {
  bool wide = attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER;
  return set("cublasLtMatmulDescSetAttribute", desc, attribute, wide ? 8 : 4,
             value, bytes);
}

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  Entry entry("cublasLtMatmulPreferenceCreate");
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  for (int i = 0; i < 4; ++i)
    (*preference)->at[CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i] = 256;
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
  bool wide = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
  return set("cublasLtMatmulPreferenceSetAttribute", preference, attribute,
             wide ? 8 : 4, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int,
    cublasLtMatmulHeuristicResult_t results[], int *found) {
  const char *call = "cublasLtMatmulAlgoGetHeuristic";
  Entry entry(call);
  checkProduct(call, *desc, {Layout(*a), Layout(*b), Layout(*c), Layout(*d)});
  chosen.push_back({*desc, {*a, *b, *c, *d}, *preference});
  results[0] = {{{chosen.size()}},
                size_t((*preference)[CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES]),
                CUBLAS_STATUS_SUCCESS};
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
  const Layout l[4] = {Layout(*layoutA), Layout(*layoutB), Layout(*layoutC),
                       Layout(*layoutD)};
  int64_t needed = choice.preference[CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES];
  checkChosen(call, choice, *desc, {layoutA, layoutB, layoutC, layoutD});
  checkPointers(call, choice, l, {a, b, c, d});
  checkWorkspace(call, needed, workspace, workspaceBytes);
  bool turnA = (*desc)[CUBLASLT_MATMUL_DESC_TRANSA] == CUBLAS_OP_T,
       turnB = (*desc)[CUBLASLT_MATMUL_DESC_TRANSB] == CUBLAS_OP_T;
  Product p;
  p.a = operandOf(l[0], a, turnA);
  p.b = operandOf(l[1], b, turnB);
  p.c = operandOf(l[2], c);
  p.d = operandOf(l[3], d);
  p.m = l[3].rows, p.n = l[3].columns, p.batch = l[3].batch;
  p.k = turnA ? l[0].rows : l[0].columns;
  p.alpha = *static_cast<const float *>(alpha);
  p.beta = *static_cast<const float *>(beta);
  if ((*desc)[CUBLASLT_MATMUL_DESC_EPILOGUE] == CUBLASLT_EPILOGUE_BIAS) {
    p.bias = reinterpret_cast<const void *>(
        (*desc)[CUBLASLT_MATMUL_DESC_BIAS_POINTER]);
    requireDevice(p.bias, size_t(p.m) * l[3].elementBytes(),
                  std::string(call) + ": the bias");
  }
  counts.products++;
  queue(stream, [p, workspace, needed] {
    // What stood in the workspace is gone.
    std::memset(workspace, kPoison, std::min<size_t>(size_t(needed), 4096));
    multiply(p);
  });
  return CUBLAS_STATUS_SUCCESS;
}

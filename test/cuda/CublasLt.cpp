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

#include "Tensor.h"

#include <cublasLt.h>

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

/// What a layout is created with.
enum { kType = 0, kRows = 2, kColumns = 3, kLd = 4 };
constexpr const char *kNames[] = {"A", "B", "C", "D"};

/// A product as the heuristic was asked for it: layouts of A, B, C, D.
struct Chosen {
  Attributes desc, layouts[4], preference;
  Product product;
};
auto &chosen = *new std::vector<Chosen>;

cublasStatus_t set(const char *call, Attributes *to, int attribute, bool wide,
                   const void *value, size_t bytes) {
  Entry entry(call);
  if (bytes != (wide ? 8 : 4))
    die(call, ": attribute ", attribute, " has ", wide ? 8 : 4, " bytes, not ",
        bytes);
  int32_t narrow;
  std::memcpy(wide ? static_cast<void *>(&to->at[attribute]) : &narrow, value,
              bytes);
  if (!wide)
    to->at[attribute] = narrow;
  return CUBLAS_STATUS_SUCCESS;
}

/// [batch, rows, columns], of columns that stand one behind another.
Tensor tensorOf(const char *call, const char *name, const Attributes &layout) {
  int64_t rows = layout[kRows], columns = layout[kColumns], ld = layout[kLd],
          batch = layout[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT],
          stride = layout[CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET];
  if (rows <= 0 || columns <= 0 || batch <= 0)
    die(call, ": ", name, " has ", rows, " rows, ", columns,
        " columns and a batch of ", batch);
  if (ld < rows)
    die(call, ": the leading dimension of ", name, " is ", ld, ", below its ",
        rows, " rows");
  if (batch > 1 && stride != 0 && stride < ld * (columns - 1) + rows)
    die(call, ": matrices of ", name, " overlap: batch stride ", stride);
  return {
      {batch, rows, columns}, {stride, 1, ld}, layout[kType] == CUDA_R_16BF};
}

/// Ends the program where four layouts are no product.
Product productOf(const char *call, const Attributes &desc,
                  const Attributes (&layouts)[4]) {
  Product p;
  Tensor *tensors[] = {&p.a, &p.b, &p.c, &p.d};
  for (int i = 0; i < 4; ++i)
    *tensors[i] = tensorOf(call, kNames[i], layouts[i]);
  for (int i = 0; i < 2; ++i)
    if (desc[CUBLASLT_MATMUL_DESC_TRANSA + i] == CUBLAS_OP_T) {
      std::swap(tensors[i]->sizes[1], tensors[i]->sizes[2]);
      std::swap(tensors[i]->strides[1], tensors[i]->strides[2]);
    }
  if (p.a.sizes[2] != p.b.sizes[1])
    die(call, ": A has ", p.a.sizes[2], " columns, B ", p.b.sizes[1], " rows");
  int64_t m = p.a.sizes[1], n = p.b.sizes[2];
  for (int i = 0; i < 4; ++i) {
    const Sizes &sizes = tensors[i]->sizes;
    if (i >= 2 && (sizes[1] != m || sizes[2] != n))
      die(call, ": ", kNames[i], " is ", sizes[1], " x ", sizes[2],
          ", the product ", m, " x ", n);
    if (sizes[0] != p.d.sizes[0])
      die(call, ": ", kNames[i], " has a batch of ", sizes[0], ", D of ",
          p.d.sizes[0]);
  }
  if (p.d.sizes[0] > 1 && p.d.strides[0] == 0)
    die(call, ": all results of the batch go to one place");
  if (p.a.narrow != p.b.narrow || p.c.narrow != p.d.narrow ||
      (p.d.narrow && !p.a.narrow))
    die(call, ": no product has these types");
  int64_t type = desc[CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE];
  if (desc[CUBLASLT_MATMUL_DESC_EPILOGUE] == CUBLASLT_EPILOGUE_BIAS &&
      type >= 0 && type != layouts[3][kType])
    die(call, ": the bias has another type than D");
  return p;
}

void requireChosen(const char *call, const Chosen &c, Attributes desc,
                   const Attributes (&layouts)[4]) {
  for (int i = 0; i < 4; ++i)
    if (layouts[i] != c.layouts[i])
      die(call, ": the algorithm was chosen for another ", kNames[i]);
  desc.at[CUBLASLT_MATMUL_DESC_BIAS_POINTER] =
      c.desc[CUBLASLT_MATMUL_DESC_BIAS_POINTER];
  if (desc != c.desc)
    die(call, ": the algorithm was chosen for other transposes or another "
              "epilogue");
}

/// The chosen product of these operands.
Product bind(const char *call, const Chosen &c, const Attributes &desc,
             const void *const (&data)[4]) {
  Product p = c.product;
  Tensor *tensors[] = {&p.a, &p.b, &p.c, &p.d};
  for (int i = 0; i < 4; ++i) {
    tensors[i]->data = const_cast<void *>(data[i]);
    tensors[i]->alignment =
        c.preference[CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i];
    requireTensor(*tensors[i], text(call, ": ", kNames[i]));
    if (i < 2 && overlap(*tensors[i], {p.d.sizes, p.d.strides, p.d.narrow,
                                       const_cast<void *>(data[3])}))
      die(call, ": D overlaps ", kNames[i]);
  }
  if (data[2] == data[3] && c.layouts[2] != c.layouts[3])
    die(call, ": C and D are one matrix with two layouts");
  if (desc[CUBLASLT_MATMUL_DESC_EPILOGUE] == CUBLASLT_EPILOGUE_BIAS) {
    p.bias = {
        {p.d.sizes[1]},
        {1},
        p.d.narrow,
        reinterpret_cast<void *>(desc[CUBLASLT_MATMUL_DESC_BIAS_POINTER])};
    requireTensor(p.bias, text(call, ": the bias"));
  }
  return p;
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
                                          cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  Entry entry("cublasLtMatrixLayoutCreate");
  // A batch of one.
  *layout = new cublasLtMatrixLayoutOpaque_t{
      {{type, 0, int64_t(rows), int64_t(columns), ld, 1}}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attribute,
                                 const void *value, size_t bytes) {
  return set("cublasLtMatrixLayoutSetAttribute", layout, attribute,
             attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, value,
             bytes);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  Entry entry("cublasLtMatmulDescCreate");
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
    die("cublasLtMatmulDescCreate: compute type ", compute, ", scale type ",
        scale);
  *desc = new cublasLtMatmulDescOpaque_t;
  (*desc)->at[CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE] = -1; // as D
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t bytes) {
  return set("cublasLtMatmulDescSetAttribute", desc, attribute,
             attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER, value, bytes);
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
  return set("cublasLtMatmulPreferenceSetAttribute", preference, attribute,
             attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, value,
             bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int,
    cublasLtMatmulHeuristicResult_t results[], int *found) {
  const char *call = "cublasLtMatmulAlgoGetHeuristic";
  Entry entry(call);
  chosen.push_back({*desc,
                    {*a, *b, *c, *d},
                    *preference,
                    productOf(call, *desc, {*a, *b, *c, *d})});
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
    die(call, ": an algorithm that no heuristic gave");
  const Chosen &choice = chosen[algo->data[0] - 1];
  requireChosen(call, choice, *desc, {*layoutA, *layoutB, *layoutC, *layoutD});
  auto needed =
      size_t(choice.preference[CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES]);
  if (workspaceBytes < needed)
    die(call, ": the algorithm needs ", needed,
        " bytes of workspace, there are ", workspaceBytes);
  Product p = bind(call, choice, *desc, {a, b, c, d});
  p.alpha = *static_cast<const float *>(alpha);
  p.beta = *static_cast<const float *>(beta);
  queueCall(call, stream, workspace, needed, [p] { multiply(p); });
  return CUBLAS_STATUS_SUCCESS;
}

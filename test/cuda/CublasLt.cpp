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

#include <cublasLt.h>

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

/// [batch, rows, columns], of columns that stand one behind another.
Tensor tensorOf(const char *name, const Attributes &layout) {
  int64_t rows = layout[kRows], columns = layout[kColumns], ld = layout[kLd],
          batch = layout[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT],
          stride = layout[CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET];
  if (rows <= 0 || columns <= 0 || batch <= 0)
    reject(name, " has ", rows, " rows, ", columns, " columns and a batch of ",
           batch);
  if (ld < rows)
    reject("the leading dimension of ", name, " is ", ld, ", below its ", rows,
           " rows");
  if (batch > 1 && stride != 0 && stride < ld * (columns - 1) + rows)
    reject("matrices of ", name, " overlap: batch stride ", stride);
  return {
      {batch, rows, columns}, {stride, 1, ld}, layout[kType] == CUDA_R_16BF};
}

/// Ends the program where four layouts are no product.
Product productOf(const Attributes &desc, const Attributes (&layouts)[4]) {
  Product p;
  Tensor *tensors[] = {&p.a, &p.b, &p.c, &p.d};
  for (int i = 0; i < 4; ++i)
    *tensors[i] = tensorOf(kNames[i], layouts[i]);
  for (int i = 0; i < 2; ++i)
    if (desc[CUBLASLT_MATMUL_DESC_TRANSA + i] == CUBLAS_OP_T) {
      std::swap(tensors[i]->sizes[1], tensors[i]->sizes[2]);
      std::swap(tensors[i]->strides[1], tensors[i]->strides[2]);
    }
  if (p.a.sizes[2] != p.b.sizes[1])
    reject("A has ", p.a.sizes[2], " columns, B ", p.b.sizes[1], " rows");
  int64_t m = p.a.sizes[1], n = p.b.sizes[2];
  for (int i = 0; i < 4; ++i) {
    const Sizes &sizes = tensors[i]->sizes;
    if (i >= 2 && (sizes[1] != m || sizes[2] != n))
      reject(kNames[i], " is ", sizes[1], " x ", sizes[2], ", the product ", m,
             " x ", n);
    if (sizes[0] != p.d.sizes[0])
      reject(kNames[i], " has a batch of ", sizes[0], ", D of ", p.d.sizes[0]);
  }
  if (p.d.sizes[0] > 1 && p.d.strides[0] == 0)
    reject("all results of the batch go to one place");
  if (p.a.narrow != p.b.narrow || p.c.narrow != p.d.narrow ||
      (p.d.narrow && !p.a.narrow))
    reject("no product has these types");
  int64_t type = desc[CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE];
  if (desc[CUBLASLT_MATMUL_DESC_EPILOGUE] == CUBLASLT_EPILOGUE_BIAS &&
      type >= 0 && type != layouts[3][kType])
    reject("the bias has another type than D");
  return p;
}

void requireChosen(const Chosen &c, Attributes desc,
                   const Attributes (&layouts)[4]) {
  for (int i = 0; i < 4; ++i)
    if (layouts[i] != c.layouts[i])
      reject("the algorithm was chosen for another ", kNames[i]);
  desc.at[CUBLASLT_MATMUL_DESC_BIAS_POINTER] =
      c.desc[CUBLASLT_MATMUL_DESC_BIAS_POINTER];
  if (desc != c.desc)
    reject("the algorithm was chosen for other transposes or another epilogue");
}

/// The chosen product of these operands.
Product bind(const Chosen &c, const Attributes &desc,
             const void *const (&data)[4]) {
  Product p = c.product;
  Tensor *tensors[] = {&p.a, &p.b, &p.c, &p.d};
  for (int i : {3, 0, 1, 2}) {
    tensors[i]->data = const_cast<void *>(data[i]);
    tensors[i]->alignment =
        c.preference[CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i];
    tensors[i]->require(kNames[i]);
    if (i < 2 && overlap(*tensors[i], p.d))
      reject("D overlaps ", kNames[i]);
  }
  if (data[2] == data[3] && c.layouts[2] != c.layouts[3])
    reject("C and D are one matrix with two layouts");
  if (desc[CUBLASLT_MATMUL_DESC_EPILOGUE] == CUBLASLT_EPILOGUE_BIAS) {
    int64_t bias = desc[CUBLASLT_MATMUL_DESC_BIAS_POINTER];
    p.bias = {{p.d.sizes[1]}, {1}, p.d.narrow, reinterpret_cast<void *>(bias)};
    p.bias.require("the bias");
  }
  return p;
}

} // namespace

cublasStatus_t cuda_double::set(Attributes *to, int attribute, int wide,
                                const void *value, size_t bytes,
                                const char *call) {
  Entry entry(call);
  size_t wanted = attribute == wide ? 8 : 4;
  if (bytes != wanted)
    reject("attribute ", attribute, " has ", wanted, " bytes, not ", bytes);
  int32_t narrow;
  std::memcpy(&narrow, value, sizeof narrow);
  to->at[attribute] = narrow;
  if (attribute == wide)
    std::memcpy(&to->at[attribute], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int,
    cublasLtMatmulHeuristicResult_t results[], int *found) {
  Entry entry;
  chosen.push_back({*desc,
                    {*a, *b, *c, *d},
                    *preference,
                    productOf(*desc, {*a, *b, *c, *d})});
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
  Entry entry;
  if (algo->data[0] < 1 || algo->data[0] > chosen.size())
    reject("an algorithm that no heuristic gave");
  const Chosen &choice = chosen[algo->data[0] - 1];
  requireChosen(choice, *desc, {*layoutA, *layoutB, *layoutC, *layoutD});
  auto needed =
      size_t(choice.preference[CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES]);
  if (workspaceBytes < needed)
    reject("the algorithm needs ", needed, " bytes of workspace, there are ",
           workspaceBytes);
  Product p = bind(choice, *desc, {a, b, c, d});
  p.alpha = *static_cast<const float *>(alpha);
  p.beta = *static_cast<const float *>(beta);
  queueCall(stream, workspace, needed, [p] { multiply(p); });
  return CUBLAS_STATUS_SUCCESS;
}

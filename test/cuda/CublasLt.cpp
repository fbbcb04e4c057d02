//===- CublasLt.cpp - matrix products that look at their arguments --------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What cuBLASLt would refuse, and what it would only do wrong. An algorithm
// takes all that it was promised and may have.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <cublasLt.h>

using namespace cuda_double;

namespace {

/// What a layout is created with.
enum { kType = 0, kRows = 2, kColumns = 3, kLd = 4 };
constexpr const char *kNames[] = {"A", "B", "C", "D"};

enum { A, B, C, D };
/// Of matrices [batch, rows, columns], and a bias [rows] that may have no data.
struct Product {
  Tensor of[4], bias;
  float alpha = 1, beta = 0;
};

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
  for (int i : {A, B, C, D})
    p.of[i] = tensorOf(kNames[i], layouts[i]);
  for (int i : {A, B})
    if (desc[CUBLASLT_MATMUL_DESC_TRANSA + i] == CUBLAS_OP_T) {
      std::swap(p.of[i].sizes[1], p.of[i].sizes[2]);
      std::swap(p.of[i].strides[1], p.of[i].strides[2]);
    }
  const auto &[a, b, c, d] = p.of;
  if (a.sizes[2] != b.sizes[1])
    reject("A has ", a.sizes[2], " columns, B ", b.sizes[1], " rows");
  int64_t m = a.sizes[1], n = b.sizes[2];
  for (int i : {A, B, C, D}) {
    const Sizes &sizes = p.of[i].sizes;
    if (i >= C && (sizes[1] != m || sizes[2] != n))
      reject(kNames[i], " is ", sizes[1], " x ", sizes[2], ", the product ", m,
             " x ", n);
    if (sizes[0] != d.sizes[0])
      reject(kNames[i], " has a batch of ", sizes[0], ", D of ", d.sizes[0]);
  }
  if (d.sizes[0] > 1 && d.strides[0] == 0)
    reject("all results of the batch go to one place");
  if (a.narrow != b.narrow || c.narrow != d.narrow || (d.narrow && !a.narrow))
    reject("no product has these types");
  int64_t type = desc[CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE];
  if (desc[CUBLASLT_MATMUL_DESC_EPILOGUE] == CUBLASLT_EPILOGUE_BIAS &&
      type >= 0 && type != layouts[D][kType])
    reject("the bias has another type than D");
  return p;
}

/// The chosen product of these operands.
Product bind(const Chosen &choice, Attributes desc,
             const Attributes (&layouts)[4], const void *const (&data)[4]) {
  for (int i : {A, B, C, D})
    if (layouts[i] != choice.layouts[i])
      reject("the algorithm was chosen for another ", kNames[i]);
  int64_t bias = std::exchange(desc[CUBLASLT_MATMUL_DESC_BIAS_POINTER],
                               choice.desc[CUBLASLT_MATMUL_DESC_BIAS_POINTER]);
  if (desc != choice.desc)
    reject("the algorithm was chosen for other transposes or another epilogue");
  Product p = choice.product;
  const Tensor &d = p.of[D];
  for (int i : {D, A, B, C}) {
    Tensor &t = p.of[i];
    t.data = const_cast<void *>(data[i]);
    t.alignment =
        choice.preference[CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i];
    t.require(kNames[i]);
    if (i < C && overlap(t, d))
      reject("D overlaps ", kNames[i]);
  }
  if (data[C] == data[D] && choice.layouts[C] != choice.layouts[D])
    reject("C and D are one matrix with two layouts");
  if (desc[CUBLASLT_MATMUL_DESC_EPILOGUE] == CUBLASLT_EPILOGUE_BIAS) {
    p.bias = {{d.sizes[1]}, {1}, d.narrow, reinterpret_cast<void *>(bias)};
    p.bias.require("the bias");
  }
  return p;
}

/// D = alpha * A B + beta * C + bias, with sums in float.
void multiply(const Product &p) {
  const Sizes &sizes = p.of[D].sizes;
  Floats a = read(p.of[A]), b = read(p.of[B]), d(size_t(p.of[D].count()));
  size_t m = size_t(sizes[1]), n = size_t(sizes[2]),
         k = size_t(p.of[A].sizes[2]);
  for (size_t row = 0; row < d.size() / n; ++row)
    for (size_t i = 0; i < k; ++i) {
      float *to = &d[row * n], *from = &b[(row / m * k + i) * n];
      for (size_t j = 0; j < n; ++j)
        to[j] += a[row * k + i] * from[j];
    }
  Floats bias = p.bias.data ? read(p.bias) : Floats(m);
  for (size_t i = 0; i < d.size(); ++i)
    d[i] = p.alpha * d[i] + bias[i / n % m];
  write(p.of[D], d, p.beta, p.of[C]);
}

} // namespace

cublasStatus_t cuda_double::set(Attributes *to, int attribute, int wide,
                                const void *value, size_t bytes,
                                const char *call) {
  Entry entry(call);
  size_t wanted = attribute == wide ? 8 : 4;
  if (bytes != wanted)
    reject("attribute ", attribute, " has ", wanted, " bytes, not ", bytes);
  int64_t &number = (*to)[attribute];
  std::memcpy(&number, value, bytes);
  number = bytes == 8 ? number : int32_t(number);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, Attributes *desc, Attributes *a, Attributes *b,
    Attributes *c, Attributes *d, Attributes *preference, int,
    cublasLtMatmulHeuristicResult_t results[], int *found) {
  Entry entry;
  Product product = productOf(*desc, {*a, *b, *c, *d});
  chosen.push_back({*desc, {*a, *b, *c, *d}, *preference, product});
  results[0] = {{{chosen.size()}},
                size_t((*preference)[CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES]),
                CUBLAS_STATUS_SUCCESS};
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, Attributes *desc,
                              const void *alpha, const void *a,
                              Attributes *layoutA, const void *b,
                              Attributes *layoutB, const void *beta,
                              const void *c, Attributes *layoutC, void *d,
                              Attributes *layoutD,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspaceBytes, cudaStream_t stream) {
  Entry entry;
  uint64_t number = algo->data[0];
  if (number < 1 || number > chosen.size())
    reject("an algorithm that no heuristic gave");
  const Chosen &choice = chosen[number - 1];
  size_t needed = choice.preference[CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES];
  if (workspaceBytes < needed)
    reject("the algorithm needs ", needed, " bytes of workspace, there are ",
           workspaceBytes);
  Product p = bind(choice, *desc, {*layoutA, *layoutB, *layoutC, *layoutD},
                   {a, b, c, d});
  p.alpha = *static_cast<const float *>(alpha);
  p.beta = *static_cast<const float *>(beta);
  queueCall(stream, workspace, needed, [p] { multiply(p); });
  return CUBLAS_STATUS_SUCCESS;
}

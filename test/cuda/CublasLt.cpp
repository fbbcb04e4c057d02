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

/// What the heuristic is asked for: layouts of A, B, C, D.
struct Request {
  Attributes desc, layouts[4], preference;
  bool loaded = false; ///< has run
};
auto &requests = *new std::vector<Request>; ///< an algorithm each

/// Of matrices [batch, 1, rows, columns]. The bias has D's sizes, or no data.
struct Product {
  Tensor of[4], bias;
  float alpha = 1, beta = 0;
  bool tf32 = false;
};

/// [batch, 1, rows, columns], of columns that stand one behind another.
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
  bool narrow = layout[kType] == CUDA_R_16BF;
  return {{batch, 1, rows, columns}, {stride, 0, 1, ld}, narrow};
}

/// Ends the program where four layouts are no product.
Product productOf(const Request &request) {
  const auto &[desc, layouts, preference, loaded] = request;
  Product p;
  for (int i : {A, B, C, D}) {
    Tensor &t = p.of[i] = tensorOf(kNames[i], layouts[i]);
    t.alignment = preference[CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i];
    if (i < C && desc[CUBLASLT_MATMUL_DESC_TRANSA + i] == CUBLAS_OP_T) {
      std::swap(t.sizes[2], t.sizes[3]);
      std::swap(t.strides[2], t.strides[3]);
    }
  }
  const auto &[a, b, c, d] = p.of;
  if (a.sizes[3] != b.sizes[2])
    reject("A has ", a.sizes[3], " columns, B ", b.sizes[2], " rows");
  int64_t m = a.sizes[2], n = b.sizes[3];
  for (int i : {A, B, C, D}) {
    const Sizes &sizes = p.of[i].sizes;
    if (i >= C && (sizes[2] != m || sizes[3] != n))
      reject(kNames[i], " is ", sizes[2], " x ", sizes[3], ", the product ", m,
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
  bool narrow = p.of[A].narrow;
  p.tf32 =
      desc[CUBLASLT_MATMUL_DESC_COMPUTE_TYPE] == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (p.tf32 && narrow)
    reject("TF32 is made of floats");
  return p;
}

/// The product that an algorithm was chosen for, if these layouts are its own.
Product bind(const Request &choice, Attributes desc,
             const Attributes (&layouts)[4], const void *const (&data)[4]) {
  for (int i : {A, B, C, D})
    if (layouts[i] != choice.layouts[i])
      reject("the algorithm was chosen for another ", kNames[i]);
  int64_t bias = std::exchange(desc[CUBLASLT_MATMUL_DESC_BIAS_POINTER],
                               choice.desc[CUBLASLT_MATMUL_DESC_BIAS_POINTER]);
  if (desc != choice.desc)
    reject("the algorithm was chosen for other transposes or another epilogue");
  Product p = productOf(choice);
  const Tensor &d = p.of[D];
  for (int i : {D, A, B, C}) {
    p.of[i].data = const_cast<void *>(data[i]);
    p.of[i].require(kNames[i]);
    if (i < C && p.of[i].overlaps(d))
      reject("D overlaps ", kNames[i]);
  }
  if (data[C] == data[D] && layouts[C] != layouts[D])
    reject("C and D are one matrix with two layouts");
  if (desc[CUBLASLT_MATMUL_DESC_EPILOGUE] == CUBLASLT_EPILOGUE_BIAS) {
    // A number for each row of D.
    p.bias = {d.sizes, {0, 0, 1, 0}, d.narrow, reinterpret_cast<void *>(bias)};
    p.bias.require("the bias");
  }
  return p;
}

/// D = alpha * A B + beta * C + bias, with sums in float.
void multiply(const Product &p) {
  const auto &[a, b, c, d] = p.of;
  Floats left = read(a), right = read(b);
  Floats sums = compute({.kind = Step::Matmul,
                         .tf32 = p.tf32,
                         .alpha = p.alpha,
                         .operands = {a, b},
                         .result = d},
                        {&left, &right});
  if (p.bias.data)
    std::ranges::transform(sums, read(p.bias), sums.begin(), std::plus<>());
  write(d, sums, p.beta, c);
}

} // namespace

cublasStatus_t cuda_double::set(Attributes *to, int wide, int name,
                                const void *value, size_t bytes,
                                const char *call) {
  Entry entry(call);
  size_t wanted = name == wide ? 8 : 4;
  if (bytes != wanted)
    reject("attribute ", name, " has ", wanted, " bytes, not ", bytes);
  int64_t &number = (*to)[name];
  std::memcpy(&number, value, bytes);
  number = bytes == 8 ? number : int32_t(number);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, Attributes *desc, Attributes *a, Attributes *b,
    Attributes *c, Attributes *d, Attributes *preference, int,
    cublasLtMatmulHeuristicResult_t results[], int *found) {
  Entry entry;
  counts["plans"]++;
  requests.push_back({*desc, {*a, *b, *c, *d}, *preference});
  productOf(requests.back());
  results[0] = {{{requests.size()}},
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
  if (number < 1 || number > requests.size())
    reject("an algorithm that no heuristic gave");
  Request &choice = requests[number - 1];
  counts["loads"] += !std::exchange(choice.loaded, true);
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

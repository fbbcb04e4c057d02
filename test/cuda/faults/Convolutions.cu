//===- Convolutions.cu - faults of calls to cuDNN ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/cuda/faults/Faults.h"

#include <cudnn.h>

#include <cmath>
#include <cstdlib>
#include <vector>

namespace {

struct Faulty {
  int64_t row = 4;         ///< stride of x from row to row, of 4 elements
  int64_t height = 3;      ///< of y
  size_t workspace = 1024; ///< floats
  bool typed = true;       ///< x has a type
  bool finalized = true;   ///< x is
  int64_t alignment = 4;   ///< promised
  size_t shift = 0;        ///< of x
  bool inside = false;     ///< of a graph
};

void check(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS)
    std::abort();
}

void *make(cudnnBackendDescriptorType_t type) {
  void *d = nullptr;
  check(cudnnBackendCreateDescriptor(type, &d));
  return d;
}

template <typename T>
void set(void *d, cudnnBackendAttributeName_t name,
         cudnnBackendAttributeType_t type, std::vector<T> values) {
  check(cudnnBackendSetAttribute(d, name, type, int64_t(values.size()),
                                 values.data()));
}
void refer(void *d, cudnnBackendAttributeName_t name, void *other) {
  set<void *>(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, {other});
}

void *tensor(int64_t id, std::vector<int64_t> sizes,
             std::vector<int64_t> strides, const Faulty &fault) {
  void *d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set<int64_t>(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {id});
  if (fault.typed)
    set<cudnnDataType_t>(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE,
                         {CUDNN_DATA_FLOAT});
  set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes);
  set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
  set<int64_t>(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64,
               {fault.alignment});
  if (fault.inside)
    set<char>(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, {true});
  if (fault.finalized)
    check(cudnnBackendFinalize(d));
  return d;
}

void *window() {
  void *d = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  set<cudnnDataType_t>(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE,
                       CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT});
  set<cudnnConvolutionMode_t>(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                              CUDNN_TYPE_CONVOLUTION_MODE,
                              {CUDNN_CROSS_CORRELATION});
  set<int64_t>(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, {2});
  for (auto name : {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
                    CUDNN_ATTR_CONVOLUTION_POST_PADDINGS})
    set<int64_t>(d, name, CUDNN_TYPE_INT64, {0, 0});
  for (auto name : {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                    CUDNN_ATTR_CONVOLUTION_DILATIONS})
    set<int64_t>(d, name, CUDNN_TYPE_INT64, {1, 1});
  check(cudnnBackendFinalize(d));
  return d;
}

/// The plan of the last engine that the heuristic offers.
void *planOf(cudnnHandle_t handle, void *graph) {
  void *heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR),
       *plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  refer(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set<cudnnBackendHeurMode_t>(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE,
                              CUDNN_TYPE_HEUR_MODE, {CUDNN_HEUR_MODE_A});
  check(cudnnBackendFinalize(heuristic));
  std::vector<void *> found(9);
  for (void *&d : found)
    d = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  int64_t n = 0;
  check(cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 9, &n,
                                 found.data()));
  refer(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, found[size_t(n - 1)]);
  set<cudnnHandle_t>(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
                     {handle});
  check(cudnnBackendFinalize(plan));
  return plan;
}

/// y [1, 1, 3, 4] of x [1, 1, 4, 4] of ones and a column of two twos.
bool convolve(const Faulty &fault) {
  cudnnHandle_t handle;
  check(cudnnCreate(&handle));
  void *d = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR),
       *graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
       *pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set<float>(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
             CUDNN_TYPE_FLOAT, {1});
  set<float>(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT,
             {0});
  refer(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, window());
  refer(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
        tensor(1, {1, 1, 4, 4}, {16, 16, fault.row, 1}, fault));
  refer(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        tensor(2, {1, 1, 2, 1}, {2, 2, 1, 1}, {}));
  refer(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        tensor(3, {1, 1, fault.height, 4}, {16, 16, 4, 1}, {}));
  check(cudnnBackendFinalize(d));
  refer(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, d);
  set<cudnnHandle_t>(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE,
                     {handle});
  check(cudnnBackendFinalize(graph));
  float *y = onDevice(16, 0);
  set<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
               {1, 2, 3});
  set<void *>(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
              {onDevice(20, 1) + fault.shift, onDevice(2, 2), y});
  set<void *>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
              {onDevice(fault.workspace, 0)});
  check(cudnnBackendFinalize(pack));
  check(cudnnBackendExecute(handle, planOf(handle, graph), pack));
  return first(y, nullptr) == 4;
}

Register stride("conv-stride",
                [](bool fault) { return convolve({.row = fault ? 3 : 4}); });
Register outside("conv-outside",
                 [](bool fault) { return convolve({.row = fault ? 6 : 5}); });
Register size("conv-size",
              [](bool fault) { return convolve({.height = fault ? 4 : 3}); });
Register workspace("conv-workspace", [](bool fault) {
  return convolve({.workspace = size_t(fault ? 1023 : 1024)});
});
Register attribute("conv-attribute",
                   [](bool fault) { return convolve({.typed = !fault}); });
Register unfinished("conv-unfinished",
                    [](bool fault) { return convolve({.finalized = !fault}); });
Register alignment("conv-alignment", [](bool fault) {
  return convolve({.alignment = 16, .shift = fault ? 1u : 4u});
});

void *pointwise(cudnnPointwiseMode_t mode, void *x, void *b, void *y) {
  void *how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
       *d = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set<cudnnPointwiseMode_t>(how, CUDNN_ATTR_POINTWISE_MODE,
                            CUDNN_TYPE_POINTWISE_MODE, {mode});
  set<cudnnDataType_t>(how, CUDNN_ATTR_POINTWISE_MATH_PREC,
                       CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT});
  check(cudnnBackendFinalize(how));
  refer(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  refer(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b)
    refer(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  refer(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  check(cudnnBackendFinalize(d));
  return d;
}

struct FaultyGraph {
  bool swapped = false;  ///< the product comes first
  int64_t columns = 4;   ///< of the factor
  bool overlaps = false; ///< the result is where the operand is
  bool alone = false;    ///< the product has one factor
};

/// y = exp(x) * b of ones [1, 1, 2, 4].
bool runGraph(const FaultyGraph &fault) {
  cudnnHandle_t handle;
  check(cudnnCreate(&handle));
  Faulty inside{.inside = true};
  std::vector<int64_t> strides{8, 8, 4, 1};
  void *x = tensor(1, {1, 1, 2, 4}, strides, {}),
       *b = tensor(2, {1, 1, 2, fault.columns}, strides, {}),
       *y = tensor(3, {1, 1, 2, 4}, strides, {}),
       *power = tensor(4, {1, 1, 2, 4}, strides, inside),
       *graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
       *pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  std::vector<void *> operations{
      pointwise(CUDNN_POINTWISE_EXP, x, nullptr, power),
      pointwise(CUDNN_POINTWISE_MUL, power, fault.alone ? nullptr : b, y)};
  if (fault.swapped)
    std::swap(operations[0], operations[1]);
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      operations);
  set<cudnnHandle_t>(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE,
                     {handle});
  check(cudnnBackendFinalize(graph));
  float *data = onDevice(8, 1), *result = onDevice(8, 0);
  set<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
               {1, 2, 3});
  set<void *>(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
              {data, onDevice(8, 1), fault.overlaps ? data : result});
  set<void *>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
              {nullptr});
  check(cudnnBackendFinalize(pack));
  check(cudnnBackendExecute(handle, planOf(handle, graph), pack));
  return first(result, nullptr) == std::exp(1.f);
}

Register order("graph-order",
               [](bool fault) { return runGraph({.swapped = fault}); });
Register columns("graph-size", [](bool fault) {
  return runGraph({.columns = fault ? 3 : 4});
});
Register over("graph-overlap",
              [](bool fault) { return runGraph({.overlaps = fault}); });
Register operand("graph-operand",
                 [](bool fault) { return runGraph({.alone = fault}); });

} // namespace

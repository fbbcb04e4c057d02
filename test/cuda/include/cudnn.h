//===- cudnn.h - cuDNN's names, without CUDA --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The part of cuDNN's backend API that DistTrain's runtime uses:
// docs/cuda-double.md.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_CUDA_INCLUDE_CUDNN_H
#define DT_TEST_CUDA_INCLUDE_CUDNN_H

#include "cuda_runtime.h"

enum cudnnStatus_t {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
  CUDNN_STATUS_NOT_SUPPORTED_SHAPE = 3002,
};
#define CUDNN_STATUS_CATEGORY(status) ((status) / 1000 * 1000)
enum cudnnDataType_t {
  CUDNN_DATA_FLOAT = 0,
  CUDNN_DATA_INT32 = 4,
  CUDNN_DATA_BFLOAT16 = 9,
  CUDNN_DATA_BOOLEAN = 11,
};
enum cudnnConvolutionMode_t { CUDNN_CROSS_CORRELATION = 1 };
enum cudnnPointwiseMode_t {
  CUDNN_POINTWISE_ADD = 0,
  CUDNN_POINTWISE_MUL = 1,
  CUDNN_POINTWISE_DIV = 6,
  CUDNN_POINTWISE_SUB = 9,
  CUDNN_POINTWISE_EXP = 13,
  CUDNN_POINTWISE_LOG = 15,
  CUDNN_POINTWISE_CMP_GE = 303,
  CUDNN_POINTWISE_GEN_INDEX = 501,
  CUDNN_POINTWISE_BINARY_SELECT = 601,
};
enum cudnnReduceTensorOp_t {
  CUDNN_REDUCE_TENSOR_ADD = 0,
  CUDNN_REDUCE_TENSOR_MAX = 3,
};
enum cudnnBackendHeurMode_t {
  CUDNN_HEUR_MODE_B = 1,
  CUDNN_HEUR_MODE_FALLBACK = 2,
  CUDNN_HEUR_MODE_A = 3,
};
enum cudnnBackendNumericalNote_t {
  CUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0,
  CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4,
  CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP = 9,
  CUDNN_NUMERICAL_NOTE_TYPE_COUNT = 10,
};
enum cudnnBackendAttributeType_t {
  CUDNN_TYPE_HANDLE = 0,
  CUDNN_TYPE_DATA_TYPE = 1,
  CUDNN_TYPE_BOOLEAN = 2,
  CUDNN_TYPE_INT64 = 3,
  CUDNN_TYPE_FLOAT = 4,
  CUDNN_TYPE_VOID_PTR = 6,
  CUDNN_TYPE_CONVOLUTION_MODE = 7,
  CUDNN_TYPE_HEUR_MODE = 8,
  CUDNN_TYPE_NUMERICAL_NOTE = 11,
  CUDNN_TYPE_POINTWISE_MODE = 14,
  CUDNN_TYPE_BACKEND_DESCRIPTOR = 15,
  CUDNN_TYPE_REDUCTION_OPERATOR_TYPE = 18,
};
/// Kinds of descriptors, steps among them, each with its attributes, and
/// Cudnn.cpp's words for what they are.
#define DT_CUDNN_ATTRIBUTES(KIND, STEP, OF)                                    \
  KIND(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, 0, Mode)                            \
  OF(CUDNN_ATTR_POINTWISE_MODE, 0, PointwiseMode)                              \
  OF(CUDNN_ATTR_POINTWISE_MATH_PREC, 1, DataType)                              \
  OF(CUDNN_ATTR_POINTWISE_AXIS, 9, Axis)                                       \
  KIND(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 1, Window)                        \
  OF(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 100, DataType)                          \
  OF(CUDNN_ATTR_CONVOLUTION_CONV_MODE, 101, ConvolutionMode)                   \
  OF(CUDNN_ATTR_CONVOLUTION_DILATIONS, 102, Window)                            \
  OF(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 103, Window)                       \
  OF(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 104, Window)                        \
  OF(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 105, Window)                         \
  OF(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 106, Number)                         \
  KIND(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4, Heuristic)                      \
  OF(CUDNN_ATTR_ENGINEHEUR_MODE, 200, HeurMode)                                \
  OF(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201, Made)                         \
  OF(CUDNN_ATTR_ENGINEHEUR_RESULTS, 202, Asked)                                \
  OF(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, 204, Asked)                             \
  KIND(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3, Offered)                         \
  OF(CUDNN_ATTR_ENGINECFG_ENGINE, 300, Asked)                                  \
  KIND(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5, Plan)                       \
  OF(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 400, Handle)                            \
  OF(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401, Made)                       \
  OF(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402, Asked)                     \
  OF(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, 407, Asked)                         \
  STEP(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10, ConvY)      \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 700, Alpha)               \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 701, Beta)                 \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702, How)             \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, 703, Operand)                 \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, 704, Operand)                 \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 705, Result)                  \
  STEP(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 12,       \
       ConvX)                                                                  \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 706, Alpha)              \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 707, Beta)                \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, 708, How)            \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, 709, Operand)                \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, 710, Result)                \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, 711, Operand)               \
  STEP(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 11,     \
       ConvW)                                                                  \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 712, Alpha)            \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 713, Beta)              \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, 714, How)          \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, 715, Result)              \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, 716, Operand)              \
  OF(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, 717, Operand)             \
  STEP(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, 13, Pointwise)            \
  OF(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 750, How)                   \
  OF(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 751, Operand)                       \
  OF(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 752, MayOperand)                    \
  OF(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 753, Result)                        \
  OF(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, 758, MayOperand)                    \
  KIND(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15, Graph)                     \
  OF(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 800, Handle)                            \
  OF(CUDNN_ATTR_OPERATIONGRAPH_OPS, 801, Operations)                           \
  KIND(CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17, Tensor)                            \
  OF(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900, Number)                            \
  OF(CUDNN_ATTR_TENSOR_DATA_TYPE, 901, DataType)                               \
  OF(CUDNN_ATTR_TENSOR_DIMENSIONS, 902, Dims)                                  \
  OF(CUDNN_ATTR_TENSOR_STRIDES, 903, Dims)                                     \
  OF(CUDNN_ATTR_TENSOR_UNIQUE_ID, 906, Number)                                 \
  OF(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 907, Flag)                                  \
  OF(CUDNN_ATTR_TENSOR_IS_BY_VALUE, 908, Flag)                                 \
  KIND(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16, Pack)                        \
  OF(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000, Ids)                            \
  OF(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001, Addresses)                   \
  OF(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003, Address)                         \
  KIND(CUDNN_BACKEND_ENGINE_DESCRIPTOR, 2, Offered)                            \
  OF(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1301, Asked)                              \
  OF(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, 1303, Asked)                            \
  KIND(CUDNN_BACKEND_MATMUL_DESCRIPTOR, 18, Mode)                              \
  OF(CUDNN_ATTR_MATMUL_COMP_TYPE, 1500, DataType)                              \
  STEP(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, 19, Matmul)                  \
  OF(CUDNN_ATTR_OPERATION_MATMUL_ADESC, 1520, Operand)                         \
  OF(CUDNN_ATTR_OPERATION_MATMUL_BDESC, 1521, Operand)                         \
  OF(CUDNN_ATTR_OPERATION_MATMUL_CDESC, 1522, Result)                          \
  OF(CUDNN_ATTR_OPERATION_MATMUL_DESC, 1523, How)                              \
  KIND(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, 21, Mode)                           \
  OF(CUDNN_ATTR_REDUCTION_OPERATOR, 1600, ReductionMode)                       \
  OF(CUDNN_ATTR_REDUCTION_COMP_TYPE, 1601, DataType)                           \
  STEP(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, 22, Reduction)            \
  OF(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, 1610, Operand)                      \
  OF(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, 1611, Result)                       \
  OF(CUDNN_ATTR_OPERATION_REDUCTION_DESC, 1612, How)                           \
  STEP(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, 31, Reshape)                \
  OF(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, 2200, Operand)                        \
  OF(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, 2201, Result)
#define DT_CUDNN_NAME(name, number, what) name = number,
#define DT_CUDNN_NO_NAME(name, number, what)
enum cudnnBackendDescriptorType_t {
  DT_CUDNN_ATTRIBUTES(DT_CUDNN_NAME, DT_CUDNN_NAME, DT_CUDNN_NO_NAME)
};
enum cudnnBackendAttributeName_t {
  DT_CUDNN_ATTRIBUTES(DT_CUDNN_NO_NAME, DT_CUDNN_NO_NAME, DT_CUDNN_NAME)
};

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
using cudnnHandle_t = cudnnContext *;
using cudnnBackendDescriptor_t = void *;

inline const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_SUCCESS";
}
inline cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
inline cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *made);
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d);
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t count, const void *values);
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t wanted, int64_t *count,
                                       void *values);
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d);
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack);

#endif // DT_TEST_CUDA_INCLUDE_CUDNN_H

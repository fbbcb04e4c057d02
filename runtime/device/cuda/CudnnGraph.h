//===- CudnnGraph.h - operations that cuDNN makes plans for -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// cuDNN's backend API (its documentation, "Backend API"), as far as
// convolutions and attention need it. What fails ends the program in one line;
// what cuDNN does not have is Unknown.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_CUDNNGRAPH_H
#define DT_RUNTIME_DEVICE_CUDA_CUDNNGRAPH_H

#include "runtime/device/cuda/Cudnn.h"

#include <cudnn.h>

#include <functional>

namespace dt::rt::cudnn {

using Sizes = std::vector<int64_t>;

/// Thrown: cuDNN has nothing for what is described.
struct Unknown {};

void check(cudnnStatus_t status, const char *call);

Descriptor make(cudnnBackendDescriptorType_t type);
void set(const Descriptor &d, cudnnBackendAttributeName_t name,
         cudnnBackendAttributeType_t type, int64_t count, const void *values);
/// Throws Unknown.
void finish(const Descriptor &d);

constexpr auto typeOf(int64_t) { return CUDNN_TYPE_INT64; }
constexpr auto typeOf(float) { return CUDNN_TYPE_FLOAT; }
constexpr auto typeOf(bool) { return CUDNN_TYPE_BOOLEAN; }
constexpr auto typeOf(void *) { return CUDNN_TYPE_BACKEND_DESCRIPTOR; }
constexpr auto typeOf(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
constexpr auto typeOf(cudnnConvolutionMode_t) {
  return CUDNN_TYPE_CONVOLUTION_MODE;
}
constexpr auto typeOf(cudnnPointwiseMode_t) {
  return CUDNN_TYPE_POINTWISE_MODE;
}
constexpr auto typeOf(cudnnReduceTensorOp_t) {
  return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
}
constexpr auto typeOf(cudnnBackendHeurMode_t) { return CUDNN_TYPE_HEUR_MODE; }

/// A pointer is a descriptor.
template <typename T>
void set(const Descriptor &d, cudnnBackendAttributeName_t name, T value) {
  set(d, name, typeOf(value), 1, &value);
}
inline void set(const Descriptor &d, cudnnBackendAttributeName_t name,
                const Sizes &values) {
  set(d, name, CUDNN_TYPE_INT64, int64_t(values.size()), values.data());
}

/// Strides of a tensor that lies densely, in elements.
Sizes dense(const Sizes &sizes);

/// A tensor of a graph; strides in elements.
struct Tensor {
  void *descriptor = nullptr;
  Sizes sizes, strides;
};

/// Where a tensor is: in the device's memory, a single value in the host's, or
/// inside of the graph only.
enum class Place { Memory, Value, Inside };

/// Operations in the order that they run. All may throw Unknown.
class Graph {
public:
  /// Tensors that are not inside have addresses when the graph runs, in the
  /// order in which they were made. `alignment` of the address, in bytes.
  Tensor tensor(Place place, cudnnDataType_t type, const Sizes &sizes,
                const Sizes &strides, int64_t alignment = 16);
  /// Finishes what an operation refers to.
  void *part(Descriptor d);
  void operation(Descriptor d) { operations.push_back(part(std::move(d))); }

  /// The first plan of cuDNN's heuristics that keeps what the project
  /// promises: the same bits every run, float32 where float32 is said
  /// (`narrow`: tensor cores are right). The graph's parts are the plan's then.
  Plan findPlan(bool narrow, const Gpu &gpu);

private:
  std::vector<Descriptor> parts;
  std::vector<void *> operations;
  int64_t outside = 0, inside = 0;
};

/// The plan of a graph that `describe` makes; without one, a plan of nothing.
Plan findPlan(const std::function<void(Graph &)> &describe, bool narrow,
              const Gpu &gpu);

/// Bytes that a plan, and what else is added to scores, may take:
/// DT_CUDNN_WORKSPACE, 1 GiB without it.
int64_t allowedWorkspace();

/// Whether cuDNN is not turned off by DT_CUDNN=off.
bool isOn();

/// The plan for a key, which `find` makes the first time, for the GPU at hand.
const Plan &planFor(const Sizes &key,
                    const std::function<Plan(const Gpu &)> &find);

/// Whether a call queues its plan: in a rehearsal once, which loads kernels.
bool queues(const Plan &plan);
/// Memory for a plan to work in; null: it wants none.
void *workspaceFor(const Plan &plan);
/// Queues a plan; addresses as Graph::tensor says.
void execute(const Plan &plan, const std::vector<void *> &addresses,
             void *workspace, void *stream);

} // namespace dt::rt::cudnn

#endif // DT_RUNTIME_DEVICE_CUDA_CUDNNGRAPH_H

//===- Cudnn.h - convolutions and attention by cuDNN ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_CUDNN_H
#define DT_RUNTIME_DEVICE_CUDA_CUDNN_H

#include "runtime/device/cpu/Attention.h"
#include "runtime/device/cpu/Conv.h"

#include <memory>
#include <vector>

namespace dt::rt::cudnn {

/// Which tensor of a convolution is computed from the other two.
enum class Wanted { Output, Input, Weights };

/// A convolution as cuDNN is asked for it: result = sums + beta * result.
/// Operands and result are of one type; sums are in float32.
struct ConvProblem {
  ConvShape shape; ///< no size is 0
  Wanted wanted;
  bool narrow;       ///< bf16, else float32 without TF32
  float beta;        ///< 0 or 1
  int64_t alignment; ///< of all three addresses, in bytes
};

/// Attention in bf16 as cuDNN is asked for it.
struct AttentionProblem {
  AttentionShape shape;
  bool backward;
};

#ifdef DT_RUNTIME_CUDNN

struct Destroy {
  void operator()(void *descriptor) const;
};
using Descriptor = std::unique_ptr<void, Destroy>; ///< of cuDNN's backend

/// What plans are made for: the GPU of a handle, or one that is not there, of
/// which cuDNN knows the properties (a descriptor).
struct Gpu {
  void *handle = nullptr, *properties = nullptr;
};

/// How cuDNN computes a problem on one kind of GPU: the first plan of its
/// heuristics that keeps what the project promises: the same bits every run,
/// float32 where float32 is said.
struct Plan {
  Descriptor plan; ///< null: cuDNN has none
  Descriptor configuration;
  std::vector<Descriptor> parts; ///< what it was made from
  size_t workspace = 0;          ///< bytes
  const char *mode = "";         ///< of the heuristic that found it
  int64_t engine = 0;            ///< its number within cuDNN
  int offered = 0;               ///< without a plan: what mode A had heard of
};

Plan findPlan(const ConvProblem &problem, const Gpu &gpu);
Plan findPlan(const AttentionProblem &problem, const Gpu &gpu);

/// Queues the convolution with a plan that is found once a problem. False: no
/// plan, or cuDNN is turned off (DT_CUDNN=off): nothing was queued. What fails
/// otherwise ends the program in one line.
bool convolve(const ConvProblem &problem, const void *x, const void *w,
              const void *y, void *stream);

/// Queue attention or its gradients in the same way: see
/// runtime/device/cpu/Attention.h. False, too, for what cuDNN is not asked for:
/// masks, a causal rule where there are not as many keys as queries, addresses
/// that are not multiples of 16 bytes; a line then says so, once a shape, as
/// CUDA cores take tens of times as long. Gradients whose plan wants more than
/// DT_CUDNN_WORKSPACE bytes (1 GiB) are computed in parts of the batch, then of
/// the heads.
bool attend(const AttentionShape &s, const void *q, const void *k,
            const void *v, void *o, float *lse, void *stream);
bool attendBackward(const AttentionShape &s, const void *q, const void *k,
                    const void *v, const void *o, const float *lse,
                    const void *doutput, void *dq, void *dk, void *dv,
                    void *stream);

#else

inline bool convolve(const ConvProblem &, const void *, const void *,
                     const void *, void *) {
  return false;
}
inline bool attend(const AttentionShape &, const void *, const void *,
                   const void *, void *, float *, void *) {
  return false;
}
inline bool attendBackward(const AttentionShape &, const void *, const void *,
                           const void *, const void *, const float *,
                           const void *, void *, void *, void *, void *) {
  return false;
}

#endif

} // namespace dt::rt::cudnn

#endif // DT_RUNTIME_DEVICE_CUDA_CUDNN_H

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
  bool narrow;       ///< bf16, else float32: of TF32 if the shape says so
  float beta;        ///< 0 or 1
  int64_t alignment; ///< of all three addresses, in bytes
};

/// Attention in bf16 as cuDNN is asked for it.
struct AttentionProblem {
  AttentionShape shape;
  bool backward;
};

/// What is added to scores before cuDNN looks for the greatest: numbers in
/// bf16, [b, h, t, s], dense but for rows that are `row` elements apart, whole
/// packs of 16 bytes. b and h: of the shape, or 1 where all have the same.
struct BiasShape {
  int64_t b, h, row;

  int64_t getBytes(int64_t t) const { return 2 * b * h * t * row; }
};

/// A causal rule over squares is cuDNN's own, which leaves tiles out by it; any
/// other is part of the bias.
inline bool hidesInGraph(const AttentionShape &s) {
  return s.causal && s.t == s.s && !s.stripes.chunk;
}
inline bool hasBias(const AttentionShape &s) {
  return s.mask != MaskKind::None || s.segments != SegmentKind::None ||
         s.window || (s.causal && !hidesInGraph(s));
}
inline BiasShape getBiasShape(const AttentionShape &s) {
  bool masked = s.mask != MaskKind::None;
  bool segments = s.segments != SegmentKind::None;
  bool ofBatch =
      (masked && s.maskB) || (segments && (s.querySegmentB || s.keySegmentB));
  return {ofBatch ? s.b : 1, masked && s.maskH ? s.h : 1, (s.s + 7) / 8 * 8};
}

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
  mutable bool loaded = false;   ///< has run
};

Plan findPlan(const ConvProblem &problem, const Gpu &gpu);
Plan findPlan(const AttentionProblem &problem, const Gpu &gpu);

/// Queues the convolution with a plan that is found once a problem. False: no
/// plan, or cuDNN is turned off (DT_CUDNN=off): nothing was queued. What fails
/// otherwise ends the program in one line.
bool convolve(const ConvProblem &problem, const void *x, const void *w,
              const void *y, void *stream);

/// Queue attention or its gradients in the same way: see
/// runtime/device/cpu/Attention.h. A mask, a window and segments are a bias
/// (BiasShape) of each call; queries to which cuDNN has no right answer are
/// mended by kernels of the runtime (AttentionMask.h). False, too, for what
/// cuDNN is not asked for: heads, strides and addresses that are no whole packs
/// of 16 bytes; a line then says so, once a shape, as CUDA cores take tens of
/// times as long. What wants more than DT_CUDNN_WORKSPACE bytes (1 GiB), as a
/// workspace or as a bias, is computed in parts of the batch, then of the
/// heads.
bool attend(const AttentionShape &s, const bf16 *q, const bf16 *k,
            const bf16 *v, AttentionMask mask, bf16 *o, float *lse,
            void *stream);
bool attendBackward(const AttentionShape &s, const bf16 *q, const bf16 *k,
                    const bf16 *v, AttentionMask mask, const bf16 *o,
                    const float *lse, const bf16 *doutput, bf16 *dq, bf16 *dk,
                    bf16 *dv, void *stream);

#else

inline bool convolve(const ConvProblem &, const void *, const void *,
                     const void *, void *) {
  return false;
}
inline bool attend(const AttentionShape &, const bf16 *, const bf16 *,
                   const bf16 *, AttentionMask, bf16 *, float *, void *) {
  return false;
}
inline bool attendBackward(const AttentionShape &, const bf16 *, const bf16 *,
                           const bf16 *, AttentionMask, const bf16 *,
                           const float *, const bf16 *, bf16 *, bf16 *, bf16 *,
                           void *) {
  return false;
}

#endif

} // namespace dt::rt::cudnn

#endif // DT_RUNTIME_DEVICE_CUDA_CUDNN_H

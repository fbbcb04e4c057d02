//===- Calls.h - library calls of generated CUDA code -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The calls of runtime/cpu with a stream: shapes and meaning are the same,
// pointers are device memory. Nothing waits for the device. Narrow operands are
// multiplied as they are and summed in float.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_CALLS_H
#define DT_RUNTIME_DEVICE_CUDA_CALLS_H

#include "runtime/device/cpu/Attention.h"
#include "runtime/device/cpu/Conv.h"
#include "runtime/device/cpu/Experts.h"
#include "runtime/device/cpu/Matmul.h"

namespace dt::rt {

/// cublasLtMatmul in float32 (TF32 if the shape says so), with its bias
/// epilogue. See
/// runtime/device/cpu/Matmul.h.
void matmul(const float *a, const float *b, const float *bias, float *c,
            const MatmulShape &shape, float beta, void *stream);
void matmul(const bf16 *a, const bf16 *b, Floats bias, float *c,
            const MatmulShape &shape, float beta, void *stream);
void matmul(const bf16 *a, const bf16 *b, Floats bias, bf16 *c,
            const MatmulShape &shape, float beta, void *stream);

/// One kernel for all experts; of narrow operands on tensor cores, of floats
/// without (tf32 changes nothing). See runtime/device/cpu/Experts.h.
void limitChoices(const int32_t *experts, const int64_t *segments, bool *kept,
                  int64_t samples, int64_t choices, int64_t each, int64_t count,
                  int64_t most, double capacity, void *stream);
void limitChoices(const int64_t *experts, const int64_t *segments, bool *kept,
                  int64_t samples, int64_t choices, int64_t each, int64_t count,
                  int64_t most, double capacity, void *stream);
void route(const int32_t *experts, const int64_t *first, int32_t *order,
           int32_t *place, int32_t *offsets, const RouteShape &shape,
           const IndexCheck &check, Fault *fault, void *stream);
void route(const int64_t *experts, const int64_t *first, int32_t *order,
           int32_t *place, int32_t *offsets, const RouteShape &shape,
           const IndexCheck &check, Fault *fault, void *stream);
void groupedMatmul(const float *a, const float *b, const int32_t *offsets,
                   const float *bias, float *c, const GroupedShape &shape,
                   void *stream);
void groupedMatmul(const bf16 *a, const bf16 *b, const int32_t *offsets,
                   Floats bias, float *c, const GroupedShape &shape,
                   void *stream);
void groupedMatmul(const bf16 *a, const bf16 *b, const int32_t *offsets,
                   Floats bias, bf16 *c, const GroupedShape &shape,
                   void *stream);
void groupedMatmulDw(const float *a, const float *b, const int32_t *offsets,
                     float *c, const GroupedShape &shape, float beta,
                     void *stream);
void groupedMatmulDw(const bf16 *a, const bf16 *b, const int32_t *offsets,
                     float *c, const GroupedShape &shape, float beta,
                     void *stream);
void groupedMatmulDw(const bf16 *a, const bf16 *b, const int32_t *offsets,
                     bf16 *c, const GroupedShape &shape, float beta,
                     void *stream);

/// See runtime/device/cpu/Attention.h.
void attentionForward(const float *q, const float *k, const float *v,
                      AttentionMask mask, float *o, float *lse,
                      const AttentionShape &shape, void *stream);
void attentionBackward(const float *q, const float *k, const float *v,
                       AttentionMask mask, const float *o, const float *lse,
                       const float *doutput, float *dq, float *dk, float *dv,
                       const AttentionShape &shape, void *stream);
void attentionForward(const bf16 *q, const bf16 *k, const bf16 *v,
                      AttentionMask mask, bf16 *o, float *lse,
                      const AttentionShape &shape, void *stream);
void attentionBackward(const bf16 *q, const bf16 *k, const bf16 *v,
                       AttentionMask mask, const bf16 *o, const float *lse,
                       const bf16 *doutput, bf16 *dq, bf16 *dk, bf16 *dv,
                       const AttentionShape &shape, void *stream);

/// cuDNN's where it has a plan, else products over patches that are written
/// out. See runtime/device/cpu/Conv.h.
void convForward(const float *x, const float *w, const float *bias, float *y,
                 const ConvShape &shape, void *stream);
void convBackwardData(const float *dy, const float *w, const float *bias,
                      float *dx, const ConvShape &shape, void *stream);
void convBackwardWeights(const float *x, const float *dy, float *dw, float *db,
                         const ConvShape &shape, float beta, void *stream);
void convForward(const bf16 *x, const bf16 *w, Floats bias, bf16 *y,
                 const ConvShape &shape, void *stream);
void convBackwardData(const bf16 *dy, const bf16 *w, Floats bias, bf16 *dx,
                      const ConvShape &shape, void *stream);
void convBackwardWeights(const bf16 *x, const bf16 *dy, float *dw, float *db,
                         const ConvShape &shape, float beta, void *stream);
void convBackwardWeights(const bf16 *x, const bf16 *dy, bf16 *dw, bf16 *db,
                         const ConvShape &shape, float beta, void *stream);

} // namespace dt::rt

#endif // DT_RUNTIME_DEVICE_CUDA_CALLS_H

//===- AttentionTensor.h - attention by rows on tensor cores ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_ATTENTIONTENSOR_H
#define DT_RUNTIME_DEVICE_CUDA_ATTENTIONTENSOR_H

#include "runtime/device/cpu/Attention.h"

namespace dt::rt::tensor {

/// Queue attention or its gradients in bf16 (runtime/device/cpu/Attention.h),
/// for what the causal rule, a window and segments hide: tiles in which no
/// query sees a key are not computed, and nothing is in memory for each query
/// and key. False, and nothing was queued: there is a mask besides, a head is
/// wider than 128, heads, strides or addresses are no whole packs of 16 bytes,
/// nothing is to be done, or DT_TENSOR_ATTENTION=off.
bool attend(const AttentionShape &s, const bf16 *q, const bf16 *k,
            const bf16 *v, AttentionMask mask, bf16 *o, float *lse,
            void *stream);
bool attendBackward(const AttentionShape &s, const bf16 *q, const bf16 *k,
                    const bf16 *v, AttentionMask mask, const bf16 *o,
                    const float *lse, const bf16 *doutput, bf16 *dq, bf16 *dk,
                    bf16 *dv, void *stream);

} // namespace dt::rt::tensor

#endif // DT_RUNTIME_DEVICE_CUDA_ATTENTIONTENSOR_H

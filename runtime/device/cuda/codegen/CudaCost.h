//===- CudaCost.h - what a kernel asks of a GPU -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_CUDA_CODEGEN_CUDACOST_H
#define DT_RUNTIME_DEVICE_CUDA_CODEGEN_CUDACOST_H

#include "codegen/Kernels.h"
#include "runtime/device/cuda/codegen/CudaPlan.h"

namespace dt::codegen {

/// Of the kernel as CudaBody prints it, at the largest sizes.
KernelCost getCost(rt::KernelOp kernel, const CudaPlan &plan);

} // namespace dt::codegen

#endif // DT_RUNTIME_DEVICE_CUDA_CODEGEN_CUDACOST_H

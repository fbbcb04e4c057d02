//===- Device.h - memory and bulk work of one target ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The step loop is the same for every target; what it does with blocks of
// memory goes through these functions. Each target has one implementation
// (cpu/Device.cpp, cuda/Device.cu) and a program links exactly one of them, so
// there is no table of function pointers. Work is queued on `stream()`: results
// are defined for the host after `synchronize()` or a copy to the host.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_DEVICE_H
#define DT_RUNTIME_DEVICE_DEVICE_H

#include "runtime/Optimizers.h"
#include "runtime/device/BFloat16.h"

#include <cstddef>
#include <string>

namespace dt::rt {
struct Fault;
} // namespace dt::rt

namespace dt::rt::device {

/// Whether device memory is host memory.
bool isHost();

/// Prepares the target; throws Error with one line where it cannot be used (no
/// GPU, no driver). `threads`: 0 leaves the default; only the CPU looks at it.
/// `number`: which device, modulo their number.
void initialize(int threads, int number = 0);

/// "cpu, 8 threads" or "cuda, NVIDIA H100".
const char *describe();
/// The device among those of its machine: its place on the bus. The same for
/// all processes.
std::string address();

/// The stream for TaskContext::stream; null on the CPU.
void *stream();
void synchronize();

/// Where generated code notes an index out of range (Fault.h). The host may
/// read it at once on the CPU, after `synchronize()` elsewhere, and puts
/// `found` back to 0.
Fault *faultRecord();

/// Zeroed memory, 64-byte aligned at least. Throws Error when there is none
/// left, naming the bytes and `what`.
void *allocate(size_t bytes, const char *what);
void release(void *memory);

/// Host memory that the device copies from and to by itself. Throws as above.
void *allocatePinned(size_t bytes, const char *what);
void releasePinned(void *memory);

/// The host may use its bytes again when this returns.
void copyToDevice(void *device, const void *host, size_t bytes);
void copyToHost(void *host, const void *device,
                size_t bytes); ///< waits for what was queued before
void copy(void *to, const void *from, size_t bytes); ///< within the device
/// `count` rows of `bytes` each, that begin `toStep` and `fromStep` bytes after
/// one another; within the device.
void copyRows(void *to, size_t toStep, const void *from, size_t fromStep,
              size_t bytes, size_t count);
void zero(void *memory, size_t bytes);

/// sum[i] += values[i] for n elements.
void accumulate(float *sum, const float *values, size_t n);

/// Sum of squares of n floats, added in double in a fixed order: equal bits run
/// by run.
double sumOfSquares(const float *values, size_t n);

/// n elements, rounded or exact; the arrays do not overlap.
void narrow(bf16 *to, const float *from, size_t n);
void widen(float *to, const bf16 *from, size_t n);

/// One optimizer step over n contiguous elements, with the moments that the
/// optimizer keeps (Optimizers.h). `working`: gets the new parameters, rounded;
/// null: nobody does. The same parameters either way.
void update(OptimizerKind kind, const UpdateStep &step, float *p,
            const float *g, const Moments<float *> &moments, size_t n,
            bf16 *working = nullptr);

} // namespace dt::rt::device

#endif // DT_RUNTIME_DEVICE_DEVICE_H

//===- Regions.h - the memory of a rank -------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Every module that a rank runs has regions of its own, so that which modules
// share a rank is not in the generated code. Scratch is one for all of them,
// since tasks run one after another.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STATE_REGIONS_H
#define DT_RUNTIME_STATE_REGIONS_H

#include "runtime/Optimizers.h"
#include "runtime/device/Floats.h"
#include "runtime/state/Ownership.h"

#include <vector>

namespace dt::rt {

/// Device memory, 64-byte aligned; null for modules of other ranks.
struct Region {
  std::byte *arena = nullptr;
  std::byte *parameters = nullptr;
  std::byte *gradients = nullptr; ///< ModuleInfo::trainableBytes
  Moments<float *> moments{};     ///< Ownership::keptFloats of each
  float *masters = nullptr;       ///< Ownership::masterFloats
  float *average = nullptr;       ///< Ownership::momentFloats, if there is one
  float *sums = nullptr;          ///< Ownership::sumFloats
};

/// Bytes that a module has on this rank. `moments`: of all of these, of
/// masters and of the average.
struct RegionBytes {
  size_t arena = 0, parameters = 0, gradients = 0, moments = 0, sums = 0;
};

/// Gradients in memory of a type that parameters have.
inline Floats floatsAt(const std::byte *memory, DType type) {
  return type == DType::F32 ? Floats(reinterpret_cast<const float *>(memory))
                            : Floats(reinterpret_cast<const bf16 *>(memory));
}

class Regions {
public:
  /// Throws Error where there is not enough memory. Scratch is the optimizer's
  /// in turn (Wholes.h).
  Regions(const ProgramInfo &program, const Placement &placement,
          const Ownership &ownership, size_t moments, bool average = false);
  ~Regions();
  Regions(const Regions &) = delete;
  Regions &operator=(const Regions &) = delete;

  /// Zeros again in arenas, scratch, parameters and gradients.
  void clear();

  const Region &at(size_t module) const { return regions[module]; }
  std::byte *scratch() const { return scratchMemory; }
  size_t scratchBytes() const { return scratchSize; }
  /// Zeros for modules of other ranks.
  const RegionBytes &bytes(size_t module) const { return sizes[module]; }

  std::byte *parameter(const ParameterInfo &p) const {
    return at(size_t(p.module)).parameters + p.offset;
  }
  /// Of type ParameterInfo::gradientType.
  std::byte *gradient(const ParameterInfo &p) const {
    return at(size_t(p.module)).gradients + p.gradient;
  }
  /// Those of its elements from the n-th on.
  Floats gradients(const ParameterInfo &p, size_t n) const {
    return floatsAt(gradient(p), p.gradientType) + n;
  }
  /// A tensor of a module in a slot.
  std::byte *address(size_t module, const BufferInfo &buffer,
                     int64_t slot) const {
    return at(module).arena + buffer.offset + size_t(slot) * buffer.slotStride;
  }
  /// The same in its slot of a row that runs a function.
  std::byte *address(size_t module, const BufferInfo &buffer,
                     const TaskRow &row) const {
    return address(module, buffer, getSlot(row, buffer.slots));
  }

private:
  std::byte *allocate(size_t bytes, const char *what, size_t &sum);

  std::vector<Region> regions;
  std::byte *scratchMemory = nullptr;
  std::vector<void *> owned;
  std::vector<RegionBytes> sizes;
  size_t scratchSize = 0;
};

} // namespace dt::rt

#endif // DT_RUNTIME_STATE_REGIONS_H

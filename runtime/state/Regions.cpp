//===- Regions.cpp - the memory of a rank ---------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Regions.h"
#include "runtime/device/Device.h"
#include "runtime/state/Wholes.h"

#include <algorithm>
#include <string>

namespace dt::rt {

std::byte *Regions::allocate(size_t bytes, const char *what, size_t &sum) {
  owned.reserve(owned.size() + 1);
  void *memory = device::allocate(bytes, what);
  owned.push_back(memory);
  sum += bytes;
  return static_cast<std::byte *>(memory);
}

Regions::Regions(const ProgramInfo &program, const Placement &placement,
                 const Ownership &ownership, size_t moments, bool average)
    : regions(program.modules.size), sizes(program.modules.size) {
  size_t scratch = planWholes(program, placement, ownership).scratchBytes;
  try {
    for (size_t m = 0; m < program.modules.size; ++m) {
      if (!placement.at(m).runs())
        continue;
      const ModuleInfo &module = program.modules[m];
      auto make = [&](size_t bytes, const char *what, size_t &sum) {
        std::string text =
            std::string(what) + " of module '" + module.name + "'";
        return allocate(bytes, text.c_str(), sum);
      };
      regions[m].arena = make(module.arenaBytes, "the arena", sizes[m].arena);
      regions[m].parameters =
          make(module.parameterBytes, "parameters", sizes[m].parameters);
      regions[m].gradients =
          make(module.trainableBytes, "gradients", sizes[m].gradients);
      for (size_t i = 0; i < moments; ++i)
        regions[m].moments.at[i] = reinterpret_cast<float *>(
            make(ownership.keptFloats(m, i) * sizeof(float), "moments",
                 sizes[m].moments));
      if (average)
        regions[m].average = reinterpret_cast<float *>(
            make(ownership.momentFloats(m) * sizeof(float), "averages",
                 sizes[m].moments));
      if (size_t floats = ownership.masterFloats(m))
        regions[m].masters = reinterpret_cast<float *>(
            make(floats * sizeof(float), "masters", sizes[m].moments));
      if (size_t floats = ownership.sumFloats(m))
        regions[m].sums = reinterpret_cast<float *>(
            make(floats * sizeof(float), "sums of gradients", sizes[m].sums));
      scratch = std::max(scratch, module.scratchBytes);
    }
    scratchMemory = allocate(scratch, "scratch", scratchSize);
  } catch (...) {
    for (void *memory : owned)
      device::release(memory);
    throw;
  }
}

void Regions::clear() {
  device::zero(scratchMemory, scratchSize);
  for (size_t m = 0; m < regions.size(); ++m) {
    device::zero(regions[m].arena, sizes[m].arena);
    device::zero(regions[m].parameters, sizes[m].parameters);
    device::zero(regions[m].gradients, sizes[m].gradients);
  }
}

Regions::~Regions() {
  for (void *memory : owned)
    device::release(memory);
}

} // namespace dt::rt

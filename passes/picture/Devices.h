//===- Devices.h - Which ranks run what, as a picture -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PICTURE_DEVICES_H
#define PASSES_PICTURE_DEVICES_H

#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dt::picture {

/// The ranks of a unit: positions of its pipeline side by side, in each its
/// replicas, in each the ranks of a tensor-parallel group.
struct DeviceBlock {
  std::string name;
  std::vector<std::string> notes; ///< lines below the name
  int64_t group = 1, replicas = 1, positions = 1;
  /// (position * replicas + replica) * group + place in the group.
  std::vector<int64_t> ranks;
};

/// Not standalone: the inside of a page.
void drawDevices(llvm::raw_ostream &os, const std::vector<DeviceBlock> &blocks);

} // namespace dt::picture

#endif // PASSES_PICTURE_DEVICES_H

//===- InputPlaces.h - where inputs are copied to ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STEP_INPUTPLACES_H
#define DT_RUNTIME_STEP_INPUTPLACES_H

#include "runtime/Program.h"
#include "runtime/device/Device.h"

#include <list>
#include <vector>

namespace dt::rt {

/// The slots that a trainer's inputs are copied to, and the last task that used
/// each: a copy begins behind that one, beside the tasks of other slots.
/// Buffers of an arena share no memory.
class InputPlaces {
public:
  explicit InputPlaces(size_t modules) : places(modules) {}

  /// Of the place of an input of the module in this row.
  const device::Mark &lastUse(size_t module, const BufferInfo &buffer,
                              const TaskRow &row) {
    int32_t slot = buffer.slotStride ? getSlot(row, buffer.slots) : kAllSlots;
    for (Place &place : places[module])
      if (place.kind == buffer.slots && place.slot == slot)
        return place.lastUse;
    return places[module].emplace_back(buffer.slots, slot).lastUse;
  }

  /// The row's task of the module has been queued.
  void used(size_t module, const TaskRow &row) {
    for (Place &place : places[module])
      if (place.slot == kAllSlots || place.slot == getSlot(row, place.kind))
        place.lastUse.set();
  }

private:
  static constexpr int32_t kAllSlots = -1; ///< they have one place
  struct Place {
    Place(SlotKind kind, int32_t slot) : kind(kind), slot(slot) {}
    SlotKind kind;
    int32_t slot;
    device::Mark lastUse = {};
  };

  std::vector<std::list<Place>> places; ///< by module
};

} // namespace dt::rt

#endif // DT_RUNTIME_STEP_INPUTPLACES_H

//===- Collectives.cpp - what ranks of one replica do together --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A group knows rank-major blocks only, so parts that are cut inside rows are
// packed or unpacked here.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Collectives.h"
#include "runtime/comm/Comm.h"
#include "runtime/device/Device.h"

#include <map>
#include <utility>

namespace dt::rt {

struct TensorParallel {
  int rank, size;
  Fabric *fabric;
  struct Axis {
    FabricGroup *group; ///< the ranks of the axis that this one is on
    std::string labels[kCases<CollectiveKind>];
    const char *label(CollectiveKind kind) const {
      return labels[size_t(kind)].c_str();
    }
  };
  std::map<std::pair<int64_t, int64_t>, Axis> axes; ///< by over, stride

  const Axis &axis(int64_t over, int64_t stride) const {
    auto it = axes.find({over, stride});
    if (it == axes.end())
      throw Error("a group of " + std::to_string(size) +
                  " ranks has no axis over " + std::to_string(over) +
                  " stride " + std::to_string(stride));
    return it->second;
  }
};

namespace {

/// What each kind does. `in` and `out` have blocks of `count` elements one
/// after another. Their bytes are counted by `label`.
void exchange(FabricGroup &axis, const Collective &what, const void *in,
              void *out, int64_t count, const char *label) {
  size_t bytes = count * sizeOf(what.type);
  switch (what.kind) {
  case CollectiveKind::AllReduce:
    return axis.allReduce(what.reduction, what.type, in, out, count, label);
  case CollectiveKind::AllGather:
    return axis.allGather(in, bytes, out, label);
  case CollectiveKind::ReduceScatter:
    return axis.reduceScatter(what.type, in, out, count, label);
  case CollectiveKind::AllToAll:
    return axis.allToAll(in, out, bytes, label);
  case CollectiveKind::Shift:
    return axis.shift(in, out, bytes, label);
  }
}

/// Between [outer][over][row] (`rows`) and [over][outer][row] (`blocks`).
void pack(std::byte *blocks, const std::byte *rows, int64_t outer, int64_t over,
          size_t row) {
  for (int64_t n = 0; n < over; ++n)
    device::copyRows(blocks + n * outer * row, row, rows + n * row, over * row,
                     row, outer);
}
void unpack(std::byte *rows, const std::byte *blocks, int64_t outer,
            int64_t over, size_t row) {
  for (int64_t n = 0; n < over; ++n)
    device::copyRows(rows + n * row, over * row, blocks + n * outer * row, row,
                     row, outer);
}

void queueCollective(TensorParallel *group, const Collective &what,
                     const void *in, void *out, void *stream) {
  bool isBeside = stream && stream != device::stream();
  device::OnStream on(stream);
  const CollectiveForm &form = formOf(what.kind);
  int64_t outer = what.outer, over = what.over, count = outer * what.chunk;
  size_t row = what.chunk * sizeOf(what.type), block = outer * row;
  // Of the side that is a block: rows that are not one behind another.
  size_t step = what.pitch ? what.pitch * sizeOf(what.type) : row;
  bool apart = step != row && outer > 1 && row;
  if (over == 1 && apart)
    return device::copyRows(out, form.scatters ? step : row, in,
                            form.gathers ? step : row, row, outer);
  if (over == 1)
    return in == out ? void() : device::copy(out, in, block);
  const TensorParallel::Axis &axis = group->axis(over, what.stride);
  PackedSides sides = packedSides(form, block, over, outer > 1 && row, apart);
  device::Pool &pool =
      isBeside ? group->fabric->besidePool() : group->fabric->pool();
  device::Pool::Block packed = pool.take(sides.bytes());
  std::byte *from = sides.in ? packed.get() : nullptr,
            *to = sides.out ? packed.get() + sides.outAt() : nullptr;
  if (from && form.scatters)
    pack(from, static_cast<const std::byte *>(in), outer, over, row);
  else if (from)
    device::copyRows(from, row, in, step, row, outer);
  exchange(*axis.group, what, from ? from : in, to ? to : out, count,
           axis.label(what.kind));
  if (to && form.gathers)
    unpack(static_cast<std::byte *>(out), to, outer, over, row);
  else if (to)
    device::copyRows(out, step, to, row, row, outer);
}

} // namespace

int64_t placeOnAxis(const TensorParallel *group, int64_t over, int64_t stride,
                    int64_t behind) {
  return (group->rank / stride + over - behind) % over;
}

void collective(TensorParallel *group, const Collective &what, const void *in,
                void *out, void *stream) {
  device::hostCall([=] { queueCollective(group, what, in, out, stream); });
}

//===----------------------------------------------------------------------===//
// Making a group
//===----------------------------------------------------------------------===//

std::string collectiveLabel(const std::string &module, CollectiveKind kind,
                            int64_t over, int64_t stride) {
  return module + "." + textOf(kind) + " over " + std::to_string(over) +
         " stride " + std::to_string(stride);
}

static TensorParallel::Axis makeAxis(FabricGroup *group,
                                     const std::string &label, int64_t over,
                                     int64_t stride) {
  TensorParallel::Axis axis{group, {}};
  for (size_t kind = 0; kind < kCases<CollectiveKind>; ++kind)
    axis.labels[kind] =
        collectiveLabel(label, CollectiveKind(kind), over, stride);
  return axis;
}

std::shared_ptr<TensorParallel>
makeTensorParallel(Fabric &fabric, const std::vector<int> &ranks,
                   const std::string &label, const Axes &axes) {
  int size = int(ranks.size());
  std::shared_ptr<TensorParallel> mine;
  for (int place = 0; place < size; ++place)
    if (ranks[place] == fabric.rank()) {
      mine = std::make_shared<TensorParallel>();
      mine->rank = place;
      mine->size = size;
      mine->fabric = &fabric;
    }
  // Now: later not all ranks of the world would be here.
  for (auto [over, stride] : axes)
    for (int first = 0; first < size; ++first) {
      std::vector<int> members = axisFrom(ranks, first, over, stride);
      FabricGroup *group = members.empty() ? nullptr : fabric.group(members);
      if (mine && group)
        mine->axes[{over, stride}] = makeAxis(group, label, over, stride);
    }
  return mine;
}

} // namespace dt::rt

//===- Collectives.cpp - what ranks of one replica do together --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// MPI knows rank-major blocks only, so parts that are cut inside rows are
// packed or unpacked here. Device memory goes through the host.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Collectives.h"
#include "runtime/comm/Comm.h"
#include "runtime/device/Device.h"

#include <cstring>
#include <utility>

namespace dt::rt {

namespace {

/// Host memory that grows and stays; its content is not kept.
class Staging {
public:
  char *get(size_t bytes) {
    if (bytes > size) {
      memory.reset(new char[bytes]);
      size = bytes;
    }
    return memory.get();
  }

private:
  std::unique_ptr<char[]> memory;
  size_t size = 0;
};

} // namespace

struct TensorParallel {
  int rank, size;
  struct Axis {
    Group *group; ///< the ranks of the axis that this one is on
    std::string labels[kCases<CollectiveKind>];
    const char *label(CollectiveKind kind) const {
      return labels[size_t(kind)].c_str();
    }
  };
  std::map<std::pair<int64_t, int64_t>, Axis> axes; ///< by over, stride
  Staging deviceIn, deviceOut, packedIn, packedOut;

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

bool onHost() { return !device::stream(); }

void copyHere(const void *in, void *out, size_t bytes) {
  if (in != out && bytes)
    device::copy(out, in, bytes);
}

/// Calls body(in, out) with host memory.
template <typename F>
void onHostMemory(TensorParallel &group, const void *in, size_t inBytes,
                  void *out, size_t outBytes, F body) {
  if (onHost())
    return body(in, out);
  char *from = group.deviceIn.get(inBytes), *to = group.deviceOut.get(outBytes);
  device::copyToHost(from, in, inBytes);
  body(static_cast<const void *>(from), static_cast<void *>(to));
  device::copyToDevice(out, to, outBytes);
  device::synchronize(); // the staging is used again
}

/// What each kind does. `in` and `out` have blocks of `count` elements one
/// after another. Their bytes are counted by `label`.
void exchange(Group &axis, const Collective &what, const void *in, void *out,
              int64_t count, const char *label) {
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
  }
}

/// Between [outer][over][row] (`rows`) and [over][outer][row] (`blocks`).
void permute(char *blocks, char *rows, int64_t outer, int64_t over, size_t row,
             bool pack) {
#pragma omp parallel for collapse(2)                                           \
    schedule(static) if (outer * over * row > (1u << 18))
  for (int64_t n = 0; n < over; ++n)
    for (int64_t i = 0; i < outer; ++i) {
      char *block = blocks + (n * outer + i) * row;
      char *inside = rows + (i * over + n) * row;
      std::memcpy(pack ? block : inside, pack ? inside : block, row);
    }
}

} // namespace

int64_t placeOnAxis(const TensorParallel *group, int64_t over, int64_t stride) {
  return group->rank / stride % over;
}

void collective(TensorParallel *group, const Collective &what, const void *in,
                void *out) {
  const CollectiveForm &form = formOf(what.kind);
  int64_t outer = what.outer, over = what.over, count = outer * what.chunk;
  size_t row = what.chunk * sizeOf(what.type), block = outer * row;
  if (over == 1)
    return copyHere(in, out, block);
  const TensorParallel::Axis &axis = group->axis(over, what.stride);
  size_t inBytes = form.scatters ? over * block : block,
         outBytes = form.gathers ? over * block : block;
  bool inRows = outer > 1 && row;
  onHostMemory(
      *group, in, inBytes, out, outBytes, [&](const void *from, void *to) {
        void *blocks = to;
        if (form.gathers && inRows)
          blocks = group->packedOut.get(outBytes);
        if (form.scatters && inRows) {
          char *packed = group->packedIn.get(inBytes);
          // Only read: packing does not write to its rows.
          permute(packed, static_cast<char *>(const_cast<void *>(from)), outer,
                  over, row, true);
          from = packed;
        }
        exchange(*axis.group, what, from, blocks, count, axis.label(what.kind));
        if (blocks != to)
          permute(static_cast<char *>(blocks), static_cast<char *>(to), outer,
                  over, row, false);
      });
}

//===----------------------------------------------------------------------===//
// Making a group
//===----------------------------------------------------------------------===//

std::string collectiveLabel(const std::string &module, CollectiveKind kind,
                            int64_t over, int64_t stride) {
  return module + "." + textOf(kind) + " over " + std::to_string(over) +
         " stride " + std::to_string(stride);
}

static TensorParallel::Axis makeAxis(Group *group, const std::string &label,
                                     int64_t over, int64_t stride) {
  TensorParallel::Axis axis{group, {}};
  for (size_t kind = 0; kind < kCases<CollectiveKind>; ++kind)
    axis.labels[kind] =
        collectiveLabel(label, CollectiveKind(kind), over, stride);
  return axis;
}

std::shared_ptr<TensorParallel>
makeTensorParallel(Comm &comm, const std::vector<int> &ranks,
                   const std::string &label) {
  int size = int(ranks.size());
  std::shared_ptr<TensorParallel> mine;
  for (int place = 0; place < size; ++place)
    if (ranks[place] == comm.rank()) {
      mine = std::make_shared<TensorParallel>();
      mine->rank = place;
      mine->size = size;
    }
  // All axes now: later not all ranks of the world would be here.
  for (int over = 2; over <= size; ++over)
    for (int stride = 1; over * stride <= size; ++stride) {
      if (size % (over * stride))
        continue;
      for (int first = 0; first < size; ++first) {
        if (first / stride % over)
          continue;
        std::vector<int> members;
        for (int i = 0; i < over; ++i)
          members.push_back(ranks[first + i * stride]);
        Group *group = comm.group(members);
        if (mine && group)
          mine->axes[{over, stride}] = makeAxis(group, label, over, stride);
      }
    }
  return mine;
}

} // namespace dt::rt

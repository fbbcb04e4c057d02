//===- MessageBlocks.h - memory of what is on its way -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Sizes of the blocks that messages and collectives go through, said once: to
// those who take them from pools, and to those who plan these
// (step/MessagePlan.h). No memory here, and no ranks: the compiler asks, too.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_MESSAGEBLOCKS_H
#define DT_RUNTIME_COMM_MESSAGEBLOCKS_H

#include "runtime/Enums.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace dt::rt {

/// What carries the buffers of a step (Fabric.h): TCP or MPI on the CPU, pinned
/// host memory and TCP, or NCCL.
enum class Carrier { Tcp, Mpi, Host, Nccl };
inline constexpr Carrier kAllCarriers[] = {Carrier::Tcp, Carrier::Mpi,
                                           Carrier::Host, Carrier::Nccl};
inline const char *textOf(Carrier carrier) {
  constexpr const char *texts[] = {"tcp", "mpi", "host", "nccl"};
  return texts[size_t(carrier)];
}

/// How many blocks there are of each size, in bytes.
using BlockCounts = std::map<size_t, size_t>;

inline size_t bytesOf(const BlockCounts &counts) {
  size_t sum = 0;
  for (auto [bytes, count] : counts)
    sum += bytes * count;
  return sum;
}

/// What a rank needs at once. A block is only taken for something of its own
/// size, but by blocking calls, of which there is one at a time: for the
/// largest of these there is a block more. So whoever takes one finds one.
struct MessageBlocks {
  BlockCounts packed;   ///< device memory: Fabric::pool()
  BlockCounts beside;   ///< device memory: Fabric::besidePool()
  BlockCounts pinned;   ///< host memory that the device copies from and to
  BlockCounts combined; ///< host memory: Comm::combining()
  size_t uploads = 0;   ///< pinned: device::uploadBytes()
  size_t readBack = 0;  ///< pinned: a step's numbers
  /// Bytes at most of a message, by 2 * edge + gradient.
  std::vector<size_t> message;
  /// Bytes at most that rows of a task pack (Routes.h: packTogether), by
  /// 4 * edge + 2 * gradient + sends; 0: items of a row lie together.
  std::vector<size_t> task;

  size_t deviceBytes() const { return bytesOf(packed) + bytesOf(beside); }
  size_t hostBytes() const {
    return bytesOf(pinned) + bytesOf(combined) + uploads + readBack;
  }
};

//===----------------------------------------------------------------------===//
// Blocks of one collective
//===----------------------------------------------------------------------===//

/// Packed copies of both sides of a collective that cuts inside rows, one
/// behind the other. `block`: bytes of a rank's block; `rows`: it has several
/// rows; `apart`: which do not lie together.
struct PackedSides {
  size_t in = 0, out = 0; ///< bytes; 0: that side is as it is
  size_t outAt() const { return (in + 63) / 64 * 64; }
  size_t bytes() const { return outAt() + out; }
};
inline PackedSides packedSides(const CollectiveForm &form, size_t block,
                               int64_t over, bool rows, bool apart) {
  PackedSides sides;
  if (!rows)
    return sides;
  if (form.scatters || apart)
    sides.in = form.scatters ? block * size_t(over) : form.gathers ? block : 0;
  if (form.gathers || apart)
    sides.out = form.gathers ? block * size_t(over) : form.scatters ? block : 0;
  return sides;
}

/// Over pinned host memory. `count`: elements that the rank gives, of all
/// blocks.
inline size_t pinnedBytes(CollectiveKind kind, DType type, int64_t count,
                          int64_t ranks) {
  size_t bytes = size_t(count) * sizeOf(type);
  return kind == CollectiveKind::AllGather ? bytes * size_t(ranks)
         : kind == CollectiveKind::AllToAll || kind == CollectiveKind::Shift
             ? 2 * bytes
             : bytes;
}

/// Bytes of an all-reduce over TCP, times ranks, up to which everybody combines
/// all; bytes that are combined at a time.
inline constexpr size_t kSmallReduce = 64 << 10, kReducePiece = 32 << 20;

/// Whether every rank combines all there is of an all-reduce, not a share.
inline bool combinesAll(DType type, int64_t count, int64_t ranks) {
  return size_t(count * ranks) * sizeOf(type) <= kSmallReduce;
}
/// What comes from all ranks before it is combined, over TCP; `count` as above.
inline size_t combinedBytes(CollectiveKind kind, DType type, int64_t count,
                            int64_t ranks) {
  int64_t piece = int64_t(kReducePiece / sizeOf(type)), share = 0;
  if (kind == CollectiveKind::ReduceScatter)
    share = std::min(count / ranks, std::max<int64_t>(1, piece / ranks));
  else if (kind == CollectiveKind::AllReduce)
    share = combinesAll(type, count, ranks)
                ? count
                : (std::min(count, piece) + ranks - 1) / ranks;
  return size_t(share * ranks) * sizeOf(type);
}
/// The most of all that give as many elements or fewer.
inline size_t mostCombinedBytes(CollectiveKind kind, DType type, int64_t count,
                                int64_t ranks) {
  size_t bytes = combinedBytes(kind, type, count, ranks);
  return kind == CollectiveKind::AllReduce
             ? std::max(bytes, std::min(kSmallReduce,
                                        size_t(count * ranks) * sizeOf(type)))
             : bytes;
}
/// The same over MPI, of calls that block: bf16 is combined here, and a
/// reduce-scatter into what it reads goes through a copy.
inline constexpr int64_t kMpiPiece = int64_t(1) << 28; ///< elements of a call
inline size_t mpiCombinedBytes(CollectiveKind kind, DType type, int64_t count,
                               int64_t ranks) {
  if (kind == CollectiveKind::ReduceScatter)
    return size_t(type == DType::BF16 ? count : count / ranks) * sizeOf(type);
  if (kind != CollectiveKind::AllReduce || type != DType::BF16)
    return 0;
  int64_t share = (std::min(count, kMpiPiece) + ranks - 1) / ranks;
  return size_t(share * ranks) * sizeOf(type);
}

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_MESSAGEBLOCKS_H

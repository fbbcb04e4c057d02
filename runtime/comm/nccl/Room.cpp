//===- Room.cpp - room for NCCL's kernels on the device -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/nccl/Room.h"
#include "runtime/device/cuda/Cuda.h"

#include <algorithm>
#include <cstdlib>

namespace dt::rt {

namespace {

int numberIn(const char *name) {
  const char *value = std::getenv(name);
  return value ? std::atoi(value) : 0;
}

/// NCCL rounds channels of messages up to powers of two.
int roundUp(int blocks) {
  int power = 1;
  while (power < blocks)
    power *= 2;
  return power;
}

/// NCCL_MAX_CTAS in place of what a communicator was made with; the others are
/// raised to, whatever that says.
int changed(int blocks) {
  if (int most = numberIn("NCCL_MAX_CTAS"); most > 0)
    blocks = most;
  for (const char *least :
       {"NCCL_MIN_NCHANNELS", "NCCL_MIN_NRINGS", "NCCL_MIN_P2P_NCHANNELS"})
    blocks = std::max(blocks, numberIn(least));
  return roundUp(blocks);
}

} // namespace

LinkShares findRoom(Comm &control, const LinkNeeds &needs) {
  std::vector<double> all = control.allGather(
      std::vector<double>{double(cuda::multiprocessors)}, "setup");
  int room = int(*std::min_element(all.begin(), all.end()));
  LinkShares shares = sharesFor(needs, room);
  LinkShares real = {changed(shares.messages), changed(shares.collectives)};
  std::string wrong;
  if (!shares.collectives || real.sum(needs) >= room)
    wrong = "NCCL: kernels of " + std::to_string(needs.streams) +
            " streams of collectives and " +
            std::to_string(needs.directions()) + " of messages may take " +
            std::to_string(shares.collectives
                               ? real.sum(needs)
                               : LinkShares{shares.messages, 1}.sum(needs)) +
            " thread blocks at once, expected less than the " +
            std::to_string(room) + " multiprocessors of the GPU" +
            (shares.collectives ? ": NCCL_MAX_CTAS, NCCL_MIN_NCHANNELS or "
                                  "NCCL_MIN_P2P_NCHANNELS are too large"
                                : ": a rank has too many modules");
  control.agree(wrong);
  return shares;
}

} // namespace dt::rt

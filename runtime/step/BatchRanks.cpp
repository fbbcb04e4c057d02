//===- BatchRanks.cpp - a step's inputs go to the ranks -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Messages of data have the largest tag, which no message of a step has
// (Fabric::tag).
//
//===----------------------------------------------------------------------===//

#include "runtime/step/BatchRanks.h"
#include "runtime/data/Parcels.h"

#include <algorithm>

namespace dt::rt {

namespace {

constexpr char kShared[] = "data of all"; ///< what decides a step's parts

class BatchRanks final : public BatchPeers {
public:
  explicit BatchRanks(Comm &comm) : comm(comm) {}

  void share(std::string &text) override {
    if (comm.size() == 1)
      return;
    uint64_t size = text.size();
    comm.world().broadcast(&size, sizeof size, 0, kShared);
    text.resize(size);
    if (size)
      comm.world().broadcast(text.data(), size, 0, kShared);
  }

  void deal(std::vector<Parcel> &parcels) override {
    if (comm.size() == 1)
      return;
    for (Parcel &parcel : parcels)
      if (parcel.isFor(comm.rank())) {
        parcel.bytes.resize(parcel.size);
        if (comm.rank() != 0)
          comm.count(kDataReceived, parcel.size);
      }
    toLeaders(parcels);
    for (Parcel &parcel : parcels)
      toReplica(parcel);
  }

private:
  /// The place of whom a parcel comes to first.
  static int leaderOf(const Parcel &parcel) {
    auto first = std::find(parcel.ranks.begin(), parcel.ranks.end(), 0);
    return first == parcel.ranks.end() ? 0 : int(first - parcel.ranks.begin());
  }

  void toLeaders(std::vector<Parcel> &parcels) {
    std::vector<Request> requests;
    for (Parcel &parcel : parcels) {
      int leader = parcel.ranks[size_t(leaderOf(parcel))];
      if (leader == 0)
        continue;
      if (comm.rank() == 0)
        requests.push_back(comm.isend(parcel.bytes.data(), parcel.size, leader,
                                      comm.tagLimit(), kDataSent));
      if (comm.rank() == leader)
        requests.push_back(
            comm.irecv(parcel.bytes.data(), parcel.size, 0, comm.tagLimit()));
    }
    waitAll(requests);
  }

  void toReplica(Parcel &parcel) {
    if (parcel.ranks.size() > 1)
      if (Group *ranks = comm.group(parcel.ranks, kDataSent))
        ranks->broadcast(parcel.bytes.data(), parcel.size, leaderOf(parcel),
                         kDataSent);
    if (!parcel.isFor(comm.rank()))
      parcel.bytes = {};
  }

  Comm &comm;
};

} // namespace

std::shared_ptr<BatchPeers> makeBatchPeers(Comm &comm) {
  return std::make_shared<BatchRanks>(comm);
}

} // namespace dt::rt

//===- Fabric.cpp - what moves the buffers of a step ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Fabric.h"
#include "runtime/base/Files.h"
#include "runtime/comm/Agreement.h"
#include "runtime/comm/staged/StagedFabric.h"
#ifdef DT_RUNTIME_NCCL
#include "runtime/comm/nccl/NcclFabric.h"
#endif
#include "runtime/device/Device.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace dt::rt {

void waitAll(std::vector<Request> &requests) {
  for (Request &request : requests)
    request.wait();
  requests.clear();
}

int Fabric::tag(int edge, int edges, int64_t number, bool gradient) const {
  // Messages so far apart that a tag is used again are never under way
  // together: fewer are in flight than there are tags.
  int64_t perNumber = 2 * int64_t(edges);
  int64_t tags = std::max<int64_t>(1, tagLimit() / perNumber);
  return int(number % tags * perNumber + 2 * int64_t(edge) + gradient);
}

namespace {

/// Which rank of its machine this one is.
int localRank(Comm &comm) {
  std::vector<std::string> all = comm.allGatherText(machineName());
  auto own = all.begin() + comm.rank();
  return int(std::count(all.begin(), own, *own));
}

/// What DT_FABRIC asks for on rank 0; empty: nothing.
std::string wantedFabric(Comm &comm) {
  const char *value = std::getenv("DT_FABRIC");
  std::string wanted = comm.allGatherText(value ? value : "")[0];
  if (!wanted.empty() && wanted != "nccl" && wanted != "host")
    throw CommonError("DT_FABRIC: expected nccl or host, not '" + wanted + "'");
  return wanted;
}

} // namespace

void initializeDevice(Comm &comm, int threads) {
  if (device::isHost())
    return device::initialize(threads);
  int number = localRank(comm);
  comm.agree(failureOf([&] { device::initialize(threads, number); }));
}

std::shared_ptr<Fabric> makeFabric(Comm &comm,
                                   [[maybe_unused]] const LinkNeeds &needs) {
  if (device::isHost())
    return {std::shared_ptr<Fabric>(), &comm};
  std::string wanted = wantedFabric(comm);
#ifdef DT_RUNTIME_NCCL
  std::vector<std::string> devices =
      comm.allGatherText(machineName() + " " + device::address());
  bool own = std::set<std::string>(devices.begin(), devices.end()).size() ==
             devices.size();
  if (comm.size() > 1 && (wanted == "nccl" || (wanted.empty() && own)))
    return makeNcclFabric(comm, needs);
#else
  if (wanted == "nccl")
    throw CommonError("DT_FABRIC=nccl: this program was built without NCCL");
#endif
  return makeStagedFabric(comm);
}

} // namespace dt::rt

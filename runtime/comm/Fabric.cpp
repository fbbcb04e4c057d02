//===- Fabric.cpp - what moves the buffers of a step ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Fabric.h"
#include "runtime/comm/Comm.h"
#include "runtime/device/Device.h"

#include <algorithm>

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

void initializeDevice(Comm &, int threads) { device::initialize(threads); }

std::shared_ptr<Fabric> makeFabric(Comm &comm) {
  return {std::shared_ptr<Fabric>(), &comm};
}

} // namespace dt::rt

//===- Link.cpp - one communicator of NCCL ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/nccl/Link.h"
#include "runtime/comm/Agreement.h"
#include "runtime/device/Device.h"
#include "runtime/device/cuda/Cuda.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <utility>

namespace dt::rt {

namespace {

/// Seconds between two looks for errors, and of a nap while the host waits.
constexpr double kLook = 0.1, kNap = 2e-5;

void nap() { std::this_thread::sleep_for(std::chrono::duration<double>(kNap)); }

std::string nameOf(const Awaited &what) {
  std::string label = what.label;
  if (what.kind == Awaited::Message)
    return (label.empty() ? "a message" : "message " + label) +
           " from or to rank " + std::to_string(what.peer);
  return what.kind == Awaited::Collective ? "collective " + label : "the step";
}

} // namespace

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

StreamEvent::StreamEvent() : event(cuda::makeEvent()) {}
StreamEvent::~StreamEvent() {
  cuda::check(cudaEventDestroy(event), "cudaEventDestroy");
}
void StreamEvent::record(cudaStream_t stream) {
  cuda::check(cudaEventRecord(event, stream), "cudaEventRecord");
}
bool StreamEvent::reached() const {
  cudaError_t status = cudaEventQuery(event);
  if (status == cudaErrorNotReady)
    return false;
  cuda::check(status, "cudaEventQuery");
  return true;
}
void StreamEvent::holdBack(cudaStream_t stream) const {
  cuda::check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
}

/// One that nobody asks for any more.
std::shared_ptr<StreamEvent> Links::takeEvent() {
  for (std::shared_ptr<StreamEvent> &event : events)
    if (event.use_count() == 1)
      return event;
  events.push_back(std::make_shared<StreamEvent>());
  return events.back();
}

/// The host does not wait: what it queues next does.
class Links::Operation final : public Request::Operation {
public:
  explicit Operation(std::shared_ptr<StreamEvent> end) : end(std::move(end)) {}
  bool test() override { return end->reached(); }
  void wait() override { end->holdBack(compute()); }

private:
  std::shared_ptr<StreamEvent> end;
};

cudaStream_t Links::compute() {
  return static_cast<cudaStream_t>(device::stream());
}

void Links::run(Link &link, const Awaited &what, const NcclCall &call) {
  last = what;
  this->call(link, what, [&] { return call(compute()); });
}

Request Links::begin(Link &link, const Awaited &what, const NcclCall &call) {
  std::shared_ptr<StreamEvent> event = takeEvent();
  event->record(compute());
  event->holdBack(link.stream);
  this->call(link, what, [&] { return call(link.stream); });
  event->record(link.stream);
  device::OnStream on(link.stream);
  device::noteProgress();
  open.push_back({event, what});
  return Request(std::make_unique<Operation>(std::move(event)));
}

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

Link &Links::make(const std::vector<int> &ranks, int number, int blocks,
                  bool aside) {
  Link &link = links.emplace_back();
  link.ranks = ranks;
  link.rank = int(std::find(ranks.begin(), ranks.end(), control.rank()) -
                  ranks.begin());
  link.number = number;
  if (aside)
    link.stream = cuda::makeStream(/*urgent=*/true);
  connect(link, blocks);
  // Connections are made by the first collective, for which hosts wait: now,
  // not in a step.
  device::Pool::Block block = control.pool().take(sizeof(float));
  run(link, collective(link, "start of NCCL"), [&](cudaStream_t stream) {
    return ncclAllReduce(block.get(), block.get(), 1, ncclFloat32, ncclSum,
                         link.comm, stream);
  });
  settle();
  return link;
}

void Links::connectPairs(Link &link,
                         const std::set<std::pair<int, int>> &pairs) {
  std::vector<std::pair<int, int>> own;
  std::copy_if(pairs.begin(), pairs.end(), std::back_inserter(own),
               [&](const std::pair<int, int> &pair) {
                 return pair.first == link.rank || pair.second == link.rank;
               });
  // A byte each.
  device::Pool::Block block = control.pool().take(own.size());
  run(link, {Awaited::Collective, -1, -1, 0, "start of messages"},
      [&](cudaStream_t stream) {
        return grouped(int(own.size()), [&](int i) {
          auto [from, to] = own[size_t(i)];
          std::byte *at = block.get() + i;
          return from == link.rank
                     ? ncclSend(at, 1, ncclChar, to, link.comm, stream)
                     : ncclRecv(at, 1, ncclChar, from, link.comm, stream);
        });
      });
  settle();
}

/// The first member makes an id, which travels over Control.
void Links::connect(Link &link, int blocks) {
  Awaited what = collective(link, "start of NCCL");
  ncclUniqueId id{};
  if (link.rank == 0) {
    if (ncclResult_t made = ncclGetUniqueId(&id); made != ncclSuccess)
      fail(link, made, what);
    std::vector<Request> sent;
    for (size_t i = 1; i < link.ranks.size(); ++i)
      sent.push_back(control.isend(&id, sizeof id, link.ranks[i], 0, "setup"));
    waitAll(sent);
  } else {
    control.irecv(&id, sizeof id, link.ranks[0], 0).wait();
  }
  // Without blocking NCCL would make a thread for every call.
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.maxCTAs = blocks;
  call(link, what, [&] {
    return ncclCommInitRankConfig(&link.comm, int(link.ranks.size()), id,
                                  link.rank, &config);
  });
}

void Links::call(Link &link, const Awaited &what,
                 const std::function<ncclResult_t()> &body) {
  Waits waits(control.board(), what);
  if (ncclResult_t result = body(); result != ncclSuccess)
    fail(link, result, what);
}

Awaited Links::collective(Link &link, const char *label) {
  ++link.begun;
  int group = link.number < 0 ? -1 : link.number + kFirstGroup;
  if (control.board())
    control.board()->enter(group, link.begun);
  return {Awaited::Collective, -1, group, link.begun, label};
}

void Links::fail(Link &link, ncclResult_t result, const Awaited &what) {
  std::string text =
      "NCCL: " + nameOf(what) + ": " + ncclGetErrorString(result);
  if (const char *more = ncclGetLastError(link.comm); more && *more)
    text += std::string(" (") + more + ")";
  for (Link &each : links)
    if (each.comm)
      ncclCommAbort(std::exchange(each.comm, nullptr));
  throw Error(text);
}

Links::Links(Comm &control)
    : control(control), beside(cuda::makeStream(/*urgent=*/true)) {
  // Switches that add (NVLink SHARP) take what comes in the order in which it
  // comes: another sum each time.
  ::setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/0);
}

Links::~Links() {
  bool whole = !std::uncaught_exceptions();
  if (whole)
    whole = failureOf([this] { settle(); }).empty();
  for (Link &link : links) {
    if (link.comm)
      (whole ? ncclCommDestroy : ncclCommAbort)(link.comm);
    if (link.stream)
      cudaStreamDestroy(link.stream);
  }
  cudaStreamDestroy(beside);
}

//===----------------------------------------------------------------------===//
// What the host sees
//===----------------------------------------------------------------------===//

void Links::checkErrors(const Awaited &what) {
  if (now() - looked < kLook)
    return;
  looked = now();
  for (Link &link : links) {
    ncclResult_t state = ncclSuccess;
    if (ncclResult_t asked = ncclCommGetAsyncError(link.comm, &state);
        asked != ncclSuccess)
      state = asked;
    if (state != ncclSuccess && state != ncclInProgress)
      fail(link, state, what);
  }
}

void Links::poll() {
  while (!open.empty() && open.front().end->reached())
    open.pop_front();
  checkErrors(open.empty() ? Awaited() : open.front().what);
}

void Links::waitFor(const Open &one) {
  if (one.end->reached())
    return;
  BlockingCall blocks(control.waiting(), one.what, false);
  while (!one.end->reached()) {
    checkErrors(one.what);
    nap();
  }
}

void Links::settle() {
  for (; !open.empty(); open.pop_front())
    waitFor(open.front());
  std::shared_ptr<StreamEvent> end = takeEvent();
  end->record(compute());
  waitFor({end, last});
  last = {};
}

} // namespace dt::rt

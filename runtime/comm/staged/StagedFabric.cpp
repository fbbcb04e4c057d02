//===- StagedFabric.cpp - device buffers over host memory -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Every buffer goes through pinned host memory and over Comm, which also counts
// it. What is sent waits on the host for the stream; what has come is copied
// when the request is found to have ended. Needs nothing but Comm, and several
// ranks may share a device.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/staged/StagedFabric.h"
#include "runtime/comm/Comm.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace dt::rt {

namespace {

using device::Pool;

/// What is under way on the host, and where its result goes.
struct Landing final : Request::Operation {
  Pool::Block host;
  Request request;
  const std::byte *from = nullptr; ///< in `host`
  void *to = nullptr;              ///< null: nowhere
  size_t bytes = 0;

  bool test() override {
    bool ended = request.test();
    if (ended)
      land();
    return ended;
  }
  void wait() override {
    request.wait();
    land();
  }
  void land() {
    if (to)
      device::copyToDevice(to, from, bytes);
  }
};

class StagedGroup final : public FabricGroup {
public:
  StagedGroup(Group &host, Pool &pinned) : host(host), pinned(pinned) {}
  int rank() const override { return host.rank(); }
  int size() const override { return host.size(); }
  const std::vector<int> &ranks() const override { return host.ranks(); }

  void allReduce(Reduction kind, DType type, const void *in, void *out,
                 int64_t n, const char *label) override {
    size_t bytes = size_t(n) * sizeOf(type);
    run(wholeOf(bytes), in, out, [&](std::byte *all) {
      host.allReduce(kind, type, all, all, n, label);
    });
  }
  Request iallReduce(Reduction kind, DType type, const void *in, void *out,
                     int64_t n, const char *label) override {
    size_t bytes = size_t(n) * sizeOf(type);
    return begin(wholeOf(bytes), in, out, [&](std::byte *all) {
      return host.iallReduce(kind, type, all, all, n, label);
    });
  }
  void allGather(const void *in, size_t bytes, void *out,
                 const char *label) override {
    run(gathered(bytes), in, out, [&](std::byte *all) {
      host.allGather(own(all, bytes), bytes, all, label);
    });
  }
  Request iallGather(const void *in, size_t bytes, void *out,
                     const char *label) override {
    return begin(gathered(bytes), in, out, [&](std::byte *all) {
      return host.iallGather(own(all, bytes), bytes, all, label);
    });
  }
  void allGatherV(const void *in, void *out, const std::vector<size_t> &sizes,
                  const char *label) override {
    auto place = sizes.begin() + rank();
    size_t before = std::accumulate(sizes.begin(), place, size_t(0)),
           all = std::accumulate(place, sizes.end(), before);
    run({all, before, *place, 0, all}, in, out, [&](std::byte *block) {
      host.allGatherV(block + before, block, sizes, label);
    });
  }
  void reduceScatter(DType type, const void *in, void *out, int64_t n,
                     const char *label) override {
    size_t bytes = size_t(n) * sizeOf(type);
    run(scattered(bytes), in, out, [&](std::byte *all) {
      host.reduceScatter(type, all, own(all, bytes), n, label);
    });
  }
  Request ireduceScatter(DType type, const void *in, void *out, int64_t n,
                         const char *label) override {
    size_t bytes = size_t(n) * sizeOf(type);
    return begin(scattered(bytes), in, out, [&](std::byte *all) {
      return host.ireduceScatter(type, all, own(all, bytes), n, label);
    });
  }
  void allToAll(const void *in, void *out, size_t bytes,
                const char *label) override {
    size_t all = bytes * ranks().size();
    run({2 * all, 0, all, all, all}, in, out, [&](std::byte *block) {
      host.allToAll(block, block + all, bytes, label);
    });
  }
  void shift(const void *in, void *out, size_t bytes,
             const char *label) override {
    run({2 * bytes, 0, bytes, bytes, bytes}, in, out, [&](std::byte *block) {
      host.shift(block, block + bytes, bytes, label);
    });
  }

private:
  /// A block of host memory (pinnedBytes), and the places in it of what comes
  /// from the device and of what goes back, in bytes.
  struct Places {
    size_t bytes, in, inBytes, out, outBytes;
  };
  Places wholeOf(size_t bytes) const { return {bytes, 0, bytes, 0, bytes}; }
  Places gathered(size_t bytes) const {
    size_t all = bytes * ranks().size();
    return {all, bytes * size_t(rank()), bytes, 0, all};
  }
  Places scattered(size_t bytes) const {
    size_t all = bytes * ranks().size();
    return {all, 0, all, bytes * size_t(rank()), bytes};
  }
  std::byte *own(std::byte *all, size_t bytes) const {
    return all + bytes * size_t(rank());
  }

  template <typename Call>
  void run(const Places &places, const void *in, void *out, Call call) {
    Pool::Block block = pinned.take(places.bytes);
    if (device::rehearses())
      return;
    device::copyToHost(block.get() + places.in, in, places.inBytes);
    call(block.get());
    device::copyToDevice(out, block.get() + places.out, places.outBytes);
  }
  template <typename Call>
  Request begin(const Places &places, const void *in, void *out, Call call) {
    auto landing = std::make_unique<Landing>();
    landing->host = pinned.take(places.bytes);
    std::byte *block = landing->host.get();
    device::copyToHost(block + places.in, in, places.inBytes);
    landing->from = block + places.out;
    landing->to = out;
    landing->bytes = places.outBytes;
    landing->request = call(block);
    return Request(std::move(landing));
  }

  Group &host;
  Pool &pinned;
};

class StagedFabric final : public Fabric {
public:
  explicit StagedFabric(Comm &comm) : comm(comm) {}
  int rank() const override { return comm.rank(); }
  int size() const override { return comm.size(); }

  Request isend(const void *data, size_t bytes, int to, int tag,
                const char *label) override {
    auto landing = std::make_unique<Landing>();
    landing->host = takeFor(bytes, tag);
    device::copyToHost(landing->host.get(), data, bytes);
    landing->request = comm.isend(landing->host.get(), bytes, to, tag, label);
    return Request(std::move(landing));
  }
  Request irecv(void *data, size_t bytes, int from, int tag) override {
    auto landing = std::make_unique<Landing>();
    landing->host = takeFor(bytes, tag);
    landing->from = landing->host.get();
    landing->to = data;
    landing->bytes = bytes;
    landing->request = comm.irecv(landing->host.get(), bytes, from, tag);
    return Request(std::move(landing));
  }
  void poll() override { comm.poll(); }

  FabricGroup *group(const std::vector<int> &ranks,
                     const std::string &purpose) override {
    Group *host = comm.group(ranks, purpose);
    if (!host)
      return nullptr;
    std::unique_ptr<StagedGroup> &group = groups[host];
    if (!group)
      group = std::make_unique<StagedGroup>(*host, pinned);
    return group.get();
  }
  std::string describe() const override { return "host memory"; }
  Carrier carrier() const override { return Carrier::Host; }
  void reserve(const MessageBlocks &planned) override {
    Fabric::reserve(planned);
    pinned.reserve(planned.pinned);
    largest = planned.message;
  }
  size_t pinnedBytes() const override { return pinned.bytes(); }

protected:
  int tagLimit() const override { return comm.tagLimit(); }

private:
  /// A block for the largest message of an edge (tag()), as it was planned.
  Pool::Block takeFor(size_t bytes, int tag) {
    return pinned.take(
        bytes == 0 || largest.empty()
            ? bytes
            : std::max(bytes, largest[size_t(tag) % largest.size()]));
  }

  Comm &comm;
  Pool pinned{Pool::Pinned};
  std::vector<size_t> largest; ///< MessageBlocks::message
  std::map<Group *, std::unique_ptr<StagedGroup>> groups;
};

} // namespace

std::shared_ptr<Fabric> makeStagedFabric(Comm &comm) {
  return std::make_shared<StagedFabric>(comm);
}

} // namespace dt::rt

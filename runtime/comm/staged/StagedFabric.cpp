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

#include <map>
#include <numeric>

namespace dt::rt {

namespace {

using device::Pool;

/// What is under way on the host, and where its result goes.
struct Landing final : Request::Operation {
  Pool::Block in, out;
  Request request;
  void *to = nullptr;
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
      device::copyToDevice(to, out.get(), bytes);
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
    run(in, bytes, out, bytes, [&](const void *from, void *to) {
      host.allReduce(kind, type, from, to, n, label);
    });
  }
  Request iallReduce(Reduction kind, DType type, const void *in, void *out,
                     int64_t n, const char *label) override {
    size_t bytes = size_t(n) * sizeOf(type);
    return begin(in, bytes, out, bytes, [&](const void *from, void *to) {
      return host.iallReduce(kind, type, from, to, n, label);
    });
  }
  void allGather(const void *in, size_t bytes, void *out,
                 const char *label) override {
    run(in, bytes, out, bytes * ranks().size(),
        [&](const void *from, void *to) {
          host.allGather(from, bytes, to, label);
        });
  }
  Request iallGather(const void *in, size_t bytes, void *out,
                     const char *label) override {
    return begin(in, bytes, out, bytes * ranks().size(),
                 [&](const void *from, void *to) {
                   return host.iallGather(from, bytes, to, label);
                 });
  }
  void allGatherV(const void *in, void *out, const std::vector<size_t> &sizes,
                  const char *label) override {
    size_t all = std::accumulate(sizes.begin(), sizes.end(), size_t(0));
    run(in, sizes[size_t(rank())], out, all, [&](const void *from, void *to) {
      host.allGatherV(from, to, sizes, label);
    });
  }
  void reduceScatter(DType type, const void *in, void *out, int64_t n,
                     const char *label) override {
    size_t bytes = size_t(n) * sizeOf(type);
    run(in, bytes * ranks().size(), out, bytes,
        [&](const void *from, void *to) {
          host.reduceScatter(type, from, to, n, label);
        });
  }
  Request ireduceScatter(DType type, const void *in, void *out, int64_t n,
                         const char *label) override {
    size_t bytes = size_t(n) * sizeOf(type);
    return begin(in, bytes * ranks().size(), out, bytes,
                 [&](const void *from, void *to) {
                   return host.ireduceScatter(type, from, to, n, label);
                 });
  }
  void allToAll(const void *in, void *out, size_t bytes,
                const char *label) override {
    size_t all = bytes * ranks().size();
    run(in, all, out, all, [&](const void *from, void *to) {
      host.allToAll(from, to, bytes, label);
    });
  }

private:
  Pool::Block fetch(const void *in, size_t bytes) {
    Pool::Block block = pinned.take(bytes);
    if (!device::rehearses())
      device::copyToHost(block.get(), in, bytes);
    return block;
  }
  template <typename Call>
  void run(const void *in, size_t inBytes, void *out, size_t outBytes,
           Call call) {
    Pool::Block from = fetch(in, inBytes), to = pinned.take(outBytes);
    if (device::rehearses())
      return;
    call(from.get(), to.get());
    device::copyToDevice(out, to.get(), outBytes);
  }
  template <typename Call>
  Request begin(const void *in, size_t inBytes, void *out, size_t outBytes,
                Call call) {
    auto landing = std::make_unique<Landing>();
    landing->in = fetch(in, inBytes);
    landing->out = pinned.take(outBytes);
    landing->to = out;
    landing->bytes = outBytes;
    landing->request = call(landing->in.get(), landing->out.get());
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
    landing->in = pinned.take(bytes);
    device::copyToHost(landing->in.get(), data, bytes);
    landing->request = comm.isend(landing->in.get(), bytes, to, tag, label);
    return Request(std::move(landing));
  }
  Request irecv(void *data, size_t bytes, int from, int tag) override {
    auto landing = std::make_unique<Landing>();
    landing->out = pinned.take(bytes);
    landing->to = data;
    landing->bytes = bytes;
    landing->request = comm.irecv(landing->out.get(), bytes, from, tag);
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

protected:
  int tagLimit() const override { return comm.tagLimit(); }

private:
  Comm &comm;
  Pool pinned{Pool::Pinned};
  std::map<Group *, std::unique_ptr<StagedGroup>> groups;
};

} // namespace

std::shared_ptr<Fabric> makeStagedFabric(Comm &comm) {
  return std::make_shared<StagedFabric>(comm);
}

} // namespace dt::rt

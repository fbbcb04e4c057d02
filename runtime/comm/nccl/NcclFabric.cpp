//===- NcclFabric.cpp - device buffers over NCCL ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Who waits for whom on which stream, and why no circle can arise, says
// docs/cuda-ranks.md. In short: collectives that are waited for are
// work of the compute stream, or of the stream that the compiler put them on.
// Those of gradients have a stream a group, and nothing but the end of a step
// waits for them. Messages have a stream and a communicator a direction, and
// one order on all ranks.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/nccl/NcclFabric.h"
#include "runtime/comm/nccl/Link.h"
#include "runtime/comm/nccl/Room.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace dt::rt {

namespace {

ncclDataType_t ncclTypeOf(DType type) {
  switch (type) {
  case DType::BF16:
    return ncclBfloat16;
  case DType::F32:
    return ncclFloat32;
  case DType::F64:
    return ncclFloat64;
  case DType::I64:
    return ncclInt64;
  default:
    throw Error("ranks combine f32, f64, i64 or bf16");
  }
}

ncclRedOp_t ncclOpOf(Reduction kind) {
  return kind == Reduction::Sum   ? ncclSum
         : kind == Reduction::Max ? ncclMax
                                  : ncclMin;
}

class NcclGroup final : public FabricGroup {
public:
  NcclGroup(Comm &control, Links &links, Link &link)
      : control(control), links(links), link(link) {}
  int rank() const override { return link.rank; }
  int size() const override { return int(link.ranks.size()); }
  const std::vector<int> &ranks() const override { return link.ranks; }

  void allReduce(Reduction kind, DType type, const void *in, void *out,
                 int64_t n, const char *label) override {
    run(label, size_t(n) * sizeOf(type), reduce(kind, type, in, out, n));
  }
  Request iallReduce(Reduction kind, DType type, const void *in, void *out,
                     int64_t n, const char *label) override {
    return begin(label, size_t(n) * sizeOf(type),
                 reduce(kind, type, in, out, n));
  }
  void allGather(const void *in, size_t bytes, void *out,
                 const char *label) override {
    run(label, bytes, gather(in, bytes, out));
  }
  Request iallGather(const void *in, size_t bytes, void *out,
                     const char *label) override {
    return begin(label, bytes, gather(in, bytes, out));
  }
  void allGatherV(const void *in, void *out, const std::vector<size_t> &sizes,
                  const char *label) override {
    run(label, sizes[size_t(rank())], [&](cudaStream_t stream) {
      char *at = static_cast<char *>(out);
      return grouped(size(), [&](int r) {
        size_t bytes = sizes[size_t(r)];
        char *block = std::exchange(at, at + bytes);
        return bytes ? ncclBroadcast(r == rank() ? in : block, block, bytes,
                                     ncclChar, r, link.comm, stream)
                     : ncclSuccess;
      });
    });
  }
  void reduceScatter(DType type, const void *in, void *out, int64_t n,
                     const char *label) override {
    run(label, size_t(n) * sizeOf(type) * link.ranks.size(),
        scatter(type, in, out, n));
  }
  Request ireduceScatter(DType type, const void *in, void *out, int64_t n,
                         const char *label) override {
    return begin(label, size_t(n) * sizeOf(type) * link.ranks.size(),
                 scatter(type, in, out, n));
  }
  void allToAll(const void *in, void *out, size_t bytes,
                const char *label) override {
    run(label, bytes * link.ranks.size(), [&](cudaStream_t stream) {
      return grouped(bytes ? size() : 0, [&](int r) {
        size_t at = size_t(r) * bytes;
        ncclResult_t sent = ncclSend(static_cast<const char *>(in) + at, bytes,
                                     ncclChar, r, link.comm, stream);
        return sent == ncclSuccess
                   ? ncclRecv(static_cast<char *>(out) + at, bytes, ncclChar, r,
                              link.comm, stream)
                   : sent;
      });
    });
  }
  void shift(const void *in, void *out, size_t bytes,
             const char *label) override {
    run(label, bytes, [&](cudaStream_t stream) {
      int next = (rank() + 1) % size(),
          previous = (rank() + size() - 1) % size();
      return grouped(bytes ? 1 : 0, [&](int) {
        ncclResult_t sent =
            ncclSend(in, bytes, ncclChar, next, link.comm, stream);
        return sent == ncclSuccess
                   ? ncclRecv(out, bytes, ncclChar, previous, link.comm, stream)
                   : sent;
      });
    });
  }

private:
  /// The calls, for a stream.
  NcclCall reduce(Reduction kind, DType type, const void *in, void *out,
                  int64_t n) {
    return [=, this](cudaStream_t stream) {
      return ncclAllReduce(in, out, size_t(n), ncclTypeOf(type), ncclOpOf(kind),
                           link.comm, stream);
    };
  }
  NcclCall gather(const void *in, size_t bytes, void *out) {
    return [=, this](cudaStream_t stream) {
      return ncclAllGather(in, out, bytes, ncclChar, link.comm, stream);
    };
  }
  NcclCall scatter(DType type, const void *in, void *out, int64_t n) {
    return [=, this](cudaStream_t stream) {
      return ncclReduceScatter(in, out, size_t(n), ncclTypeOf(type), ncclSum,
                               link.comm, stream);
    };
  }
  void run(const char *label, size_t bytes, const NcclCall &call) {
    if (device::rehearses())
      return;
    control.count(label, bytes);
    links.run(link, links.collective(link, label), call);
  }
  Request begin(const char *label, size_t bytes, const NcclCall &call) {
    control.count(label, bytes);
    return links.begin(link, links.collective(link, label), call);
  }

  Comm &control;
  Links &links;
  Link &link;
};

class NcclFabric final : public Fabric {
public:
  NcclFabric(Comm &control, const LinkNeeds &needs)
      : control(control), shares(findRoom(control, needs)), links(control) {
    std::vector<int> all(size_t(control.size()));
    std::iota(all.begin(), all.end(), 0);
    for (bool gradient : {false, true}) {
      if (needs.messages[gradient].empty())
        continue;
      directions[gradient] =
          &links.make(all, watch(all), shares.messages, true);
      links.connectPairs(*directions[gradient], needs.messages[gradient]);
    }
  }
  int rank() const override { return control.rank(); }
  int size() const override { return control.size(); }
  bool isOrdered() const override { return true; }
  void *tpStream() override { return links.tpStream(); }

  Request isend(const void *data, size_t bytes, int to, int tag,
                const char *label) override {
    control.count(label, bytes);
    if (!bytes)
      return {};
    Link &link = directionOf(tag);
    return links.begin(
        link, {Awaited::Message, to, -1, 0, label}, [&](cudaStream_t stream) {
          return ncclSend(data, bytes, ncclChar, to, link.comm, stream);
        });
  }
  Request irecv(void *data, size_t bytes, int from, int tag) override {
    if (!bytes)
      return {};
    Link &link = directionOf(tag);
    return links.begin(
        link, {Awaited::Message, from, -1, 0, ""}, [&](cudaStream_t stream) {
          return ncclRecv(data, bytes, ncclChar, from, link.comm, stream);
        });
  }
  void poll() override { links.poll(); }
  void settle() override { links.settle(); }

  FabricGroup *group(const std::vector<int> &ranks,
                     const std::string &purpose) override {
    auto [known, fresh] = groups.try_emplace({purpose, ranks});
    std::unique_ptr<NcclGroup> &group = known->second;
    if (!fresh)
      return group.get();
    int number = watch(ranks);
    if (std::find(ranks.begin(), ranks.end(), rank()) != ranks.end())
      group = std::make_unique<NcclGroup>(
          control, links,
          links.make(ranks, number, shares.collectives, !purpose.empty()));
    return group.get();
  }
  Carrier carrier() const override { return Carrier::Nccl; }
  std::string describe() const override {
    int version = 0;
    ncclGetVersion(&version);
    return "NCCL " + std::to_string(version / 10000) + "." +
           std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
  }

private:
  Link &directionOf(int tag) const {
    Link *link = directions[isGradient(tag)];
    if (!link)
      throw Error("NCCL: a message that was not planned");
    return *link;
  }
  int watch(const std::vector<int> &ranks) {
    return ranks.size() > 1 ? control.watch(ranks) : -1;
  }

  Comm &control;
  LinkShares shares;
  Links links;
  Link *directions[2] = {}; ///< of messages: forward, gradients; null: none
  /// By purpose and members; null on ranks outside.
  std::map<std::pair<std::string, std::vector<int>>, std::unique_ptr<NcclGroup>>
      groups;
};

} // namespace

std::shared_ptr<Fabric> makeNcclFabric(Comm &comm, const LinkNeeds &needs) {
  return std::make_shared<NcclFabric>(comm, needs);
}

} // namespace dt::rt

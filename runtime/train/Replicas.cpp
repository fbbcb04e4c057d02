//===- Replicas.cpp - replicas that hold the same parameters --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/Replicas.h"
#include "runtime/base/Safetensors.h"
#include "runtime/comm/Agreement.h"
#include "runtime/device/Device.h"

#include <algorithm>
#include <map>

namespace dt::rt {

namespace {

using Hashes = std::vector<uint64_t>;

constexpr uint64_t kNothing = 0; ///< of what a rank does not hold

/// Of device memory, some at a time in `piece`.
uint64_t hashOf(const void *memory, size_t bytes, uint64_t hash,
                std::vector<std::byte> &piece) {
  if (device::isHost())
    return hashBytes(memory, bytes, hash);
  piece.resize(size_t(8) << 20);
  for (size_t at = 0; at < bytes; at += piece.size()) {
    size_t n = std::min(piece.size(), bytes - at);
    device::copyToHost(piece.data(),
                       static_cast<const std::byte *>(memory) + at, n);
    hash = hashBytes(piece.data(), n, hash);
  }
  return hash;
}

/// By row of the parameter table.
Hashes ownHashes(const Trainer &trainer) {
  const ProgramInfo &program = trainer.program();
  Hashes hashes(program.parameters.size, kNothing);
  std::vector<std::byte> piece;
  for (size_t i = 0; i < hashes.size(); ++i) {
    const ParameterInfo &p = program.parameters[i];
    size_t module = size_t(p.module);
    if (!trainer.placement().at(module).runs())
      continue;
    uint64_t hash = hashOf(trainer.regions().parameter(p),
                           partElements(p) * sizeOf(p.tensor.type),
                           hashBytes(nullptr, 0), piece);
    // Else replicas have a share of them each.
    if (trainer.ownership().hasMaster(i) && !program.modules[module].zero)
      for (const OwnedPiece &own : trainer.ownership().updatedPieces(i))
        hash = hashOf(trainer.regions().at(module).masters + own.moment,
                      size_t(own.end - own.begin) * sizeof(float), hash, piece);
    hashes[i] = hash;
  }
  return hashes;
}

/// Every rank's, in rank order.
std::vector<Hashes> gather(Comm &comm, const Hashes &mine) {
  size_t n = mine.size();
  Hashes all(n * size_t(comm.size()));
  comm.world().allGather(mine.data(), n * sizeof(uint64_t), all.data(),
                         "setup");
  std::vector<Hashes> out;
  for (size_t rank = 0; rank < size_t(comm.size()); ++rank)
    out.emplace_back(all.begin() + ptrdiff_t(rank * n),
                     all.begin() + ptrdiff_t((rank + 1) * n));
  return out;
}

std::string listOf(const std::vector<int> &ranks) {
  std::string text = ranks.size() > 1 ? "ranks " : "rank ";
  for (size_t i = 0; i < ranks.size(); ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

/// "rank 1 has other values than ranks 0, 2", by entry `at`; empty: peers have
/// the same. Those that most ranks have are taken for the right ones.
std::string difference(const std::vector<Hashes> &all, size_t at,
                       const std::vector<int> &peers) {
  std::map<uint64_t, std::vector<int>> holders;
  for (int rank : peers)
    holders[all[size_t(rank)][at]].push_back(rank);
  if (holders.size() == 1)
    return "";
  auto best = std::max_element(
      holders.begin(), holders.end(), [](const auto &a, const auto &b) {
        // Of equally many, those of the lowest rank.
        return std::make_pair(a.second.size(), -a.second[0]) <
               std::make_pair(b.second.size(), -b.second[0]);
      });
  std::vector<int> others;
  for (int rank : peers)
    if (all[size_t(rank)][at] != best->first)
      others.push_back(rank);
  std::sort(others.begin(), others.end());
  std::sort(best->second.begin(), best->second.end());
  return listOf(others) + (others.size() > 1 ? " have" : " has") +
         " other values than " + listOf(best->second);
}

/// Parameters that the same ranks hold.
struct Shared {
  size_t module;
  GradientGroup group;
  std::vector<size_t> parameters;
};

/// Of each module those that its groups add up, and all others.
std::vector<Shared> sharedOf(const Trainer &trainer) {
  const Ownership &ownership = trainer.ownership();
  std::vector<Shared> list;
  std::vector<size_t> first; // of each module
  for (size_t m = 0; m < trainer.program().modules.size; ++m) {
    first.push_back(list.size());
    for (const GradientGroup &group : ownership.groups(m))
      list.push_back({m, group, {}});
    list.push_back({m, {}, {}});
  }
  for (size_t p = 0; p < trainer.program().parameters.size; ++p) {
    auto m = size_t(trainer.program().parameters[p].module);
    list[first[m] + std::min(ownership.groupOf(p), ownership.groups(m).size())]
        .parameters.push_back(p);
  }
  return list;
}

/// Calls f(peers) for each set of ranks.
template <typename F>
void forPeers(const Trainer &trainer, const Shared &shared, F f) {
  const Placement &placement = trainer.placement();
  for (int32_t t = 0; t < placement.tp(shared.module); ++t)
    if (shared.group.isFirst(t))
      f(shared.group.members(placement, shared.module, t));
}

[[noreturn]] void fail(const Trainer &trainer, int64_t step,
                       const std::vector<Hashes> &all) {
  const ProgramInfo &program = trainer.program();
  std::string first;
  size_t more = 0;
  std::map<size_t, std::string> found; // in the table's order
  for (const Shared &shared : sharedOf(trainer))
    for (size_t i : shared.parameters)
      forPeers(trainer, shared, [&](const std::vector<int> &peers) {
        if (std::string wrong = difference(all, i, peers); !wrong.empty())
          found.emplace(i, wrong);
      });
  for (auto &[i, wrong] : found) {
    if (!first.empty())
      ++more;
    else
      first = "after step " + std::to_string(step) + " replicas of module '" +
              program.modules[program.parameters[i].module].name +
              "' differ: of '" + program.parameters[i].tensor.name + "' " +
              wrong;
  }
  if (more)
    first += ", and so of " + std::to_string(more) + " more";
  throw CommonError(first);
}

} // namespace

void expectEqualReplicas(const Trainer &trainer, int64_t step) {
  Hashes own = ownHashes(trainer);
  std::vector<Shared> list = sharedOf(trainer);
  // A number for each; all of them only where these differ.
  Hashes joined(list.size(), kNothing);
  for (size_t k = 0; k < list.size(); ++k)
    for (size_t i : list[k].parameters)
      joined[k] = hashBytes(&own[i], sizeof own[i], joined[k]);
  std::vector<Hashes> all = gather(trainer.comm(), joined);
  bool same = true;
  for (size_t k = 0; k < list.size(); ++k)
    forPeers(trainer, list[k], [&](const std::vector<int> &peers) {
      same = same && difference(all, k, peers).empty();
    });
  if (!same)
    fail(trainer, step, gather(trainer.comm(), own));
}

} // namespace dt::rt

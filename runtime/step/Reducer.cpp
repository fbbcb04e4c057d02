//===- Reducer.cpp - sums of gradients over ranks -------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/Reducer.h"
#include "runtime/base/Clock.h"
#include "runtime/device/Device.h"
#include "runtime/step/LinkPlan.h"

#include <algorithm>

namespace dt::rt {

namespace {

/// A float range's values in bf16, at the range's begin. Each call writes to
/// what is read no more: [n, 2n) narrow lies below [n, 2n) in float32.
void narrowInPlace(float *data, size_t count) {
  auto *narrow = reinterpret_cast<bf16 *>(data);
  for (size_t begin = 0, end = 1; begin < count; begin = end, end *= 2) {
    end = std::min(end, count);
    device::narrow(narrow + begin, data + begin, end - begin);
  }
}

/// The way back, from above.
void widenInPlace(float *data, size_t count) {
  auto *narrow = reinterpret_cast<const bf16 *>(data);
  for (size_t end = count; end > 0;) {
    size_t begin = end > 1; // the largest power of 2 below
    while (begin > 0 && 2 * begin < end)
      begin *= 2;
    device::widen(data + begin, narrow + begin, end - begin);
    end = begin;
  }
}

} // namespace

Reducer::Reducer(
    const ProgramInfo &program, const Placement &placement,
    const Ownership &ownership, const Regions &regions, Comm &comm,
    Fabric &fabric,
    const std::vector<std::shared_ptr<TensorParallel>> &tensorParallel)
    : program(program), placement(placement), ownership(ownership),
      regions(regions), comm(comm), fabric(fabric),
      tensorParallel(tensorParallel), groups(program.modules.size),
      updated(program.modules.size), begun(program.modules.size) {
  for (size_t p = 0; p < program.parameters.size; ++p)
    if (ownership.updated(p))
      updated[size_t(program.parameters[p].module)].push_back(p);
  for (size_t m = 0; m < program.modules.size; ++m) {
    labels.push_back(std::string("gradients ") + program.modules[m].name);
    parameterLabels.push_back(std::string("parameters ") +
                              program.modules[m].name);
    makeGroups(m);
  }
  makeTies();
}

/// All ranks construct all of them, in one order.
void Reducer::makeGroups(size_t m) {
  for (const GradientGroup &ranks : ownership.groups(m)) {
    groups[m].push_back(nullptr);
    if (ranks.size(placement, m) == 1)
      continue;
    for (int32_t t = 0; t < placement.tp(m); ++t) {
      if (!ranks.isFirst(t))
        continue;
      std::vector<int> members = ranks.members(placement, m, t);
      FabricGroup *group = fabric.group(members, labels[m]);
      if (std::count(members.begin(), members.end(), placement.rank()))
        groups[m].back() = group;
    }
  }
}

bool Reducer::reduces(size_t m) const {
  return std::any_of(groups[m].begin(), groups[m].end(),
                     [](const FabricGroup *group) { return group; });
}

/// Ranks with equal indices on the axes that cut the tensor hold the same part.
/// Its gradient counts once a replica: on the other axes (and ranks of a
/// whole-batch module) all have the same.
void Reducer::makeTies() {
  for (const TieGroup &tie : ownership.ties()) {
    const ParameterInfo &original = program.parameters[tie.rows[0]];
    for (auto &[part, ranks] : holdersOf(program, placement, tie)) {
      FabricGroup *group =
          ranks.size() > 1
              ? fabric.group(std::vector<int>(ranks.begin(), ranks.end()))
              : nullptr;
      std::vector<Tie::Copy> own;
      for (size_t row : tie.rows) {
        size_t m = size_t(program.parameters[row].module);
        const Placement::Place &place = placement.at(m);
        if (place.runs() && canonicalPlace(original.cuts, place.tp) == part)
          own.push_back(
              {row, part == place.tp && (place.replica == 0 ||
                                         !program.modules[m].wholeBatch)});
      }
      if (!own.empty())
        ties.push_back({group, std::move(own)});
    }
  }
}

void Reducer::beginStep() {
  std::fill(begun.begin(), begun.end(), Begun());
  running.clear();
  ended = 0;
  spent = 0;
}

GradientListener *Reducer::during(size_t m, bool last) {
  if (!reduces(m) || (!last && !device::isHost()))
    return nullptr;
  current = m;
  currentIsLast = last;
  return this;
}

void Reducer::ready(size_t, size_t end) {
  device::hostCall([this, end] { sumUpTo(end); });
}

void Reducer::sumUpTo(size_t end) {
  double cpu = threadSeconds() - comm.blocking().cpu;
  fabric.poll();
  if (currentIsLast)
    advance(current, ownership.gradientPlace(current, end));
  poll();
  spent += threadSeconds() - comm.blocking().cpu - cpu;
}

double Reducer::takeSpent() {
  double taken = spent;
  spent = 0;
  return taken;
}

void Reducer::begin(size_t m) {
  if (begun[m].all || !placement.at(m).runs())
    return;
  begun[m].all = true;
  size_t end = ownership.gradientPlace(m, program.modules[m].trainableBytes);
  advance(m, end);
  sumPartial(m, end);
}

/// Begins the buckets whose gradients, the first `complete` of the region, are
/// there.
void Reducer::advance(size_t m, size_t complete) {
  const std::vector<Bucket> &buckets = ownership.buckets(m);
  for (size_t &next = begun[m].buckets;
       next < buckets.size() && buckets[next].range.end() <= complete; ++next) {
    sumPartial(m, buckets[next].range.end());
    start(m, buckets[next]);
  }
}

void Reducer::start(size_t m, const Bucket &bucket) {
  const Region &region = regions.at(m);
  FabricGroup &group = *groups[m][bucket.group];
  std::byte *data =
      region.gradients + ownership.gradientBytes(m, bucket.range.begin);
  DType kept = bucket.range.gradient,
        sent = program.narrowSums ? DType::BF16 : kept;
  if (sent != kept)
    narrowInPlace(reinterpret_cast<float *>(data), bucket.range.count);
  Sum sum{
      m,   bucket.range.count * sizeOf(sent), now(), 0, {}, data, data, 0, sent,
      kept};
  if (bucket.scatter) {
    auto *block = reinterpret_cast<std::byte *>(region.sums + bucket.sum);
    sum.count = bucket.range.count / size_t(group.size());
    sum.to = data + size_t(group.rank()) * sum.count * sizeOf(kept);
    sum.from = block;
    sum.request = group.ireduceScatter(sent, data, block, int64_t(sum.count),
                                       labels[m].c_str());
  } else {
    sum.request =
        group.iallReduce(Reduction::Sum, sent, data, data,
                         int64_t(bucket.range.count), labels[m].c_str());
  }
  running.push_back(std::move(sum));
}

void Reducer::end(Sum &sum) {
  sum.request.wait();
  auto *wide = reinterpret_cast<float *>(sum.to);
  if (sum.sent == sum.kept)
    device::copy(sum.to, sum.from, sum.count * sizeOf(sum.kept));
  else if (sum.from != sum.to)
    device::widen(wide, reinterpret_cast<const bf16 *>(sum.from), sum.count);
  else
    widenInPlace(wide, sum.bytes / sizeof(bf16));
  sum.end = now();
}

void Reducer::poll() {
  while (ended < running.size() && running[ended].request.test())
    end(running[ended++]);
}

/// Of parameters that begin before `end`.
void Reducer::sumPartial(size_t m, size_t end) {
  size_t &next = begun[m].partial;
  while (next < updated[m].size() &&
         ownership.gradientPlace(
             m, program.parameters[updated[m][next]].gradient) < end) {
    PartialRun run = ownership.takePartialRun(updated[m], next, end);
    const ParameterInfo &first = program.parameters[run.first];
    std::byte *data = regions.gradient(first);
    for (const CutInfo &axis : ownership.summedBefore(run.first))
      collective(tensorParallel[m].get(),
                 {.kind = CollectiveKind::AllReduce,
                  .type = first.gradientType,
                  .chunk = int64_t(run.elements),
                  .over = axis.over,
                  .stride = axis.stride},
                 data, data);
  }
}

/// Copies have gradients in float32.
void Reducer::sumTie(const Tie &tie) const {
  auto gradientOf = [&](const Tie::Copy &copy) {
    return reinterpret_cast<float *>(
        regions.gradient(program.parameters[copy.parameter]));
  };
  size_t count = partElements(program.parameters[tie.copies[0].parameter]);
  float *sum = gradientOf(tie.copies[0]);
  if (!tie.copies[0].counts)
    device::zero(sum, count * sizeof(float));
  for (size_t i = 1; i < tie.copies.size(); ++i) {
    if (!tie.copies[i].counts)
      continue;
    device::accumulate(sum, gradientOf(tie.copies[i]), count);
  }
  if (tie.group)
    tie.group->allReduce(Reduction::Sum, DType::F32, sum, sum, int64_t(count),
                         "tied gradients");
  for (size_t i = 1; i < tie.copies.size(); ++i)
    device::copy(gradientOf(tie.copies[i]), sum, count * sizeof(float));
}

void Reducer::finish() {
  for (size_t m = 0; m < program.modules.size; ++m)
    begin(m);
  while (ended < running.size())
    end(running[ended++]);
  for (const Tie &tie : ties)
    sumTie(tie);
}

void Reducer::gatherParameters() {
  std::vector<Request> pending;
  for (size_t m = 0; m < program.modules.size; ++m) {
    for (const Bucket &bucket : ownership.buckets(m)) {
      if (!bucket.scatter)
        continue;
      FabricGroup &group = *groups[m][bucket.group];
      std::byte *data = regions.at(m).parameters + bucket.range.stored;
      size_t block =
          bucket.range.count / size_t(group.size()) * sizeOf(bucket.range.type);
      pending.push_back(group.iallGather(data + size_t(group.rank()) * block,
                                         block, data,
                                         parameterLabels[m].c_str()));
    }
  }
  waitAll(pending);
}

} // namespace dt::rt

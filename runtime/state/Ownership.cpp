//===- Ownership.cpp - which rank reduces, updates and saves what ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Ownership.h"
#include "runtime/base/Error.h"

#include <algorithm>
#include <map>
#include <string>

namespace dt::rt {

namespace {

constexpr size_t kLine = 64; ///< bytes, the unit of offsets

size_t roundUp(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

} // namespace

size_t partElements(const ParameterInfo &p) {
  size_t count = 1;
  for (int32_t i = 0; i < p.tensor.rank; ++i)
    count *= size_t(p.tensor.shape[i].offset);
  return count;
}

PartMatrix partMatrix(const ParameterInfo &p) {
  PartMatrix part{1, 1, 1};
  for (int32_t i = 0; i < p.tensor.rank; ++i)
    (i == p.tensor.rank - 1   ? part.columns
     : i == p.tensor.rank - 2 ? part.rows
                              : part.matrices) *=
        size_t(p.tensor.shape[i].offset);
  return part;
}

Ownership::Ownership(const ProgramInfo &program, const Placement &placement)
    : program(program), placement(placement),
      kind(describe(program.optimizer.kind)), modules(program.modules.size),
      narrowBytes(program.modules.size), pieces(program.parameters.size),
      factorPlaces(program.parameters.size), isUpdated(program.parameters.size),
      isTied(program.parameters.size), originals(program.parameters.size),
      groupIndex(program.parameters.size, kNoGroup),
      earlier(program.parameters.size) {
  for (const ParameterInfo &p : program.parameters)
    if (p.trainable && p.tensor.type != DType::F32 &&
        p.tensor.type != DType::BF16)
      throw Error(std::string("parameter '") + p.tensor.name + "' trains as " +
                  textOf(p.tensor.type) + ", expected F32 or BF16");
  for (const ParameterInfo &p : program.parameters)
    if (p.trainable && p.gradientType != DType::F32) {
      size_t &end = narrowBytes[size_t(p.module)];
      end = std::max(
          end, roundUp(p.gradient + partElements(p) * sizeof(bf16), kLine));
    }
  findTies();
  for (size_t p = 0; p < program.parameters.size; ++p)
    findGroup(p);
  for (size_t m = 0; m < program.modules.size; ++m)
    if (placement.at(m).runs())
      planModule(m);
  for (size_t p = 0; p < program.parameters.size; ++p)
    findOwned(p);
}

FloatRange Ownership::rangeOf(size_t p) const {
  const ParameterInfo &info = program.parameters[p];
  return {gradientPlace(size_t(info.module), info.gradient), partElements(info),
          info.tensor.type, info.offset, info.gradientType};
}

bool Ownership::hasMaster(size_t p) const {
  return isUpdated[p] && program.parameters[p].tensor.type != DType::F32;
}

/// As many elements as fill a line of the narrowest type that trains.
size_t Ownership::findStep(size_t m) const {
  size_t narrowest = sizeof(float);
  for (const ParameterInfo &p : program.parameters)
    if (size_t(p.module) == m && p.trainable)
      narrowest = std::min(narrowest, sizeOf(p.tensor.type));
  return kLine / narrowest;
}

void Ownership::findTies() {
  std::map<size_t, TieGroup> groups;
  for (size_t p = 0; p < originals.size(); ++p) {
    size_t root = p;
    for (size_t hops = 0; program.parameters[root].tied >= 0; ++hops) {
      if (hops > originals.size() ||
          size_t(program.parameters[root].tied) >= originals.size())
        throw Error(std::string("parameter '") +
                    program.parameters[p].tensor.name +
                    "' is tied in a circle");
      root = size_t(program.parameters[root].tied);
    }
    originals[p] = root;
    if (root == p)
      continue;
    TieGroup &group = groups[root];
    if (group.rows.empty())
      group.rows.push_back(root);
    group.rows.push_back(p);
  }
  for (size_t p = 0; p < originals.size(); ++p)
    isUpdated[p] =
        program.parameters[p].trainable && program.parameters[p].hasGradient;
  for (auto &[root, group] : groups) {
    bool any = std::any_of(group.rows.begin(), group.rows.end(),
                           [&](size_t p) { return isUpdated[p]; });
    for (size_t p : group.rows) {
      isTied[p] = true;
      isUpdated[p] = any;
      if (any && !program.parameters[p].trainable)
        throw Error(std::string("parameter '") +
                    program.parameters[p].tensor.name +
                    "': a copy of it trains, it does not");
      if (any && program.parameters[p].gradientType != DType::F32)
        throw Error(
            std::string("parameter '") + program.parameters[p].tensor.name +
            "': it has copies and a gradient in " +
            textOf(program.parameters[p].gradientType) + ", expected F32");
    }
    if (any)
      tieGroups.push_back(std::move(group));
  }
}

/// Copies are summed over all their ranks by themselves, after partial sums.
void Ownership::findGroup(size_t p) {
  const ParameterInfo &info = program.parameters[p];
  if (!isUpdated[p])
    return;
  if (isTied[p] || program.modules[size_t(info.module)].wholeBatch) {
    earlier[p].assign(info.partial.begin(), info.partial.end());
    return;
  }
  PartialAxes axes = partialAxes(info);
  earlier[p] = axes.others;
  std::vector<GradientGroup> &groups = modules[size_t(info.module)].groups;
  auto known = std::find_if(groups.begin(), groups.end(), [&](auto &group) {
    return group.axes == axes.tokens;
  });
  groupIndex[p] = size_t(known - groups.begin());
  if (known == groups.end())
    groups.push_back({axes.tokens});
}

/// Neighbouring parameters whose gradients go the same way are one run; padding
/// between them is zero everywhere and stays zero.
void Ownership::planModule(size_t m) {
  Module &out = modules[m];
  out.step = findStep(m);
  struct Run {
    FloatRange range;
    size_t group;
  };
  std::vector<Run> runs;
  std::vector<FloatRange> updated;
  std::vector<size_t> ends; // of parameters, ascending
  for (size_t p = 0; p < program.parameters.size; ++p) {
    if (size_t(program.parameters[p].module) != m || !isUpdated[p])
      continue;
    FloatRange range = rangeOf(p);
    if (groupIndex[p] == kNoGroup) {
      updated.push_back(range);
      continue;
    }
    range.count = std::min(roundUp(range.count, out.step),
                           gradientPlace(m, program.modules[m].trainableBytes) -
                               range.begin);
    ends.push_back(range.end());
    if (!runs.empty() && runs.back().group == groupIndex[p] &&
        runs.back().range.end() == range.begin &&
        runs.back().range.goesOnIn(range))
      runs.back().range.count += range.count;
    else
      runs.push_back({range, groupIndex[p]});
  }
  for (const Run &run : runs) {
    std::vector<FloatRange> own = reduceRun(out, m, run.group, run.range, ends);
    updated.insert(updated.end(), own.begin(), own.end());
  }
  std::sort(updated.begin(), updated.end(),
            [](auto &a, auto &b) { return a.begin < b.begin; });
  addUpdates(out, m, updated);
  placeFactors(out, m);
}

/// Buckets of a run; returns what this rank updates of it. A bucket ends where
/// a parameter does, so that it need not wait for a part of the next one; with
/// blocks, at the last whole line of every rank before that.
std::vector<FloatRange>
Ownership::reduceRun(Module &out, size_t m, size_t group, FloatRange run,
                     const std::vector<size_t> &ends) const {
  size_t ranks = size_t(out.groups[group].size(placement, m)),
         place = size_t(out.groups[group].place(placement.at(m)));
  if (ranks == 1)
    return {run};
  bool zero = program.modules[m].zero > 0;
  size_t unit = zero ? out.step * ranks : out.step; // blocks: whole lines
  size_t most =
      std::max(unit, program.bucketBytes / sizeOf(run.gradient) / unit * unit);
  std::vector<FloatRange> own;
  for (size_t at = run.begin; at < run.end();) {
    size_t limit = std::min(at + most, run.end());
    auto next = std::upper_bound(ends.begin(), ends.end(), limit);
    size_t end = next == ends.begin() ? at : *std::prev(next);
    size_t count = end > at ? end - at : 0;
    if (zero && run.end() - at >= unit)
      count = count / unit * unit; // the rest begins the next bucket
    if (count == 0)                // a parameter larger than a bucket
      count = limit - at;
    if (zero && count >= unit)
      count = count / unit * unit;
    Bucket bucket{group, run.part(at, count), zero && count % unit == 0,
                  out.sumFloats};
    out.buckets.push_back(bucket);
    if (bucket.scatter)
      out.scattered.push_back(bucket.range);
    size_t block = count / ranks;
    out.sumFloats +=
        bucket.scatter ? block * sizeOf(run.gradient) / sizeof(float) : 0;
    own.push_back(bucket.scatter ? run.part(at + place * block, block)
                                 : bucket.range);
    at += count;
  }
  return own;
}

/// Cuts ranges where the rule or the type changes and gives each its place
/// among the moments.
void Ownership::addUpdates(Module &out, size_t m,
                           const std::vector<FloatRange> &ranges) {
  size_t next = 0; // parameters and ranges both ascend
  std::vector<size_t> rows;
  for (size_t p = 0; p < program.parameters.size; ++p)
    if (size_t(program.parameters[p].module) == m && isUpdated[p])
      rows.push_back(p);
  for (const FloatRange &range : ranges) {
    while (next < rows.size() &&
           roundUp(rangeOf(rows[next]).end(), out.step) <= range.begin)
      ++next;
    for (size_t i = next; i < rows.size(); ++i) {
      FloatRange parameter = rangeOf(rows[i]);
      size_t begin = std::max(range.begin, parameter.begin),
             end = std::min(range.end(), parameter.end());
      if (parameter.begin >= range.end())
        break;
      if (begin >= end)
        continue;
      const ParameterInfo &p = program.parameters[originals[rows[i]]];
      addRange(out, parameter.part(begin, end - begin),
               {p.decay, p.lrFactor, p.weightDecay, p.matrix, p.routingRate});
    }
  }
}

/// Behind the last one, as a part of it if it goes on there.
void Ownership::addRange(Module &out, FloatRange part, const UpdateRule &rule) {
  std::vector<UpdateRange> &list = out.updates;
  UpdateRange *last = list.empty() ? nullptr : &list.back();
  size_t from = 0; // of the range's elements
  if (last && last->rule == rule &&
      roundUp(last->range.end(), out.step) == part.begin &&
      last->range.goesOnIn(part)) {
    from = part.begin - last->range.begin;
    last->range.count = from + part.count;
  } else {
    list.push_back({part, rule, out.momentFloats, out.keptFloats});
    last = &list.back();
  }
  out.momentFloats = roundUp(last->moment + from + part.count, out.step);
  for (size_t k = 0; k < kMostMoments; ++k)
    if (kind.shapes.empty())
      last->kept.at[k] = last->moment;
    else if (k < kind.shapes.size &&
             kind.shapeOf(k, rule.matrix) == MomentShape::Elements)
      out.keptFloats.at[k] =
          roundUp(last->kept.at[k] + from + part.count, out.step);
  if (part.type != DType::F32)
    out.masterFloats = out.momentFloats;
}

void Ownership::placeFactors(Module &out, size_t m) {
  for (size_t p = 0; p < program.parameters.size; ++p) {
    if (size_t(program.parameters[p].module) != m || !isUpdated[p])
      continue;
    PartMatrix part = partMatrix(program.parameters[p]);
    for (size_t k = 0; k < kind.shapes.size; ++k) {
      MomentShape shape = momentShape(p, k);
      if (shape != MomentShape::Rows && shape != MomentShape::Columns)
        continue;
      factorPlaces[p].at[k] = out.keptFloats.at[k];
      out.keptFloats.at[k] +=
          roundUp(part.matrices *
                      (shape == MomentShape::Rows ? part.rows : part.columns),
                  out.step);
    }
  }
}

bool Ownership::isRouting(size_t p) const {
  return program.parameters[originals[p]].routingRate >= 0;
}

bool Ownership::isMatrix(size_t p) const {
  return program.parameters[originals[p]].matrix;
}

/// The first of ascending ranges that ends behind a place.
template <typename Range, typename End>
static auto firstBehind(const std::vector<Range> &ranges, size_t at, End end) {
  return std::upper_bound(
      ranges.begin(), ranges.end(), at,
      [&](size_t value, const Range &range) { return value < end(range); });
}

static auto firstBehind(const std::vector<FloatRange> &ranges, size_t at) {
  return firstBehind(ranges, at,
                     [](const FloatRange &range) { return range.end(); });
}

bool Ownership::spread(size_t p) const {
  FloatRange range = rangeOf(p);
  const std::vector<FloatRange> &shared =
      modules[size_t(program.parameters[p].module)].scattered;
  auto next = firstBehind(shared, range.begin);
  return next != shared.end() && next->begin < range.end();
}

/// A merged update may hold blocks of several buckets: each bucket's share is
/// looked at on its own.
std::vector<OwnedPiece> Ownership::updatedPieces(size_t p) const {
  const ParameterInfo &info = program.parameters[p];
  size_t m = size_t(info.module);
  std::vector<OwnedPiece> list;
  if (!placement.at(m).runs() || !isUpdated[p])
    return list;
  FloatRange range = rangeOf(p);
  const std::vector<FloatRange> &shared = modules[m].scattered;
  const std::vector<UpdateRange> &updates = modules[m].updates;
  const Placement::Place &place = placement.at(m);
  bool first = groupIndex[p] == kNoGroup
                   ? place.replica == 0
                   : modules[m].groups[groupIndex[p]].place(place) == 0;
  auto update = firstBehind(updates, range.begin,
                            [](const UpdateRange &u) { return u.range.end(); });
  for (; update != updates.end() && update->range.begin < range.end();
       ++update) {
    size_t begin = std::max(update->range.begin, range.begin),
           end = std::min(update->range.end(), range.end());
    auto next = firstBehind(shared, begin);
    for (size_t at = begin; at < end;) {
      next = std::find_if(next, shared.end(),
                          [&](const FloatRange &s) { return s.end() > at; });
      bool isShared = next != shared.end() && next->begin <= at;
      size_t stop = end, from = at - update->range.begin;
      if (next != shared.end())
        stop = std::min(stop, isShared ? next->end() : next->begin);
      OwnedPiece piece{int64_t(at - range.begin), int64_t(stop - range.begin),
                       update->moment + from, update->kept, isShared || first};
      for (size_t &place : piece.kept.at)
        place += from;
      if (!list.empty() && list.back().end == piece.begin &&
          list.back().counts == piece.counts &&
          list.back().moment + size_t(piece.begin - list.back().begin) ==
              piece.moment)
        list.back().end = piece.end;
      else
        list.push_back(piece);
      at = stop;
    }
  }
  return list;
}

void Ownership::findOwned(size_t p) {
  const ParameterInfo &info = program.parameters[p];
  size_t m = size_t(info.module);
  const Placement::Place &place = placement.at(m);
  int64_t inGroup = 0; // of the place what axes of its group say
  if (groupIndex[p] != kNoGroup)
    for (auto [over, stride] : modules[m].groups[groupIndex[p]].axes)
      inGroup += place.tp / stride % over * stride;
  if (originals[p] != p || !place.runs() ||
      canonicalPlace(info.cuts, place.tp) + inGroup != place.tp)
    return;
  // Without a gradient, and where all ranks update alike: the first.
  if (!isUpdated[p]) {
    if (place.replica == 0)
      pieces[p].push_back({0, int64_t(partElements(info)), 0});
    return;
  }
  for (const OwnedPiece &piece : updatedPieces(p))
    if (piece.counts)
      pieces[p].push_back(piece);
}

static bool sameAxes(const std::vector<CutInfo> &a,
                     const std::vector<CutInfo> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const CutInfo &x, const CutInfo &y) {
                      return x.over == y.over && x.stride == y.stride;
                    });
}

PartialRun Ownership::takePartialRun(const std::vector<size_t> &rows,
                                     size_t &next, size_t end) const {
  size_t first = rows[next], last = first,
         step = modules[size_t(program.parameters[first].module)].step;
  auto begin = [&](size_t p) { return rangeOf(p).begin; };
  auto padded = [&](size_t p) { return roundUp(rangeOf(p).end(), step); };
  while (++next < rows.size()) {
    size_t p = rows[next];
    if (begin(p) >= end || begin(p) != padded(last) ||
        program.parameters[p].gradientType !=
            program.parameters[first].gradientType ||
        !sameAxes(earlier[p], earlier[first]))
      break;
    last = p;
  }
  return {first, padded(last) - begin(first)};
}

std::map<int64_t, std::set<int>> holdersOf(const ProgramInfo &program,
                                           const Placement &placement,
                                           const TieGroup &tie) {
  const ParameterInfo &original = program.parameters[tie.rows[0]];
  std::map<int64_t, std::set<int>> holders;
  for (size_t row : tie.rows) {
    size_t m = size_t(program.parameters[row].module);
    for (int32_t d = 0; d < placement.replicas(m); ++d)
      for (int32_t t = 0; t < placement.tp(m); ++t)
        holders[canonicalPlace(original.cuts, t)].insert(
            placement.rankOf(m, d, t));
  }
  return holders;
}

} // namespace dt::rt

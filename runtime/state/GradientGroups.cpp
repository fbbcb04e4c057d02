//===- GradientGroups.cpp - ranks that add up gradients -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/GradientGroups.h"

namespace dt::rt {

int64_t GradientGroup::size(const Placement &placement, size_t module) const {
  int64_t ranks = placement.replicas(module);
  for (auto [over, stride] : axes)
    ranks *= over;
  return ranks;
}

std::vector<int> GradientGroup::members(const Placement &placement,
                                        size_t module, int64_t tp) const {
  std::vector<int64_t> places{tp};
  for (auto [over, stride] : axes) {
    std::vector<int64_t> more;
    for (int64_t i = 0; i < over; ++i)
      for (int64_t at : places)
        more.push_back(at + (i - at / stride % over) * stride);
    places = std::move(more);
  }
  std::vector<int> ranks;
  for (int32_t d = 0; d < placement.replicas(module); ++d)
    for (int64_t at : places)
      ranks.push_back(placement.rankOf(module, d, int32_t(at)));
  return ranks;
}

int64_t GradientGroup::place(const Placement::Place &at) const {
  int64_t place = 0, ranks = 1; // the first axis is the innermost
  for (auto [over, stride] : axes) {
    place += at.tp / stride % over * ranks;
    ranks *= over;
  }
  return at.replica * ranks + place;
}

bool GradientGroup::isFirst(int64_t tp) const {
  return place({0, int32_t(tp)}) == 0;
}

PartialAxes partialAxes(const ParameterInfo &parameter) {
  PartialAxes axes;
  for (const CutInfo &axis : parameter.partial)
    if (axis.over > 1 && axis.dim == kTokenAxis)
      axes.tokens.insert({axis.over, axis.stride});
    else if (axis.over > 1)
      axes.others.push_back(axis);
  return axes;
}

} // namespace dt::rt

//===- ParameterValues.cpp - what parameters are in files -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/ParameterValues.h"
#include "runtime/device/Device.h"

#include <algorithm>

namespace dt::rt {

DType ParameterValues::type(size_t p) const {
  return ownership.hasMaster(p) ? DType::F32
                                : program.parameters[p].tensor.type;
}

ParameterLayout ParameterValues::layout(size_t p) const {
  const ParameterInfo &info = program.parameters[p];
  return ParameterLayout(info, placement.at(size_t(info.module)).tp);
}

const void *ParameterValues::at(size_t p, const OwnedPiece &piece) const {
  const ParameterInfo &info = program.parameters[p];
  if (ownership.hasMaster(p))
    return regions.at(size_t(info.module)).masters + piece.moment;
  return regions.parameter(info) +
         size_t(piece.begin) * sizeOf(info.tensor.type);
}

void ParameterValues::forUpdates(
    size_t p, const std::function<void(int64_t, int64_t, size_t)> &f) const {
  const ParameterInfo &info = program.parameters[p];
  size_t first = info.gradient / sizeof(float),
         last = first + partElements(info);
  if (!ownership.updated(p))
    return;
  for (const UpdateRange &u : ownership.updates(size_t(info.module))) {
    size_t begin = std::max(u.range.begin, first),
           end = std::min(u.range.end(), last);
    if (begin < end)
      f(int64_t(begin - first), int64_t(end - first),
        u.moment + (begin - u.range.begin));
  }
}

const void *ParameterValues::averageAt(size_t p,
                                       const OwnedPiece &piece) const {
  const float *average =
      regions.at(size_t(program.parameters[p].module)).average;
  return average && ownership.updated(p) ? average + piece.moment
                                         : at(p, piece);
}

/// What the optimizer keeps of the parameter's part.
void ParameterValues::writeKept(size_t p, float *kept,
                                const float *values) const {
  forUpdates(p, [&](int64_t begin, int64_t end, size_t moment) {
    device::copyToDevice(kept + moment, values + begin,
                         size_t(end - begin) * sizeof(float));
  });
}

void ParameterValues::write(size_t p, const void *part) const {
  const ParameterInfo &info = program.parameters[p];
  const Region &region = regions.at(size_t(info.module));
  size_t count = partElements(info);
  if (region.average)
    writeKept(p, region.average, static_cast<const float *>(part));
  if (!ownership.hasMaster(p))
    return device::copyToDevice(regions.parameter(info), part,
                                count * sizeOf(info.tensor.type));
  auto *values = static_cast<const float *>(part);
  std::vector<bf16> rounded(count);
  for (size_t i = 0; i < count; ++i)
    rounded[i] = values[i];
  device::copyToDevice(regions.parameter(info), rounded.data(),
                       count * sizeof(bf16));
  writeKept(p, region.masters, values);
}

} // namespace dt::rt

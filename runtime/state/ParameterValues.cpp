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

/// The axis that is summed over, from the end.
static int64_t droppedAxis(MomentShape shape) {
  return shape == MomentShape::Rows ? 1 : 2;
}

std::vector<CutInfo> ParameterValues::factorCuts(size_t p,
                                                 MomentShape shape) const {
  const ParameterInfo &info = program.parameters[p];
  int64_t axis = info.tensor.rank - droppedAxis(shape);
  std::vector<CutInfo> cuts;
  for (CutInfo cut : info.cuts)
    if (cut.dim != axis) {
      cut.dim -= cut.dim > axis;
      cuts.push_back(cut);
    }
  return cuts;
}

ParameterLayout ParameterValues::factorLayout(size_t p,
                                              MomentShape shape) const {
  ParameterLayout all = layout(p);
  auto without = [&](std::vector<int64_t> dims) {
    dims.erase(dims.end() - droppedAxis(shape));
    return dims;
  };
  int64_t tp = placement.at(size_t(program.parameters[p].module)).tp;
  std::vector<ParameterLayout::Cut> cuts;
  for (const CutInfo &cut : factorCuts(p, shape))
    cuts.push_back({cut.dim, cut.chunk, cut.over, placeOn(cut, tp)});
  return {without(all.whole()), without(all.padded()), std::move(cuts),
          std::string("a mean of parameter '") +
              program.parameters[p].tensor.name + "'"};
}

bool ParameterValues::ownsFactors(size_t p, MomentShape shape) const {
  const Placement::Place &place =
      placement.at(size_t(program.parameters[p].module));
  std::vector<CutInfo> cuts = factorCuts(p, shape);
  return ownership.original(p) == p && place.runs() && place.replica == 0 &&
         canonicalPlace({cuts.data(), cuts.size()}, place.tp) == place.tp;
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
  for (const OwnedPiece &piece : ownership.updatedPieces(p))
    device::copyToDevice(kept + piece.moment, values + piece.begin,
                         size_t(piece.end - piece.begin) * sizeof(float));
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

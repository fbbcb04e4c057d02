//===- ParameterLayout.cpp - a rank's part of a parameter in the whole ----===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/ParameterLayout.h"
#include "runtime/base/Error.h"
#include "runtime/state/Placement.h"

#include <algorithm>
#include <cstring>

namespace dt::rt {

namespace {

std::vector<int64_t> ownShape(const ParameterInfo &p) {
  std::vector<int64_t> shape;
  for (int32_t i = 0; i < p.tensor.rank; ++i)
    shape.push_back(p.tensor.shape[i].offset);
  return shape;
}

std::vector<int64_t> list(const Span<int64_t> &span,
                          const std::vector<int64_t> &otherwise) {
  return span.empty() ? otherwise
                      : std::vector<int64_t>(span.begin(), span.end());
}

} // namespace

int64_t ParameterLayout::count(const std::vector<int64_t> &shape) {
  int64_t elements = 1;
  for (int64_t extent : shape)
    elements *= extent;
  return elements;
}

ParameterLayout::ParameterLayout(const ParameterInfo &p, int64_t tp) {
  std::string where = std::string("parameter '") + p.tensor.name + "'";
  paddedShape = list(p.whole, ownShape(p));
  wholeShape = list(p.unpadded, paddedShape);
  for (const CutInfo &cut : p.cuts)
    cutList.push_back({cut.dim, cut.chunk, cut.over, placeOn(cut, tp)});
  prepare(where);
  if (partShape != ownShape(p))
    throw Error(where + ": its cuts do not give the shape in the table");
}

ParameterLayout::ParameterLayout(std::vector<int64_t> whole,
                                 std::vector<int64_t> padded,
                                 std::vector<Cut> cuts,
                                 const std::string &where)
    : wholeShape(std::move(whole)), paddedShape(std::move(padded)),
      cutList(std::move(cuts)) {
  prepare(where);
}

void ParameterLayout::prepare(const std::string &where) {
  auto fail = [&] { throw Error(where + ": its cuts do not fit its shape"); };
  if (wholeShape.size() != paddedShape.size())
    fail();
  partShape = paddedShape;
  // Index of every element of the part along each dim, in the padded whole.
  std::vector<std::vector<int64_t>> index(partShape.size());
  for (size_t d = 0; d < partShape.size(); ++d) {
    if (wholeShape[d] < 0 || wholeShape[d] > paddedShape[d])
      fail();
    index[d].resize(size_t(partShape[d]));
    for (int64_t i = 0; i < partShape[d]; ++i)
      index[d][size_t(i)] = i;
  }
  for (const Cut &cut : cutList) {
    if (cut.dim < 0 || cut.dim >= int64_t(partShape.size()) || cut.over < 1 ||
        cut.chunk < 1 || cut.place < 0 || cut.place >= cut.over ||
        cut.over > partShape[size_t(cut.dim)] / cut.chunk ||
        partShape[size_t(cut.dim)] % (cut.over * cut.chunk))
      fail();
    std::vector<int64_t> &whole = index[size_t(cut.dim)], own;
    for (int64_t o = 0; o < int64_t(whole.size()); o += cut.over * cut.chunk)
      for (int64_t c = 0; c < cut.chunk; ++c)
        own.push_back(whole[size_t(o + cut.place * cut.chunk + c)]);
    whole = std::move(own);
    partShape[size_t(cut.dim)] /= cut.over;
  }
  partStride.assign(partShape.size(), 1);
  wholeStride = partStride;
  for (size_t d = partShape.size(); d-- > 1;) {
    partStride[d - 1] = partStride[d] * partShape[d];
    wholeStride[d - 1] = wholeStride[d] * wholeShape[d];
  }
  pieces.resize(partShape.size());
  for (size_t d = 0; d < partShape.size(); ++d)
    for (int64_t i = 0; i < partShape[d]; ++i) {
      int64_t at = index[d][size_t(i)];
      if (at >= wholeShape[d])
        continue;
      std::vector<Run> &list = pieces[d];
      if (!list.empty() && list.back().part + list.back().count == i &&
          list.back().whole + list.back().count == at)
        ++list.back().count;
      else
        list.push_back({i, at, 1});
    }
  // A cut of a padded dim may give its length in files again: look at places.
  auto same = [&](size_t d) {
    return partShape[d] == wholeShape[d] &&
           (partShape[d] == 0 ||
            (pieces[d].size() == 1 && pieces[d][0].count == partShape[d]));
  };
  flat = partShape.size();
  while (flat > 0 && same(flat - 1))
    --flat;
}

/// The part's elements [begin, end) that lie below index prefix (part, whole).
void ParameterLayout::append(std::vector<Run> &out, size_t dim, int64_t part,
                             int64_t whole, int64_t begin, int64_t end) const {
  auto emit = [&](int64_t p, int64_t w, int64_t n) {
    int64_t from = std::max(p, begin), to = std::min(p + n, end);
    if (from >= to)
      return;
    w += from - p;
    if (!out.empty() && out.back().part + out.back().count == from &&
        out.back().whole + out.back().count == w)
      out.back().count += to - from;
    else
      out.push_back({from, w, to - from});
  };
  // Dims from `flat` on are the same in both, so a piece of the dim before is
  // one block.
  if (dim >= flat || dim + 1 == flat || dim == partShape.size()) {
    if (dim >= flat)
      return emit(part, whole, dim == 0 ? partElements() : partStride[dim - 1]);
    for (const Run &piece : pieces[dim])
      emit(part + piece.part * partStride[dim],
           whole + piece.whole * wholeStride[dim],
           piece.count * partStride[dim]);
    return;
  }
  for (const Run &piece : pieces[dim])
    for (int64_t i = 0; i < piece.count; ++i) {
      int64_t p = part + (piece.part + i) * partStride[dim];
      if (p < end && p + partStride[dim] > begin)
        append(out, dim + 1, p, whole + (piece.whole + i) * wholeStride[dim],
               begin, end);
    }
}

std::vector<ParameterLayout::Run> ParameterLayout::runs(int64_t begin,
                                                        int64_t end) const {
  std::vector<Run> out;
  if (begin < end && wholeElements() > 0)
    append(out, 0, 0, 0, begin, end);
  return out;
}

void ParameterLayout::extract(const void *whole, void *part,
                              size_t size) const {
  if (!identity())
    std::memset(part, 0, size_t(partElements()) * size);
  for (const Run &run : runs())
    std::memcpy(static_cast<char *>(part) + size_t(run.part) * size,
                static_cast<const char *>(whole) + size_t(run.whole) * size,
                size_t(run.count) * size);
}

} // namespace dt::rt

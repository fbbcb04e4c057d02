//===- OutputRows.cpp - rows of parts in the batch's outputs --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/OutputRows.h"
#include "runtime/data/Padding.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace dt::rt {

std::vector<Extent> wholeExtents(const BufferInfo &output, bool padded) {
  const TensorInfo &tensor = output.tensor;
  std::vector<Extent> extents(tensor.shape, tensor.shape + tensor.rank);
  for (const CutInfo &cut : output.cuts) {
    Extent &extent = extents[size_t(cut.dim)];
    extent.scale *= cut.over, extent.offset *= cut.over;
    int64_t common = std::gcd(extent.scale, extent.per);
    extent.scale /= common, extent.per /= common;
  }
  for (size_t i = 0; i < output.unpadded.size && !padded; ++i)
    if (output.unpadded[i] >= 0)
      extents[i] = {0, -1, output.unpadded[i]};
  return extents;
}

std::vector<int64_t> wholeShape(const BufferInfo &output, const int64_t *dims,
                                bool padded) {
  std::vector<Extent> extents = wholeExtents(output, padded);
  TensorInfo whole = output.tensor;
  whole.shape = extents.data();
  return shapeOf(whole, dims);
}

bool hasPadding(const TensorInfo &tensor, const ModuleInfo &module) {
  return std::any_of(
      tensor.shape, tensor.shape + tensor.rank, [&](const Extent &e) {
        return e.symbol >= 0 && module.symbols[size_t(e.symbol)].multiple > 1;
      });
}

void findRows(const Part &part, size_t symbol, std::vector<int64_t> &first,
              std::vector<int64_t> &rows) {
  const Items &items = part.items[symbol];
  first = items;
  rows.assign(items.size(), 1);
  const std::vector<int64_t> *measure = part.rows(symbol).measure;
  if (!measure)
    return;
  std::vector<int64_t> begins(measure->size());
  std::exclusive_scan(measure->begin(), measure->end(), begins.begin(),
                      int64_t(0));
  for (size_t i = 0; i < items.size(); ++i) {
    first[i] = begins[size_t(items[i])];
    rows[i] = (*measure)[size_t(items[i])];
  }
  if (int64_t padding = paddingOf(part, symbol))
    first.push_back(-1), rows.push_back(padding);
}

void OutputRows::place(const std::vector<int64_t> &first,
                       const std::vector<int64_t> &rows, size_t begin,
                       const std::byte *from, size_t count) {
  std::vector<int64_t> ends(rows.size());
  std::partial_sum(rows.begin(), rows.end(), ends.begin());
  size_t total = bytes.size() / std::max<size_t>(outer, 1),
         own = ends.empty() ? 0 : size_t(ends.back()) * unit;
  while (count > 0 && own > 0) {
    size_t at = begin % own;
    auto i =
        size_t(std::upper_bound(ends.begin(), ends.end(), int64_t(at / unit)) -
               ends.begin());
    size_t step = std::min(count, size_t(ends[i]) * unit - at),
           in = at - size_t(ends[i] - rows[i]) * unit,
           to = begin / own * total + size_t(first[i]) * unit + in;
    if (first[i] >= 0 && size_t(first[i]) * unit + in + step <= total &&
        to + step <= bytes.size())
      std::memcpy(bytes.data() + to, from, step);
    begin += step, from += step, count -= step;
  }
}

} // namespace dt::rt

//===- PartBounds.cpp - Whether parts keep to a program's bounds ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/step/PartBounds.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>

namespace dt::planner {

namespace {

constexpr double kWhole = 1 << 20; ///< shares are multiples of 1 / 2^20

double measureOf(const ItemSize &size, const PartBound &bound) {
  return bound.isOther ? size.other : size.tokens;
}

/// Of all items of a kind that a sample holds.
double measureOf(const Sample &sample, const PartBound &bound) {
  double sum = 0;
  for (const ItemSize &size : sample.getSizes(bound.kind))
    sum += measureOf(size, bound);
  return sum;
}

void raise(std::vector<int64_t> &shares, const std::vector<double> &rows,
           double most) {
  shares.resize(rows.size(), 0);
  for (size_t i = 0; i < rows.size(); ++i)
    shares[i] = std::max(shares[i], int64_t(rows[i] / most * kWhole));
}

/// The fullest of `count` runs of these items, whose lengths differ by one at
/// most, the first ones being the longer.
double fullestSlice(llvm::ArrayRef<int32_t> items, int64_t count,
                    const std::vector<double> &rows) {
  double fullest = 0;
  for (int64_t slice = 0; slice < count; ++slice) {
    size_t length = items.size() / size_t(count) +
                    (slice < int64_t(items.size() % size_t(count)));
    double sum = 0;
    for (int32_t item : items.take_front(length))
      sum += rows[item];
    items = items.drop_front(length);
    fullest = std::max(fullest, sum);
  }
  return fullest;
}

} // namespace

std::vector<double> PartBounds::rowsOf(int module,
                                       const PartBound &bound) const {
  ItemKind own = model.modules[module].item;
  std::vector<double> rows;
  for (const Sample &sample : batch)
    if (own == ItemKind::Sample)
      rows.push_back(measureOf(sample, bound));
    else
      for (const ItemSize &size : sample.getSizes(own))
        rows.push_back(bound.kind == own ? measureOf(size, bound) : 0);
  return rows;
}

std::string PartBounds::explain(int module, const PartBound &bound,
                                double rows) const {
  return llvm::formatv(
      "unit '{0}': a part would have {1:f0} {2}, more than its bound of {3:f0}",
      model.modules[module].name, std::ceil(rows), bound.name, bound.most);
}

std::string PartBounds::check(int module, const Parts &parts) const {
  const Parts::Items &items = parts.modules[module];
  const UnitPlan &unit = plan.units[module];
  for (const PartBound &bound : model.modules[module].bounds) {
    std::vector<double> rows = rowsOf(module, bound);
    double most = bound.most * unit.span;
    for (int first = 0; first < parts.microbatches; first += unit.span)
      for (int r = 0; r < items.replicas; ++r) {
        std::vector<int32_t> task;
        int end = std::min(parts.microbatches, first + unit.span);
        for (int k = first; k < end; ++k)
          llvm::append_range(task, items.parts[size_t(k) * items.replicas + r]);
        llvm::sort(task);
        double fullest = fullestSlice(task, unit.sub, rows);
        if (fullest > most)
          return explain(module, bound, fullest / unit.span);
      }
  }
  return {};
}

std::string PartBounds::checkMeans(int module, const Parts &parts) const {
  const Module &own = model.modules[module];
  for (const PartBound &bound : own.bounds) {
    if (bound.kind != own.item)
      continue;
    double slices = plan.units[module].sub;
    for (const TokenSums &part : parts.modules[module].moments) {
      double rows = (bound.isOther ? part.others : part.tokens) / slices;
      // Shares of a sum are rounded.
      if (rows > bound.most * (1 + 1e-9))
        return explain(module, bound, rows);
    }
  }
  return {};
}

std::vector<int64_t> PartBounds::getSampleShares() const {
  std::vector<int64_t> shares(batch.size(), 0);
  for (size_t m = 0; m < model.modules.size(); ++m) {
    const UnitPlan &unit = plan.units[m];
    for (const PartBound &bound : model.modules[m].bounds) {
      std::vector<double> rows;
      for (const Sample &sample : batch)
        rows.push_back(measureOf(sample, bound));
      raise(shares, rows, bound.most * double(unit.dp) * unit.sub);
    }
  }
  return shares;
}

std::vector<int64_t> PartBounds::getItemShares(int module) const {
  std::vector<int64_t> shares;
  for (const PartBound &bound : model.modules[module].bounds)
    raise(shares, rowsOf(module, bound), bound.most * plan.units[module].sub);
  return shares;
}

} // namespace dt::planner

//===- WholeSlices.cpp - Scatters of slices to known places ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/WholeSlices.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {

/// A fixed size that a table may be made of.
std::optional<int64_t> tableSize(const DimExpr &dim) {
  std::optional<int64_t> size = dim.asConstant();
  return size && *size <= symbolic::maxLiteral ? size : std::nullopt;
}

/// Which update each place of an axis takes, -1: none. Of several the last.
std::optional<std::vector<int64_t>>
takenBy(ArrayRef<int64_t> places, int64_t size, nn::ScatterKind kind) {
  std::vector<int64_t> taken(size_t(size), -1);
  for (auto [update, place] : llvm::enumerate(places)) {
    int64_t at = place < 0 ? place + size : place;
    if (at < 0 || at >= size)
      return std::nullopt;
    if (kind == nn::ScatterKind::add && taken[size_t(at)] >= 0)
      return std::nullopt;
    taken[size_t(at)] = int64_t(update);
  }
  return taken;
}

Value tableAlong(NodeImporter &n, symbolic::Element element,
                 std::vector<int64_t> values, int64_t axesBehind) {
  Shape shape{DimExpr(int64_t(values.size()))};
  symbolic::TableData data{symbolic::typeOf(element), std::move(values), {}};
  symbolic::Result flat =
      symbolic::literal(symbolic::staticShape(shape), element, std::move(data));
  shape.append(axesBehind, DimExpr(1));
  return n.emit(*symbolic::reshape(*flat, shape));
}

/// Slices of `updates` at their places along `axis` of `data`.
std::optional<Value> putSlices(NodeImporter &n, nn::ScatterKind kind,
                               Value data, Value updates, int64_t axis,
                               ArrayRef<int64_t> places) {
  Shape shape = nn::getShape(data);
  int64_t size = shape[axis].constant();
  std::optional<std::vector<int64_t>> taken = takenBy(places, size, kind);
  if (!taken || places.empty())
    return std::nullopt;
  std::vector<int64_t> hit, from;
  for (int64_t update : *taken) {
    hit.push_back(update >= 0);
    from.push_back(std::max<int64_t>(update, 0));
  }
  if (places.size() > 1)
    updates = n.make<nn::GatherOp>(
        {updates, tableAlong(n, symbolic::Element::Int64, from, 0)},
        n.i64("axis", axis));
  Value mask = tableAlong(n, symbolic::Element::Bool, hit,
                          int64_t(shape.size()) - axis - 1);
  if (kind == nn::ScatterKind::add)
    updates = n.make<nn::AddOp>({data, updates});
  return n.make<nn::WhereOp>({mask, updates, data});
}

bool canPut(NodeImporter &n, nn::ScatterKind kind) {
  return kind == nn::ScatterKind::set ||
         (kind == nn::ScatterKind::add && !n.element(0).isInteger(1));
}

} // namespace

std::optional<Value> models::putTuples(NodeImporter &n, nn::ScatterKind kind) {
  const SymbolicTensor *indices = n.symbolic(1);
  std::optional<symbolic::TableData> all =
      indices ? symbolic::evaluateAll(*indices) : std::nullopt;
  if (!canPut(n, kind) || !all)
    return std::nullopt;
  Shape data = n.shape(0);
  int64_t tuple = indices->shape.back().constant(), whole = 1;
  for (int64_t a = 0; a < tuple; ++a) {
    std::optional<int64_t> size = tableSize(data[a]);
    if (!size || !tableSize(whole *= *size))
      return std::nullopt;
  }
  if (tuple < 1 || whole < 1)
    return std::nullopt;
  std::vector<int64_t> places;
  for (size_t i = 0; i < all->ints.size(); i += size_t(tuple)) {
    int64_t place = 0;
    for (int64_t a = 0; a < tuple; ++a) {
      int64_t size = data[a].constant(), at = all->ints[i + size_t(a)];
      place = place * size + (at < 0 ? at + size : at);
    }
    places.push_back(place);
  }
  Shape flat{DimExpr(whole)}, rows{DimExpr(int64_t(places.size()))};
  flat.append(data.begin() + tuple, data.end());
  rows.append(data.begin() + tuple, data.end());
  std::optional<Value> put = putSlices(n, kind, n.reshape(n.value(0), flat),
                                       n.reshape(n.value(2), rows), 0, places);
  return put ? std::optional(n.reshape(*put, data)) : std::nullopt;
}

std::optional<Value> models::putElements(NodeImporter &n, nn::ScatterKind kind,
                                         int64_t axis) {
  const SymbolicTensor *indices = n.symbolic(1);
  if (!canPut(n, kind) || !indices)
    return std::nullopt;
  Shape data = n.shape(0), updates = n.shape(2);
  std::optional<int64_t> count = tableSize(updates[axis]);
  if (!count || !tableSize(data[axis]))
    return std::nullopt;
  for (int64_t a = 0; a < int64_t(data.size()); ++a)
    if (a != axis &&
        (data[a] != updates[a] || symbolic::dependsOn(indices->value, a)))
      return std::nullopt;
  std::vector<int64_t> at(data.size(), 0), places;
  for (int64_t i = 0; i < *count; ++i) {
    at[size_t(axis)] = i;
    std::optional<symbolic::Scalar> place =
        symbolic::evaluate(indices->value, at);
    if (!place)
      return std::nullopt;
    places.push_back(place->i);
  }
  return putSlices(n, kind, n.value(0), n.value(2), axis, places);
}

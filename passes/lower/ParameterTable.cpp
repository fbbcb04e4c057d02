//===- ParameterTable.cpp - Rows and places of parameters -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/lower/ParameterTable.h"

#include "dialects/nn/NNNames.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;

bool ParameterEntry::isNarrow() const {
  Type element = getType().getElementType();
  return isa<FloatType>(element) && rt::getScalarType(element) != element;
}

bool ParameterEntry::hasNarrowGradient() const {
  nn::ParameterOp p = owner;
  return gradient && p.getNarrowGradient();
}

std::string ParameterEntry::getInit() const {
  nn::ParameterOp p = owner;
  auto rule = dyn_cast<nn::InitAttr>(p.getSource());
  return rule ? rule.getRule().str() : "";
}

ArrayAttr ParameterEntry::getOnnx(Builder &b) const {
  SmallVector<Attribute> refs;
  for (nn::ParameterOp p : all) {
    if (auto file = dyn_cast<nn::OnnxAttr>(p.getSource()))
      refs.push_back(file);
    if (auto rule = dyn_cast<nn::InitAttr>(p.getSource());
        rule && !rule.getFile().empty())
      refs.push_back(nn::OnnxAttr::get(b.getContext(), rule.getFile(),
                                       rule.getInitializer()));
  }
  return b.getArrayAttr(refs);
}

LogicalResult ParameterTable::findAliases(ModuleOp program) {
  SymbolTableCollection tables;
  for (auto tie : program.getOps<dist::TieOp>()) {
    auto alias =
        tables.lookupSymbolIn<nn::ParameterOp>(program, tie.getAliasAttr());
    auto owner =
        tables.lookupSymbolIn<nn::ParameterOp>(program, tie.getParameterAttr());
    if (!alias || !owner)
      return tie.emitOpError("names no nn.parameter");
    if (alias->getAttr(dist::kLayoutAttr) != owner->getAttr(dist::kLayoutAttr))
      return tie.emitOpError("ties parameters that are cut differently");
    // Modules have places of their own; names of one module share theirs.
    Type one = alias.getStoredType().getElementType(),
         other = owner.getStoredType().getElementType();
    if (one != other && alias->getParentOp() == owner->getParentOp())
      return tie.emitOpError()
             << "ties parameters of one module that are stored differently: as "
             << one << " and as " << other;
    aliases[alias] = owner;
  }
  return success();
}

/// The module's rows, in its order.
LogicalResult ParameterTable::collect(dist::ModuleOp module,
                                      std::vector<ParameterEntry> &found) {
  llvm::DenseMap<Operation *, unsigned> known;
  for (auto p : module.getBody().getOps<nn::ParameterOp>()) {
    if (!nn::getNumBytes(p.getStoredType()).asConstant())
      return p.emitOpError("has a size that is not a number");
    auto [it, fresh] = known.insert({getOwner(p), found.size()});
    if (fresh)
      found.emplace_back();
    ParameterEntry &row = found[it->second];
    row.all.insert(p == getOwner(p) ? row.all.begin() : row.all.end(), p);
    row.owner = row.all.front();
    row.trainable |= p.getTrainable();
    row.gradient |= p.getTrainable() && !p.getNoGradient();
  }
  return success();
}

/// Copies train if one of them does: all are updated alike.
LogicalResult ParameterTable::joinCopies() {
  llvm::DenseMap<Operation *, unsigned> owners;
  for (auto [i, row] : llvm::enumerate(rows))
    owners.insert({row.owner, i});
  for (ParameterEntry &row : rows) {
    auto it = owners.find(getOwner(row.owner));
    if (it == owners.end() || it->second == unsigned(row.index))
      continue;
    row.copyOf = it->second;
    ParameterEntry &owner = rows[it->second];
    owner.trainable |= row.trainable;
    owner.gradient |= row.gradient;
  }
  for (ParameterEntry &row : rows)
    if (row.copyOf >= 0) {
      row.trainable = rows[row.copyOf].trainable;
      row.gradient = rows[row.copyOf].gradient;
    }
  return success();
}

/// Rows that some op of the module joins, in its order; of an op that joins a
/// part of those of another one, that one's.
static std::vector<SmallVector<unsigned>>
findJoined(dist::ModuleOp module, ArrayRef<ParameterEntry> rows) {
  llvm::DenseMap<StringAttr, unsigned> rowOf;
  for (auto [i, row] : llvm::enumerate(rows))
    for (nn::ParameterOp p : row.all)
      rowOf[p.getSymNameAttr()] = i;
  std::vector<SmallVector<unsigned>> found, groups;
  for (auto function : module.getOps<rt::FuncOp>())
    for (Operation &op : function.getBody().front()) {
      SmallVector<StringAttr> names = rt::getJoined(&op);
      if (names.size() < 2)
        continue;
      SmallVector<unsigned> group;
      for (StringAttr name : names)
        group.push_back(rowOf.lookup(name));
      found.push_back(group);
    }
  llvm::stable_sort(
      found, [](const auto &a, const auto &b) { return a.size() > b.size(); });
  // Others with rows of one are neighbours there, or the verifier says so.
  llvm::DenseSet<unsigned> known;
  for (const SmallVector<unsigned> &group : found) {
    if (llvm::none_of(group, [&](unsigned i) { return known.contains(i); }))
      groups.push_back(group);
    known.insert(group.begin(), group.end());
  }
  return groups;
}

/// What trains first, of that what has narrow gradients, then what has working
/// copies, of that what a backward function is done with first; what is joined
/// side by side.
void ParameterTable::sortModule(dist::ModuleOp module,
                                MutableArrayRef<ParameterEntry> rows,
                                rt::FuncOp lastBackward) {
  llvm::DenseMap<Operation *, int64_t> place;
  llvm::MapVector<StringAttr, Operation *> uses;
  if (lastBackward) {
    for (Operation &op : lastBackward.getBody().front())
      place.insert({&op, place.size() + 1});
    uses = rt::getLastGradientUses(lastBackward);
  }
  for (ParameterEntry &row : rows)
    for (nn::ParameterOp p : row.all)
      if (Operation *use = uses.lookup(p.getSymNameAttr());
          use && place.lookup(use) > place.lookup(row.lastUse))
        row.lastUse = use;
  // A group stands where the first of its rows would, when all are done with.
  std::vector<SmallVector<unsigned>> units(rows.size());
  for (unsigned i = 0; i < rows.size(); ++i)
    units[i] = {i};
  for (const SmallVector<unsigned> &group : findJoined(module, rows)) {
    Operation *last = nullptr;
    for (unsigned i : group) {
      units[i].clear();
      if (place.lookup(rows[i].lastUse) > place.lookup(last))
        last = rows[i].lastUse;
    }
    for (unsigned i : group)
      rows[i].lastUse = last;
    units[*llvm::min_element(group)] = group;
  }
  llvm::erase_if(units, [](const auto &unit) { return unit.empty(); });
  auto key = [&](const SmallVector<unsigned> &unit) {
    const ParameterEntry &row = rows[unit.front()];
    return std::make_tuple(!row.trainable, !row.gradient,
                           row.trainable && !row.hasNarrowGradient(),
                           row.trainable && !row.isNarrow(),
                           place.lookup(row.lastUse));
  };
  llvm::stable_sort(
      units, [&](const auto &a, const auto &b) { return key(a) < key(b); });
  std::vector<ParameterEntry> sorted;
  for (const SmallVector<unsigned> &unit : units)
    for (unsigned i : unit)
      sorted.push_back(rows[i]);
  llvm::copy(sorted, rows.begin());
}

/// Steps are of so many elements that each region's are of whole lines.
void ParameterTable::placeModule(MutableArrayRef<ParameterEntry> rows) {
  bool anyNarrow = llvm::any_of(rows, [](const ParameterEntry &row) {
    return row.trainable && row.isNarrow();
  });
  int64_t step = rt::kAlignment / (anyNarrow ? 2 : 4), values = 0,
          gradients = 0;
  for (ParameterEntry &row : rows) {
    RankedTensorType type = row.getType();
    int64_t element = nn::getElementBytes(type.getElementType()),
            bytes = *nn::getNumBytes(type).asConstant();
    row.offset = values;
    if (!row.trainable) {
      values += alignUp(bytes);
      continue;
    }
    int64_t elements = llvm::alignTo(bytes / element, step);
    row.gradientOffset = gradients;
    row.gradientEnd = gradients +=
        elements * (row.hasNarrowGradient() ? element : int64_t(sizeof(float)));
    values += alignUp(elements * element);
  }
  bytes.push_back(values);
  trainable.push_back(gradients);
}

LogicalResult ParameterTable::run(const StepPlan &plan) {
  if (failed(findAliases(plan.program)))
    return failure();
  for (const PlannedModule &m : plan.modules) {
    if (failed(collect(m.op, rows)))
      return failure();
    ends.push_back(rows.size());
  }
  for (auto [i, row] : llvm::enumerate(rows))
    row.index = i;
  if (failed(joinCopies()))
    return failure();
  // Now that it is known what trains: sort within modules.
  std::vector<int> place(rows.size());
  size_t begin = 0;
  for (const PlannedModule &m : plan.modules) {
    size_t end = ends[&m - plan.modules.data()];
    MutableArrayRef<ParameterEntry> own =
        MutableArrayRef(rows).slice(begin, end - begin);
    sortModule(m.op, own, m.lastBackward());
    placeModule(own);
    begin = end;
  }
  for (auto [i, row] : llvm::enumerate(rows)) {
    place[row.index] = i;
    row.index = i;
    for (nn::ParameterOp p : row.all)
      indexOf[p] = i;
  }
  for (ParameterEntry &row : rows)
    if (row.copyOf >= 0)
      row.copyOf = place[row.copyOf];
  return success();
}

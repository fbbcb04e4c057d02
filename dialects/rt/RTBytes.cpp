//===- RTBytes.cpp - Which buffers share bytes ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTBytes.h"

#include "dialects/nn/NNNames.h"
#include "dialects/nn/NNOps.h"

using namespace mlir;
using namespace dt::rt;
using dt::nn::DimExpr;
namespace nn = dt::nn;

Value dt::rt::getViewedBuffer(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewOp>())
    buffer = view.getSource();
  return buffer;
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

BufferBytes::BufferBytes(FuncOp function) : function(function) {
  Operation *table =
      SymbolTable::getNearestSymbolTable(function->getParentOp());
  if (!table || table->getNumRegions() == 0 || table->getRegion(0).empty())
    return;
  Region &body = table->getRegion(0);
  for (auto symbol : body.getOps<SymbolOp>())
    bounds[symbol.getSymName()] = symbol.getMax();
  for (auto dim : body.getOps<nn::DimOp>())
    if (dim.getMax())
      bounds[dim.getSymName()] = *dim.getMax();
  llvm::DenseMap<int64_t, StringAttr> first;
  for (auto decl : body.getOps<ParameterDeclOp>())
    owners[decl.getSymNameAttr()] =
        first.try_emplace(decl.getIndex(), decl.getSymNameAttr()).first->second;
  findJoined(body);
}

void BufferBytes::findJoined(Region &module) {
  llvm::DenseMap<StringAttr, DimExpr> elements;
  for (auto decl : module.getOps<ParameterDeclOp>())
    elements[decl.getSymNameAttr()] =
        cast<BufferType>(decl.getType()).getNumElements();
  for (auto parameter : module.getOps<nn::ParameterOp>())
    elements[parameter.getSymNameAttr()] =
        nn::getNumElements(nn::getShape(parameter.getType()));
  std::vector<SmallVector<StringAttr>> groups;
  for (auto function : module.getOps<FuncOp>())
    for (Operation &op : function.getBody().front())
      if (auto names = getJoined(&op); names.size() > 1)
        groups.push_back(names);
  // An op may join a part of what another one does.
  llvm::stable_sort(
      groups, [](const auto &a, const auto &b) { return a.size() > b.size(); });
  for (const SmallVector<StringAttr> &names : groups) {
    DimExpr before(0);
    for (StringAttr name : names) {
      joined.try_emplace(name, names.front(), before);
      before = before + elements.lookup(name);
    }
  }
}

const DimExpr &BufferBytes::getNumBytes(BufferType type) const {
  auto [at, isNew] = numBytes.try_emplace(type, DimExpr(0));
  if (isNew)
    at->second = type.getNumBytes();
  return at->second;
}

BufferBytes::Range BufferBytes::getRange(Value buffer) const {
  auto type = cast<BufferType>(buffer.getType());
  DimExpr begin(0);
  while (auto view = buffer.getDefiningOp<ViewOp>()) {
    begin = begin + view.getOffset() *
                        DimExpr(nn::getElementBytes(type.getElementType()));
    buffer = view.getSource();
  }
  Range range{Range::Local, buffer.getAsOpaquePointer(), begin,
              begin + getNumBytes(type)};
  auto setParameter = [&](Range::Kind kind, StringAttr name) {
    range.kind = kind;
    if (auto it = joined.find(name); it != joined.end()) {
      DimExpr before = it->second.second *
                       DimExpr(nn::getElementBytes(type.getElementType()));
      range.begin = range.begin + before;
      range.end = range.end + before;
      name = it->second.first;
    }
    StringAttr owner = owners.lookup(name);
    range.memory = (owner ? owner : name).getAsOpaquePointer();
  };
  if (isa<BlockArgument>(buffer)) {
    range.kind = Range::Argument;
  } else if (auto p = buffer.getDefiningOp<ParameterOp>()) {
    setParameter(Range::Parameter, p.getParameterAttr().getAttr());
  } else if (auto g = buffer.getDefiningOp<GradientOp>()) {
    setParameter(Range::Gradient, g.getParameterAttr().getAttr());
  } else if (buffer.getDefiningOp<ConstantOp>()) {
    range.kind = Range::Constant;
  } else if (auto alloc = buffer.getDefiningOp<AllocOp>();
             alloc && alloc.getOffset()) {
    range.kind = Range::Scratch;
    range.memory = nullptr;
    DimExpr offset(int64_t(*alloc.getOffset()));
    range.begin = range.begin + offset;
    range.end = range.end + offset;
  }
  return range;
}

std::optional<int64_t> BufferBytes::getMax(const DimExpr &size) const {
  int64_t total = 0;
  for (const DimExpr::Term &term : size.terms()) {
    int64_t v = term.coefficient;
    // A symbol may be 0, so what is taken off does not lower the bound.
    if (v < 0 && !term.symbols.empty())
      continue;
    for (const std::string &symbol : term.symbols) {
      auto it = bounds.find(symbol);
      if (it == bounds.end() || __builtin_mul_overflow(v, it->second, &v))
        return std::nullopt;
    }
    if (__builtin_add_overflow(total, v, &total))
      return std::nullopt;
  }
  return total;
}

bool BufferBytes::isNeverNegative(const DimExpr &size) const {
  std::optional<int64_t> most = getMax(DimExpr(0) - size);
  return most && *most <= 0;
}

bool BufferBytes::mayShare(Value a, Value b) const {
  if (a == b)
    return true;
  Range x = getRange(a), y = getRange(b);
  if (x.kind != y.kind || x.memory != y.memory)
    return false;
  return !isNeverNegative(y.begin - x.end) && !isNeverNegative(x.begin - y.end);
}

bool BufferBytes::areEqual(Value a, Value b) const {
  if (a == b)
    return true;
  Range x = getRange(a), y = getRange(b);
  return x.kind == y.kind && x.memory == y.memory && x.begin == y.begin &&
         x.end == y.end;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

bool dt::rt::isPointwise(KernelOp kernel, unsigned i) {
  BlockArgument buffer = kernel.getBufferArgs()[i];
  if (cast<BufferType>(buffer.getType()).getShape() != kernel.getBounds())
    return false;
  return llvm::all_of(buffer.getUsers(), [&](Operation *user) {
    ValueRange at = isa<LoadOp>(user)
                        ? ValueRange(cast<LoadOp>(user).getIndices())
                        : ValueRange(cast<StoreOp>(user).getIndices());
    return user->getBlock() == &kernel.getBody().front() &&
           llvm::equal(at, kernel.getIndices());
  });
}

/// Both are touched at a point's own element only, and it is the same one.
static bool haveEqualAccess(KernelOp kernel, unsigned a, unsigned b) {
  return isPointwise(kernel, a) && isPointwise(kernel, b) &&
         kernel.getBufferArgs()[a].getType() ==
             kernel.getBufferArgs()[b].getType();
}

bool dt::rt::readsBeforeWriting(KernelOp kernel, unsigned read,
                                unsigned written) {
  if (!haveEqualAccess(kernel, read, written))
    return false;
  return llvm::all_of(
      kernel.getBufferArgs()[read].getUsers(), [&](Operation *load) {
        return isa<LoadOp>(load) &&
               llvm::all_of(kernel.getBufferArgs()[written].getUsers(),
                            [&](Operation *store) {
                              return isa<LoadOp>(store) ||
                                     load->isBeforeInBlock(store);
                            });
      });
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

Writes::Writes(Operation *op) {
  if (auto call = dyn_cast<CallOp>(op)) {
    setCall(call);
    return;
  }
  // An optional operand has no effect of its own.
  if (auto conv = dyn_cast<ConvDwOp>(op); conv && conv.getDb())
    written.insert(op->getNumOperands() - 1);
  SmallVector<MemoryEffects::EffectInstance> effects;
  if (auto interface = dyn_cast<MemoryEffectOpInterface>(op))
    interface.getEffects(effects);
  for (const MemoryEffects::EffectInstance &effect : effects)
    if (isa<MemoryEffects::Write>(effect.getEffect()))
      if (OpOperand *operand = effect.getEffectValue<OpOperand *>())
        written.insert(operand->getOperandNumber());
}

/// The callee says what it writes; its scratch is for nobody else.
void Writes::setCall(CallOp call) {
  auto callee =
      SymbolTable::lookupNearestSymbolFrom<FuncOp>(call, call.getCalleeAttr());
  for (unsigned i = 0; i < call.getNumOperands(); ++i)
    if (i >= call.getArguments().size() || !callee ||
        callee.getAccess(i) != "in")
      written.insert(i);
}

namespace {
/// The columns of wider rows that a gradient of attention is written to.
struct Columns {
  Value buffer;
  int64_t begin, end, pitch; ///< elements

  static std::optional<Columns> get(Value place,
                                    std::optional<dt::nn::Shape> strides,
                                    int64_t heads, int64_t width);
};
} // namespace

std::optional<Columns> Columns::get(Value place,
                                    std::optional<dt::nn::Shape> strides,
                                    int64_t heads, int64_t width) {
  if (!strides)
    return std::nullopt;
  DimExpr offset(0);
  while (auto view = place.getDefiningOp<ViewOp>()) {
    offset = offset + view.getOffset();
    place = view.getSource();
  }
  const dt::nn::Shape &by = *strides;
  std::optional<int64_t> begin = offset.asConstant(),
                         pitch = by[1].asConstant(), head = by[2].asConstant();
  if (!begin || !pitch || !head || *pitch < 1 || !by[0].exactDiv(by[1]))
    return std::nullopt;
  Columns columns{place, *begin, *begin + (heads - 1) * *head + width, *pitch};
  return columns.end <= *pitch ? std::optional(columns) : std::nullopt;
}

/// Whether two gradients of attention are other columns of the same rows.
static bool areColumnsApart(AttentionGradOp op, Value x, Value y) {
  auto columnsOf = [&](Value place) -> std::optional<Columns> {
    auto number = [](const DimExpr &size) {
      return size.asConstant().value_or(0);
    };
    int64_t d = number(op.getD()), hk = number(op.getHk());
    if (place == op.getDq())
      return Columns::get(place, op.getDqStrides(), number(op.getH()), d);
    if (place == op.getDk())
      return Columns::get(place, op.getDkStrides(), hk, d);
    if (place == op.getDv_())
      return Columns::get(place, op.getDvStrides(), hk, number(op.getDv()));
    return std::nullopt;
  };
  std::optional<Columns> a = columnsOf(x), b = columnsOf(y);
  return a && b && a->buffer == b->buffer && a->pitch == b->pitch &&
         (a->end <= b->begin || b->end <= a->begin);
}

/// Whether the op is right although operand `w`, which it writes, shares bytes
/// with operand `other`.
static bool allowsSharing(Operation *op, unsigned other, unsigned w,
                          const BufferBytes &bytes) {
  Value x = op->getOperand(other), y = op->getOperand(w);
  if (auto gradients = dyn_cast<AttentionGradOp>(op))
    return areColumnsApart(gradients, x, y);
  if (!bytes.areEqual(x, y))
    return false;
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel) {
    auto collective = dyn_cast<CollectiveOp>(op);
    return collective && collective.getForm().combines &&
           !collective.getForm().scatters;
  }
  // Names of one memory: what the kernel says in its order is what it means.
  if (getViewedBuffer(x) == getViewedBuffer(y) ||
      !getViewedBuffer(x).getDefiningOp<AllocOp>())
    return x == y || haveEqualAccess(kernel, other, w);
  // Two locals are two values, of which the second takes the first one's place.
  return readsBeforeWriting(kernel, other, w);
}

LogicalResult dt::rt::verifySharedBytes(Operation *op,
                                        const BufferBytes &bytes) {
  Writes writes(op);
  for (unsigned w = 0; w < op->getNumOperands(); ++w) {
    Value target = op->getOperand(w);
    if (!writes.contains(w) || !isa<BufferType>(target.getType()))
      continue;
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      Value other = op->getOperand(i);
      if (i == w || !isa<BufferType>(other.getType()) ||
          !bytes.mayShare(target, other) || allowsSharing(op, i, w, bytes))
        continue;
      InFlightDiagnostic diagnostic =
          op->emitOpError()
          << "writes operand " << w << ", which shares bytes with operand " << i
          << " that it reads at other points or times";
      diagnostic.attachNote(other.getLoc()) << "operand " << i << " is this";
      return diagnostic;
    }
  }
  return success();
}

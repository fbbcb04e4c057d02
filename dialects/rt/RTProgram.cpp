//===- RTProgram.cpp - Verifiers of the program's tables --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTOps.h"

#include <map>

using namespace mlir;
using namespace dt::rt;

namespace {

template <typename OpT> unsigned count(Region &body) {
  return llvm::range_size(body.getOps<OpT>());
}

/// A buffer_decl of a module, or an error.
BufferDeclOp findBuffer(Operation *from, dt::rt::ModuleOp module,
                        FlatSymbolRefAttr name) {
  auto decl = module.lookupSymbol<BufferDeclOp>(name.getAttr());
  if (!decl)
    from->emitOpError() << "names no rt.buffer_decl of @" << module.getSymName()
                        << ": " << name;
  return decl;
}

/// Functions that a module goes back with last: what they say of gradients
/// holds for the whole microbatch.
llvm::SmallPtrSet<Operation *, 2> getLastFunctions(dt::rt::ModuleOp module) {
  llvm::SmallPtrSet<Operation *, 2> functions;
  for (auto entry : module.getBody().getOps<EntryOp>())
    if (entry.getKind() == TaskKind::Backward ||
        entry.getKind() == TaskKind::BackwardWeight)
      functions.insert(module.lookupSymbol(entry.getCallee()));
  return functions;
}

/// Parameters that an op joins stand one behind another, values and gradients.
LogicalResult verifyJoined(dt::rt::ModuleOp module, Operation &op) {
  bool ofGradients = isa<GradientOp>(op);
  int64_t end = -1;
  for (StringAttr name : getJoined(&op)) {
    auto decl = module.lookupSymbol<ParameterDeclOp>(name);
    if (!decl)
      return op.emitOpError()
             << "names no rt.parameter_decl: @" << name.getValue();
    int64_t begin =
        ofGradients ? decl.getGradientPlace() : int64_t(decl.getOffset());
    if (end >= 0 && begin != end) {
      InFlightDiagnostic diagnostic = op.emitOpError()
                                      << "joins parameters that do not stand "
                                         "side by side: one ends at "
                                      << end << ", @" << name.getValue()
                                      << " begins at " << begin;
      diagnostic.attachNote(decl.getLoc()) << "which is this";
      return diagnostic;
    }
    auto type =
        ofGradients ? decl.getGradientType() : cast<BufferType>(decl.getType());
    end = begin + type.getNumBytes().asConstant().value_or(0);
  }
  return success();
}

LogicalResult verifyJoined(dt::rt::ModuleOp module) {
  for (auto function : module.getBody().getOps<FuncOp>())
    for (Operation &op : function.getBody().front())
      if (getJoined(&op).size() > 1 && failed(verifyJoined(module, op)))
        return failure();
  return success();
}

/// Ranges follow one another, and nothing adds to them any more.
LogicalResult verifyGradientsReady(dt::rt::ModuleOp module, FuncOp function) {
  llvm::MapVector<StringAttr, Operation *> last = getLastGradientUses(function);
  int64_t end = 0;
  for (auto ready : function.getBody().getOps<GradientsReadyOp>()) {
    if (int64_t(ready.getBegin()) != end)
      return ready.emitOpError()
             << "begins at " << int64_t(ready.getBegin())
             << ", not where the one before it ends: " << end;
    end = ready.getEnd();
    if (end > int64_t(module.getTrainable()))
      return ready.emitOpError() << "ends at " << end << "; gradients have "
                                 << int64_t(module.getTrainable()) << " bytes";
    for (auto [name, use] : last) {
      auto decl = module.lookupSymbol<ParameterDeclOp>(name);
      if (!decl || decl.getGradientPlace() >= end ||
          !ready->isBeforeInBlock(use))
        continue;
      InFlightDiagnostic diagnostic = ready.emitOpError()
                                      << "has the gradient of @"
                                      << name.getValue() << " in it";
      diagnostic.attachNote(use->getLoc()) << "which this op adds to";
      return diagnostic;
    }
  }
  return success();
}

LogicalResult verifyGradientsReady(dt::rt::ModuleOp module) {
  llvm::SmallPtrSet<Operation *, 2> last = getLastFunctions(module);
  for (auto function : module.getBody().getOps<FuncOp>()) {
    auto ready = function.getBody().getOps<GradientsReadyOp>();
    if (ready.empty())
      continue;
    if (!last.contains(function))
      return (*ready.begin())
          .emitOpError("is not in a function that ends a microbatch's "
                       "backward");
    if (failed(verifyGradientsReady(module, function)))
      return failure();
  }
  return success();
}

} // namespace

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// That every rank from 0 on stands once.
static LogicalResult verifyRanks(ProgramOp program) {
  std::map<int64_t, RankOp> seen;
  for (auto op : program.getBody().getOps<RankOp>()) {
    if (op.getRanks().empty())
      return op.emitOpError("is of no rank");
    for (int64_t rank : op.getRanks()) {
      if (rank < 0)
        return op.emitOpError() << "is of rank " << rank;
      if (!seen.try_emplace(rank, op).second)
        return op.emitOpError() << "is the second of rank " << rank;
    }
  }
  int64_t next = 0;
  for (auto [rank, op] : seen)
    if (rank != next++)
      return RankOp(op).emitOpError()
             << "is of rank " << rank << ", but none is of rank " << next - 1;
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  if (int64_t(getMicroBatch()) < 1 || getGlobalBatch() < getMicroBatch())
    return emitOpError("needs 1 <= micro <= batch");
  auto pace = lookupSymbol<dt::rt::ModuleOp>(getPaceAttr().getAttr());
  if (!pace)
    return emitOpError() << "names no rt.module as pace: " << getPaceAttr();
  if (!fromText<Reorder>(getReorder()))
    return emitOpError() << "reorder '" << getReorder() << "' is none of "
                         << listTexts<Reorder>();
  if (int64_t(getBucket()) < 1)
    return emitOpError("needs a bucket of at least 1 byte");
  if (failed(verifyRanks(*this)))
    return failure();
  int64_t count = getRanks().size();
  for (auto module : getBody().getOps<dt::rt::ModuleOp>())
    for (int64_t rank : module.getRanks())
      if (rank < 0 || rank >= count)
        return module.emitOpError()
               << "runs on rank " << rank << "; the program has " << count;
  return success();
}

SmallVector<RankOp, 0> ProgramOp::getRanks() {
  SmallVector<RankOp, 0> all;
  for (auto op : getBody().getOps<RankOp>())
    for (int64_t rank : op.getRanks()) {
      all.resize(std::max<size_t>(all.size(), rank + 1));
      all[rank] = op;
    }
  return all;
}

LogicalResult dt::rt::ModuleOp::verifyRegions() {
  int64_t tp = getTp(), dp = getDp();
  if (tp < 1 || dp < 1 || getRanks().empty() ||
      (!getWholeBatch() && (int64_t(getRanks().size()) % tp ||
                            int64_t(getRanks().size()) / tp != dp)))
    return emitOpError() << "tp " << tp << " and dp " << dp << " do not make "
                         << getRanks().size() << " ranks";
  llvm::SmallDenseSet<int64_t> seen;
  for (int64_t rank : getRanks())
    if (!seen.insert(rank).second)
      return emitOpError() << "runs on rank " << rank << " twice";
  if (int64_t(getSub()) < 1 || getSub() > INT16_MAX ||
      (getWholeBatch() && getSub() != 1))
    return emitOpError() << "sub is from 1 to " << INT16_MAX
                         << ", and 1 of a whole batch";
  if (int64_t(getSpan()) < 1 || getSpan() > INT32_MAX ||
      (getWholeBatch() && getSpan() != 1))
    return emitOpError() << "span is from 1 to " << INT32_MAX
                         << ", and 1 of a whole batch";
  if (int64_t(getZero()) < 0 || getZero() > 1)
    return emitOpError("zero is 0 or 1");
  if (auto speeds = getSpeeds();
      speeds && (getWholeBatch() || int64_t(speeds->size()) != dp ||
                 llvm::any_of(*speeds, [](int64_t speed) {
                   return speed < 1 || speed > INT32_MAX;
                 })))
    return emitOpError() << "speeds are " << dp << " numbers from 1 to "
                         << INT32_MAX << ", none of a whole batch";
  // A gradient has 4 bytes an element, what is stored 2 or more.
  if (int64_t(getTrainable()) < 0 || getTrainable() > 2 * getParameters())
    return emitOpError() << "trains " << int64_t(getTrainable()) << " bytes of "
                         << getParameters();
  auto verifyPlace = [&](Operation *op, BufferType type, int64_t at,
                         int64_t region) -> LogicalResult {
    // A lower bound of the size where it has symbols.
    int64_t bytes = type.getNumBytes().asConstant().value_or(0);
    if (at >= 0 && at % kAlignment == 0 && at <= region && bytes <= region - at)
      return success();
    return op->emitOpError()
           << "at " << at << " is not in a region of " << region
           << " bytes, or not at a multiple of " << kAlignment;
  };
  for (auto decl : getBody().getOps<ParameterDeclOp>())
    if (failed(verifyPlace(decl, cast<BufferType>(decl.getType()),
                           decl.getOffset(), getParameters())) ||
        (decl.getTrainable() &&
         failed(verifyPlace(decl, decl.getGradientType(),
                            decl.getGradientPlace(), getTrainable()))))
      return failure();
  for (auto decl : getBody().getOps<BufferDeclOp>())
    if (failed(verifyPlace(decl, cast<BufferType>(decl.getType()),
                           decl.getOffset(), getArena())))
      return failure();
  return failure(failed(verifyJoined(*this)) ||
                 failed(verifyGradientsReady(*this)));
}

/// Of a declaration: `type` is what a rank has by `layout`, if there is one.
static LogicalResult verifyPart(Operation *decl, Type type,
                                std::optional<dt::dist::LayoutAttr> layout) {
  if (!layout)
    return success();
  SmallVector<int64_t> local;
  for (const dt::nn::DimExpr &dim : cast<BufferType>(type).getShape())
    local.push_back(dim.asConstant().value_or(ShapedType::kDynamic));
  if (ArrayRef(layout->getLocalShape()) == ArrayRef(local))
    return success();
  return decl->emitOpError()
         << "of type " << type << " is no part by " << *layout;
}

LogicalResult BufferDeclOp::verify() {
  if (int64_t(getStride()) < 0 || getStride() % kAlignment)
    return emitOpError() << "stride must be a multiple of " << kAlignment
                         << " bytes";
  return verifyPart(*this, getType(), getLayout());
}

BufferType ParameterDeclOp::getGradientType() {
  auto stored = cast<BufferType>(getType());
  return getNarrowGradient() ? stored
                             : BufferType::get(Float32Type::get(getContext()),
                                               stored.getShape());
}

LogicalResult ParameterDeclOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (failed(verifyPart(*this, getType(), getLayout())))
    return failure();
  if (!getTiedAttr())
    return success();
  Operation *program = (*this)->getParentOfType<ProgramOp>();
  auto owner = program ? dyn_cast_or_null<ParameterDeclOp>(
                             tables.lookupSymbolIn(program, getTiedAttr()))
                       : ParameterDeclOp();
  if (!owner)
    return emitOpError() << "is tied to no rt.parameter_decl: "
                         << getTiedAttr();
  if (owner.getTiedAttr())
    return emitOpError() << "is tied to a copy: " << getTiedAttr();
  // Modules of different precision store a copy each in their own type.
  if (owner.getGradientType() != getGradientType() ||
      owner.getLayoutAttr() != getLayoutAttr())
    return emitOpError() << "is a copy of " << getTiedAttr()
                         << " and has another shape or layout";
  return success();
}

LogicalResult EntryOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto callee = tables.lookupNearestSymbolFrom<FuncOp>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError() << "names no rt.func: " << getCalleeAttr();
  if (callee.getNumArguments() != getBuffers().size())
    return emitOpError() << "gives " << getBuffers().size() << " buffers to "
                         << getCalleeAttr() << ", which takes "
                         << callee.getNumArguments();
  for (auto [i, attribute] : llvm::enumerate(getBuffers())) {
    auto name = dyn_cast<FlatSymbolRefAttr>(attribute);
    if (!name)
      return emitOpError("buffers are given by name");
    auto decl = tables.lookupNearestSymbolFrom<BufferDeclOp>(*this, name);
    if (!decl)
      return emitOpError() << "names no rt.buffer_decl: " << name;
    if (decl.getType() != callee.getArgumentTypes()[i]) {
      InFlightDiagnostic diagnostic =
          emitOpError() << "gives " << name << " of type " << decl.getType()
                        << " for argument " << i << " of type "
                        << callee.getArgumentTypes()[i];
      diagnostic.attachNote(decl.getLoc()) << "declared here";
      return diagnostic;
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Edges and rows
//===----------------------------------------------------------------------===//

LogicalResult EdgeOp::verifySymbolUses(SymbolTableCollection &tables) {
  Operation *program = (*this)->getParentOp();
  auto find = [&](FlatSymbolRefAttr name) {
    auto module =
        tables.lookupSymbolIn<dt::rt::ModuleOp>(program, name.getAttr());
    if (!module)
      emitOpError() << "names no rt.module: " << name;
    return module;
  };
  dt::rt::ModuleOp source = find(getSourceAttr());
  dt::rt::ModuleOp target = source ? find(getTargetAttr()) : dt::rt::ModuleOp();
  if (!target)
    return failure();
  unsigned outputs = count<OutputOp>(source.getBody());
  if (getOutput() >= outputs)
    return emitOpError() << "takes output " << int64_t(getOutput()) << " of @"
                         << getSource() << ", which has " << outputs;
  unsigned inputs = count<InputOp>(target.getBody());
  if (getInput() >= inputs)
    return emitOpError() << "feeds input " << int64_t(getInput()) << " of @"
                         << getTarget() << ", which has " << inputs;
  if (!getProducedAttr())
    return success();
  if (!findBuffer(*this, target, getProducedAttr()) ||
      !findBuffer(*this, source, getConsumedAttr()))
    return failure();
  return success();
}

/// Whether the module has the function that a row wants to run.
static bool hasEntry(dt::rt::ModuleOp module, TaskKind kind) {
  if (kind == TaskKind::Reduce)
    return true;
  return llvm::any_of(module.getBody().getOps<EntryOp>(),
                      [&](EntryOp entry) { return entry.getKind() == kind; });
}

int64_t TaskOp::getSlotOf(SlotKind kind) {
  uint64_t slots[] = {getSlot(), getReceived(), getEarly(), getLate()};
  return int64_t(slots[size_t(kind)]);
}

LogicalResult TaskOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto program = (*this)->getParentOfType<ProgramOp>();
  auto isSlot = [](uint64_t slot) { return slot <= INT16_MAX; };
  if (int64_t(getMicrobatch()) < 0 || !isSlot(getSlot()) ||
      !isSlot(getReceived()) || !isSlot(getEarly()) || !isSlot(getLate()) ||
      int64_t(getPeer()) < 0 || int64_t(getPiece()) < 0)
    return emitOpError("has a number out of range");
  TaskKind kind = getKind();
  bool moves = kind == TaskKind::Receive || kind == TaskKind::Send ||
               kind == TaskKind::Copy;
  if (moves != bool(getEdgeAttr()) || moves == bool(getSubjectAttr()))
    return emitOpError(moves ? "needs an edge and no subject"
                             : "needs a subject and no edge");
  if (moves) {
    unsigned edges = count<EdgeOp>(program.getBody());
    if (*getEdge() >= edges)
      return emitOpError() << "is about edge " << int64_t(*getEdge())
                           << "; the program has " << edges;
    auto all = program.getBody().getOps<EdgeOp>();
    EdgeOp edge = *std::next(all.begin(), *getEdge());
    // The end that this rank is on: a gradient goes from target to source.
    bool source = (kind == TaskKind::Receive) == getGradient();
    return verifyPiece(tables.lookupSymbolIn(
        program, source ? edge.getSourceAttr().getAttr()
                        : edge.getTargetAttr().getAttr()));
  }
  Operation *subject =
      tables.lookupSymbolIn(program, getSubjectAttr().getAttr());
  if (kind == TaskKind::Denominator) {
    auto loss = dyn_cast_or_null<LossOp>(subject);
    if (!loss)
      return emitOpError() << "is about no rt.loss: " << getSubjectAttr();
    return verifyPiece(
        tables.lookupSymbolIn(program, loss.getModuleAttr().getAttr()));
  }
  auto module = dyn_cast_or_null<dt::rt::ModuleOp>(subject);
  if (!module)
    return emitOpError() << "is about no rt.module: " << getSubjectAttr();
  if (!hasEntry(module, kind))
    return emitOpError() << "runs what @" << module.getSymName()
                         << " has no rt.entry for";
  return verifyPiece(module);
}

LogicalResult TaskOp::verifyPiece(Operation *of) {
  auto module = dyn_cast_or_null<dt::rt::ModuleOp>(of);
  if (!module || getPiece() < module.getSub())
    return success();
  return emitOpError() << "is about piece " << int64_t(getPiece()) << " of @"
                       << module.getSymName() << ", which has "
                       << int64_t(module.getSub());
}

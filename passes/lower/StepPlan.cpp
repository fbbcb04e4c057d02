//===- StepPlan.cpp - Modules, edges and buffers of a step ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/lower/StepPlan.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNNames.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;

namespace {
constexpr std::optional<rt::SlotKind> kSingle, kWhole = rt::SlotKind::Whole;

StringRef argumentText(rt::FuncOp f, unsigned i, StringRef attribute) {
  auto text = f.getArgAttrOfType<StringAttr>(i, attribute);
  return text ? text.getValue() : StringRef();
}

nn::GradientAttr gradientOf(rt::FuncOp f, unsigned i) {
  return f.getArgAttrOfType<nn::GradientAttr>(i, nn::kGradientAttr);
}

bool isWritten(rt::FuncOp f, unsigned i) { return f.getAccess(i) != "in"; }

/// The symbol that items of a tensor's rows are counted or added up by; "" if
/// there is none, or if it is about something else.
StringRef getItemSymbol(dist::ModuleOp module, rt::BufferType type) {
  nn::Shape shape = type.getShape();
  auto axis = size_t(dist::getRowAxis(shape));
  auto affine = axis == shape.size() ? std::nullopt : shape[axis].asAffine();
  if (!affine || affine->symbol.empty() || affine->offset != 0)
    return "";
  auto dim = module.lookupSymbol<nn::DimOp>(affine->symbol);
  return dim && dim.getItem() ? dim.getSymName() : StringRef();
}
} // namespace

int StepPlan::findModule(StringRef name) const {
  for (auto [i, m] : llvm::enumerate(modules))
    if (dist::ModuleOp(m.op).getSymName() == name)
      return i;
  return -1;
}

LogicalResult StepPlan::run() {
  for (auto batch : program.getOps<dist::BatchOp>()) {
    globalBatch = batch.getGlobal();
    microBatch = batch.getMicro();
  }
  microbatches = (globalBatch + microBatch - 1) / microBatch;
  if (failed(findModules()) || failed(findLosses()))
    return failure();
  for (PlannedModule &m : modules)
    if (failed(declareForward(m)))
      return failure();
  for (PlannedLoss &loss : losses)
    if (failed(declareLoss(loss)))
      return failure();
  for (PlannedModule &m : modules)
    if (failed(declareBackward(m)))
      return failure();
  for (PlannedEdge &edge : edges)
    if (failed(joinEdge(edge)))
      return failure();
  llvm::for_each(modules, [&](PlannedModule &m) { shortenLives(m); });
  return success();
}

//===----------------------------------------------------------------------===//
// Modules and edges
//===----------------------------------------------------------------------===//

static FailureOr<PlannedModule> readModule(dist::ModuleOp op) {
  PlannedModule m(op);
  m.wholeBatch = op.getWholeBatch();
  auto functions = dist::getFunctions<rt::FuncOp>(op);
  m.forward = functions.forward;
  m.backward = functions.backward;
  m.backwardInput = functions.input;
  m.backwardWeight = functions.weight;
  if (!m.forward)
    return op.emitOpError("has neither a dist.forward of its own functions nor "
                          "@forward");
  if (m.wholeBatch && (m.backwardInput || m.backwardWeight))
    return op.emitOpError("is run for the whole batch: its backward function "
                          "cannot be split");
  op.walk([&](rt::FuncOp f) {
    m.scratchBytes =
        std::max<int64_t>(m.scratchBytes, f.getScratchBytes().value_or(0));
  });
  return m;
}

LogicalResult StepPlan::findModules() {
  llvm::MapVector<StringAttr, dist::ModuleOp> found;
  llvm::DenseMap<StringAttr, SmallVector<StringAttr>> sources;
  for (auto op : program.getOps<dist::ModuleOp>())
    found.insert({op.getSymNameAttr(), op});
  for (auto edge : program.getOps<dist::EdgeOp>())
    sources[edge.getTargetAttr().getAttr()].push_back(
        edge.getSourceAttr().getAttr());
  // Again and again the first module whose sources are all done.
  llvm::DenseMap<StringAttr, unsigned> done;
  while (modules.size() < found.size()) {
    size_t before = modules.size();
    for (auto &[name, op] : found) {
      auto isDone = [&](StringAttr s) { return done.contains(s); };
      if (done.contains(name) || !llvm::all_of(sources[name], isDone))
        continue;
      FailureOr<PlannedModule> m = readModule(op);
      if (failed(m))
        return failure();
      done.insert({name, modules.size()});
      modules.push_back(*m);
    }
    if (modules.size() == before)
      return program.emitError("edges between modules form a cycle");
  }
  for (auto op : program.getOps<dist::EdgeOp>()) {
    unsigned from = done.lookup(op.getSourceAttr().getAttr()),
             to = done.lookup(op.getTargetAttr().getAttr());
    modules[from].out.push_back(edges.size());
    modules[to].in.push_back(edges.size());
    edges.push_back({op, from, to});
  }
  return success();
}

LogicalResult StepPlan::findLosses() {
  for (auto op : program.getOps<dist::LossOp>()) {
    PlannedLoss loss;
    loss.op = op;
    loss.module = findModule(op.getModule());
    if (auto name = op.getDenominatorAttr()) {
      loss.denominator =
          modules[loss.module].op.lookupSymbol<rt::FuncOp>(name.getAttr());
      if (!loss.denominator)
        return op.emitOpError()
               << "has no function " << name << " in @" << op.getModule();
    }
    losses.push_back(loss);
  }
  return success();
}

/// Indices of the edge's ends, and whether its rows can be routed.
LogicalResult StepPlan::joinEdge(PlannedEdge &edge) {
  PlannedModule &from = modules[edge.from], &to = modules[edge.to];
  auto output = llvm::find_if(
      from.outputs, [&](auto &o) { return o.first == edge.op.getOutput(); });
  if (output == from.outputs.end())
    return edge.op.emitOpError() << "finds no output '" << edge.op.getOutput()
                                 << "' in @" << edge.op.getSource();
  edge.fromOutput = output - from.outputs.begin();
  auto input = llvm::find_if(
      to.inputs, [&](auto &in) { return in.name == edge.op.getInput(); });
  if (input == to.inputs.end())
    return edge.op.emitOpError() << "finds no input '" << edge.op.getInput()
                                 << "' in @" << edge.op.getTarget();
  edge.toInput = input - to.inputs.begin();
  if (from.wholeBatch && !to.wholeBatch)
    return edge.op.emitOpError("leads from a whole-batch module to one that "
                               "runs a microbatch at a time");
  if (bool(edge.produced) != bool(edge.consumed))
    return edge.op.emitOpError(edge.consumed
                                   ? "brings no gradient back, but its source "
                                     "takes one"
                                   : "brings a gradient back that its source "
                                     "does not take");
  rt::BufferType type = to.declarations[input->declaration].type;
  if (!getItemSymbol(to.op, type).empty())
    return success();
  bool parts = from.place.getNumParts() > 1 ||
               (!to.wholeBatch && to.place.getNumParts() > 1) ||
               (to.wholeBatch && !from.wholeBatch && microbatches > 1) ||
               from.span != to.span;
  if (parts)
    return edge.op.emitOpError() << "brings " << type
                                 << ", whose first dim counts no items: it "
                                    "cannot be put together from several parts";
  return success();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

FailureOr<unsigned> StepPlan::declare(PlannedModule &m, rt::FuncOp function,
                                      unsigned argument, StringRef name,
                                      std::optional<rt::SlotKind> slots) {
  auto type = cast<rt::BufferType>(function.getArgumentTypes()[argument]);
  FailureOr<int64_t> bytes =
      SymbolBounds(function).evaluate(function, type.getNumBytes());
  if (failed(bytes))
    return failure();
  Declaration d{name.str(), type, slots};
  d.bytes = *bytes;
  d.unjoined = bool(function.getArgAttr(argument, dist::kUnjoinedAttr));
  d.layout =
      function.getArgAttrOfType<dist::LayoutAttr>(argument, dist::kLayoutAttr);
  m.declarations.push_back(d);
  return m.declarations.size() - 1;
}

FailureOr<unsigned> StepPlan::declareOutput(PlannedModule &m, unsigned i) {
  if (m.forward.getArgAttr(i, nn::kResidualAttr)) {
    auto d = declare(m, m.forward, i, "saved" + std::to_string(m.saved.size()),
                     m.hasBackward() ? kWhole : kSingle);
    if (succeeded(d))
      m.saved.push_back(*d);
    return d;
  }
  std::string name = argumentText(m.forward, i, rt::RTDialect::kName).str();
  if (name.empty())
    name = "output" + std::to_string(i);
  // What only --save-outputs reads is read right after the forward.
  bool sent = llvm::any_of(
      m.out, [&](unsigned e) { return edges[e].op.getOutput() == name; });
  auto d = declare(m, m.forward, i, name, sent ? kWhole : kSingle);
  if (succeeded(d))
    m.outputs.push_back({name, *d});
  return d;
}

/// Whether some backward function takes the input of that name.
static bool isReadBackward(PlannedModule &m, StringRef name) {
  for (rt::FuncOp f : {m.backward, m.backwardInput, m.backwardWeight})
    for (unsigned i = 0; f && i < f.getNumArguments(); ++i)
      if (!isWritten(f, i) && argumentText(f, i, rt::RTDialect::kName) == name)
        return true;
  return false;
}

FailureOr<unsigned> StepPlan::declareInput(PlannedModule &m, unsigned i) {
  std::string name = argumentText(m.forward, i, rt::RTDialect::kName).str();
  if (name.empty())
    name = "input" + std::to_string(i);
  int from = -1;
  for (unsigned e : m.in)
    if (edges[e].op.getInput() == name)
      from = e;
  std::optional<rt::SlotKind> slots = from >= 0 ? rt::SlotKind::Received
                                      : isReadBackward(m, name) ? kWhole
                                                                : kSingle;
  auto d = declare(m, m.forward, i, name, slots);
  if (succeeded(d))
    m.inputs.push_back({name, *d, from});
  return d;
}

LogicalResult StepPlan::declareForward(PlannedModule &m) {
  for (unsigned i = 0; i < m.forward.getNumArguments(); ++i) {
    FailureOr<unsigned> d =
        isWritten(m.forward, i) ? declareOutput(m, i) : declareInput(m, i);
    if (failed(d))
      return failure();
    m.forwardBuffers.push_back(*d);
  }
  return success();
}

/// The gradient of an output that argument `i` takes: it comes over an edge.
FailureOr<unsigned> StepPlan::findGradient(PlannedModule &m, rt::FuncOp f,
                                           unsigned i) {
  StringRef name = gradientOf(f, i).getEdge();
  for (unsigned e : m.out) {
    PlannedEdge &edge = edges[e];
    if ((edge.op.getTarget() + "." + edge.op.getInput()).str() != name)
      continue;
    if (!edge.consumed) {
      auto d = declare(m, f, i, ("grad." + name).str(), kWhole);
      if (failed(d))
        return failure();
      edge.consumed = *d;
    }
    return *edge.consumed;
  }
  return f.emitOpError() << "takes a gradient from '" << name
                         << "', which gives none";
}

/// What argument `i` of a backward function reads.
FailureOr<unsigned> StepPlan::findOperand(PlannedModule &m, rt::FuncOp f,
                                          unsigned i, unsigned &nextSaved) {
  if (f.getArgAttr(i, nn::kResidualAttr)) {
    // By its number (in halves), or the next one.
    auto number = f.getArgAttrOfType<IntegerAttr>(i, nn::kResidualAttr);
    unsigned k = number ? unsigned(number.getInt()) : nextSaved++;
    if (k < m.saved.size())
      return m.saved[k];
  } else if (auto gradient = gradientOf(f, i); gradient && gradient.getEdge()) {
    return findGradient(m, f, i);
  } else {
    StringRef name = argumentText(f, i, rt::RTDialect::kName);
    for (auto &input : m.inputs)
      if (input.name == name)
        return input.declaration;
  }
  return f.emitOpError() << "argument " << i
                         << " is no input, residual or gradient of the module";
}

LogicalResult
StepPlan::declareFunction(PlannedModule &m, rt::FuncOp f,
                          llvm::SmallVectorImpl<unsigned> &buffers) {
  unsigned nextSaved = 0;
  for (unsigned i = 0; i < f.getNumArguments(); ++i) {
    FailureOr<unsigned> d = failure();
    if (!isWritten(f, i)) {
      d = findOperand(m, f, i, nextSaved);
    } else if (f.getArgAttr(i, nn::kResidualAttr)) {
      // For the other half of the backward function.
      d = declare(m, f, i, "kept" + std::to_string(m.saved.size()), kWhole);
      if (succeeded(d))
        m.saved.push_back(*d);
    } else {
      nn::GradientAttr gradient = gradientOf(f, i);
      StringRef input = gradient ? gradient.getOf().getValue() : StringRef();
      d = declare(m, f, i, ("grad." + input).str(), kWhole);
      for (unsigned e : m.in)
        if (succeeded(d) && edges[e].op.getInput() == input)
          edges[e].produced = *d;
    }
    if (failed(d))
      return failure();
    buffers.push_back(*d);
  }
  return success();
}

LogicalResult StepPlan::declareBackward(PlannedModule &m) {
  if (m.backward && failed(declareFunction(m, m.backward, m.backwardBuffers)))
    return failure();
  if (m.backwardInput &&
      failed(declareFunction(m, m.backwardInput, m.backwardInputBuffers)))
    return failure();
  if (m.backwardWeight &&
      failed(declareFunction(m, m.backwardWeight, m.backwardWeightBuffers)))
    return failure();
  return success();
}

LogicalResult StepPlan::declareLoss(PlannedLoss &loss) {
  PlannedModule &m = modules[loss.module];
  auto numerator = llvm::find_if(
      m.outputs, [&](auto &o) { return o.first == loss.op.getNumerator(); });
  if (numerator == m.outputs.end())
    return loss.op.emitOpError()
           << "finds no output '" << loss.op.getNumerator() << "' in @"
           << loss.op.getModule();
  loss.numerator = numerator->second;
  rt::FuncOp f = loss.denominator;
  if (!f)
    return success();
  for (unsigned i = 0; i < f.getNumArguments(); ++i) {
    if (isWritten(f, i)) {
      auto d =
          declare(m, f, i, (loss.op.getName() + ".denominator").str(), kSingle);
      if (failed(d))
        return failure();
      loss.denominatorOut = *d;
      loss.denominatorBuffers.push_back(*d);
      continue;
    }
    StringRef name = argumentText(f, i, rt::RTDialect::kName);
    auto input = llvm::find_if(
        m.inputs, [&](auto &in) { return in.name == name && in.edge < 0; });
    if (input == m.inputs.end()) {
      auto d = declare(m, f, i, name, kSingle);
      if (failed(d))
        return failure();
      m.inputs.push_back({name.str(), *d, -1});
      input = std::prev(m.inputs.end());
    }
    loss.denominatorInputs.push_back(input - m.inputs.begin());
    loss.denominatorBuffers.push_back(input->declaration);
  }
  return success();
}

ArrayRef<unsigned> PlannedModule::getBuffers(rt::TaskKind kind) const {
  switch (kind) {
  case rt::TaskKind::Forward:
    return forwardBuffers;
  case rt::TaskKind::Backward:
    return backwardBuffers;
  case rt::TaskKind::BackwardInput:
    return backwardInputBuffers;
  case rt::TaskKind::BackwardWeight:
    return backwardWeightBuffers;
  default:
    return {};
  }
}

void StepPlan::shortenLives(PlannedModule &m) {
  if (!m.backwardInput || !m.backwardWeight)
    return;
  auto uses = [&](rt::TaskKind kind, unsigned d) {
    return llvm::is_contained(m.getBuffers(kind), d);
  };
  for (auto [d, declaration] : llvm::enumerate(m.declarations)) {
    if (declaration.slots != kWhole)
      continue;
    // What the gradient of an output comes in is posted ahead.
    auto isConsumed = [&, index = unsigned(d)](unsigned e) {
      return edges[e].consumed == index;
    };
    bool before =
        uses(rt::TaskKind::Forward, d) || llvm::any_of(m.out, isConsumed);
    if (!before)
      declaration.slots = rt::SlotKind::Late;
    else if (!uses(rt::TaskKind::BackwardWeight, d))
      declaration.slots = rt::SlotKind::Early;
  }
}

/// One after another: a message may still be on its way when the next task
/// begins, so nothing here shares memory.
void StepPlan::placeBuffers() {
  for (PlannedModule &m : modules) {
    m.arenaBytes = 0;
    for (Declaration &d : m.declarations) {
      int64_t slots = d.slots ? m.slots[size_t(*d.slots)] : 1;
      d.offset = m.arenaBytes;
      d.stride = slots > 1 ? alignUp(d.bytes) : 0;
      m.arenaBytes += slots * alignUp(d.bytes);
    }
  }
}

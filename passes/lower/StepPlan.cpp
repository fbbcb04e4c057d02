//===- StepPlan.cpp - Task rows and buffers of one step
//---------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/lower/StepPlan.h"

#include "dialects/nn/NNNames.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;

namespace {
StringRef argumentText(rt::FuncOp f, unsigned i, StringRef attribute) {
  auto text = f.getArgAttrOfType<StringAttr>(i, attribute);
  return text ? text.getValue() : StringRef();
}

bool isWritten(rt::FuncOp f, unsigned i) { return f.getAccess(i) != "in"; }
} // namespace

PlannedModule &StepPlan::moduleOf(FlatSymbolRefAttr name) {
  return modules[indexOf.lookup(name.getValue())];
}

LogicalResult StepPlan::run() {
  for (auto batch : program.getOps<dist::BatchOp>()) {
    globalBatch = batch.getGlobal();
    microBatch = batch.getMicro();
  }
  microbatches = (globalBatch + microBatch - 1) / microBatch;
  if (failed(sortModules()) || failed(findLosses()))
    return failure();
  markTowers();
  writeRows();
  for (PlannedModule &m : modules)
    if (failed(declareForward(m)))
      return failure();
  for (PlannedLoss &loss : losses)
    if (failed(declareLoss(loss)))
      return failure();
  for (PlannedModule &m : llvm::reverse(modules))
    if (failed(declareBackward(m)))
      return failure();
  placeBlocks();
  return success();
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

LogicalResult StepPlan::sortModules() {
  llvm::MapVector<StringAttr, PlannedModule> found;
  for (auto op : program.getOps<dist::ModuleOp>()) {
    PlannedModule m;
    m.op = op;
    m.wholeBatch = op.getWholeBatch();
    m.forward = op.lookupSymbol<rt::FuncOp>("forward.fwd");
    if (!m.forward)
      m.forward = op.lookupSymbol<rt::FuncOp>("forward");
    m.backward = op.lookupSymbol<rt::FuncOp>("forward.bwd");
    if (!m.forward)
      return op.emitOpError("has no function @forward.fwd or @forward");
    found.insert({op.getSymNameAttr(), m});
  }
  for (auto edge : program.getOps<dist::EdgeOp>())
    found[edge.getTargetAttr().getAttr()].in.push_back(edge);
  // Again and again the first module whose sources are all done.
  llvm::DenseSet<StringAttr> done;
  while (modules.size() < found.size()) {
    size_t before = modules.size();
    for (auto &[name, m] : found) {
      bool ready = llvm::all_of(m.in, [&](dist::EdgeOp e) {
        return done.contains(e.getSourceAttr().getAttr());
      });
      if (done.contains(name) || !ready)
        continue;
      done.insert(name);
      indexOf[name.getValue()] = modules.size();
      modules.push_back(m);
    }
    if (modules.size() == before)
      return program.emitError("edges between modules form a cycle");
  }
  return success();
}

LogicalResult StepPlan::findLosses() {
  for (auto op : program.getOps<dist::LossOp>()) {
    PlannedLoss loss;
    loss.op = op;
    loss.module = indexOf.lookup(op.getModule());
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

void StepPlan::markTowers() {
  for (PlannedModule &m : llvm::reverse(modules))
    if (m.wholeBatch || m.tower)
      for (dist::EdgeOp edge : m.in)
        moduleOf(edge.getSourceAttr()).tower = true;
}

void StepPlan::writeRows() {
  bool anyHead = llvm::any_of(
      modules, [](const PlannedModule &m) { return m.wholeBatch; });
  auto slot = [&](int64_t mb) { return anyHead ? mb : 0; };
  auto push = [&](rt::StageKind kind, unsigned i, int64_t mb) {
    if (kind == rt::StageKind::forward && mb == 0)
      modules[i].forwardRow = rows.size();
    if (kind == rt::StageKind::backward && mb == 0)
      modules[i].backwardRow = rows.size();
    rows.push_back({kind, i, mb, slot(mb)});
  };
  auto forward = [&](int64_t mb, function_ref<bool(PlannedModule &)> which) {
    for (unsigned i = 0; i < modules.size(); ++i)
      if (which(modules[i]))
        push(rt::StageKind::forward, i, mb);
  };
  auto backward = [&](int64_t mb, function_ref<bool(PlannedModule &)> which) {
    for (unsigned i = modules.size(); i-- > 0;)
      if (which(modules[i]) && modules[i].backward)
        push(rt::StageKind::backward, i, mb);
  };
  for (auto [i, loss] : llvm::enumerate(losses))
    for (int64_t mb = 0; loss.denominator && mb < microbatches; ++mb)
      if (mb == 0 || !modules[loss.module].wholeBatch)
        push(rt::StageKind::denominator, i, mb);
  // Towers of all microbatches, then what needs the whole batch, then the rest.
  for (int64_t mb = 0; anyHead && mb < microbatches; ++mb)
    forward(mb, [](PlannedModule &m) { return m.tower && !m.wholeBatch; });
  forward(0, [](PlannedModule &m) { return m.wholeBatch; });
  backward(0, [](PlannedModule &m) { return m.wholeBatch; });
  for (int64_t mb = 0; mb < microbatches; ++mb) {
    forward(mb, [](PlannedModule &m) { return !m.tower && !m.wholeBatch; });
    backward(mb, [](PlannedModule &m) { return !m.wholeBatch; });
  }
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

/// A buffer of the module's own, first used in `row`.
FailureOr<unsigned> StepPlan::declare(PlannedModule &m, StringRef name,
                                      rt::BufferType type, int64_t row) {
  FailureOr<int64_t> bytes =
      SymbolBounds(m.forward).evaluate(m.forward, type.getNumBytes());
  if (failed(bytes))
    return failure();
  ArenaBlock block;
  block.bytes = *bytes;
  block.slots = m.tower && !m.wholeBatch ? microbatches : 1;
  block.first = block.last = row;
  // With a slot a microbatch, the others' rows come later.
  if (block.slots > 1)
    block.last = rows.size();
  blocks.push_back(block);
  m.declarations.push_back({name.str(), type, unsigned(blocks.size() - 1)});
  return m.declarations.size() - 1;
}

/// A microbatch's part of a block that holds the whole batch.
FailureOr<unsigned> StepPlan::gather(PlannedModule &m, StringRef name,
                                     rt::BufferType type, unsigned block,
                                     Operation *op) {
  Declaration d{name.str(), type, block};
  nn::Shape shape = type.getShape();
  auto affine = shape.empty() ? std::nullopt : shape[0].asAffine();
  if (!affine)
    return op->emitOpError() << "brings " << type
                             << " into a whole-batch module: its first dim "
                                "must count items";
  if (!affine->symbol.empty()) {
    d.byRow = true;
  } else {
    // Every part has as many rows: slots lie one after another.
    blocks[block].stride = *type.getNumBytes().asConstant();
  }
  blocks[block].gathers = true;
  blocks[block].last = rows.size();
  m.declarations.push_back(d);
  return m.declarations.size() - 1;
}

void StepPlan::extend(PlannedModule &m, unsigned declaration, int64_t row) {
  ArenaBlock &block = blocks[m.declarations[declaration].block];
  block.first = std::min(block.first, row);
  block.last = std::max(block.last, row);
}

/// The input that an edge feeds: the other end's block.
FailureOr<unsigned> StepPlan::declareEdge(PlannedModule &m, StringRef name,
                                          rt::BufferType type,
                                          dist::EdgeOp edge) {
  PlannedModule &source = moduleOf(edge.getSourceAttr());
  auto output = llvm::find_if(
      source.outputs, [&](auto &o) { return o.first == edge.getOutput(); });
  if (output == source.outputs.end())
    return edge.emitOpError() << "finds no output '" << edge.getOutput()
                              << "' in @" << edge.getSource();
  const Declaration &from = source.declarations[output->second];
  if (m.wholeBatch == source.wholeBatch || m.wholeBatch) {
    m.declarations.push_back(
        {name.str(), type, from.block, from.byRow && !m.wholeBatch});
    extend(m, m.declarations.size() - 1, m.forwardRow);
    return m.declarations.size() - 1;
  }
  return edge.emitOpError("leads from a whole-batch module to one that runs a "
                          "microbatch at a time");
}

/// The edge that brings an output into a whole-batch module, or null.
dist::EdgeOp StepPlan::headEdge(PlannedModule &m, StringRef output) {
  for (auto edge : program.getOps<dist::EdgeOp>())
    if (!m.wholeBatch && edge.getSource() == m.op.getSymName() &&
        edge.getOutput() == output && moduleOf(edge.getTargetAttr()).wholeBatch)
      return edge;
  return nullptr;
}

/// An output for a whole-batch module is written where that one reads it.
FailureOr<unsigned> StepPlan::declareGathered(PlannedModule &m, StringRef name,
                                              rt::BufferType type,
                                              dist::EdgeOp edge) {
  rt::FuncOp target = moduleOf(edge.getTargetAttr()).forward;
  for (unsigned j = 0; j < target.getNumArguments(); ++j) {
    if (argumentText(target, j, rt::RTDialect::kName) != edge.getInput())
      continue;
    auto whole = cast<rt::BufferType>(target.getArgumentTypes()[j]);
    FailureOr<int64_t> bytes =
        SymbolBounds(target).evaluate(edge, whole.getNumBytes());
    if (failed(bytes))
      return failure();
    ArenaBlock block;
    block.bytes = *bytes;
    block.first = m.forwardRow;
    blocks.push_back(block);
    return gather(m, name, type, blocks.size() - 1, edge);
  }
  return edge.emitOpError() << "finds no input '" << edge.getInput() << "' in @"
                            << edge.getTarget();
}

FailureOr<unsigned> StepPlan::declareOutput(PlannedModule &m, unsigned i,
                                            unsigned &residuals) {
  auto type = cast<rt::BufferType>(m.forward.getArgumentTypes()[i]);
  if (m.forward.getArgAttr(i, nn::kResidualAttr))
    return declare(m, "saved" + std::to_string(residuals++), type,
                   m.forwardRow);
  std::string name = argumentText(m.forward, i, rt::RTDialect::kName).str();
  if (name.empty())
    name = "output" + std::to_string(i);
  dist::EdgeOp head = headEdge(m, name);
  FailureOr<unsigned> d = head ? declareGathered(m, name, type, head)
                               : declare(m, name, type, m.forwardRow);
  if (succeeded(d))
    m.outputs.push_back({name, *d});
  return d;
}

FailureOr<unsigned> StepPlan::declareInput(PlannedModule &m, unsigned i) {
  auto type = cast<rt::BufferType>(m.forward.getArgumentTypes()[i]);
  std::string name = argumentText(m.forward, i, rt::RTDialect::kName).str();
  if (name.empty())
    name = "input" + std::to_string(i);
  dist::EdgeOp from;
  for (dist::EdgeOp edge : m.in)
    if (edge.getInput() == name)
      from = edge;
  FailureOr<unsigned> d = from ? declareEdge(m, name, type, from)
                               : declare(m, name, type, m.forwardRow);
  if (failed(d))
    return failure();
  // What comes with the batch stays until the part is done.
  if (!from && m.backward)
    extend(m, *d, m.backwardRow);
  m.inputs.push_back({name, *d, from});
  return d;
}

LogicalResult StepPlan::declareForward(PlannedModule &m) {
  unsigned residuals = 0;
  for (unsigned i = 0; i < m.forward.getNumArguments(); ++i) {
    FailureOr<unsigned> d = isWritten(m.forward, i)
                                ? declareOutput(m, i, residuals)
                                : declareInput(m, i);
    if (failed(d))
      return failure();
    m.forwardBuffers.push_back(*d);
  }
  return success();
}

/// The gradient of an output that argument `i` of the backward function takes:
/// what the edge's other end has written.
FailureOr<unsigned> StepPlan::bufferOfGradient(PlannedModule &m, unsigned i) {
  StringRef edge = argumentText(m.backward, i, nn::kEdgeAttr);
  auto it = edgeGradients.find(edge);
  if (it == edgeGradients.end())
    return m.backward.emitOpError()
           << "takes a gradient from '" << edge << "', which gives none";
  auto type = cast<rt::BufferType>(m.backward.getArgumentTypes()[i]);
  std::string name = ("grad." + edge).str();
  if (modules[indexOf.lookup(edge.split('.').first)].wholeBatch &&
      !m.wholeBatch)
    return gather(m, name, type, it->second, m.backward);
  m.declarations.push_back({name, type, it->second});
  return m.declarations.size() - 1;
}

LogicalResult StepPlan::declareBackward(PlannedModule &m) {
  if (!m.backward)
    return success();
  SmallVector<unsigned> saved;
  for (unsigned i = 0; i < m.forward.getNumArguments(); ++i)
    if (m.forward.getArgAttr(i, nn::kResidualAttr))
      saved.push_back(m.forwardBuffers[i]);
  unsigned nextSaved = 0;
  for (unsigned i = 0; i < m.backward.getNumArguments(); ++i) {
    auto type = cast<rt::BufferType>(m.backward.getArgumentTypes()[i]);
    StringRef name = argumentText(m.backward, i, rt::RTDialect::kName);
    FailureOr<unsigned> d = failure();
    if (isWritten(m.backward, i)) {
      std::string input = argumentText(m.backward, i, nn::kGradOfAttr).str();
      d = declare(m, "grad." + input, type, m.backwardRow);
      if (succeeded(d))
        edgeGradients[(m.op.getSymName() + "." + input).str()] =
            m.declarations[*d].block;
    } else if (m.backward.getArgAttr(i, nn::kResidualAttr) &&
               nextSaved < saved.size()) {
      d = saved[nextSaved++];
    } else if (m.backward.getArgAttr(i, nn::kEdgeAttr)) {
      d = bufferOfGradient(m, i);
    } else {
      for (auto &input : m.inputs)
        if (input.name == name)
          d = input.declaration;
      if (failed(d))
        return m.backward.emitOpError()
               << "argument " << i
               << " is no input, residual or gradient of the module";
    }
    if (failed(d))
      return failure();
    extend(m, *d, m.backwardRow);
    m.backwardBuffers.push_back(*d);
  }
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
  // The runtime reads both whenever it likes.
  extend(m, loss.numerator, rows.size());
  extend(m, loss.numerator, 0);
  rt::FuncOp f = loss.denominator;
  if (!f)
    return success();
  for (unsigned i = 0; i < f.getNumArguments(); ++i) {
    auto type = cast<rt::BufferType>(f.getArgumentTypes()[i]);
    if (isWritten(f, i)) {
      FailureOr<unsigned> d =
          declare(m, (loss.op.getName() + ".denominator").str(), type, 0);
      if (failed(d))
        return failure();
      extend(m, *d, rows.size());
      loss.denominatorOut = *d;
      loss.denominatorBuffers.push_back(*d);
      continue;
    }
    StringRef name = argumentText(f, i, rt::RTDialect::kName);
    auto input = llvm::find_if(
        m.inputs, [&](auto &in) { return in.name == name && !in.edge; });
    if (input == m.inputs.end()) {
      FailureOr<unsigned> d = declare(m, name, type, m.forwardRow);
      if (failed(d))
        return failure();
      m.inputs.push_back({name.str(), *d, dist::EdgeOp()});
      input = std::prev(m.inputs.end());
    }
    loss.denominatorInputs.push_back(input - m.inputs.begin());
    loss.denominatorBuffers.push_back(input->declaration);
  }
  return success();
}

void StepPlan::placeBlocks() {
  for (ArenaBlock &block : blocks) {
    if (block.slots > 1)
      block.stride = alignUp(block.bytes);
    block.place =
        layout.add(block.slots > 1 ? block.stride * block.slots : block.bytes,
                   block.first, block.last);
  }
  layout.place();
}

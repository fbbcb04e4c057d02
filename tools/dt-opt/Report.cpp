//===- Report.cpp - What a program costs ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Report.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNNames.h"
#include "dialects/nn/NNOps.h"
#include "dialects/rt/RTOps.h"

using namespace mlir;

namespace dt {

ModuleReport &ProgramReport::getModule(StringRef name) {
  for (ModuleReport &module : modules)
    if (module.name == name)
      return module;
  modules.emplace_back();
  modules.back().name = name.str();
  return modules.back();
}

std::vector<UnitReport> getUnits(const ProgramReport &report, bool wholeBatch) {
  std::vector<UnitReport> units;
  for (const ModuleReport &m : report.modules) {
    if (m.wholeBatch && !wholeBatch)
      continue;
    const std::string &name = m.unit.empty() ? m.name : m.unit;
    auto known = llvm::find_if(
        units, [&](const UnitReport &unit) { return unit.name == name; });
    if (known == units.end())
      known = units.insert(known, {name, {}});
    known->stages.push_back(&m);
  }
  return units;
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

namespace {

/// FLOPs of functions and all that they call; a function is counted once and
/// multiplied, however often it is called.
class FlopCounter {
public:
  nn::DimExpr count(func::FuncOp function) {
    auto known = counts.find(function);
    if (known != counts.end())
      return known->second;
    counts[function] = nn::DimExpr(); // ends a recursion, which is no valid IR
    nn::DimExpr total;
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto call = dyn_cast<func::CallOp>(op))
        if (auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
                op, call.getCalleeAttr()))
          total = total + count(callee);
      auto cost = dyn_cast<nn::CostOpInterface>(op);
      if (!cost)
        return WalkResult::advance();
      total = total + cost.getFlops();
      return WalkResult::skip(); // its body is in its own figure
    });
    return counts[function] = total;
  }

private:
  llvm::DenseMap<Operation *, nn::DimExpr> counts;
};

/// The value at the bounds of the module's symbols, `runs` times.
std::optional<int64_t> atBounds(dist::ModuleOp module, const nn::DimExpr &size,
                                int64_t runs) {
  auto value = size.evaluate([&](StringRef symbol) -> std::optional<int64_t> {
    auto dim = module.lookupSymbol<nn::DimOp>(symbol);
    return dim ? dim.getMax() : std::nullopt;
  });
  int64_t product;
  if (!value || __builtin_mul_overflow(*value, runs, &product))
    return std::nullopt;
  return product;
}

} // namespace

void addCosts(ModuleOp program, ProgramReport &report) {
  for (auto batch : program.getOps<dist::BatchOp>()) {
    report.globalBatch = batch.getGlobal();
    report.microBatch = batch.getMicro();
  }
  // Seen again after a phase: modules may have been cut.
  if (!program.getOps<dist::ModuleOp>().empty())
    report.modules.clear();
  for (auto module : program.getOps<dist::ModuleOp>()) {
    ModuleReport &entry = report.getModule(module.getSymName());
    entry.wholeBatch = module.getWholeBatch();
    if (module.getRole())
      entry.role = dist::stringifyRole(*module.getRole()).str();
    entry.item = module.getItem().value_or("-").str();
    if (auto save = module.getSave())
      entry.save = rt::textOf(*save);
    for (auto dim : module.getOps<nn::DimOp>())
      if (dim.getItem() && dim.getMax())
        entry.rowsMax[dim.getQuantity()] = *dim.getBound();
    for (auto parameter : module.getOps<nn::ParameterOp>()) {
      int64_t size =
          cast<RankedTensorType>(parameter.getType()).getNumElements();
      if (parameter.getTrainable())
        entry.trainable += size;
      else if (!parameter.getBuffer())
        entry.frozen += size;
    }
    FlopCounter counter;
    int64_t runs = entry.wholeBatch
                       ? 1
                       : llvm::divideCeilSigned(report.getMicrobatches(),
                                                module.getSpan()) *
                             dist::Placement(module).sub;
    auto flopsOf = [&](func::FuncOp function) {
      return atBounds(module, counter.count(function), runs);
    };
    dist::Functions functions = dist::getFunctions(module);
    if (functions.forward)
      entry.forwardFlops = flopsOf(functions.forward);
    for (func::FuncOp function : functions.getBackwards())
      if (std::optional<int64_t> flops = flopsOf(function))
        entry.backwardFlops = entry.backwardFlops.value_or(0) + *flops;
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace {

/// Reads blocks off the tables of a program: what rank 0 has of each module,
/// one region after another, then the scratch.
class ArenaReader {
public:
  ArenaReader(rt::ProgramOp program, ProgramReport &report)
      : program(program), report(report) {}

  void read() {
    report.hasMemory = true;
    report.globalBatch = program.getGlobalBatch();
    report.microBatch = program.getMicroBatch();
    SmallVector<rt::RankOp, 0> ranks = program.getRanks();
    if (!ranks.empty())
      for (auto task : ranks[0].getBody().getOps<rt::TaskOp>())
        addRow(task);
    for (auto loss : program.getBody().getOps<rt::LossOp>())
      keepLoss(loss);
    for (auto module : program.getBody().getOps<rt::ModuleOp>())
      if (llvm::is_contained(module.getRanks(), 0))
        readModule(module);
    report.scratchOffset = report.arenaBytes;
    report.arenaBytes += report.scratchBytes;
    llvm::sort(report.scratch, [](auto &a, auto &b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
  }

private:
  struct Use {
    int64_t row, slot;
  };

  void use(rt::ModuleOp module, FlatSymbolRefAttr buffer, int64_t slot) {
    if (module && buffer)
      uses[(module.getSymName() + "." + buffer.getValue()).str()].push_back(
          {int64_t(report.rows.size()) - 1, slot});
  }

  /// "3", or "3 piece 1".
  static std::string placeOf(rt::TaskOp task) {
    return std::to_string(task.getMicrobatch()) +
           (task.getPiece() ? " piece " + std::to_string(task.getPiece()) : "");
  }

  void addRow(rt::TaskOp task) {
    if (task.getEdge())
      return addMessage(task);
    std::string module = task.getSubject()->str();
    StringAttr denominator;
    if (task.getKind() == rt::TaskKind::Denominator)
      if (auto loss = program.lookupSymbol<rt::LossOp>(*task.getSubject())) {
        module = loss.getModule().str();
        if (auto callee = loss.getDenominatorAttr())
          denominator = callee.getAttr();
      }
    report.rows.push_back((Twine(rt::textOf(task.getKind())) + " " +
                           *task.getSubject() + " " + placeOf(task))
                              .str());
    auto op = program.lookupSymbol<rt::ModuleOp>(module);
    if (!op)
      return;
    for (auto entry : op.getBody().getOps<rt::EntryOp>()) {
      if (entry.getKind() != task.getKind() ||
          (denominator && entry.getCalleeAttr().getAttr() != denominator))
        continue;
      for (auto buffer : entry.getBuffers().getAsRange<FlatSymbolRefAttr>()) {
        auto decl = op.lookupSymbol<rt::BufferDeclOp>(buffer.getAttr());
        use(op, buffer,
            decl ? task.getSlotOf(decl.getSlots()) : int64_t(task.getSlot()));
      }
    }
  }

  /// Rows that move data name the edge by its number.
  void addMessage(rt::TaskOp task) {
    auto edges = program.getBody().getOps<rt::EdgeOp>();
    rt::EdgeOp edge = *std::next(edges.begin(), *task.getEdge());
    auto find = [&](StringRef name) {
      return program.lookupSymbol<rt::ModuleOp>(name);
    };
    rt::ModuleOp from = find(edge.getSource()), to = find(edge.getTarget());
    bool back = task.getGradient(), copy = task.getKind() == rt::TaskKind::Copy;
    report.rows.push_back((Twine(rt::textOf(task.getKind())) + " " +
                           edge.getSource() + " to " + edge.getTarget() + " " +
                           placeOf(task) + (back ? " gradient" : ""))
                              .str());
    auto outputs = from.getBody().getOps<rt::OutputOp>();
    auto inputs = to.getBody().getOps<rt::InputOp>();
    FlatSymbolRefAttr atSource =
                          back ? edge.getConsumedAttr()
                               : (*std::next(outputs.begin(), edge.getOutput()))
                                     .getBufferAttr(),
                      atTarget =
                          back ? edge.getProducedAttr()
                               : (*std::next(inputs.begin(), edge.getInput()))
                                     .getBufferAttr();
    bool sends = task.getKind() == rt::TaskKind::Send;
    if (copy || sends != back)
      use(from, atSource, task.getSlot());
    if (copy || sends == back)
      use(to, atTarget, copy ? task.getPeer() : task.getSlot());
  }

  /// The runtime reads a loss's terms at any time of the step.
  void keepLoss(rt::LossOp loss) {
    auto keep = [&](StringRef buffer) {
      uses[(loss.getModule() + "." + buffer).str()] = {
          {0, 0}, {int64_t(report.rows.size()) - 1, 0}};
    };
    keep(loss.getNumerator());
    if (loss.getDenominatorOut())
      keep(*loss.getDenominatorOut());
  }

  int64_t getBytes(rt::ModuleOp module, const nn::DimExpr &size) {
    auto value = size.evaluate([&](StringRef symbol) -> std::optional<int64_t> {
      auto op = module.lookupSymbol<rt::SymbolOp>(symbol);
      return op ? std::optional<int64_t>(op.getMax()) : std::nullopt;
    });
    return value.value_or(0);
  }

  static std::string quantityOf(rt::SymbolOp symbol) {
    std::string text = symbol.getItem()->str();
    return symbol.getMeasure() ? text + "." + symbol.getMeasure()->str() : text;
  }

  void readModule(rt::ModuleOp module) {
    ModuleReport &entry = report.getModule(module.getSymName());
    for (auto symbol : module.getBody().getOps<rt::SymbolOp>())
      if (symbol.getItem())
        entry.rowsMax[quantityOf(symbol)] =
            symbol.getMax() * symbol.getMultiple();
    checkResiduals(module);
    for (auto decl : module.getBody().getOps<rt::BufferDeclOp>())
      readBuffer(module, decl, entry);
    for (auto function : module.getBody().getOps<rt::FuncOp>())
      if (int64_t bytes = function.getScratchBytes().value_or(0))
        report.scratch.push_back(
            {(module.getSymName() + "." + function.getSymName()).str(), bytes});
    entry.scratchBytes = module.getScratch();
    report.scratchBytes = std::max(report.scratchBytes, entry.scratchBytes);
    report.arenaBytes += module.getArena();
    report.parameterBytes += module.getParameters();
  }

  /// The number that lowering gives a buffer which a forward saves.
  static std::optional<size_t> getSavedNumber(StringRef name) {
    size_t number;
    if (!name.consume_front("saved") || name.getAsInteger(10, number))
      return std::nullopt;
    return number;
  }

  /// Names of residuals are those of the buffers if there are as many.
  void checkResiduals(rt::ModuleOp module) {
    auto decls = module.getBody().getOps<rt::BufferDeclOp>();
    auto saved = llvm::count_if(decls, [](rt::BufferDeclOp decl) {
      return getSavedNumber(decl.getSymName()).has_value();
    });
    auto known = report.residuals.find(module.getSymName().str());
    if (known != report.residuals.end() &&
        known->second.size() != size_t(saved))
      report.residuals.erase(known);
  }

  /// What a buffer is for: lowering says it by the name.
  void describe(rt::BufferDeclOp decl, BlockReport &block) {
    if (decl.getSymName().starts_with("grad."))
      block.role = BlockReport::Gradient;
    auto number = getSavedNumber(decl.getSymName());
    if (!number)
      return;
    block.role = BlockReport::Saved;
    auto known = report.residuals.find(block.module);
    if (known != report.residuals.end() && *number < known->second.size())
      block.residual = known->second[*number];
  }

  void readBuffer(rt::ModuleOp module, rt::BufferDeclOp decl,
                  ModuleReport &entry) {
    std::string name = (module.getSymName() + "." + decl.getSymName()).str();
    BlockReport block;
    block.module = module.getSymName().str();
    llvm::raw_string_ostream(block.type) << decl.getType();
    block.bytes = getBytes(module, decl.getType().getNumBytes());
    describe(decl, block);
    std::map<int64_t, BlockReport> slots;
    for (const Use &use : uses[name]) {
      int64_t s = decl.getStride() ? use.slot : 0;
      auto [slot, fresh] = slots.insert({s, block});
      BlockReport &b = slot->second;
      b.first = fresh ? use.row : std::min(b.first, use.row);
      b.last = std::max(b.last, use.row);
    }
    for (auto &[slot, b] : slots) {
      b.offset = report.arenaBytes + int64_t(decl.getOffset()) +
                 slot * int64_t(decl.getStride());
      b.name =
          slots.size() > 1 ? name + "[" + std::to_string(slot) + "]" : name;
      entry.bufferBytes += b.bytes;
      report.blocks.push_back(b);
    }
  }

  rt::ProgramOp program;
  ProgramReport &report;
  std::map<std::string, std::vector<Use>> uses; ///< by "module.buffer"
};

} // namespace

LogicalResult addMemory(ModuleOp program, ProgramReport &report) {
  for (auto op : program.getOps<rt::ProgramOp>()) {
    ArenaReader(op, report).read();
    if (failed(addRanks(op, report)))
      return failure();
  }
  return success();
}

} // namespace dt

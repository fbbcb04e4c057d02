//===- Report.cpp - What a program costs -------------------------*- C++
//-*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Report.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNNames.h"
#include "dialects/nn/NNOps.h"
#include "dialects/rt/RTOps.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

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
    if (auto save = module->getAttrOfType<StringAttr>(nn::kSaveAttr))
      entry.save = save.str();
    for (auto dim : module.getOps<nn::DimOp>())
      if (dim.getItem() && dim.getMax())
        entry.rowsMax[dim.getItem()->str()] = *dim.getMax();
    for (auto parameter : module.getOps<nn::ParameterOp>()) {
      int64_t size =
          cast<RankedTensorType>(parameter.getType()).getNumElements();
      if (parameter.getTrainable())
        entry.trainable += size;
      else if (!parameter.getBuffer())
        entry.frozen += size;
    }
    FlopCounter counter;
    int64_t runs = entry.wholeBatch ? 1 : report.getMicrobatches();
    auto flopsOf = [&](StringRef name) -> std::optional<int64_t> {
      auto function = module.lookupSymbol<func::FuncOp>(name);
      return function ? atBounds(module, counter.count(function), runs)
                      : std::nullopt;
    };
    entry.forwardFlops = flopsOf("forward.fwd");
    if (!entry.forwardFlops)
      entry.forwardFlops = flopsOf("forward");
    for (StringRef part :
         {"forward.bwd", "forward.bwd.input", "forward.bwd.weight"})
      if (auto flops = flopsOf(part))
        entry.backwardFlops = entry.backwardFlops.value_or(0) + *flops;
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace {

/// Reads the arena's blocks off the tables of a program.
class ArenaReader {
public:
  ArenaReader(rt::ProgramOp program, ProgramReport &report)
      : program(program), report(report) {}

  void read() {
    report.hasMemory = true;
    report.arenaBytes = program.getArenaBytes();
    report.parameterBytes = program.getParameterBytes();
    report.scratchOffset = program.getScratch();
    report.globalBatch = program.getGlobalBatch();
    report.microBatch = program.getMicroBatch();
    for (auto task : program.getBody().getOps<rt::TaskOp>())
      addRow(task);
    for (auto loss : program.getBody().getOps<rt::LossOp>())
      keepLoss(loss);
    for (auto module : program.getBody().getOps<rt::ModuleOp>())
      readModule(module);
    joinBlocks();
    llvm::sort(report.scratch, [](auto &a, auto &b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
  }

private:
  struct Use {
    int64_t row, slot;
    bool read; ///< before anything is written
  };

  void addRow(rt::TaskOp task) {
    int64_t row = report.rows.size();
    std::string module = task.getSubject().str();
    StringAttr denominator;
    if (task.getKind() == rt::StageKind::denominator)
      if (auto loss = program.lookupSymbol<rt::LossOp>(task.getSubject())) {
        module = loss.getModule().str();
        if (auto callee = loss.getDenominatorAttr())
          denominator = callee.getAttr();
      }
    report.rows.push_back((rt::stringifyStageKind(task.getKind()) + " " +
                           task.getSubject() + " " +
                           Twine(task.getMicrobatch()))
                              .str());
    auto op = program.lookupSymbol<rt::ModuleOp>(module);
    if (!op)
      return;
    for (auto stage : op.getBody().getOps<rt::StageOp>()) {
      if (stage.getKind() != task.getKind() ||
          (denominator && stage.getCalleeAttr().getAttr() != denominator))
        continue;
      auto callee = op.lookupSymbol<rt::FuncOp>(stage.getCallee());
      for (auto [i, buffer] :
           llvm::enumerate(stage.getBuffers().getAsRange<FlatSymbolRefAttr>()))
        uses[module + "." + buffer.getValue().str()].push_back(
            {row, int64_t(task.getSlot()),
             callee && callee.getAccess(i) != "out"});
    }
  }

  /// The runtime reads a loss's terms at any time of the step.
  void keepLoss(rt::LossOp loss) {
    int64_t last = int64_t(report.rows.size()) - 1;
    auto keep = [&](StringRef buffer) {
      std::vector<Use> &list = uses[(loss.getModule() + "." + buffer).str()];
      std::vector<Use> known = list;
      for (const Use &use : known)
        list.insert(list.end(),
                    {{0, use.slot, false}, {last, use.slot, false}});
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

  void readModule(rt::ModuleOp module) {
    ModuleReport &entry = report.getModule(module.getSymName());
    for (auto symbol : module.getBody().getOps<rt::SymbolOp>())
      if (symbol.getItem())
        entry.rowsMax[symbol.getItem()->str()] = symbol.getMax();
    llvm::StringSet<> raw;
    for (auto input : module.getBody().getOps<rt::InputOp>())
      if (!input.getFrom())
        raw.insert(input.getBuffer());
    for (auto decl : module.getBody().getOps<rt::BufferDeclOp>())
      readBuffer(module, decl, raw.contains(decl.getSymName()), entry);
    for (auto function : module.getBody().getOps<rt::FuncOp>())
      if (int64_t bytes = function.getScratchBytes().value_or(0))
        report.scratch.push_back(
            {(module.getSymName() + "." + function.getSymName()).str(), bytes});
    for (auto stage : module.getBody().getOps<rt::StageOp>())
      if (auto callee = module.lookupSymbol<rt::FuncOp>(stage.getCallee()))
        entry.scratchBytes = std::max<int64_t>(
            entry.scratchBytes, callee.getScratchBytes().value_or(0));
    report.scratchBytes = std::max(report.scratchBytes, entry.scratchBytes);
  }

  void readBuffer(rt::ModuleOp module, rt::BufferDeclOp decl, bool raw,
                  ModuleReport &entry) {
    std::string name = (module.getSymName() + "." + decl.getSymName()).str();
    BlockReport block;
    block.module = module.getSymName().str();
    llvm::raw_string_ostream(block.type) << decl.getType();
    block.bytes = getBytes(module, decl.getType().getNumBytes());
    std::map<int64_t, BlockReport> slots;
    for (const Use &use : uses[name]) {
      auto [slot, fresh] = slots.insert({use.slot, block});
      BlockReport &b = slot->second;
      if (fresh || use.row < b.first) {
        b.first = use.row;
        b.received = use.read && !raw;
      }
      b.last = std::max(b.last, use.row);
    }
    // By row: parts follow one another, each as long as its items.
    int64_t stride = decl.getRows() ? block.bytes : decl.getStride();
    for (auto &[slot, b] : slots) {
      b.offset = decl.getOffset() + slot * stride;
      b.name =
          slots.size() > 1 ? name + "[" + std::to_string(slot) + "]" : name;
      entry.bufferBytes += b.bytes;
      report.blocks.push_back(b);
    }
  }

  /// A tensor that goes from module to module has one place and a declaration
  /// in each: those become one block. Where a whole-batch module reads what
  /// microbatches wrote, or the other way, the parts live up to the whole.
  void joinBlocks() {
    llvm::sort(report.blocks, [](auto &a, auto &b) {
      return std::tie(a.offset, a.bytes, a.first, a.name) <
             std::tie(b.offset, b.bytes, b.first, b.name);
    });
    std::vector<BlockReport> joined;
    for (BlockReport &block : report.blocks) {
      BlockReport *last = joined.empty() ? nullptr : &joined.back();
      if (last && last->offset == block.offset && last->bytes == block.bytes &&
          (block.received || block.first <= last->last)) {
        last->name += " = " + block.name;
        last->last = std::max(last->last, block.last);
      } else {
        joined.push_back(block);
      }
    }
    report.blocks = std::move(joined);
    for (BlockReport &block : report.blocks)
      if (block.received)
        meetSources(block);
    llvm::sort(report.blocks, [](auto &a, auto &b) {
      return std::tie(a.offset, a.first, a.name) <
             std::tie(b.offset, b.first, b.name);
    });
  }

  /// Whether nothing takes the block's place between its end and `row`.
  bool isLatest(const BlockReport &block, int64_t row) {
    return llvm::none_of(report.blocks, [&](const BlockReport &other) {
      return other.first > block.last && other.first < row &&
             other.offset < block.offset + block.bytes &&
             block.offset < other.offset + other.bytes;
    });
  }

  void meetSources(BlockReport &block) {
    auto holds = [](const BlockReport &a, const BlockReport &b) {
      return a.offset <= b.offset && b.offset + b.bytes <= a.offset + a.bytes;
    };
    BlockReport *whole = nullptr; // the latest that contains this part
    for (BlockReport &other : report.blocks) {
      if (other.last >= block.first || &other == &block)
        continue;
      if (holds(block, other) && isLatest(other, block.first))
        other.last = block.first - 1;
      else if (holds(other, block) && (!whole || whole->last < other.last))
        whole = &other;
    }
    if (whole)
      block.first = whole->last + 1;
  }

  rt::ProgramOp program;
  ProgramReport &report;
  std::map<std::string, std::vector<Use>> uses; ///< by "module.buffer"
};

} // namespace

void addMemory(ModuleOp program, ProgramReport &report) {
  for (auto op : program.getOps<rt::ProgramOp>())
    ArenaReader(op, report).read();
}

} // namespace dt

//===- RTStep.cpp - Which rows of a rank's step are ordered -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/rt/RTStep.h"
#include "dialects/rt/RTBytes.h"

#include <set>

using namespace mlir;
using namespace dt::rt;

//===----------------------------------------------------------------------===//
// What rows touch
//===----------------------------------------------------------------------===//

/// The buffer of an input or output, by its index.
template <typename OpT>
static FlatSymbolRefAttr bufferOf(dt::rt::ModuleOp module, int64_t index) {
  auto all = module.getBody().getOps<OpT>();
  OpT op = *std::next(all.begin(), index);
  return op.getBufferAttr();
}

static const void *gradientsOf(dt::rt::ModuleOp module) {
  return &module.getBody();
}

StepBytes::StepBytes(ProgramOp program) : program(program) {
  for (auto module : program.getBody().getOps<dt::rt::ModuleOp>()) {
    // Sizes are asked of a function; a module without one does nothing.
    auto functions = module.getBody().getOps<FuncOp>();
    if (functions.empty())
      continue;
    BufferBytes sizes(*functions.begin());
    for (auto decl : module.getBody().getOps<BufferDeclOp>())
      bytes[decl] = sizes.getMax(cast<BufferType>(decl.getType()).getNumBytes())
                        .value_or(module.getArena());
    for (auto entry : module.getBody().getOps<EntryOp>())
      addEntry(entry);
  }
  for (auto edge : program.getBody().getOps<EdgeOp>())
    addEdge(edge);
}

StepBytes::Access StepBytes::accessOf(dt::rt::ModuleOp module,
                                      FlatSymbolRefAttr buffer,
                                      bool writes) const {
  auto decl = module.lookupSymbol<BufferDeclOp>(buffer.getAttr());
  if (!decl)
    return {};
  return {module.getOperation(),     int64_t(decl.getOffset()),
          int64_t(decl.getStride()), bytes.lookup(decl),
          decl.getSlots(),           writes};
}

void StepBytes::addEdge(EdgeOp edge) {
  auto source = program.lookupSymbol<dt::rt::ModuleOp>(edge.getSource()),
       target = program.lookupSymbol<dt::rt::ModuleOp>(edge.getTarget());
  Edge &ends = edges.emplace_back();
  ends.isBatch = target.getWholeBatch();
  ends.sourceSpan = source.getSpan(), ends.targetSpan = target.getSpan();
  ends.output =
      accessOf(source, bufferOf<OutputOp>(source, edge.getOutput()), false);
  ends.input =
      accessOf(target, bufferOf<InputOp>(target, edge.getInput()), true);
  if (edge.getProducedAttr()) {
    ends.produced = accessOf(target, edge.getProducedAttr(), false);
    ends.consumed = accessOf(source, edge.getConsumedAttr(), true);
  }
}

/// What the function touches, and what is copied from the batch before.
void StepBytes::addEntry(EntryOp entry) {
  auto module = entry->getParentOfType<dt::rt::ModuleOp>();
  auto callee = module.lookupSymbol<FuncOp>(entry.getCallee());
  Operation *subject = module;
  TaskKind kind = entry.getKind();
  SmallVector<bool> copied(llvm::range_size(module.getBody().getOps<InputOp>()),
                           kind == TaskKind::Forward);
  if (kind == TaskKind::Denominator)
    for (auto loss : program.getBody().getOps<LossOp>())
      if (loss.getModule() == module.getSymName() &&
          loss.getDenominator() == entry.getCallee()) {
        subject = loss;
        for (int32_t input : loss.getDenominatorInputs())
          if (size_t(input) < copied.size())
            copied[input] = true;
      }
  SmallVector<Access> &accesses = entries[{subject, unsigned(kind)}];
  for (auto [i, name] :
       llvm::enumerate(entry.getBuffers().getAsRange<FlatSymbolRefAttr>()))
    accesses.push_back(accessOf(module, name, callee.getAccess(i) != "in"));
  for (auto [input, isCopied] :
       llvm::zip(module.getBody().getOps<InputOp>(), copied))
    if (isCopied && !input.getFromAttr())
      accesses.push_back(accessOf(module, input.getBufferAttr(), true));
  if (kind == TaskKind::Backward || kind == TaskKind::BackwardWeight)
    accesses.push_back({gradientsOf(module), 0, 0,
                        int64_t(module.getTrainable()), SlotKind::Whole, true});
}

StepBytes::Ranges StepBytes::getRanges(TaskOp row) {
  Ranges ranges;
  auto add = [&](const Access &access, int64_t slot) {
    int64_t begin = access.offset + slot * access.stride;
    ranges.push_back(
        {access.region, begin, begin + access.bytes, access.writes});
  };
  if (!row.getEdge()) {
    Operation *subject = program.lookupSymbol(*row.getSubject());
    if (row.getKind() == TaskKind::Reduce) {
      auto module = cast<dt::rt::ModuleOp>(subject);
      add({gradientsOf(module), 0, 0, int64_t(module.getTrainable()),
           SlotKind::Whole, true},
          0);
      return ranges;
    }
    auto own = entries.find({subject, unsigned(row.getKind())});
    if (own != entries.end())
      for (const Access &access : own->second)
        add(access, row.getSlotOf(access.slots));
    return ranges;
  }
  const Edge &edge = edges[*row.getEdge()];
  bool gradient = row.getGradient();
  if (row.getKind() != TaskKind::Receive)
    add(gradient ? edge.produced : edge.output, row.getSlot());
  if (row.getKind() != TaskKind::Send)
    add(gradient ? edge.consumed : edge.input,
        row.getKind() == TaskKind::Copy ? row.getPeer() : row.getSlot());
  return ranges;
}

unsigned StepBytes::numberOf(TaskOp row) {
  const void *about = row.getEdge() ? &edges[*row.getEdge()]
                                    : row.getSubjectAttr().getAsOpaquePointer();
  auto [at, isNew] = numbers.try_emplace(
      Touched(about, unsigned(row.getKind()), row.getGradient(), row.getSlot(),
              row.getReceived(), row.getEarly(), row.getLate(),
              row.getKind() == TaskKind::Copy ? row.getPeer() : 0),
      unsigned(touched.size()));
  if (isNew)
    touched.push_back(getRanges(row));
  return at->second;
}

bool StepBytes::conflict(unsigned a, unsigned b) {
  auto [at, isNew] = conflicts.try_emplace(std::minmax(a, b), false);
  if (isNew)
    at->second = llvm::any_of(touched[a], [&](const Range &mine) {
      return llvm::any_of(
          touched[b], [&](const Range &its) { return mine.conflicts(its); });
    });
  return at->second;
}

bool StepBytes::fillOneBlock(TaskOp a, TaskOp b) {
  if (a.getKind() != TaskKind::Receive || b.getKind() != TaskKind::Receive ||
      a.getEdge() != b.getEdge() || a.getGradient() != b.getGradient())
    return false;
  const Edge &edge = edges[*a.getEdge()];
  int64_t span = a.getGradient() ? edge.sourceSpan : edge.targetSpan;
  return (edge.isBatch && !a.getGradient()) ||
         (a.getMicrobatch() / span == b.getMicrobatch() / span &&
          a.getPiece() == b.getPiece());
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// As in Trainer.cpp.
static bool leadsToLosses(TaskOp row) {
  return row.getKind() != TaskKind::Reduce && !goesBack(row.getKind()) &&
         !row.getGradient();
}

static bool isMessage(TaskOp row) {
  return row.getKind() == TaskKind::Send || row.getKind() == TaskKind::Receive;
}

void StepBytes::walk(RankOp rank, Decide decide) {
  struct Open {
    int32_t index;
    TaskOp row;
    unsigned number;
    bool ended[2] = {false, false}; ///< in a step; where losses are asked for
  };
  SmallVector<Open> open;
  int32_t index = 0;
  for (auto row : rank.getBody().getOps<TaskOp>()) {
    unsigned number = numberOf(row);
    bool leads = leadsToLosses(row);
    auto isOpen = [&](const Open &other) {
      return !other.ended[0] ||
             (leads && leadsToLosses(other.row) && !other.ended[1]);
    };
    SmallVector<int32_t> unordered;
    for (Open &other : open)
      if (isOpen(other) && conflict(number, other.number) &&
          !fillOneBlock(other.row, row))
        unordered.push_back(other.index);
    SmallVector<int32_t> waits = decide(index, unordered);
    for (Open &other : open)
      if (llvm::is_contained(waits, other.index)) {
        other.ended[0] = true;
        other.ended[1] |= leads;
      }
    llvm::erase_if(open, [](const Open &other) {
      return other.ended[0] && (other.ended[1] || !leadsToLosses(other.row));
    });
    if (isMessage(row) || row.getKind() == TaskKind::Reduce)
      open.push_back({index, row, number});
    ++index;
  }
}

std::vector<int64_t> StepBytes::listTouched(RankOp rank) {
  std::vector<int64_t> list;
  for (auto row : rank.getBody().getOps<TaskOp>()) {
    list.push_back(numberOf(row));
    if (row.getEdge()) // fillOneBlock()
      llvm::append_values(list, row.getMicrobatch(), row.getPiece());
  }
  return list;
}

static LogicalResult verifyWaits(ArrayRef<TaskOp> rows, int32_t index) {
  TaskOp row = rows[index];
  llvm::SmallDenseSet<int32_t> seen;
  for (int32_t waited : row.getWaits().value_or(ArrayRef<int32_t>())) {
    if (waited < 0 || waited >= index || !isMessage(rows[waited]))
      return row.emitOpError()
             << "waits for row " << waited << ", which is no message before it";
    if (!seen.insert(waited).second)
      return row.emitOpError() << "waits for row " << waited << " twice";
  }
  return success();
}

LogicalResult dt::rt::verifyStep(ProgramOp program) {
  StepBytes bytes(program);
  std::set<std::vector<int64_t>> verified; // replicas do the same
  for (auto rank : program.getBody().getOps<RankOp>()) {
    SmallVector<TaskOp> rows(rank.getBody().getOps<TaskOp>());
    std::vector<int64_t> all = bytes.listTouched(rank);
    for (int32_t i = 0; i < int32_t(rows.size()); ++i) {
      if (failed(verifyWaits(rows, i)))
        return failure();
      all.push_back(-1);
      llvm::append_range(all, rows[i].getWaits().value_or(ArrayRef<int32_t>()));
    }
    if (!verified.insert(std::move(all)).second)
      continue;
    bool failed = false;
    bytes.walk(rank, [&](int32_t index, ArrayRef<int32_t> open) {
      TaskOp row = rows[index];
      SmallVector<int32_t> waits(row.getWaits().value_or(ArrayRef<int32_t>()));
      for (int32_t other : open) {
        if (failed || llvm::is_contained(waits, other))
          continue;
        InFlightDiagnostic diagnostic =
            row.emitOpError()
            << "touches bytes of row " << other
            << (isMessage(rows[other]) ? ", for which nothing has waited"
                                       : ", which sums until the step ends");
        diagnostic.attachNote(rows[other].getLoc()) << "which is this";
        failed = true;
      }
      return waits;
    });
    if (failed)
      return failure();
  }
  return success();
}

//===- LowerProgram.cpp - dist and planned functions become rt.program ----===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNLimits.h"
#include "dialects/sched/SchedOps.h"
#include "passes/lower/ParameterTable.h"
#include "passes/lower/Passes.h"
#include "passes/lower/RankRows.h"

using namespace mlir;

namespace dt::lower {
#define GEN_PASS_DEF_LOWERPROGRAM
#include "passes/lower/Passes.h.inc"

namespace {

/// Writes the ops of an rt.program.
class ProgramWriter {
public:
  ProgramWriter(StepPlan &plan, const ParameterTable &parameters,
                const StepOrder &order)
      : top(plan.program), plan(plan), parameters(parameters), order(order),
        b(top.getContext()) {}

  void run(ArrayRef<RankRows> all) {
    b.setInsertionPointToEnd(top.getBody());
    int64_t seed = 0, bucket = 4 << 20;
    bool narrowSums = false;
    for (auto op : top.getOps<dist::SeedOp>())
      seed = op.getValue();
    StringRef reorder = "none";
    if (auto op = dist::getOnly<dist::PlanOp>(top)) {
      reorder = op.getReorder();
      bucket = op.getBucket();
      narrowSums = op.getNarrowSums();
    }
    auto program = rt::ProgramOp::create(
        b, top.getLoc(), top.getSymName().value_or("program"), plan.globalBatch,
        plan.microBatch, seed, getPace(), order.name, reorder, bucket,
        narrowSums, nullptr, nullptr);
    if (auto batch = dist::getOnly<dist::BatchOp>(top)) {
      program.setPartsAttr(batch.getPartsAttr());
      program.setPartTokensAttr(batch.getTokensAttr());
    }
    b.createBlock(&program.getBody());
    for (PlannedModule &m : plan.modules)
      writeModule(m);
    for (const PlannedEdge &edge : plan.edges)
      writeEdge(edge);
    for (PlannedLoss &loss : plan.losses)
      writeLoss(loss);
    for (auto op : top.getOps<dist::OptimizerOp>())
      writeOptimizer(op);
    for (const RankRows &ranks : all)
      writeRanks(ranks);
  }

private:
  FlatSymbolRefAttr ref(StringRef name) {
    return FlatSymbolRefAttr::get(b.getContext(), name);
  }

  /// The plan's; else the backbone, else what runs a microbatch at a time.
  StringRef getPace() {
    auto planOp = dist::getOnly<dist::PlanOp>(top);
    const PlannedModule *best = nullptr;
    auto grade = [&](const PlannedModule &m) {
      dist::ModuleOp op = m.op;
      if (planOp && op.getSymName() == planOp.getPace())
        return 4;
      if (planOp && m.place.unit == planOp.getPace())
        return 3;
      return m.wholeBatch ? 0 : op.getRole() == dist::Role::backbone ? 2 : 1;
    };
    for (const PlannedModule &m : plan.modules)
      if (!best || grade(m) > grade(*best))
        best = &m;
    return dist::ModuleOp(best->op).getSymName();
  }

  /// Names of declarations must differ from one another and from functions.
  void nameDeclarations(PlannedModule &m) {
    llvm::StringMap<bool> taken;
    for (Operation &op : m.op.getBody().front())
      if (auto symbol =
              op.getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName()))
        taken[symbol.getValue()] = true;
    for (Declaration &d : m.declarations) {
      std::string name = d.name;
      for (unsigned i = 1; !taken.try_emplace(name, true).second; ++i)
        name = d.name + "_" + std::to_string(i);
      d.name = name;
    }
  }

  static bool isTF32(dist::ModuleOp module) {
    return module.getPrecision() == dist::Precision::tf32;
  }

  void writeModule(PlannedModule &m) {
    nameDeclarations(m);
    unsigned index = &m - plan.modules.data();
    auto module = rt::ModuleOp::create(
        b, m.op.getLoc(), m.op.getSymName(), m.wholeBatch, isTF32(m.op),
        m.op.getOriginAttr(),
        m.place.unit == m.op.getSymName() ? StringAttr()
                                          : b.getStringAttr(m.place.unit),
        m.place.stage, m.op.getItem().value_or(dist::kSample), m.place.group,
        m.place.dp, m.place.ranks, m.place.sub, m.span, m.place.zero,
        m.place.speeds.empty() ? DenseI64ArrayAttr()
                               : b.getDenseI64ArrayAttr(m.place.speeds),
        m.arenaBytes, m.scratchBytes, parameters.getBytes(index),
        parameters.getTrainableBytes(index), m.op.getWorkAttr());
    markGradients(m, index);
    OpBuilder::InsertionGuard guard(b);
    b.createBlock(&module.getBody());
    for (auto dim : m.op.getBody().getOps<nn::DimOp>()) {
      auto ns = [&](FloatAttr cost) {
        return b.getF64FloatAttr(cost ? cost.getValueAsDouble() : 0);
      };
      rt::SymbolOp::create(b, dim.getLoc(), dim.getSymNameAttr(),
                           dim.getItemAttr(), dim.getMeasureAttr(),
                           dim.getLargestAttr(), dim.getMultipleAttr(),
                           b.getI64IntegerAttr(dim.getMax().value_or(0)),
                           ns(dim.getCostAttr()), ns(dim.getSquareCostAttr()));
    }
    for (auto p : m.op.getBody().getOps<nn::ParameterOp>())
      writeParameter(p);
    for (const Declaration &d : m.declarations)
      writeDeclaration(m, d);
    for (const PlannedModule::Input &input : m.inputs)
      writeInput(m, input);
    for (auto &[name, d] : m.outputs)
      rt::OutputOp::create(b, m.op.getLoc(), b.getStringAttr(name),
                           ref(m.declarations[d].name));
    writeEntry(m, rt::TaskKind::Forward, m.forward, m.forwardBuffers);
    writeEntry(m, rt::TaskKind::Backward, m.backward, m.backwardBuffers);
    writeEntry(m, rt::TaskKind::BackwardInput, m.backwardInput,
               m.backwardInputBuffers);
    writeEntry(m, rt::TaskKind::BackwardWeight, m.backwardWeight,
               m.backwardWeightBuffers);
    for (PlannedLoss &loss : plan.losses)
      if (&plan.modules[loss.module] == &m)
        writeEntry(m, rt::TaskKind::Denominator, loss.denominator,
                   loss.denominatorBuffers);
    for (auto f :
         llvm::make_early_inc_range(m.op.getBody().getOps<rt::FuncOp>())) {
      f->remove();
      b.insert(f);
      dropMarks(f);
    }
  }

  /// Says where in the last backward function gradients are complete, if
  /// anybody waits for them.
  void markGradients(PlannedModule &m, unsigned index) {
    if (m.wholeBatch || m.place.dp == 1)
      return;
    OpBuilder::InsertionGuard guard(b);
    // The op behind which everything up to a row is complete, and where that
    // ends.
    SmallVector<std::pair<Operation *, int64_t>> complete;
    for (const ParameterEntry &row : parameters.getModule(index)) {
      if (!row.trainable || !row.gradient)
        break;
      Operation *last = complete.empty() ? nullptr : complete.back().first;
      if (last && (!row.lastUse || row.lastUse == last ||
                   row.lastUse->isBeforeInBlock(last)))
        complete.back().second = row.gradientEnd;
      else
        complete.push_back({row.lastUse, row.gradientEnd});
    }
    int64_t begin = 0;
    for (auto [last, end] : complete) {
      if (!last)
        continue;
      b.setInsertionPointAfter(last);
      rt::GradientsReadyOp::create(b, last->getLoc(), begin, end);
      begin = end;
    }
  }

  void writeParameter(nn::ParameterOp p) {
    const ParameterEntry &row = parameters.get(p);
    // A copy begins as its owner does.
    const ParameterEntry &first =
        row.copyOf >= 0 ? parameters.get(row.copyOf) : row;
    nn::ParameterOp owner = first.owner;
    std::string init = first.getInit();
    bool decay =
        row.trainable && !owner.getNoDecay() && !owner.getRoutingRate();
    auto unit = [&](bool yes) { return yes ? b.getUnitAttr() : UnitAttr(); };
    SymbolRefAttr tied;
    if (row.copyOf >= 0)
      tied = SymbolRefAttr::get(
          owner->getParentOfType<dist::ModuleOp>().getSymNameAttr(),
          FlatSymbolRefAttr::get(owner.getSymNameAttr()));
    auto partial = p->getAttrOfType<ArrayAttr>(dist::kPartialGradientAttr);
    rt::ParameterDeclOp::create(
        b, p.getLoc(), p.getSymNameAttr(),
        TypeAttr::get(rt::BufferType::get(p.getStoredType())),
        b.getI64IntegerAttr(row.index), b.getI64IntegerAttr(row.offset),
        unit(row.trainable), unit(row.gradient), unit(decay),
        init.empty() ? StringAttr() : b.getStringAttr(init), row.getOnnx(b),
        p->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr), partial, tied,
        decay ? owner.getWeightDecayAttr() : FloatAttr(),
        row.trainable ? owner.getLrFactorAttr() : FloatAttr(),
        row.trainable && row.gradientOffset != row.offset
            ? b.getI64IntegerAttr(row.gradientOffset)
            : IntegerAttr(),
        unit(row.trainable && owner.getMatrix()),
        row.trainable ? owner.getRoutingRateAttr() : FloatAttr(),
        unit(row.trainable && row.hasNarrowGradient()));
  }

  void writeDeclaration(PlannedModule &m, const Declaration &d) {
    rt::BufferDeclOp::create(b, m.op.getLoc(), d.name, d.type, d.offset,
                             d.stride, d.slots.value_or(rt::SlotKind::Whole),
                             d.unjoined, d.layout);
  }

  /// What an input's segments are checked together with, by name; null: they
  /// are none.
  StringAttr keptApart(dist::ModuleOp module, StringRef input) {
    auto program = module->getParentOfType<mlir::ModuleOp>();
    for (auto op : program.getOps<dist::SegmentsOp>())
      if (op.getModule() == module.getExternalName() && op.getInput() == input)
        return op.getWithAttr() ? op.getWithAttr() : op.getInputAttr();
    return {};
  }

  /// What rows behind those of the last item have: a number that no item has,
  /// where numbers keep items apart.
  IntegerAttr getPadding(dist::ModuleOp module, StringRef input,
                         rt::BufferType buffer, bool keptApart) {
    auto type = dyn_cast<IntegerType>(buffer.getElementType());
    if (keptApart && type) // also where 32 bits of it are left
      return b.getI64IntegerAttr(
          APInt::getSignedMinValue(std::min(32U, type.getWidth()))
              .getSExtValue());
    for (auto op :
         module->getParentOfType<mlir::ModuleOp>().getOps<dist::PaddingOp>())
      if (op.getModule() == module.getExternalName() && op.getInput() == input)
        return op.getValueAttr();
    return b.getI64IntegerAttr(0);
  }

  void writeInput(PlannedModule &m, const PlannedModule::Input &input) {
    FlatSymbolRefAttr from;
    int64_t index = -1;
    if (input.edge >= 0) {
      const PlannedEdge &edge = plan.edges[input.edge];
      from = ref(dist::EdgeOp(edge.op).getSource());
      index = edge.fromOutput;
    }
    bool raw = input.edge < 0;
    const Declaration &declaration = m.declarations[input.declaration];
    StringAttr apart = raw ? keptApart(m.op, input.name) : StringAttr();
    rt::InputOp::create(
        b, m.op.getLoc(), b.getStringAttr(input.name), ref(declaration.name),
        from, b.getI64IntegerAttr(index), apart,
        raw && dist::hasPadding(m.op)
            ? getPadding(m.op, input.name,
                         cast<rt::BufferType>(declaration.type), bool(apart))
            : b.getI64IntegerAttr(0));
  }

  void writeEdge(const PlannedEdge &edge) {
    dist::EdgeOp op = edge.op;
    PlannedModule &from = plan.modules[edge.from], &to = plan.modules[edge.to];
    FlatSymbolRefAttr produced, consumed;
    if (edge.produced) {
      produced = ref(to.declarations[*edge.produced].name);
      consumed = ref(from.declarations[*edge.consumed].name);
    }
    rt::EdgeOp::create(b, op.getLoc(), op.getSourceAttr(),
                       b.getI64IntegerAttr(edge.fromOutput), op.getTargetAttr(),
                       b.getI64IntegerAttr(edge.toInput), produced, consumed,
                       op.getCutAttr());
  }

  void writeRanks(const RankRows &all) {
    auto planOp = dist::getOnly<dist::PlanOp>(top);
    auto peaks = planOp ? planOp.getPeaks() : std::nullopt;
    llvm::MapVector<FloatAttr, SmallVector<int64_t>> byPeak;
    for (int64_t rank : all.ranks)
      byPeak[peaks ? b.getF64FloatAttr((*peaks)[rank]) : FloatAttr()].push_back(
          rank);
    for (const auto &[peak, ranks] : byPeak) {
      auto op = rt::RankOp::create(b, top.getLoc(), ranks, peak);
      OpBuilder::InsertionGuard guard(b);
      b.createBlock(&op.getBody());
      writeRows(all.rows);
    }
  }

  void writeRows(ArrayRef<Row> rows) {
    for (const Row &row : rows) {
      FlatSymbolRefAttr subject;
      IntegerAttr edge;
      if (row.kind == rt::TaskKind::Denominator)
        subject = ref(plan.losses[row.index].op.getName());
      else if (row.kind == rt::TaskKind::Receive ||
               row.kind == rt::TaskKind::Send || row.kind == rt::TaskKind::Copy)
        edge = b.getI64IntegerAttr(row.index);
      else
        subject = ref(plan.modules[row.index].op.getSymName());
      rt::TaskOp::create(
          b, top.getLoc(), rt::TaskKindAttr::get(b.getContext(), row.kind),
          subject, edge, b.getI64IntegerAttr(row.microbatch),
          b.getI64IntegerAttr(row.slot), b.getI64IntegerAttr(row.received),
          b.getI64IntegerAttr(row.early), b.getI64IntegerAttr(row.late),
          b.getI64IntegerAttr(row.peer),
          row.gradient ? b.getUnitAttr() : UnitAttr(),
          b.getI64IntegerAttr(row.piece), DenseI32ArrayAttr());
    }
  }

  void writeEntry(PlannedModule &m, rt::TaskKind kind, rt::FuncOp callee,
                  ArrayRef<unsigned> buffers) {
    if (!callee)
      return;
    SmallVector<Attribute> names;
    for (unsigned d : buffers)
      names.push_back(ref(m.declarations[d].name));
    rt::EntryOp::create(b, m.op.getLoc(), kind, callee.getSymName(),
                        b.getArrayAttr(names));
  }

  /// What earlier phases wrote on arguments.
  void dropMarks(rt::FuncOp f) {
    for (unsigned i = 0; i < f.getNumArguments(); ++i)
      if (DictionaryAttr attributes = f.getArgAttrDict(i))
        for (NamedAttribute attribute : attributes)
          if (!attribute.getName().getValue().starts_with("rt."))
            f.removeArgAttr(i, attribute.getName());
  }

  void writeLoss(PlannedLoss &loss) {
    PlannedModule &m = plan.modules[loss.module];
    rt::FuncOp f = loss.denominator;
    rt::LossOp::create(
        b, loss.op.getLoc(), loss.op.getNameAttr(), loss.op.getWeightAttr(),
        loss.op.getModuleAttr(), ref(m.declarations[loss.numerator].name),
        f ? ref(f.getSymName()) : FlatSymbolRefAttr(),
        f ? ref(m.declarations[loss.denominatorOut].name) : FlatSymbolRefAttr(),
        b.getDenseI32ArrayAttr(loss.denominatorInputs),
        loss.op.getAtLeastAttr(), loss.op.getPlusAttr());
  }

  void writeOptimizer(dist::OptimizerOp op) {
    auto number = [&](double v) { return b.getF64FloatAttr(v); };
    NamedAttrList fields;
    fields.append("kind", b.getStringAttr(rt::textOf(op.getKind())));
    if (DictionaryAttr settings = op.getSettingsAttr())
      fields.append("settings", settings);
    fields.append("lr", number(op.getLr().convertToDouble()));
    fields.append("weightDecay", number(op.getWeightDecay().convertToDouble()));
    fields.append("clipNorm", number(op.getClip().convertToDouble()));
    fields.append("warmupSteps", b.getI64IntegerAttr(op.getWarmup()));
    fields.append("schedule", b.getStringAttr(rt::textOf(op.getSchedule())));
    fields.append("totalSteps", b.getI64IntegerAttr(op.getTotalSteps()));
    fields.append("decayFrom", number(op.getDecayFrom().convertToDouble()));
    fields.append("finalFraction",
                  number(op.getFinalFraction().convertToDouble()));
    if (!op.getAverageDecay().isZero())
      fields.append("averageDecay",
                    number(op.getAverageDecay().convertToDouble()));
    rt::OptimizerOp::create(b, op.getLoc(),
                            fields.getDictionary(b.getContext()));
  }

  ModuleOp top;
  StepPlan &plan;
  const ParameterTable &parameters;
  const StepOrder &order;
  OpBuilder b;
};

struct LowerProgram : impl::LowerProgramBase<LowerProgram> {
  void runOnOperation() override {
    ModuleOp top = getOperation();
    if (top.getOps<dist::ModuleOp>().empty())
      return;
    // A plan may have given a module other bounds than the recipe.
    for (auto module : top.getOps<dist::ModuleOp>())
      for (auto dim : module.getBody().getOps<nn::DimOp>())
        if (failed(nn::verifyLimit(dim, dim.getLoc())))
          return signalPassFailure();
    StepPlan plan(top);
    ParameterTable parameters;
    if (failed(plan.run()) || failed(parameters.run(plan)))
      return signalPassFailure();
    FailureOr<StepOrder> order = readOrder(plan);
    if (failed(order))
      return signalPassFailure();
    auto ranks = makeRows(plan, *order);
    if (failed(ranks))
      return signalPassFailure();
    plan.placeBuffers();
    ProgramWriter(plan, parameters, *order).run(*ranks);
    // Data, items and inputs stay: they are facts for the runtime, not code.
    for (Operation &op : llvm::make_early_inc_range(*top.getBody()))
      if (isa<dist::ModuleOp, dist::EdgeOp, dist::TieOp, dist::LossOp,
              dist::SegmentsOp, dist::PaddingOp, dist::OptimizerOp,
              dist::BatchOp, dist::SeedOp, dist::PlanOp, sched::ProblemOp,
              sched::SolutionOp>(op))
        op.erase();
  }
};

} // namespace
} // namespace dt::lower

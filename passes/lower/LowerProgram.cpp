//===- LowerProgram.cpp - dist and planned functions become rt.program
//------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/nn/NNNames.h"
#include "passes/lower/Passes.h"
#include "passes/lower/StepPlan.h"

using namespace mlir;

namespace dt::lower {
#define GEN_PASS_DEF_LOWERPROGRAM
#include "passes/lower/Passes.h.inc"

namespace {

/// A row of the program's parameter table; tied parameters share one.
struct ParameterRow {
  nn::ParameterOp owner;
  SmallVector<nn::ParameterOp> all;
  int64_t index = 0, offset = 0;
  bool trainable = false, gradient = false;

  std::string init() const {
    nn::ParameterOp p = owner;
    auto rule = dyn_cast<nn::InitAttr>(p.getSource());
    return rule ? rule.getRule().str() : "";
  }
  ArrayAttr onnx(Builder &b) const {
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
};

/// Offsets of all parameters: trainable ones first, then in module order.
class ParameterTable {
public:
  LogicalResult run(ModuleOp program, const StepPlan &plan) {
    llvm::DenseMap<Operation *, nn::ParameterOp> aliases;
    SymbolTableCollection tables;
    for (auto tie : program.getOps<dist::TieOp>()) {
      auto alias =
          tables.lookupSymbolIn<nn::ParameterOp>(program, tie.getAliasAttr());
      auto owner = tables.lookupSymbolIn<nn::ParameterOp>(
          program, tie.getParameterAttr());
      if (!alias || !owner)
        return tie.emitOpError("names no nn.parameter");
      aliases[alias] = owner;
    }
    llvm::MapVector<Operation *, ParameterRow> found;
    for (const PlannedModule &m : plan.modules) {
      dist::ModuleOp module = m.op;
      for (auto p : module.getBody().getOps<nn::ParameterOp>()) {
        nn::ParameterOp owner = p;
        for (size_t i = 0; aliases.count(owner) && i <= aliases.size(); ++i)
          owner = aliases[owner];
        ParameterRow &row = found[owner];
        row.owner = owner;
        // The owner's source stands first.
        row.all.insert(p == owner ? row.all.begin() : row.all.end(), p);
        row.trainable |= p.getTrainable();
        row.gradient |= p.getTrainable() && !p->hasAttr(nn::kNoGradientAttr);
      }
    }
    for (bool trainable : {true, false})
      for (auto &[owner, row] : found)
        if (row.trainable == trainable && failed(place(row)))
          return failure();
    return success();
  }

  const ParameterRow &of(nn::ParameterOp p) const {
    return rows[indexOf.lookup(p)];
  }
  int64_t bytes() const { return total; }

private:
  LogicalResult place(ParameterRow &row) {
    std::optional<int64_t> bytes =
        nn::getNumBytes(row.owner.getType()).asConstant();
    if (!bytes)
      return row.owner.emitOpError("has a size that is not a number");
    row.index = rows.size();
    row.offset = total;
    total += alignUp(*bytes);
    for (nn::ParameterOp p : row.all)
      indexOf[p] = rows.size();
    rows.push_back(row);
    return success();
  }

  std::vector<ParameterRow> rows;
  llvm::DenseMap<Operation *, unsigned> indexOf;
  int64_t total = 0;
};

/// Writes the ops of an rt.program.
class ProgramWriter {
public:
  ProgramWriter(ModuleOp top, StepPlan &plan, const ParameterTable &parameters)
      : top(top), plan(plan), parameters(parameters), b(top.getContext()) {}

  void run() {
    b.setInsertionPointToEnd(top.getBody());
    int64_t seed = 0, scratch = 0;
    for (auto op : top.getOps<dist::SeedOp>())
      seed = op.getValue();
    for (PlannedModule &m : plan.modules)
      m.op.walk([&](rt::FuncOp f) {
        scratch = std::max<int64_t>(scratch, f.getScratchBytes().value_or(0));
      });
    int64_t base = plan.layout.bytes();
    auto program = rt::ProgramOp::create(
        b, top.getLoc(), top.getSymName().value_or("program"), base + scratch,
        parameters.bytes(), base, plan.globalBatch, plan.microBatch, seed);
    b.createBlock(&program.getBody());
    for (PlannedModule &m : plan.modules)
      writeModule(m);
    for (PlannedLoss &loss : plan.losses)
      writeLoss(loss);
    for (auto op : top.getOps<dist::OptimizerOp>())
      writeOptimizer(op);
    for (const Row &row : plan.rows) {
      bool loss = row.kind == rt::StageKind::denominator;
      StringRef subject = loss ? plan.losses[row.index].op.getName()
                               : plan.modules[row.index].op.getSymName();
      rt::TaskOp::create(b, top.getLoc(), row.kind, subject, row.microbatch,
                         row.slot);
    }
  }

private:
  FlatSymbolRefAttr ref(StringRef name) {
    return FlatSymbolRefAttr::get(b.getContext(), name);
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

  void writeModule(PlannedModule &m) {
    nameDeclarations(m);
    auto module =
        rt::ModuleOp::create(b, m.op.getLoc(), m.op.getSymNameAttr(),
                             m.wholeBatch ? b.getUnitAttr() : UnitAttr(),
                             m.op.getOriginAttr());
    OpBuilder::InsertionGuard guard(b);
    b.createBlock(&module.getBody());
    for (auto dim : m.op.getBody().getOps<nn::DimOp>())
      rt::SymbolOp::create(b, dim.getLoc(), dim.getSymNameAttr(),
                           dim.getItemAttr(),
                           b.getI64IntegerAttr(dim.getMax().value_or(0)));
    for (auto p : m.op.getBody().getOps<nn::ParameterOp>())
      writeParameter(p);
    for (const Declaration &d : m.declarations)
      writeDeclaration(m, d);
    for (const PlannedModule::Input &input : m.inputs)
      writeInput(m, input);
    for (auto &[name, d] : m.outputs)
      rt::OutputOp::create(b, m.op.getLoc(), b.getStringAttr(name),
                           ref(m.declarations[d].name));
    writeStage(m, rt::StageKind::forward, m.forward, m.forwardBuffers);
    if (m.backward)
      writeStage(m, rt::StageKind::backward, m.backward, m.backwardBuffers);
    for (PlannedLoss &loss : plan.losses)
      if (loss.denominator && &plan.modules[loss.module] == &m)
        writeStage(m, rt::StageKind::denominator, loss.denominator,
                   loss.denominatorBuffers);
    for (auto f :
         llvm::make_early_inc_range(m.op.getBody().getOps<rt::FuncOp>())) {
      f->remove();
      b.insert(f);
      dropMarks(f);
    }
  }

  void writeParameter(nn::ParameterOp p) {
    const ParameterRow &row = parameters.of(p);
    std::string init = row.init();
    nn::ParameterOp owner = row.owner;
    bool decay = row.trainable && !owner->hasAttr("dist.no_decay");
    auto unit = [&](bool yes) { return yes ? b.getUnitAttr() : UnitAttr(); };
    rt::ParameterDeclOp::create(
        b, p.getLoc(), p.getSymNameAttr(),
        TypeAttr::get(rt::BufferType::get(cast<RankedTensorType>(p.getType()))),
        b.getI64IntegerAttr(row.index), b.getI64IntegerAttr(row.offset),
        unit(row.trainable), unit(row.gradient), unit(decay),
        init.empty() ? StringAttr() : b.getStringAttr(init), row.onnx(b));
  }

  void writeDeclaration(PlannedModule &m, const Declaration &d) {
    const ArenaBlock &block = plan.blocks[d.block];
    FlatSymbolRefAttr rows;
    if (d.byRow)
      rows = ref(d.type.getShape()[0].asAffine()->symbol);
    // A whole-batch module sees what its parts have written as one.
    int64_t stride = m.wholeBatch || d.byRow ? 0 : block.stride;
    rt::BufferDeclOp::create(
        b, m.op.getLoc(), b.getStringAttr(d.name), TypeAttr::get(d.type),
        b.getI64IntegerAttr(plan.layout.offset(block.place)),
        b.getI64IntegerAttr(stride), rows);
  }

  void writeInput(PlannedModule &m, const PlannedModule::Input &input) {
    FlatSymbolRefAttr from;
    int64_t index = -1;
    if (dist::EdgeOp edge = input.edge) {
      from = ref(edge.getSource());
      for (PlannedModule &source : plan.modules)
        if (source.op.getSymName() == edge.getSource())
          for (auto [i, output] : llvm::enumerate(source.outputs))
            if (output.first == edge.getOutput())
              index = i;
    }
    rt::InputOp::create(b, m.op.getLoc(), b.getStringAttr(input.name),
                        ref(m.declarations[input.declaration].name), from,
                        b.getI64IntegerAttr(index));
  }

  void writeStage(PlannedModule &m, rt::StageKind kind, rt::FuncOp callee,
                  ArrayRef<unsigned> buffers) {
    SmallVector<Attribute> names;
    for (unsigned d : buffers)
      names.push_back(ref(m.declarations[d].name));
    rt::StageOp::create(b, m.op.getLoc(), kind, callee.getSymName(),
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
        b.getDenseI32ArrayAttr(loss.denominatorInputs));
  }

  void writeOptimizer(dist::OptimizerOp op) {
    auto number = [&](double v) { return b.getF64FloatAttr(v); };
    NamedAttrList fields;
    fields.append("kind",
                  b.getStringAttr(dist::stringifyOptimizerKind(op.getKind())));
    fields.append("lr", number(op.getLr().convertToDouble()));
    fields.append("beta1", number(op.getBeta1().convertToDouble()));
    fields.append("beta2", number(op.getBeta2().convertToDouble()));
    fields.append("eps", number(op.getEps().convertToDouble()));
    fields.append("momentum", number(op.getMomentum().convertToDouble()));
    fields.append("weightDecay", number(op.getWeightDecay().convertToDouble()));
    fields.append("clipNorm", number(op.getClip().convertToDouble()));
    fields.append("warmupSteps", b.getI64IntegerAttr(op.getWarmup()));
    fields.append("schedule", b.getStringAttr(dist::stringifyScheduleKind(
                                  op.getSchedule())));
    fields.append("totalSteps", b.getI64IntegerAttr(op.getTotalSteps()));
    fields.append("decayFrom", number(op.getDecayFrom().convertToDouble()));
    fields.append("finalFraction",
                  number(op.getFinalFraction().convertToDouble()));
    rt::OptimizerOp::create(b, op.getLoc(),
                            fields.getDictionary(b.getContext()));
  }

  ModuleOp top;
  StepPlan &plan;
  const ParameterTable &parameters;
  OpBuilder b;
};

struct LowerProgram : impl::LowerProgramBase<LowerProgram> {
  void runOnOperation() override {
    ModuleOp top = getOperation();
    if (top.getOps<dist::ModuleOp>().empty())
      return;
    StepPlan plan(top);
    ParameterTable parameters;
    if (failed(plan.run()) || failed(parameters.run(top, plan)))
      return signalPassFailure();
    ProgramWriter(top, plan, parameters).run();
    // Data, items and inputs stay: they are facts for the runtime, not code.
    for (Operation &op : llvm::make_early_inc_range(*top.getBody()))
      if (isa<dist::ModuleOp, dist::EdgeOp, dist::TieOp, dist::LossOp,
              dist::OptimizerOp, dist::BatchOp, dist::SeedOp>(op))
        op.erase();
  }
};

} // namespace
} // namespace dt::lower

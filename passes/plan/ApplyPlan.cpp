//===- ApplyPlan.cpp - A plan file as attributes ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/CheckPlan.h"
#include "passes/plan/Passes.h"
#include "passes/schedule/StageWork.h"

using namespace mlir;

namespace dt::plan {
#define GEN_PASS_DEF_APPLYPLAN
#include "passes/plan/Passes.h.inc"

namespace {

/// Writes what a plan says on the modules of a program.
class PlanWriter {
public:
  explicit PlanWriter(mlir::ModuleOp program)
      : program(program), context(program.getContext()) {}

  void write(const PlanFile &plan) {
    if (auto batch = dist::getOnly<dist::BatchOp>(program)) {
      batch.setMicro(plan.micro);
      batch.setOpenMicro(false);
    }
    for (const UnitEntry &unit : plan.units)
      place(unit, unit.splitsBackward(plan.schedule));
    for (auto edge : program.getOps<dist::EdgeOp>()) {
      auto entry =
          plan.edges.find((edge.getTarget() + "." + edge.getInput()).str());
      if (entry == plan.edges.end())
        continue;
      if (entry->second.depth)
        edge.setDepth(entry->second.depth);
      if (entry->second.message)
        edge.setMessage(entry->second.message);
    }
    writePlan(plan);
  }

private:
  IntegerAttr number(int64_t value) {
    return Builder(context).getI64IntegerAttr(value);
  }

  void place(const UnitEntry &unit, bool split) {
    Builder b(context);
    auto module = program.lookupSymbol<dist::ModuleOp>(unit.name);
    module.setUnit(unit.name);
    module.setTp(unit.tp);
    module.setEp(unit.ep);
    module.setCp(unit.cp);
    if (unit.context)
      module.setContextKeysAttr(
          rt::ContextKeysAttr::get(context, *unit.context));
    module.setJoined(unit.getJoined());
    module.setDp(unit.dp / unit.getJoined());
    module.setSub(unit.sub);
    module.setSpan(unit.span);
    if (!unit.speeds.empty())
      module.setSpeeds(unit.speeds);
    module.setZero(unit.zero);
    if (unit.runAhead)
      module.setRunAhead(*unit.runAhead);
    module.setSequenceParallel(unit.sequenceParallel);
    module.setOverlap(unit.overlap);
    auto saved = [&](StringRef text) {
      return rt::SaveAttr::get(context, *rt::fromText<rt::Save>(text));
    };
    if (unit.save.size() == 1)
      module.setSaveAttr(saved(unit.save[0]));
    else if (!unit.save.empty())
      module.setSavesAttr(b.getArrayAttr(
          llvm::map_to_vector(unit.save, [&](const std::string &text) {
            return Attribute(saved(text));
          })));
    module.setSplitBackward(split);
    if (unit.getNumStages() == 1) {
      module.setRanks(unit.ranks);
    } else {
      module.setUnitRanks(unit.ranks);
      module.setPp(unit.pp);
      module.setVpp(unit.vpp);
    }
    if (!unit.stages.empty()) {
      SmallVector<Attribute> stages;
      for (auto &pieces : unit.stages)
        stages.push_back(b.getStrArrayAttr(
            SmallVector<StringRef>(pieces.begin(), pieces.end())));
      module.setStagesAttr(b.getArrayAttr(stages));
    }
    if (!unit.times.empty())
      schedule::setTimes(module, unit.times, unit.timesFrom);
    for (auto dim : module.getOps<nn::DimOp>())
      if (dim.getItem())
        dim.setBound(getRowsMax(unit, module, dim));
  }

  void writePlan(const PlanFile &plan) {
    OpBuilder builder = OpBuilder::atBlockEnd(program.getBody());
    // Errors of later passes name the plan.
    Location location =
        NameLoc::get(builder.getStringAttr(plan.path), program.getLoc());
    auto op = dist::PlanOp::create(
        builder, location, number(plan.ranks),
        builder.getStringAttr(plan.schedule),
        FlatSymbolRefAttr::get(context, plan.pace),
        builder.getStringAttr(plan.reorder), number(plan.bucketBytes),
        number(plan.depth),
        plan.narrowSums ? builder.getUnitAttr() : UnitAttr(),
        plan.cluster.empty() ? StringAttr()
                             : builder.getStringAttr(plan.cluster),
        /*memory=*/DenseI64ArrayAttr(),
        /*peaks=*/DenseF64ArrayAttr());
    if (plan.memory.empty())
      return;
    SmallVector<int64_t> memory(plan.memory.begin(), plan.memory.end());
    if (memory.size() == 1)
      memory.resize(plan.ranks, memory[0]);
    op.setMemory(memory);
  }

  mlir::ModuleOp program;
  MLIRContext *context;
};

/// What the plan asks for where it does nothing. A plan may be made by a
/// program, so that is no error.
void remarkIdle(const PlanFile &plan, MLIRContext *context) {
  auto remark = [&](const UnitEntry &unit, StringRef key, StringRef what) {
    std::string place = plan.path + ": " + unit.at(key);
    emitRemark(NameLoc::get(StringAttr::get(context, place)))
        << "does nothing where " << what;
  };
  for (const UnitEntry &unit : plan.units) {
    if (!unit.timesOf.empty() && unit.times.empty())
      emitRemark(NameLoc::get(
          StringAttr::get(context, plan.path + ": " + unit.at("times"))))
          << "of " << unit.timesOf << " are not used where the unit has "
          << describeLayout(unit, plan.schedule, plan.microbatches);
    if (unit.zero && unit.dp * unit.cp == 1)
      remark(unit, "zero",
             "dp and cp are 1: optimizer state is shared out over their ranks");
    if (unit.sequenceParallel && unit.tp == 1)
      remark(unit, "sequence_parallel",
             "tp is 1: activations are cut over the tensor-parallel group");
    if (unit.context && unit.cp == 1)
      remark(unit, "context", "cp is 1: each rank has the keys of all tokens");
    if (unit.overlap > 1 && unit.tp == 1)
      remark(unit, "overlap",
             "tp is 1: there are no collectives beside products");
  }
}

struct ApplyPlanPass : impl::ApplyPlanBase<ApplyPlanPass> {
  using ApplyPlanBase::ApplyPlanBase;

  void runOnOperation() override {
    auto plan = read();
    llvm::Error error =
        plan ? applyPlan(*plan, getOperation()) : plan.takeError();
    if (!error)
      return remarkIdle(*plan, &getContext());
    emitError(UnknownLoc::get(&getContext())) << toString(std::move(error));
    signalPassFailure();
  }

private:
  llvm::Expected<PlanFile> read() {
    if (file.empty() == plan.empty())
      return llvm::createStringError(
          "dist-apply-plan: expected file=… or plan=…, one of them");
    return plan.empty() ? readPlan(file) : parsePlanLine(plan);
  }
};

} // namespace

/// Whether each rank can have as many experts of every layer.
static llvm::Error checkExperts(const PlanFile &plan, mlir::ModuleOp program) {
  for (const UnitEntry &unit : plan.units) {
    int64_t uneven = 0;
    program.lookupSymbol<dist::ModuleOp>(unit.name).walk(
        [&](nn::ExpertLinearOp op) {
          int64_t experts = nn::getShape(op.getWeight())[0].constant();
          if (experts % unit.ep)
            uneven = experts;
        });
    if (uneven)
      return plan.error(unit.at("ep"),
                        "the module has layers of " + Twine(uneven) +
                            " experts, which ep = " + Twine(unit.ep) +
                            " does not divide");
  }
  return llvm::Error::success();
}

llvm::Error applyPlan(PlanFile plan, mlir::ModuleOp program, bool isOrdered) {
  if (dist::getOnly<dist::PlanOp>(program))
    return llvm::createStringError(
        "dist-apply-plan: the program has a plan already");
  if (llvm::Error error = completePlan(plan, program, isOrdered))
    return error;
  if (llvm::Error error = checkExperts(plan, program))
    return error;
  PlanWriter(program).write(plan);
  return llvm::Error::success();
}

} // namespace dt::plan

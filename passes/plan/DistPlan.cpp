//===- DistPlan.cpp - A plan for a cluster ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/modules/Passes.h"
#include "passes/plan/CheckPlan.h"
#include "passes/plan/ExecutablePlan.h"
#include "passes/plan/LayerWork.h"
#include "passes/plan/Passes.h"
#include "passes/plan/TargetSpec.h"
#include "passes/planner/describe/Shipped.h"
#include "passes/planner/explain/Explain.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;

namespace dt::plan {
#define GEN_PASS_DEF_DISTPLAN
#include "passes/plan/Passes.h.inc"

namespace {

/// Samples of a data description as the program counts them.
class FittedData : public planner::Data {
public:
  FittedData(std::unique_ptr<planner::Data> data, const PlannedProgram &program)
      : data(std::move(data)), program(program) {}
  planner::Sample draw(uint64_t seed, uint64_t index) const override {
    return fitToProgram({data->draw(seed, index)}, data->getKinds(),
                        data->getMeasures(), program)[0];
  }
  std::string describe() const override { return data->describe(); }

private:
  std::unique_ptr<planner::Data> data;
  const PlannedProgram &program;
};

struct DistPlanPass : impl::DistPlanBase<DistPlanPass> {
  using DistPlanBase::DistPlanBase;
  DistPlanPass(DistPlanOptions options, MeasureMemory measure, PlanTexts *texts)
      : DistPlanBase(std::move(options)), measureMemory(std::move(measure)),
        texts(texts) {}

  void runOnOperation() override {
    llvm::Error error = run();
    if (!error)
      return;
    std::string text = toString(std::move(error));
    if (!isTold)
      emitError(UnknownLoc::get(&getContext())) << text;
    signalPassFailure();
  }

private:
  llvm::Error run();
  llvm::Expected<planner::Cluster> readHardware();
  uint64_t getSeed() {
    auto seed = dist::getOnly<dist::SeedOp>(getOperation());
    return seed ? uint64_t(seed.getValue()) : 0;
  }
  bool cutBatch(mlir::ModuleOp copy, bool isOpen);
  llvm::Expected<PlannedProgram> describe(int64_t mostTP, int64_t mostRanks);
  llvm::Expected<std::vector<planner::Sample>>
  drawSamples(const PlannedProgram &program, int draw = 0);
  llvm::Expected<std::optional<planner::Profile>>
  readTimes(const PlannedProgram &program);
  /// Writes the plan file and applies it.
  llvm::Error write(const planner::Plan &plan, const PlannedProgram &program);
  /// The same, and tells of the plan: text, the file with figures and, if
  /// others are compared with, a page.
  llvm::Error writeExplained(const planner::Plan &plan,
                             const planner::PolicyInput &input,
                             const PlannedProgram &program);
  /// The policy's best plan that the compiler takes.
  llvm::Expected<planner::Plan>
  choose(StringRef policy, const planner::PolicyInput &input,
         const PlannedProgram &program, Refusals &refusals,
         const planner::Robustness *robustness = nullptr,
         MeasurePlan measure = nullptr);
  /// What ranks allocate under a plan: a copy is compiled.
  llvm::Expected<std::vector<planner::RankBytes>>
  measure(const planner::Plan &plan, const PlannedProgram &program);
  /// The same for comparisons: what cannot be executed is priced all the same.
  llvm::Expected<planner::Plan> compare(StringRef policy,
                                        const planner::PolicyInput &input,
                                        const PlannedProgram &program,
                                        Refusals &refusals);

  Refusals refusals;           ///< of the program on its devices
  MeasureMemory measureMemory; ///< may be null
  PlanTexts *texts = nullptr;  ///< may be null
  bool isTold = false;         ///< the error was emitted
};

llvm::Expected<planner::Cluster> DistPlanPass::readHardware() {
  if (cluster.empty())
    return llvm::createStringError(
        "dist-plan: a cluster is needed to plan for: " +
        planner::listClusters());
  if (devices < 0)
    return llvm::createStringError("--devices: expected at least 1, not " +
                                   Twine(devices));
  auto all = planner::openCluster(cluster);
  if (!all)
    return all.takeError();
  auto taken = all->take(devices ? int64_t(devices) : all->getNumDevices());
  if (!taken)
    return llvm::createStringError("--devices: " + toString(taken.takeError()));
  if (!memory.empty() && memory != "host" && memory != "device")
    return llvm::createStringError(
        "dist-plan: memory: expected host or device, not '" + memory + "'");
  if (!memory.empty())
    taken->onHost = memory == "host";
  return taken;
}

/// Whether there may be replicas or, where the recipe leaves them open, several
/// microbatches is known by trying: the copy is what a program is then.
bool DistPlanPass::cutBatch(mlir::ModuleOp copy, bool isOpen) {
  Builder b(&getContext());
  bool any = false;
  for (auto module : copy.getOps<dist::ModuleOp>()) {
    if (module.getWholeBatch() || !module.getItem())
      continue;
    any = true;
    if (!isOpen)
      module.setDp(2);
  }
  if (isOpen)
    dist::getOnly<dist::BatchOp>(copy).setMicro(1);
  OpPassManager pm(mlir::ModuleOp::getOperationName());
  modules::buildModulesUnderPlan(pm);
  // What is said here would be said of a plan with replicas.
  QuietCopies quiet(&getContext());
  return any && succeeded(runPipeline(pm, copy));
}

/// Layers are calls only after outlining, which comes after plans: a copy shows
/// what they will be.
llvm::Expected<PlannedProgram> DistPlanPass::describe(int64_t mostTP,
                                                      int64_t mostRanks) {
  mlir::ModuleOp program = getOperation(), copy = copyProgram(program, program);
  llvm::scope_exit erase([&] { copy.erase(); });
  auto batch = dist::getOnly<dist::BatchOp>(program);
  bool isOpen = batch && batch.getOpenMicro(),
       mayBeCut = cutBatch(copy, isOpen);
  llvm::Expected<PlannedProgram> result = describePartitioned(
      isOpen && mayBeCut ? copy : program, mostTP, mostRanks);
  if (!result)
    return result;
  auto isWhole = [](dist::ModuleOp module) { return module.getWholeBatch(); };
  if (!mayBeCut) {
    llvm::fill(result->items, 0);
    result->microbatches = {*result->microbatches.begin()};
  } else if (isOpen && result->needsBatchSync &&
             llvm::none_of(program.getOps<dist::ModuleOp>(), isWhole)) {
    // What compares all items is apart only if the batch is cut.
    result->microbatches.erase(1);
  }
  return result;
}

llvm::Expected<std::vector<planner::Sample>>
DistPlanPass::drawSamples(const PlannedProgram &program, int draw) {
  if (data.empty())
    return fullBatch(program);
  auto opened = planner::openData(data);
  if (!opened)
    return opened.takeError();
  FittedData fitted(std::move(*opened), program);
  return takeStep(program, [&](int64_t index) {
    return fitted.draw(getSeed() + uint64_t(draw), uint64_t(index));
  });
}

llvm::Expected<std::optional<planner::Profile>>
DistPlanPass::readTimes(const PlannedProgram &program) {
  if (profile.empty())
    return std::nullopt;
  auto read = planner::readProfile(profile);
  if (!read)
    return read.takeError();
  if (llvm::Error error = read->check(program.model))
    return llvm::createStringError(profile + ": " + toString(std::move(error)));
  return std::move(*read);
}

/// The plan as it is read from its file.
static llvm::Expected<PlanFile> readPlan(planner::Plan plan,
                                         const PlannedProgram &program) {
  plan.predicted.order.clear(); // it is long, and nothing reads it
  return parsePlan(printPlanFile(plan, program), "--plan=auto");
}

llvm::Error DistPlanPass::write(const planner::Plan &plan,
                                const PlannedProgram &program) {
  std::string text = printPlanFile(plan, program);
  auto file = parsePlan(text, "--plan=auto");
  if (!file)
    return file.takeError();
  if (texts)
    texts->file = text;
  return applyPlan(std::move(*file), getOperation(), /*isOrdered=*/true);
}

llvm::Expected<planner::Plan>
DistPlanPass::choose(StringRef policy, const planner::PolicyInput &input,
                     const PlannedProgram &program, Refusals &refusals,
                     const planner::Robustness *robustness,
                     MeasurePlan measure) {
  auto batch = dist::getOnly<dist::BatchOp>(getOperation());
  int64_t global = batch ? batch.getGlobal() : 1;
  // What the compiler itself would say to the plan.
  auto accepts = [&](const planner::Plan &plan, bool isOrdered) -> llvm::Error {
    planner::Plan here = plan;
    // Of a larger batch than the program's there are more.
    here.microbatches = plan.microbatches * global / program.global;
    auto file = readPlan(here, program);
    if (!file)
      return file.takeError();
    return completePlan(*file, getOperation(), isOrdered);
  };
  return findExecutablePlan(policy, input, program, accepts, refusals,
                            robustness, measure);
}

llvm::Expected<std::vector<planner::RankBytes>>
DistPlanPass::measure(const planner::Plan &plan,
                      const PlannedProgram &program) {
  auto file = readPlan(plan, program);
  if (!file)
    return file.takeError();
  mlir::ModuleOp copy = copyProgram(getOperation(), getOperation());
  llvm::scope_exit erase([&] { copy.erase(); });
  QuietCopies quiet(&getContext(), /*told=*/true);
  if (llvm::Error error = applyPlan(std::move(*file), copy, /*isOrdered=*/true))
    return error;
  auto ranks = measureMemory(copy, runUnverified);
  if (succeeded(ranks))
    return std::move(*ranks);
  isTold = true;
  return llvm::createStringError("the program does not compile");
}

llvm::Expected<planner::Plan>
DistPlanPass::compare(StringRef policy, const planner::PolicyInput &input,
                      const PlannedProgram &program, Refusals &refusals) {
  auto plan = choose(policy, input, program, refusals);
  if (plan)
    return plan;
  std::string why = toString(plan.takeError());
  auto priced = planner::makePlan(policy, input);
  if (!priced)
    return priced.takeError();
  priced->notExecutable = why;
  return priced;
}

llvm::Error DistPlanPass::writeExplained(const planner::Plan &plan,
                                         const planner::PolicyInput &input,
                                         const PlannedProgram &program) {
  planner::ExplainOptions options;
  options.others = options.relax = explain;
  options.bounds = "that a program can run";
  std::unique_ptr<planner::Data> drawn;
  if (explain && !data.empty()) {
    auto opened = planner::openData(data);
    if (!opened)
      return opened.takeError();
    drawn = std::make_unique<FittedData>(std::move(*opened), program);
    options.data = drawn.get();
    options.seed = getSeed();
  }
  options.plan = [&](StringRef policy, const planner::PolicyInput &other) {
    // A larger batch is more microbatches of the same sizes.
    PlannedProgram larger = program;
    int64_t factor = std::max<int64_t>(
        1, other.samples() / std::max<int64_t>(1, input.samples()));
    larger.global *= factor;
    larger.parts *= factor;
    larger.microbatches.clear();
    for (auto [number, samples] : program.microbatches)
      larger.microbatches[number * factor] = samples;
    // Of other devices and batches nothing was compiled.
    Refusals none;
    bool same = &other.costs == &input.costs && factor == 1;
    return compare(policy, other, larger, same ? refusals : none);
  };
  // Others are compared with before the program has a plan.
  auto explanation = planner::explain(input, plan, options);
  if (!explanation)
    return explanation.takeError();
  if (llvm::Error error = write(plan, program))
    return error;
  if (!texts)
    return llvm::Error::success();
  llvm::raw_string_ostream told(texts->explanation);
  planner::printText(told, *explanation, input);
  texts->file = printPlanFile(plan, program, &*explanation);
  if (!explain)
    return llvm::Error::success();
  llvm::raw_string_ostream page(texts->page);
  return planner::printHtml(page, *explanation, input);
}

llvm::Error DistPlanPass::run() {
  if (dist::getOnly<dist::PlanOp>(getOperation()))
    return llvm::createStringError("dist-plan: the program has a plan already");
  if (policy == "layers") {
    auto program = describe(/*mostTP=*/0, /*mostRanks=*/0);
    if (!program)
      return program.takeError();
    return write(planLayers(*program, std::max<int64_t>(1, devices)), *program);
  }
  if (robust)
    if (llvm::Error error = planner::checkPercentile(robust))
      return llvm::createStringError("--robust: " + toString(std::move(error)));
  auto hardware = readHardware();
  if (!hardware)
    return hardware.takeError();
  // A TP group is inside a node.
  int64_t mostTP = 1;
  for (const planner::NodeKind &node : hardware->nodes)
    mostTP = std::max<int64_t>(mostTP, node.devices);
  int64_t all = hardware->getNumDevices();
  auto program = describe(std::min(mostTP, all), all);
  if (!program)
    return program.takeError();
  program->cluster = cluster;
  auto batch = drawSamples(*program);
  if (!batch)
    return batch.takeError();
  if (llvm::Error error = planner::checkPrecision(*hardware, program->model))
    return llvm::createStringError(cluster + ": " + toString(std::move(error)));
  auto measured = readTimes(*program);
  if (!measured)
    return measured.takeError();
  if (*measured)
    (*measured)->setLinks(*hardware);
  setTargetSpec(getOperation(), *hardware);
  planner::Costs costs(*hardware, program->model,
                       *measured ? &**measured : nullptr);
  planner::PolicyInput input{costs, *batch};
  planner::Robustness robustness;
  robustness.percentile = int(robust);
  robustness.seed = getSeed();
  robustness.batch = [&](int draw) { return drawSamples(*program, draw); };
  auto measureOwn = [&](const planner::Plan &plan) {
    return measure(plan, *program);
  };
  auto best =
      choose(policy, input, *program, refusals, robust ? &robustness : nullptr,
             measureMemory ? MeasurePlan(measureOwn) : MeasurePlan(nullptr));
  if (!best)
    return llvm::createStringError("--policy=" + policy + ": " +
                                   toString(best.takeError()));
  return writeExplained(*best, input, *program);
}

} // namespace

std::unique_ptr<Pass> createDistPlan(DistPlanOptions options,
                                     MeasureMemory measure, PlanTexts *texts) {
  return std::make_unique<DistPlanPass>(std::move(options), std::move(measure),
                                        texts);
}

} // namespace dt::plan

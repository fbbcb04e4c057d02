//===- dt-opt.cpp - The compiler's command line -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An mlir-opt whose inputs may also be ONNX models and recipes. Those are
// imported first and handed over as bytecode, so that every flag of mlir-opt
// (passes, timing, remarks, plugins) works on them. With --emit all phases run
// and their result leaves MLIR.
//
//===----------------------------------------------------------------------===//

#include "tools/common/CommandLine.h"
#include "tools/common/Output.h"
#include "tools/dt-opt/Diagnostics.h"
#include "tools/dt-opt/Help.h"
#include "tools/dt-opt/Input.h"
#include "tools/dt-opt/Output.h"
#include "tools/dt-opt/Phases.h"
#include "tools/dt-opt/Report.h"

#include "codegen/Emit.h"
#include "dialects/rt/RTOps.h"
#include "models/frontend/json/JsonReader.h"
#include "passes/lower/Passes.h"
#include "passes/modules/Passes.h"
#include "passes/plan/Passes.h"
#include "passes/planner/describe/Shipped.h"
#include "passes/schedule/Passes.h"
#include "tools/plugin/Load.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using dt::fail;

namespace {

using dt::Emit;

llvm::cl::OptionCategory emitOptions("DistTrain output");
llvm::cl::opt<Emit> emitOption(
    "emit", llvm::cl::cat(emitOptions), llvm::cl::init(Emit::None),
    llvm::cl::desc("Run all phases (or the passes given instead) and emit:"),
    llvm::cl::values(clEnumValN(Emit::Mlir, "mlir", "the IR after the phases"),
                     clEnumValN(Emit::Plan, "plan",
                                "a table of modules: parameters, FLOPs, bytes "
                                "(-o X.html: a page with pictures; X.json: a "
                                "plan file)"),
                     clEnumValN(Emit::PlanModel, "plan-model",
                                "what the planner sees of the program, for "
                                "dt-sim --model (docs/planning-model.md)"),
                     clEnumValN(Emit::Memory, "memory",
                                "what stands where in the arena, and when (-o "
                                "X.svg, X.html: a picture; X.json)"),
                     clEnumValN(Emit::Timeline, "timeline",
                                "who does what when in every sched.problem, by "
                                "sched-solve (-o X.svg, X.html: a picture)"),
                     clEnumValN(Emit::Kernels, "kernels",
                                "what every generated kernel asks of a GPU: "
                                "launches, threads, bytes (-o X.json)"),
                     clEnumValN(Emit::EmitC, "emitc",
                                "the ops that the program's sources are "
                                "printed from, for mlir-translate "
                                "--mlir-to-cpp"),
                     clEnumValN(Emit::Cpp, "cpp",
                                "a directory (-o) with the program's sources"),
                     clEnumValN(Emit::Exe, "exe",
                                "the same, built with CMake")));
const std::string targetNames = dt::codegen::getTargetNames("|");
llvm::cl::opt<std::string>
    targetOption("target", llvm::cl::cat(emitOptions), llvm::cl::init("cpu"),
                 llvm::cl::value_desc(targetNames),
                 llvm::cl::desc("What the program runs on"));

llvm::cl::opt<std::string> planOption(
    "plan", llvm::cl::cat(emitOptions), llvm::cl::value_desc("file.json"),
    llvm::cl::desc("With --emit: who runs what (docs/plan.md); a file, 'auto', "
                   "or e.g. 'llm:tp=2,dp=2;vision:dp=3;schedule=1f1b'"));
const std::string clusterHelp =
    "With --plan=auto: the hardware:\n" + dt::planner::listClusters();
llvm::cl::opt<std::string> clusterOption("cluster", llvm::cl::cat(emitOptions),
                                         llvm::cl::value_desc("name|file.json"),
                                         llvm::cl::desc(clusterHelp));
dt::NumberOption
    devicesOption("devices", llvm::cl::cat(emitOptions),
                  llvm::cl::desc("With --plan=auto: use so many of the "
                                 "cluster's devices (default: all); with "
                                 "--emit=plan-model: most ranks of a "
                                 "tensor-parallel group (default: 8)"));
llvm::cl::opt<std::string> policyOption(
    "policy", llvm::cl::cat(emitOptions), llvm::cl::init("joint"),
    llvm::cl::desc("With --plan=auto: who chooses (docs/planning-search.md)"));
llvm::cl::opt<std::string> dataOption(
    "data", llvm::cl::cat(emitOptions),
    llvm::cl::value_desc("file.json|packed|documents"),
    llvm::cl::desc("With --plan=auto: what samples hold (dt-data stats "
                   "--samples; default: as much as the recipe allows)"));
llvm::cl::opt<std::string>
    profileOption("profile", llvm::cl::cat(emitOptions),
                  llvm::cl::value_desc("file.json"),
                  llvm::cl::desc("With --plan=auto: measured times of layers"));
dt::NumberOption
    robustOption("robust", llvm::cl::cat(emitOptions),
                 llvm::cl::desc("With --plan=auto: plan for a percentile (1 to "
                                "100) of the step over draws of data and of "
                                "slow ranks (docs/planning-search.md)"));

llvm::cl::opt<std::string>
    timesOption("times", llvm::cl::cat(emitOptions),
                llvm::cl::value_desc("report.json"),
                llvm::cl::desc("With --emit=timeline: times of tasks as a run "
                               "has measured them (train --report), or a step "
                               "of it as it was (train --trace)"));

llvm::cl::opt<std::string> fromOption(
    "from", llvm::cl::cat(emitOptions), llvm::cl::value_desc("phase"),
    llvm::cl::desc("With --emit: begin with this phase, the input has "
                   "been through those before it (codegen: through all)"));
llvm::cl::opt<std::string>
    toOption("to", llvm::cl::cat(emitOptions), llvm::cl::value_desc("phase"),
             llvm::cl::desc("With --emit=mlir or plan: stop after this phase"));
llvm::cl::opt<std::string>
    remarksOption("remarks", llvm::cl::cat(emitOptions),
                  llvm::cl::value_desc("file"),
                  llvm::cl::desc("Write remarks to a file instead of stderr"));

bool plansItself() { return planOption == "auto"; }

LogicalResult checkPlanner() {
  for (const llvm::cl::Option *option :
       std::initializer_list<const llvm::cl::Option *>{
           &clusterOption, &devicesOption, &policyOption, &dataOption,
           &profileOption, &robustOption})
    if (option->getNumOccurrences() && !plansItself() &&
        !(option == &devicesOption && emitOption == Emit::PlanModel))
      return fail("--" + option->ArgStr + " goes with --plan=auto");
  if (devicesOption.getNumOccurrences() && devicesOption < 1)
    return fail("--devices: expected at least 1, not " + Twine(devicesOption));
  if (robustOption.getNumOccurrences() && robustOption < 1)
    return fail("--robust: expected a percentile of 1 to 100, not " +
                Twine(robustOption));
  if (planOption.getNumOccurrences() && planOption.empty())
    return fail("--plan: expected a file, auto, or e.g. 'llm:tp=2,dp=2; "
                "schedule=1f1b'");
  if (!plansItself())
    return success();
  if (clusterOption.empty() && policyOption != "layers")
    return fail("--plan=auto needs the hardware: --cluster=" +
                dt::planner::listClusters());
  return success();
}

/// What --emit=memory says of the program.
FailureOr<std::vector<dt::planner::RankBytes>>
measureRanks(ModuleOp program, dt::plan::Runner run) {
  OpPassManager pm(ModuleOp::getOperationName());
  dt::modules::buildModulesUnderPlan(pm);
  dt::buildPhases(pm, "precision", "schedule");
  // What is chosen is verified when it is compiled.
  dt::lower::buildPlacePipeline(pm);
  if (failed(run(pm, program)))
    return failure();
  bool onHost = dt::codegen::computesOnHost(targetOption);
  dt::ProgramReport report;
  for (auto op : program.getOps<dt::rt::ProgramOp>())
    if (failed(dt::addRanks(op, report, dt::listCarriers(onHost))))
      return failure();
  std::vector<dt::planner::RankBytes> bytes;
  for (const dt::RankReport &rank : report.ranks)
    bytes.push_back(rank.getBytes(onHost));
  return bytes;
}

std::unique_ptr<Pass> createPlanner(dt::plan::PlanTexts &texts) {
  dt::plan::DistPlanOptions options;
  options.cluster = clusterOption;
  options.policy = policyOption;
  options.data = dataOption;
  options.profile = profileOption;
  options.devices = devicesOption;
  options.robust = robustOption;
  options.memory =
      dt::codegen::computesOnHost(targetOption) ? "host" : "device";
  // Other policies are asked only if that is to be shown.
  options.explain = emitOption == Emit::Plan;
  return dt::plan::createDistPlan(options, measureRanks, &texts);
}

/// "llm:tp=2; vision:" is a plan, "plans/llm.json" a file.
std::unique_ptr<Pass> createApplyPlan(StringRef plan) {
  bool isLine =
      plan.find_first_of("=;") != StringRef::npos || plan.ends_with(":");
  dt::plan::ApplyPlanOptions options;
  (isLine ? options.plan : options.file) = plan.str();
  return dt::plan::createApplyPlan(options);
}

bool isTarget(StringRef name) {
  return llvm::is_contained(llvm::split(targetNames, '|'), name);
}

/// Without --target what the cluster's devices say. A cluster that cannot be
/// read is an error of planning.
LogicalResult chooseTarget() {
  std::string where = "--target";
  if (plansItself() && !targetOption.getNumOccurrences()) {
    auto cluster = dt::planner::openCluster(clusterOption);
    if (!cluster) {
      llvm::consumeError(cluster.takeError());
      return success();
    }
    const dt::planner::DeviceKind &device = cluster->getDevice(0);
    if (!device.target.empty())
      targetOption = device.target;
    where = "--cluster: devices." + device.name + ".target";
  }
  if (isTarget(targetOption))
    return success();
  return fail(where + ": expected " + dt::codegen::getTargetNames(" or ") +
              ", not '" + targetOption + "'");
}

LogicalResult checkOptions(StringRef output) {
  if (failed(chooseTarget()))
    return failure();
  bool directory = emitOption == Emit::Cpp || emitOption == Emit::Exe;
  if (directory && output == "-")
    return fail("--emit=cpp and --emit=exe need -o DIRECTORY");
  if (failed(dt::checkEnding(emitOption, output)))
    return failure();
  for (auto *option : {&fromOption, &toOption}) {
    if (option->empty())
      continue;
    if (emitOption == Emit::None)
      return fail("--" + option->ArgStr +
                  " goes with --emit, e.g. --emit=mlir");
    if (!dt::isPhase(*option) &&
        !(option == &fromOption && *option == "codegen"))
      return fail("--" + option->ArgStr + ": there is no phase '" + *option +
                  "'; expected one of " + dt::getPhaseNames());
  }
  if (emitOption == Emit::PlanModel && !planOption.empty())
    return fail("--emit=plan-model is what plans are made from: expected no "
                "--plan");
  if (emitOption == Emit::PlanModel && !fromOption.empty() &&
      fromOption != "import" && fromOption != "modules")
    return fail("--emit=plan-model describes the program behind the phase "
                "modules, but --from=" +
                fromOption + " begins later");
  if (!planOption.empty() && emitOption == Emit::None)
    return fail("--plan goes with --emit, e.g. --emit=plan");
  if (failed(checkPlanner()))
    return failure();
  if (!planOption.empty() && !fromOption.empty() && fromOption != "import" &&
      fromOption != "modules")
    return fail("--plan is obeyed from the phase modules on, but --from=" +
                fromOption + " begins later");
  if (!timesOption.empty() && emitOption != Emit::Timeline)
    return fail("--times goes with --emit=timeline");
  if (!toOption.empty() && emitOption != Emit::Mlir && emitOption != Emit::Plan)
    return fail("--to goes with --emit=mlir and --emit=plan only");
  return success();
}

/// What passes beside the IR collect.
struct Collected {
  dt::ProgramReport report;
  std::string planModel;
};

int64_t getMostTP() {
  constexpr int64_t node = 8;
  return devicesOption.getNumOccurrences() ? int64_t(devicesOption) : node;
}

void buildPlannedPhases(PassManager &pm, dt::ProgramReport &report) {
  StringRef last = toOption;
  if (emitOption == Emit::PlanModel)
    last = "modules";
  // All that a plan's report shows is known before tables are made.
  if (last.empty() && (emitOption == Emit::Timeline ||
                       (emitOption == Emit::Plan && !planOption.empty())))
    last = "schedule";
  dt::buildPhases(pm, fromOption, last,
                  [&](OpPassManager &pm, StringRef phase) {
                    if (phase == "modules" && !planOption.empty()) {
                      pm.addPass(plansItself() ? createPlanner(report.chosen)
                                               : createApplyPlan(planOption));
                      dt::modules::buildModulesUnderPlan(pm);
                    }
                    if (dt::isReport(emitOption) &&
                        (phase == "differentiate" || phase == "schedule" ||
                         phase == "lower"))
                      dt::addReport(pm, report);
                  });
}

/// The passes that --emit runs: those of the command line, else the phases.
void setPipeline(MlirOptMainConfig &config, bool imported,
                 dt::Diagnostics &diagnostics, Collected &collected) {
  MlirOptMainConfig given = config;
  config.setPassPipelineSetupFn([=, &diagnostics, &collected](PassManager &pm) {
    dt::ProgramReport &report = collected.report;
    diagnostics.attach(*pm.getContext(), imported);
    if (failed(given.setupPassPipeline(pm)))
      return failure();
    bool phases = emitOption != Emit::None && pm.empty();
    report.onHost = dt::codegen::computesOnHost(targetOption);
    if (dt::isReport(emitOption))
      dt::addReport(pm, report);
    if (phases && emitOption == Emit::Timeline && !imported &&
        planOption.empty())
      // Problems that stand in the file.
      pm.addPass(dt::schedule::createSchedSolve());
    else if (phases)
      buildPlannedPhases(pm, report);
    else if (dt::isReport(emitOption))
      dt::addReport(pm, report);
    if (emitOption == Emit::PlanModel)
      dt::addPlanModel(pm, getMostTP(), collected.planModel);
    return success();
  });
}

/// As mlir-opt does it.
LogicalResult writeIR(StringRef output,
                      std::unique_ptr<llvm::MemoryBuffer> buffer,
                      DialectRegistry &registry,
                      const MlirOptMainConfig &config) {
  llvm::Error error =
      dt::writeOutput(output, [&](llvm::raw_ostream &os) -> llvm::Error {
        if (succeeded(MlirOptMain(os, std::move(buffer), registry, config)))
          return llvm::Error::success();
        return llvm::createStringError(""); // it has been printed
      });
  if (!error)
    return success();
  std::string message = toString(std::move(error));
  return message.empty() ? failure() : fail(message);
}

LogicalResult compile(StringRef input, StringRef output,
                      DialectRegistry &registry, dt::Diagnostics &diagnostics) {
  auto buffer = dt::readInput(input, registry, diagnostics);
  if (!buffer) {
    std::string message = toString(buffer.takeError());
    return message.empty() ? failure() : fail(message);
  }
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  Collected collected;
  setPipeline(config, dt::isImported(input), diagnostics, collected);
  if (emitOption == Emit::None || emitOption == Emit::Mlir)
    return writeIR(output, std::move(*buffer), registry, config);
  config.emitBytecode(true);
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  if (failed(MlirOptMain(os, std::move(*buffer), registry, config)))
    return failure();
  dt::OutputOptions options = {emitOption,   targetOption, input.str(),
                               output.str(), timesOption,  planOption};
  if (emitOption == Emit::Kernels && !targetOption.getNumOccurrences())
    options.target = "cuda";
  if (emitOption == Emit::PlanModel)
    return dt::writePlanModel(collected.planModel, options);
  return dt::isReport(emitOption)
             ? dt::writeReport(collected.report, options)
             : dt::emitProgram(bytes, registry, options, diagnostics);
}

LogicalResult compile(StringRef input, StringRef output,
                      DialectRegistry &registry) {
  dt::Diagnostics diagnostics;
  if (failed(checkOptions(output)) || failed(diagnostics.open(remarksOption)))
    return failure();
  LogicalResult result = compile(input, output, registry, diagnostics);
  return failed(diagnostics.close()) ? failure() : result;
}

/// LLVM's own error does not say what there is.
LogicalResult checkEmit(ArrayRef<char *> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    StringRef value = arguments[i];
    value.consume_front("-");
    if (!value.consume_front("-emit"))
      continue;
    if (value.empty() && i + 1 < arguments.size())
      value = arguments[i + 1];
    else if (!value.consume_front("="))
      continue; // a longer name
    std::vector<StringRef> names;
    for (unsigned n = 0; n < emitOption.getParser().getNumOptions(); ++n)
      names.push_back(emitOption.getParser().getOption(n));
    if (!llvm::is_contained(names, value))
      return fail("--emit: '" + value + "' is not one of " +
                  llvm::join(names, ", ") +
                  dt::models::didYouMean(value, names));
  }
  return success();
}

/// Plugins' passes and dialects must be known before the options are made of
/// them: when the option itself is read it is too late for flags and --help
/// (and MLIR goes on without a plugin that it cannot load).
LogicalResult loadPlugins(ArrayRef<char *> arguments,
                          DialectRegistry &registry) {
  if (llvm::Error error = dt::loadPlugins(arguments, registry))
    return fail(toString(std::move(error)));
  for (const std::string &file : dt::valuesOf("load-pass-plugin", arguments)) {
    auto plugin = PassPlugin::load(file);
    if (!plugin)
      return fail("--load-pass-plugin: " + toString(plugin.takeError()));
    plugin->registerPassRegistryCallbacks();
  }
  for (const std::string &file :
       dt::valuesOf("load-dialect-plugin", arguments)) {
    auto plugin = DialectPlugin::load(file);
    if (!plugin)
      return fail("--load-dialect-plugin: " + toString(plugin.takeError()));
    plugin->registerDialectRegistryCallbacks(registry);
  }
  return success();
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM initialise(argc, argv);
  dt::expectStandardOutput();
  DialectRegistry registry;
  dt::registerDialects(registry);
  dt::registerPasses();
  ArrayRef<char *> arguments = ArrayRef<char *>(argv, argc).drop_front();
  if (failed(loadPlugins(arguments, registry)))
    return 1;
  dt::hideForeignOptions(
      {&emitOptions, &dt::getImportOptions(), &dt::getPluginOptions()});
  registerCLIOptions("dt-opt", registry);
  dt::sortOptions();
  if (failed(dt::checkArguments(arguments, true)) ||
      failed(checkEmit(arguments)))
    return 1;
  auto [input, output] = parseCLIOptions(argc, argv, dt::getHelpHeader());
  return failed(compile(input, output, registry));
}

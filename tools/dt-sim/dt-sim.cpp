//===- dt-sim.cpp - Plans and their steps, without a compiler -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Answers "what if": a model of DistTrain's paper, a cluster, data and policies
// in; a table of plans, a plan file or a timeline out.
//
//===----------------------------------------------------------------------===//

#include "passes/planner/describe/Shipped.h"
#include "passes/planner/explain/Explain.h"
#include "passes/planner/policies/Policy.h"
#include "passes/planner/search/Robust.h"
#include "tools/common/CommandLine.h"
#include "tools/common/Output.h"
#include "tools/dt-sim/GivenPlan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>

using namespace llvm;
using namespace dt::planner;

namespace {

cl::OptionCategory category("dt-sim options");
const std::string modelHelp =
    join(getShippedModels(), ", ") +
    ",\nor a .json file (docs/plan-model.schema.json); default: mllm-9b";
cl::opt<std::string> modelName("model", cl::desc(modelHelp),
                               cl::value_desc("name|file.json"),
                               cl::init("mllm-9b"), cl::cat(category));
cl::opt<std::string> profileFile("profile",
                                 cl::desc("measured times of layers "
                                          "(docs/profile.schema.json)"),
                                 cl::cat(category));
cl::opt<std::string> modelOut("model-out", cl::desc("write the model as JSON"),
                              cl::cat(category));
const std::string clusterHelp = listClusters();
cl::opt<std::string> clusterName("cluster", cl::desc(clusterHelp),
                                 cl::value_desc("name|file.json"),
                                 cl::cat(category));
dt::NumberOption devices("devices", cl::desc("use so many of its devices"),
                         cl::init(0), cl::cat(category));
cl::opt<std::string> dataName("data", cl::desc("packed, documents or a file"),
                              cl::init("packed"), cl::cat(category));
dt::NumberOption batchSize("batch", cl::desc("samples a step"), cl::init(1920),
                           cl::cat(category));
dt::NumberOption seed("seed", cl::desc("of the data draw"), cl::init(1),
                      cl::cat(category));
dt::NumberOption
    robust("robust",
           cl::desc("plan for a percentile of the step over draws of data and "
                    "of slow ranks (1 to 100; docs/planning-search.md)"),
           cl::cat(category));
cl::list<std::string> policyNames("policy", cl::CommaSeparated,
                                  cl::desc("policies to compare, or all"),
                                  cl::cat(category));
cl::list<std::string> frozen("frozen", cl::CommaSeparated,
                             cl::desc("modules that are not trained"),
                             cl::cat(category));
cl::opt<std::string> givenPlan("plan",
                               cl::desc("price this plan file, ask no policy"),
                               cl::value_desc("plan.json"), cl::cat(category));
cl::opt<std::string> planFile("plan-out", cl::desc("write the last plan"),
                              cl::cat(category));
cl::opt<std::string> traceFile("trace",
                               cl::desc("write the last plan's timeline for "
                                        "Perfetto or chrome://tracing"),
                               cl::cat(category));

cl::opt<bool> explained("explain",
                        cl::desc("say why: units, losses, other policies, what "
                                 "another cluster or batch would give"),
                        cl::cat(category));
cl::opt<std::string> htmlFile("html",
                              cl::desc("write explanation and timeline of the "
                                       "last plan as a page"),
                              cl::cat(category));

Error wrong(const Twine &what) { return createStringError(what); }

Expected<Model> findModel() {
  auto model = openModel(modelName);
  if (!model)
    return model.takeError();
  for (const std::string &name : frozen) {
    bool found = false;
    std::string names;
    for (Module &module : model->modules) {
      names += (names.empty() ? "" : ", ") + module.name;
      if (module.name != name)
        continue;
      module.trainable = false;
      found = true;
    }
    if (!found)
      return wrong("--frozen: no module is named '" + name + "' (" + names +
                   ")");
  }
  if (!frozen.empty())
    spreadGradients(*model);
  return model;
}

Error write(StringRef file, StringRef text) {
  return dt::writeOutput(file, [&](raw_ostream &os) {
    os << text;
    return Error::success();
  });
}

void printRow(const Plan &plan, const PolicyInput &input, double seconds) {
  const Model &model = input.model();
  const Prediction &p = plan.predicted;
  outs() << format(
      "%-18s %9.3f s  ceiling %5.2f  MFU %5.1f %%  bubble %5.1f %% "
      "wall %5.1f %% span  n %-4lld %-11s planned in %.3f s\n",
      plan.policy.c_str(), p.step, p.getCeiling(), 100 * p.mfu,
      100 * p.wallBubble, 100 * p.spanBubble, (long long)plan.microbatches,
      plan.schedule.c_str(), seconds);
  const Losses &l = p.losses;
  outs() << format("    work %.1f %%, lost to kernels %.1f, TP messages %.1f, "
                   "recomputation %.1f, waiting %.1f, gradients and optimizer "
                   "%.1f, idle devices %.1f\n",
                   100 * p.bound / p.step, 100 * l.kernels, 100 * l.reduce,
                   100 * l.again, 100 * l.waiting, 100 * l.tail, 100 * l.idle);
  if (plan.faster)
    outs() << "    " << describeFaster(plan) << "\n";
  if (std::string idle = describeIdle(plan, input.gpus()); !idle.empty())
    outs() << "    " << idle << "\n";
  if (plan.searched)
    outs() << "    " << describeSearch(plan) << "\n";
  if (p.spread)
    outs() << "    " << describeSpread(plan) << "\n";
  for (const UnitPlan &unit : plan.units) {
    size_t m = size_t(unit.module);
    outs() << format("    %-10s", model.modules[m].name.c_str());
    outs() << format(" %5lld devices from %-5lld TP %d DP %lld PP %d VPP %d",
                     (long long)unit.getRanks(), (long long)unit.firstRank,
                     unit.tp, (long long)unit.dp, unit.pp, unit.vpp);
    if (unit.cp > 1)
      outs() << " CP " << unit.cp << (unit.ring ? " ring" : "");
    if (unit.ep > 1)
      outs() << " EP " << unit.ep;
    outs() << format("  save %-4s  %5.1f GiB  busy %3.0f %%\n",
                     describeSaves(unit).c_str(), p.memory[m] / double(1 << 30),
                     100 * p.busy[m]);
    if (!unit.blocks.empty())
      outs() << "               " << describeBlocks(unit) << "\n";
  }
}

/// Explanation, plan file, page and trace of a plan, as asked for.
Error writeOutputs(const PolicyInput &input, const Plan &plan,
                   const Data &data) {
  ExplainOptions options;
  options.others = options.relax = explained;
  options.data = &data;
  options.seed = seed;
  auto explanation = explain(input, plan, options);
  if (!explanation)
    return explanation.takeError();
  if (explained) {
    outs() << "\n";
    printText(outs(), *explanation, input);
  }
  if (!planFile.empty())
    if (Error error =
            write(planFile, printJson(*explanation, input.model()) + "\n"))
      return error;
  if (!htmlFile.empty()) {
    std::string page;
    raw_string_ostream stream(page);
    if (Error error = printHtml(stream, *explanation, input))
      return error;
    if (Error error = write(htmlFile, page))
      return error;
  }
  if (traceFile.empty())
    return Error::success();
  auto step = simulateStep(input.costs, plan, input.batch);
  if (!step)
    return step.takeError();
  return write(traceFile, printTrace(*step));
}

/// What --robust asks for; nothing if it is not there.
std::optional<Robustness> makeRobustness(const Data &data) {
  if (!robust.getNumOccurrences())
    return std::nullopt;
  Robustness robustness;
  robustness.percentile = int(robust);
  robustness.seed = seed;
  robustness.batch = [&](int draw) {
    return drawBatch(data, seed + uint64_t(draw), batchSize);
  };
  return robustness;
}

/// The plan file, priced.
Expected<Plan> priceGiven(const PolicyInput &input,
                          const std::optional<Robustness> &robustness) {
  auto plan = readGivenPlan(givenPlan, input.model(), batchSize);
  if (!plan)
    return plan.takeError();
  if (Error error = checkPlan(*plan, input.model(), input.costs.cluster))
    return wrong(givenPlan + ": " + toString(std::move(error)));
  auto step = simulateStep(input.costs, *plan, input.batch);
  if (!step)
    return step.takeError();
  plan->predicted = step->predicted;
  return robustness ? chooseRobust(input, Candidates(*plan), *robustness)
                    : std::move(plan);
}

Error run() {
  auto model = findModel();
  if (!model)
    return model.takeError();
  if (clusterName.empty())
    return wrong("--cluster: expected the name of a cluster or a file "
                 "(--help lists them)");
  auto all = openCluster(clusterName);
  if (!all)
    return all.takeError();
  auto cluster = all->take(devices ? int64_t(devices) : all->getNumDevices());
  if (!cluster)
    return cluster.takeError();
  auto data = openData(dataName);
  if (!data)
    return data.takeError();
  if (batchSize < 1 || batchSize > 16384)
    return wrong("--batch: expected 1 to 16384 samples");
  if (robust.getNumOccurrences())
    if (Error error = checkPercentile(robust))
      return wrong("--robust: " + toString(std::move(error)));
  if (Error error = checkPrecision(*cluster, *model))
    return error;
  std::optional<Profile> profile;
  if (!profileFile.empty()) {
    auto read = readProfile(profileFile);
    if (!read)
      return read.takeError();
    if (Error error = read->check(*model))
      return wrong(profileFile + ": " + toString(std::move(error)));
    profile = std::move(*read);
    profile->setLinks(*cluster);
  }
  if (!modelOut.empty())
    if (Error error = write(modelOut, printModel(*model) + "\n"))
      return error;
  Costs costs(*cluster, *model, profile ? &*profile : nullptr);
  std::vector<Sample> batch = drawBatch(**data, seed, batchSize);
  outs() << model->name << " on " << cluster->getNumDevices() << " of "
         << cluster->name << ", batch " << batchSize << ", "
         << (*data)->describe() << "; figures rest on the "
         << (profile ? "profile where it has them" : "cost model") << "\n";
  if (!profile && !cluster->assumed.empty())
    outs() << cluster->assumed << "\n";
  std::vector<std::string> names = policyNames;
  if (names.empty())
    names = {"joint"};
  if (names.size() == 1 && names[0] == "all") {
    names.clear();
    for (const Policy &policy : getPolicies())
      names.push_back(policy.name);
  }
  PolicyInput input{costs, batch};
  std::optional<Plan> last;
  std::optional<Robustness> robustness = makeRobustness(**data);
  if (!givenPlan.empty()) {
    names.clear();
    auto plan = priceGiven(input, robustness);
    if (!plan)
      return plan.takeError();
    printRow(*plan, input, 0);
    last = *plan;
  }
  for (const std::string &name : names) {
    auto begin = std::chrono::steady_clock::now();
    auto plan = robustness ? makeRobustPlan(name, input, *robustness)
                           : makePlan(name, input);
    if (!plan) {
      if (names.size() == 1)
        return plan.takeError();
      outs() << format("%-18s ", name.c_str()) << toString(plan.takeError())
             << "\n";
      continue;
    }
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - begin;
    printRow(*plan, input, seconds.count());
    last = *plan;
  }
  if (!last)
    return wrong("no policy has a plan");
  return writeOutputs(input, *last, **data);
}

} // namespace

int main(int argc, char **argv) {
  dt::expectStandardOutput();
  cl::HideUnrelatedOptions(category);
  if (failed(
          dt::checkArguments(ArrayRef<char *>(argv, argc).drop_front(), false)))
    return 1;
  cl::ParseCommandLineOptions(argc, argv,
                              "Plans and simulates training steps\n");
  if (Error error = run()) {
    WithColor::error() << toString(std::move(error)) << "\n";
    return 1;
  }
  return 0;
}

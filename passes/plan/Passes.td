//===- Passes.td - Passes that choose and obey a plan ---------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLAN_PASSES
#define PASSES_PLAN_PASSES

include "mlir/Pass/PassBase.td"

def ApplyPlan : Pass<"dist-apply-plan", "::mlir::ModuleOp"> {
  let summary = "Turn a plan file into attributes of modules";
  let description = [{
    Reads a plan (docs/plan.md) from a file, or from an option (`plan=llm:tp=2,dp=2;schedule=1f1b`), checks it against the program with one error that names the key, and writes what passes
    obey (docs/parallel.md): one `dist.plan`, placements of modules, bounds of one part on `nn.dim`. Modules that are found or cut in the phase *modules* must be there: a plan may name them.
  }];
  let options = [
    Option<"file", "file", "std::string", "\"\"", "plan file (JSON)">,
    Option<"plan", "plan", "std::string", "\"\"", "a plan in one line, instead of a file">
  ];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect", "::mlir::func::FuncDialect"];
}

def DistPlan : Pass<"dist-plan", "::mlir::ModuleOp"> {
  let summary = "Choose a plan for a cluster and write it as attributes of modules";
  let description = [{
    Describes the program to the planner (docs/planning-model.md): layers from a copy that is outlined, figures from the nn cost interface. The policy's best plan that can be executed is written as a plan file and applied as
    dist-apply-plan would; attribute `dist.plan_file` of `dist.plan` holds its text, `dist.explanation` what is to be told of it, `dist.plan_page` the same with the timeline as a page. The hardware is attached to the program as `dlti.target_system_spec`.

    A compiled program has the recipe's microbatches (of a recipe without `micro` those of a size that divides the batch) and at most as many replicas of a module as a microbatch has of its items; context and expert parallelism cannot be executed.
  }];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"", "a shipped cluster's name, here, or a file (docs/cluster.schema.json)">,
    Option<"policy", "policy", "std::string", "\"joint\"", "who chooses: joint, disttrain, megatron, … (docs/planning-search.md); layers: nobody, layers are to be measured">,
    Option<"devices", "devices", "int64_t", "0", "use so many of the cluster's devices; 0: all">,
    Option<"data", "data", "std::string", "\"\"", "what samples hold: a file (dt-data stats), packed or documents; else as much as the recipe allows">,
    Option<"profile", "profile", "std::string", "\"\"", "measured times of layers (docs/profile.schema.json)">,
    Option<"robust", "robust", "int64_t", "0", "percentile (1 to 100) of the step over draws of data and of slow ranks that is planned for; 0: the step of one batch">,
    Option<"memory", "memory", "std::string", "\"\"", "what programs compute in: 'host', where messages take memory of ranks, or 'device'; default: host where ranks of the cluster share cores">,
    Option<"explain", "explain", "bool", "false", "compare with other policies too">
  ];
  // Those of the phases, which work on copies.
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect", "::dt::rt::RTDialect", "::dt::sched::SchedDialect", "::mlir::func::FuncDialect", "::mlir::DLTIDialect"];
}

def DescribeLayers : Pass<"dist-describe-layers", "::mlir::ModuleOp"> {
  let summary = "Say what layers cost as they will run";
  let description = [{
    A remark for every kind of layer of every module (as the phase *modules* leaves them): what one rank of a tensor-parallel group does of it forward, for the gradients of its inputs and for those of its
    weights, with all operations and collectives; what it keeps from forward to backward; its parameters. All is per item. These are the figures that `dist-plan` prices (docs/planning-model.md). The program stays as it is.
  }];
  let options = [
    Option<"tp", "tp", "int64_t", "1", "ranks of the group, a power of two">,
    Option<"save", "save", "std::string", "\"vjp\"", "saved set: none, vjp or all">
  ];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect", "::mlir::func::FuncDialect"];
}

#endif // PASSES_PLAN_PASSES

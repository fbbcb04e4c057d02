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
    Reads a plan (docs/plan.md) from a file, or from an option (`plan=llm:tp=2,dp=2;schedule=1f1b`), and checks it against the program, with one error that names the key. Then writes the attributes that later passes follow
    (docs/parallel.md): one `dist.plan`, placements of modules, bounds of a part of the batch on `nn.dim`. A plan may name modules that the phase *modules* finds or cuts, so these must exist already.
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
    Describes the program to the planner (docs/planning-model.md): layers from a copy that is outlined, figures from the nn cost interface. The best plan of the policy that can be executed is written as a plan file, and
    applied as by dist-apply-plan. The plan's text, the explanation for the user, and the same as a page with the timeline go to whoever made the pass (PlanTexts in passes/plan/Passes.h): `dt-opt --emit=plan`. The hardware is attached to
    the program as `dlti.target_system_spec`.

    A compiled program has the recipe's microbatches (of a recipe without `micro` microbatches of a size that divides the batch), and at most as many replicas of a module as a microbatch has of its items.
  }];
  let options = [
    Option<"cluster", "cluster", "std::string", "\"\"", "a shipped cluster's name, here, or a file (docs/cluster.schema.json)">,
    Option<"policy", "policy", "std::string", "\"joint\"", "the policy that chooses: joint, disttrain, megatron, … (docs/planning-search.md); layers: none, layers are to be measured">,
    Option<"devices", "devices", "int64_t", "0", "use so many of the cluster's devices; 0: all">,
    Option<"data", "data", "std::string", "\"\"", "what samples contain: a file (dt-data stats), packed or documents; else as much as the recipe allows">,
    Option<"profile", "profile", "std::string", "\"\"", "measured times of layers (docs/profile.schema.json)">,
    Option<"robust", "robust", "int64_t", "0", "percentile (1 to 100) of the step over draws of data and of slow ranks that is planned for; 0: the step of one batch">,
    Option<"memory", "memory", "std::string", "\"\"", "memory that programs compute in: 'host', where messages take memory of ranks, or 'device'; default: host where ranks of the cluster share cores">,
    Option<"explain", "explain", "bool", "false", "compare with other policies too">
  ];
  // Those of the phases, which work on copies.
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect", "::dt::rt::RTDialect", "::dt::sched::SchedDialect", "::mlir::func::FuncDialect", "::mlir::DLTIDialect"];
}

def DescribeLayers : Pass<"dist-describe-layers", "::mlir::ModuleOp"> {
  let summary = "Report what layers cost as they will run";
  let description = [{
    Emits a remark for every kind of layer of every module (as the phase *modules* leaves them). It says what one rank of a tensor-parallel group does of the layer in the forward, for the gradients of its inputs and for those of
    its weights, with all operations and collectives; which bytes it keeps from forward to backward; its parameters. All figures are per item. These are the figures that `dist-plan` prices (docs/planning-model.md). The
    program does not change.
  }];
  let options = [
    Option<"tp", "tp", "int64_t", "1", "ranks of the group, a power of two">,
    Option<"save", "save", "std::string", "\"vjp\"", "saved set: none, vjp or all">,
    Option<"sequenceParallel", "sequence-parallel", "bool", "false", "between layers that follow one another a rank has its share of the tokens">
  ];
  let dependentDialects = ["::dt::nn::NNDialect", "::dt::dist::DistDialect", "::mlir::func::FuncDialect"];
}

#endif // PASSES_PLAN_PASSES

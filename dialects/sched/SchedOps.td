//===- SchedOps.td - The sched dialect: a step's problem and its solution ---===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_SCHED_SCHEDOPS
#define DIALECTS_SCHED_SCHEDOPS

include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"

def Sched_Dialect : Dialect {
  let name = "sched";
  let cppNamespace = "::dt::sched";
  let summary = "Which rank does what in which order";
  let description = [{
    `sched.problem` says what a training step consists of: stages with their times and bytes, edges, microbatches, bounds. `sched.solution` says who does what when: every rank's list of tasks, sends and receives.
    The two stand apart, so that a solution can be written, read and checked whoever made it. Its verifier proves that it computes what the problem says and that it finishes without any buffering of messages
    (docs/schedules.md, V1-V7); a solution that would deadlock is refused, and the error names the cycle.

    Times and bytes are integers of one unit each; the compiler uses nanoseconds and bytes.
  }];
}

class Sched_Op<string mnemonic, list<Trait> traits = []> : Op<Sched_Dialect, mnemonic, traits>;
class Sched_InProblem<string mnemonic, list<Trait> traits = []> : Sched_Op<mnemonic, traits # [HasParent<"ProblemOp">]>;
class Sched_InRank<string mnemonic, list<Trait> traits = []> : Sched_Op<mnemonic, traits # [HasParent<"RankOp">]>;

def Sched_ProblemOp : Sched_Op<"problem", [Symbol, SymbolTable, IsolatedFromAbove, NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "a training step that is to be scheduled";
  let description = [{
    Holds `sched.unit`, `sched.stage` and `sched.edge`. `memory`: bytes of activations that each rank may hold. `sync_group`: microbatches of one batch-sync; without it all.
    ```mlir
    sched.problem @step ranks 2 microbatches 4 {
      sched.unit @llm
      sched.stage @s0 of @llm on [[0]] forward [10] input [12] weight [8] keeps [4096]
      sched.stage @s1 of @llm on [[1]] forward [10] input [12] weight [8] keeps [4096]
      sched.edge @s0 to @s1 latency 2
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$ranks, I64Attr:$microbatches, OptionalAttr<DenseI64ArrayAttr>:$memory, OptionalAttr<I64Attr>:$sync_group);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `ranks` $ranks `microbatches` $microbatches (`memory` $memory^)? (`sync_group` $sync_group^)? attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The same as the scheduling library wants it. The op must have been verified.
    ::dt::scheduler::Problem getProblem();
  }];
}

def Sched_UnitOp : Sched_InProblem<"unit", [Symbol]> {
  let summary = "a module: stages that follow one another";
  let description = [{
    `run_ahead`: microbatches that its forwards run ahead of what the schedule asks for; where no gradient comes back the most that wait for who uses them (without it: no bound). `span`: microbatches that one of its
    tasks serves. A task is named by the first of them, its times and bytes are of all, and edges lead to units whose span divides this one.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<I64Attr>:$run_ahead, OptionalAttr<I64Attr>:$span);
  let assemblyFormat = "$sym_name (`run_ahead` $run_ahead^)? (`span` $span^)? attr-dict";
}

def Sched_StageOp : Sched_InProblem<"stage", [Symbol]> {
  let summary = "a part of a module that runs as one piece";
  let description = [{
    `on`: the ranks of every data-parallel replica; several ranks are a tensor-parallel group. Times (`forward`, `input`: gradient of the inputs, `weight`: gradient of the weights) and bytes (`keeps`: what a forward
    keeps for the backward on each rank; `weight_keeps`: what is kept from the gradient of the inputs to that of the weights; `late_keeps`: what of that the former makes) are one value, one a microbatch, or one a microbatch and replica (microbatch-major). With `late_keeps`, `memory` bounds slots of three kinds, without it bytes that add up.

    `no_backward`: nothing trainable at or before the stage. `frozen`: no gradient of weights. `batch_sync`: the stage is the synchronisation of a contrastive loss, of all ranks that make its inputs; it has only a `forward`.
    `slots`: most microbatches in flight.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$unit, ArrayAttr:$replicas, DenseI64ArrayAttr:$forward, OptionalAttr<DenseI64ArrayAttr>:$input, OptionalAttr<DenseI64ArrayAttr>:$weight,
                       OptionalAttr<DenseI64ArrayAttr>:$keeps, OptionalAttr<DenseI64ArrayAttr>:$weight_keeps, OptionalAttr<DenseI64ArrayAttr>:$late_keeps, OptionalAttr<I64Attr>:$slots, UnitAttr:$no_backward, UnitAttr:$frozen, UnitAttr:$batch_sync);
  let assemblyFormat = [{
    $sym_name `of` $unit `on` $replicas `forward` $forward (`input` $input^)? (`weight` $weight^)? (`keeps` $keeps^)? (`weight_keeps` $weight_keeps^)? (`late_keeps` $late_keeps^)? (`slots` $slots^)?
    (`no_backward` $no_backward^)? (`frozen` $frozen^)? (`batch_sync` $batch_sync^)? attr-dict
  }];
}

def Sched_EdgeOp : Sched_InProblem<"edge"> {
  let summary = "activations of one stage go to another";
  let description = [{
    `latency`: from the end of the producer to the earliest start of the consumer. `no_gradient`: nothing comes back. `depth`: microbatches whose messages a receiver has buffers for. `routes`: which messages there are,
    as [microbatch, replica of the producer, replica of the consumer, latency]; without it one to one between equally many replicas, else from each to each. Two edges may join the same stages (two tensors).
  }];
  let arguments = (ins FlatSymbolRefAttr:$source, FlatSymbolRefAttr:$target, I64Attr:$latency, UnitAttr:$no_gradient, OptionalAttr<I64Attr>:$depth, OptionalAttr<ArrayAttr>:$routes);
  let assemblyFormat = "$source `to` $target `latency` $latency (`no_gradient` $no_gradient^)? (`depth` $depth^)? (`routes` $routes^)? attr-dict";
}

def Sched_SolutionOp : Sched_Op<"solution", [NoTerminator, SingleBlock, NoRegionArguments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the order of tasks and messages on every rank";
  let description = [{
    Holds one `sched.rank` a rank. `schedule`: the name of the schedule that made it.
    ```mlir
    sched.solution of @step {
      sched.rank 0 { sched.run F @s0 mb 0  sched.send @s0 to @s1 mb 0  sched.receive @s1 to @s0 mb 0 gradient  sched.run B @s0 mb 0 }
      sched.rank 1 { sched.receive @s0 to @s1 mb 0  sched.run F @s1 mb 0  sched.run B @s1 mb 0  sched.send @s1 to @s0 mb 0 gradient }
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$problem, OptionalAttr<StrAttr>:$schedule);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`of` $problem (`schedule` $schedule^)? attr-dict-with-keyword $body";
  let extraClassDeclaration = [{
    /// Every rank's list. The op must have been verified.
    std::vector<std::vector<::dt::scheduler::Instruction>> getPrograms(::dt::sched::ProblemOp problem);
  }];
}

def Sched_RankOp : Sched_Op<"rank", [HasParent<"SolutionOp">, NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "one rank's list";
  let arguments = (ins I64Attr:$rank);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$rank attr-dict-with-keyword $body";
}

def Sched_TaskKind : I32EnumAttr<"TaskKind", "what a task does", [
  I32EnumAttrCase<"F", 0>, I32EnumAttrCase<"B", 1>, I32EnumAttrCase<"I", 2>, I32EnumAttrCase<"W", 3>, I32EnumAttrCase<"S", 4>]> {
  let cppNamespace = "::dt::sched";
}

def Sched_RunOp : Sched_InRank<"run"> {
  let summary = "a task: F, B, I, W or S of a stage";
  let description = [{
    F forward; B backward; I and W its halves, gradients of inputs and of weights; S a batch-sync, whose `mb` counts groups of microbatches. `slot`: where the stage's residuals of this microbatch are, from its forward
    to its last backward task.
  }];
  let arguments = (ins Sched_TaskKind:$kind, FlatSymbolRefAttr:$stage, I64Attr:$microbatch, DefaultValuedAttr<I64Attr, "0">:$replica, OptionalAttr<I64Attr>:$slot);
  let assemblyFormat = "$kind $stage `mb` $microbatch (`replica` $replica^)? (`slot` $slot^)? attr-dict";
}

class Sched_MessageOp<string mnemonic> : Sched_InRank<mnemonic> {
  let description = [{
    `@a to @b` is the way of the message, `gradient` says that it is one. `from`, `into`: replicas of the sending and the receiving stage. `edge`: which of several edges between the two stages, in their order. `rows`: the
    manifest's expression for the number of rows; at 0 both ends drop the message, so both have the same expression.
  }];
  let arguments = (ins FlatSymbolRefAttr:$source, FlatSymbolRefAttr:$target, I64Attr:$microbatch, UnitAttr:$gradient, DefaultValuedAttr<I64Attr, "0">:$from, DefaultValuedAttr<I64Attr, "0">:$into,
                       DefaultValuedAttr<I64Attr, "0">:$edge, OptionalAttr<StrAttr>:$rows);
  let assemblyFormat = "$source `to` $target `mb` $microbatch (`gradient` $gradient^)? (`from` $from^)? (`into` $into^)? (`edge` $edge^)? (`rows` $rows^)? attr-dict";
}
def Sched_SendOp : Sched_MessageOp<"send"> { let summary = "hands a message over; ends when it is received"; }
def Sched_ReceiveOp : Sched_MessageOp<"receive"> { let summary = "takes a message"; }
def Sched_ExchangeOp : Sched_MessageOp<"exchange"> { let summary = "a message between groups that share this rank"; }

#endif // DIALECTS_SCHED_SCHEDOPS

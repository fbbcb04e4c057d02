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
    `sched.problem` describes a training step: stages with their times and bytes, edges, microbatches, bounds. `sched.solution` has every rank's list of tasks, sends and receives, in order.
    The two are separate ops, so that a solution can be written, read and checked whatever made it. Its verifier proves that it computes what the problem says and that it finishes without any buffering of messages
    (docs/schedules.md, V1-V7); a solution that would deadlock is refused, and the error names the cycle.

    Times and bytes are integers of one unit each; the compiler uses nanoseconds and bytes.
  }];
}

class Sched_Op<string mnemonic, list<Trait> traits = []> : Op<Sched_Dialect, mnemonic, traits>;
class Sched_InProblem<string mnemonic, list<Trait> traits = []> : Sched_Op<mnemonic, traits # [HasParent<"ProblemOp">]>;
class Sched_InRank<string mnemonic, list<Trait> traits = []> : Sched_Op<mnemonic, traits # [HasParent<"RankOp">]>;

def Sched_ProblemOp : Sched_Op<"problem", [Symbol, SymbolTable, IsolatedFromAbove, NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "a training step to be scheduled";
  let description = [{
    Holds `sched.unit`, `sched.stage` and `sched.edge`. `memory`: bytes of activations that each rank may hold. `sync_group`: microbatches of one batch-sync; all if absent.
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
  let summary = "a module: consecutive stages";
  let description = [{
    `run_ahead`: how many microbatches its forwards run ahead in addition to what the schedule requires; for a unit to which no gradient comes back, the most microbatches that may wait for their consumer (no bound if absent).

    `span`: how many microbatches one of its tasks serves. A task is named by the first of them, and its times and bytes are those of all. Edges lead to units whose span divides this one.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<I64Attr>:$run_ahead, OptionalAttr<I64Attr>:$span);
  let assemblyFormat = "$sym_name (`run_ahead` $run_ahead^)? (`span` $span^)? attr-dict";
}

def Sched_StageOp : Sched_InProblem<"stage", [Symbol]> {
  let summary = "layers of a module that run as one task";
  let description = [{
    | attribute | meaning |
    | --- | --- |
    | `on` | the ranks of every data-parallel replica; several ranks are a tensor-parallel group |
    | `forward`, `input`, `weight` | times of the forward, of the gradients of inputs, of the gradients of weights |
    | `keeps` | bytes that a forward keeps for the backward on each rank |
    | `weight_keeps` | bytes that are kept from the gradients of inputs to those of weights |
    | `late_keeps` | which of these the gradients of inputs make. With it, `memory` bounds slots of three kinds; without it, bytes that add up (docs/schedules.md) |
    | `slots` | most microbatches in flight |
    | `no_backward` | nothing trainable at or before the stage |
    | `frozen` | no gradients of weights |
    | `batch_sync` | the stage is the synchronisation of a contrastive loss, of all ranks that compute its inputs; it has only a `forward` |

    Times and bytes are one value, one for each microbatch, or one for each microbatch and replica (microbatch-major).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$unit, ArrayAttr:$replicas, DenseI64ArrayAttr:$forward, OptionalAttr<DenseI64ArrayAttr>:$input, OptionalAttr<DenseI64ArrayAttr>:$weight,
                       OptionalAttr<DenseI64ArrayAttr>:$keeps, OptionalAttr<DenseI64ArrayAttr>:$weight_keeps, OptionalAttr<DenseI64ArrayAttr>:$late_keeps, OptionalAttr<I64Attr>:$slots, UnitAttr:$no_backward, UnitAttr:$frozen, UnitAttr:$batch_sync);
  let assemblyFormat = [{
    $sym_name `of` $unit `on` $replicas `forward` $forward (`input` $input^)? (`weight` $weight^)? (`keeps` $keeps^)? (`weight_keeps` $weight_keeps^)? (`late_keeps` $late_keeps^)? (`slots` $slots^)?
    (`no_backward` $no_backward^)? (`frozen` $frozen^)? (`batch_sync` $batch_sync^)? attr-dict
  }];
}

def Sched_EdgeOp : Sched_InProblem<"edge"> {
  let summary = "one stage sends activations to another";
  let description = [{
    `latency`: from the end of the producer to the earliest start of the consumer. `no_gradient`: no gradient comes back. `depth`: for how many microbatches a receiver has buffers. `routes`: the messages,
    as [microbatch, replica of the producer, replica of the consumer, latency]; if absent, one to one between equal numbers of replicas, else from each to each. Two edges may join the same stages (two tensors).
  }];
  let arguments = (ins FlatSymbolRefAttr:$source, FlatSymbolRefAttr:$target, I64Attr:$latency, UnitAttr:$no_gradient, OptionalAttr<I64Attr>:$depth, OptionalAttr<ArrayAttr>:$routes);
  let assemblyFormat = "$source `to` $target `latency` $latency (`no_gradient` $no_gradient^)? (`depth` $depth^)? (`routes` $routes^)? attr-dict";
}

def Sched_SolutionOp : Sched_Op<"solution", [NoTerminator, SingleBlock, NoRegionArguments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the order of tasks and messages on every rank";
  let description = [{
    Holds `sched.rank` for every rank. `schedule`: the name of the schedule that made it.
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
  let summary = "the list of one rank, or of several that do the same";
  let arguments = (ins DenseI64ArrayAttr:$ranks);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "custom<RankList>($ranks) attr-dict-with-keyword $body";
}

def Sched_TaskKind : I32EnumAttr<"TaskKind", "what a task does", [
  I32EnumAttrCase<"F", 0>, I32EnumAttrCase<"B", 1>, I32EnumAttrCase<"I", 2>, I32EnumAttrCase<"W", 3>, I32EnumAttrCase<"S", 4>]> {
  let cppNamespace = "::dt::sched";
}

def Sched_RunOp : Sched_InRank<"run"> {
  let summary = "a task: F, B, I, W or S of a stage";
  let description = [{
    F is a forward, B a backward, I and W its halves (gradients of inputs, gradients of weights), S a batch-sync, whose `mb` counts groups of microbatches. `slot`: the place of the stage's residuals of this microbatch, from its forward
    to its last backward task.
  }];
  let arguments = (ins Sched_TaskKind:$kind, FlatSymbolRefAttr:$stage, I64Attr:$microbatch, DefaultValuedAttr<I64Attr, "0">:$replica, OptionalAttr<I64Attr>:$slot);
  let assemblyFormat = "$kind $stage `mb` $microbatch (`replica` $replica^)? (`slot` $slot^)? attr-dict";
}

class Sched_MessageOp<string mnemonic> : Sched_InRank<mnemonic> {
  let description = [{
    `@a to @b` is the direction of the message; `gradient`: it is a gradient. `from`, `into`: replicas of the sending and the receiving stage. `edge`: which of several edges between the two stages, in their order. `rows`: the
    manifest's expression for the number of rows; at 0 both ends drop the message, so both have the same expression.
  }];
  let arguments = (ins FlatSymbolRefAttr:$source, FlatSymbolRefAttr:$target, I64Attr:$microbatch, UnitAttr:$gradient, DefaultValuedAttr<I64Attr, "0">:$from, DefaultValuedAttr<I64Attr, "0">:$into,
                       DefaultValuedAttr<I64Attr, "0">:$edge, OptionalAttr<StrAttr>:$rows);
  let assemblyFormat = "$source `to` $target `mb` $microbatch (`gradient` $gradient^)? (`from` $from^)? (`into` $into^)? (`edge` $edge^)? (`rows` $rows^)? attr-dict";
}
def Sched_SendOp : Sched_MessageOp<"send"> { let summary = "sends a message; ends when it is received"; }
def Sched_ReceiveOp : Sched_MessageOp<"receive"> { let summary = "receives a message"; }
def Sched_ExchangeOp : Sched_MessageOp<"exchange"> { let summary = "a message between groups that share this rank"; }

#endif // DIALECTS_SCHED_SCHEDOPS

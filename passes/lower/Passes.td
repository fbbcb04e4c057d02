//===- Passes.td - Passes of the lower phase --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LOWER_PASSES
#define PASSES_LOWER_PASSES

include "passes/Pipeline.td"

include "mlir/Pass/PassBase.td"

// nn and dist in, rt out: all that decides what is allocated.
def PlacePipeline : Pipeline<[
  "lower-nn-to-rt",
  // Constants and sizes inside kernels.
  "cse",
  "rt-place-streams",
  "rt-plan-memory",
  "lower-program",
  "rt-place-waits"
]>;

def LowerPipeline : Pipeline<!listconcat(PlacePipeline.passes, [
  "rt-shape-kernels",
  "rt-verify-lowered"
])>;

def LowerToRT : Pass<"lower-nn-to-rt", "::mlir::ModuleOp"> {
  let summary = "Functions over tensors become functions over buffers";
  let description = [{
    Each func.func becomes an rt.func in destination-passing style: results are `out` arguments, results marked `nn.param_grad` are `inout` arguments that are added to, and nn.accumulate adds to the parameter's gradient. A value
    that ends in one of these is computed there; others get an rt.alloc. Sums run in a fixed order, so results do not depend on the number of threads.

    | nn op | becomes |
    | --- | --- |
    | elementwise, norm, softmax, reduction, data movement, indexing | rt.kernel |
    | product, convolution, attention | a library call |
    | reshape | rt.view |

    Precondition: the optimize phase's (any elementwise op is accepted, fused or not). An op without a lowering is an error that names it.
  }];
  let dependentDialects = ["::dt::rt::RTDialect"];
}

def PlaceStreams : Pass<"rt-place-streams", "::mlir::ModuleOp"> {
  let summary = "Run collectives beside products that do not need them, with events between the streams";
  let description = [{
    A collective goes to the stream `tp` if a product, a convolution, attention or a call stands between the ops that it needs and the ops that need it. If there is none, earlier products whose results are not needed up to
    there (those of weight gradients) are moved behind it first.

    Then rt.record and rt.wait order all ops of the two streams that touch the same bytes (docs/streams.md). A collective begins with the last long op before it that it does not need, at the earliest; one that only needs what another collective has made begins where it stands. The compute stream waits
    for it where its result is needed. No event can be left out, but those that keep what is passed on from beginning early.

    Precondition: locals have no places yet. Afterwards they live as long as streams may use them.
  }];
  let dependentDialects = ["::dt::rt::RTDialect"];
}

def PlanMemory : Pass<"rt-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Give each local a place in its function's scratch";
  let description = [{
    A local lives from the first to the last op that uses it, including uses of its views (functions are straight-line). An op of another stream uses it from the event for which its stream waited, to the wait for the op. Locals
    that live at once get disjoint ranges: largest first, each at the lowest offset that fits, 64-byte aligned, sized with the `max` of the module's nn.dim symbols.

    A kernel's result may take the place of a local that dies there, if the kernel reads that local, through whatever view, only at the element that it writes, and before it writes it.

    Callees come first: a call's scratch is a local of the caller.
  }];
  let dependentDialects = ["::dt::rt::RTDialect"];
}

def LowerProgram : Pass<"lower-program", "::mlir::ModuleOp"> {
  let summary = "Modules, edges, losses and batch become the tables of a program";
  let description = [{
    dist.* and the planned functions become one rt.program.

    **Arenas.** Every module has an arena region for what outlives a task. Buffers have slots by their kind (SlotKind of runtime/Enums.h; docs/memory.md):

    | buffers | slots |
    | --- | --- |
    | raw inputs, outputs that edges take, residuals, gradients of edges | one for every microbatch in flight |
    | inputs that come over edges | received slots, from the post of the first message on |
    | what only the first half of a split backward reads | early slots |
    | what that half makes | late slots |
    | what nothing reads later | one place |

    **Parameters** have offsets in the module's parameter region, trained ones first, in the order in which the last backward function completes their gradients. In modules with replicas that function reports its progress
    (rt.gradients_ready). Ties within a module share one place; over modules there are copies (`tied`).

    **Rows** of every rank come from the `sched.solution`. Receives are posted early: gradients behind the forward of their microbatch, activations `depth` microbatches ahead (of dist.plan). Edges between equal replicas are
    copies. A module is reduced behind its last backward. Numbers of slots are the most that any rank needs.

    Without a solution there is one rank. Denominators of all microbatches come first; then for each microbatch the modules forward in topological order and backward in reverse. With a whole-batch module, its producers run
    forward for all microbatches first.
  }];
  let dependentDialects = ["::dt::rt::RTDialect"];
}

def PlaceWaits : Pass<"rt-place-waits", "::mlir::ModuleOp"> {
  let summary = "Determine for each row of a step which messages it waits for";
  let description = [{
    Walks the rows of each rank. A row waits for every earlier message that touches the same bytes of an arena, if one of the two writes, unless an earlier row has waited for it (docs/streams.md). So it waits for what it reads,
    and for what is sent from a slot that it writes again. A validation leaves out the backward rows, so for a row that it runs only waits of other rows that it runs count as earlier ones.
  }];
  let dependentDialects = ["::dt::rt::RTDialect"];
}

def ShapeKernels : Pass<"rt-shape-kernels", "::mlir::ModuleOp"> {
  let summary = "Determine for each kernel how its work may be divided among threads";
  let description = [{
    Decided by the body and the largest values of sizes, never by the op from which a kernel was made. The CPU prints the same loops for all shapes.

    | shape | if |
    | --- | --- |
    | `column` | loops over rows add into cells |
    | `all` | few points compute values of one long loop |
    | `row` | points run long rt.simd loops along memory |
    | `point` | anything else |
  }];
  let dependentDialects = ["::dt::rt::RTDialect"];
}

def VerifyLowered : Pass<"rt-verify-lowered", "::mlir::ModuleOp"> {
  let summary = "State what code generation relies on: rt only, each local and each row in its place";
  let description = [{
    **Ops.** Only rt ops are left, scalar ones in kernels, and what data.json is made from (nn.dim, nn.parameter, dist.item, dist.dims, dist.input, dist.data). No value, including arguments of blocks, is a tensor.

    **Places.** Every local lies inside its function's scratch with as many rows as its symbols may have, and every call gives its callee at least the scratch that it needs. Locals that live at the same time do not overlap.

    **Streams.** Ops that touch the same bytes, of which one writes, are ordered by their streams and events (docs/streams.md). Ops beside the compute stream touch no gradient, come after what the caller had queued, and are
    waited for before the function ends.

    **Rows.** Each row of a step comes after the earlier messages that touch its bytes, and it adds to no gradient whose sum over replicas has begun.

    **Aliasing.** No op writes bytes that another of its operands reads elsewhere. A written operand shares bytes with another one only in an all-reduce in place, or in a kernel that touches both at exactly the
    point's own element, and reads before it writes where the two are different values. What a call writes is in no other argument and not in its scratch. What an entry's function writes is in no other
    buffer that the task gives it. So different arguments of a function share nothing if one of them is written.
  }];
  let dependentDialects = ["::dt::rt::RTDialect"];
}

#endif // PASSES_LOWER_PASSES

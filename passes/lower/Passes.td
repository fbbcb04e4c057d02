//===- Passes.td - Passes of the lower phase --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LOWER_PASSES
#define PASSES_LOWER_PASSES

include "passes/Pipeline.td"

include "mlir/Pass/PassBase.td"

// nn and dist in, rt out.
def LowerPipeline : Pipeline<[
  "lower-nn-to-rt",
  // Constants and sizes inside kernels.
  "cse",
  "rt-place-streams",
  "rt-plan-memory",
  "lower-program",
  "rt-place-waits",
  "rt-shape-kernels",
  "rt-verify-lowered"
]>;

def LowerToRT : Pass<"lower-nn-to-rt", "::mlir::ModuleOp"> {
  let summary = "Functions over tensors become functions over buffers";
  let description = [{
    Each func.func becomes an rt.func in destination-passing style: results are `out` arguments, results marked `nn.param_grad` are `inout` arguments that are added to, nn.accumulate writes
    into the parameter's gradient. A value that ends in one of these is computed there; others get an rt.alloc. Elementwise ops, norms, softmax, reductions, data movement and indexing become
    rt.kernel; products, convolutions and attention become library calls; reshape is an rt.view. Sums run in a fixed order, so results do not depend on the number of threads.

    Precondition: the optimize phase's (any elementwise op is accepted, fused or not). An op without a lowering is an error that names it.
  }];
  let dependentDialects = ["::dt::rt::RTDialect"];
}

def PlaceStreams : Pass<"rt-place-streams", "::mlir::ModuleOp"> {
  let summary = "Put collectives beside products that do not need them, and events between streams";
  let description = [{
    A collective goes to the stream `tp` if a product, a convolution, attention or a call stands between what it needs and what needs it. Where there is none, products before it whose results nothing up to there needs,
    so those of weight gradients, are moved behind it first. Then rt.record and rt.wait order all ops of the two streams that touch the same bytes (docs/streams.md): a collective begins with the last long op before it
    that it does not need, at the earliest, and the compute stream waits for it where its result is needed. No event can be left out.

    Precondition: locals have no places yet. Afterwards they live as long as streams may use them.
  }];
  let dependentDialects = ["::dt::rt::RTDialect"];
}

def PlanMemory : Pass<"rt-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Give each local a place in its function's scratch";
  let description = [{
    A local lives from the first to the last op that uses it, views included (functions are straight-line); an op of another stream uses it from the event that its stream waited for to the wait for the op. Locals that live at once get disjoint ranges: largest first, each at the lowest
    offset that fits, 64-byte aligned, sized with the `max` of the module's nn.dim symbols. A kernel's result may take the place of a local that dies there when the kernel reads
    that local, through whatever view, only at the element that it writes, and before it writes it. Callees first: a call's scratch is a local of the caller.
  }];
  let dependentDialects = ["::dt::rt::RTDialect"];
}

def LowerProgram : Pass<"lower-program", "::mlir::ModuleOp"> {
  let summary = "Modules, edges, losses and batch become the tables of a program";
  let description = [{
    dist.* and the planned functions become one rt.program. Every module gets an arena region with what outlives a task: raw inputs, outputs that edges take, residuals and gradients of edges have a slot for every microbatch
    in flight; what edges bring has received slots, from the post of the first message on; of halves of a backward what only the first reads has early slots, and what it makes late ones (SlotKind of runtime/Enums.h); what nothing reads later has one place. Parameters have offsets in the module's parameter region, trained ones first, in the order
    in which the last backward function is done with their gradients; ties within a module share one, over modules there are copies (`tied`). That function says in modules with replicas (rt.gradients_ready) how far it is.

    The rows of every rank come from the `sched.solution`: receives are posted early (gradients behind the forward of their microbatch, activations `depth` of dist.plan microbatches ahead), edges between equal replicas are
    copies, a module is reduced behind its last backward. Numbers of slots are the most that any rank needs. Without a solution there is one rank: denominators of all microbatches; then for each microbatch the modules
    forward in topological order and backward in reverse; with a whole-batch module, its producers forward for all microbatches first.
  }];
  let dependentDialects = ["::dt::rt::RTDialect"];
}

def PlaceWaits : Pass<"rt-place-waits", "::mlir::ModuleOp"> {
  let summary = "Say of each row of a step which messages it waits for";
  let description = [{
    Walks the rows of each rank: a row waits for every message before it that touches bytes of an arena which the row touches, one of both writing, unless an earlier row has waited for it (docs/streams.md). So it waits for
    what it reads, and for what is sent from a slot that it writes to again. Rows that run where the losses of a batch are asked for, without those that go back, wait for themselves.
  }];
  let dependentDialects = ["::dt::rt::RTDialect"];
}

def ShapeKernels : Pass<"rt-shape-kernels", "::mlir::ModuleOp"> {
  let summary = "Say of each kernel how its work may be shared out";
  let description = [{
    By the body and the largest values of sizes, never by the op that a kernel was made from: `column` where loops over rows add into cells, `all` where few points make values of one long loop, `row` where points run
    long rt.simd loops along memory, else `point`. The CPU prints the same loops for all of them.
  }];
  let dependentDialects = ["::dt::rt::RTDialect"];
}

def VerifyLowered : Pass<"rt-verify-lowered", "::mlir::ModuleOp"> {
  let summary = "What code generation relies on: rt only, everything has a place of its own";
  let description = [{
    Only rt ops are left, scalar ones in kernels, and what data.json is made of (nn.dim, nn.parameter, dist.item, dist.dims, dist.input, dist.data); no value, argument of a block included, is a tensor.
    Every local lies inside its function's scratch with as many rows as its symbols may have, and every call gives its callee at least the scratch that it needs. Locals that live at the same time stand apart.

    Ops that touch the same bytes, of which one writes, are ordered by their streams and events (docs/streams.md); what runs beside the compute stream touches no gradient, comes after what the caller had queued and is
    waited for before the function ends.

    So are the rows of a step: each comes after the messages before it that touch its bytes, and after no sum of gradients that it adds to.

    No op writes bytes that another of its operands reads elsewhere: a written operand shares bytes with another one only in an all-reduce in place, or in a kernel that touches both at exactly the
    point's own element, and reads before it writes where the two are different values. What a call writes is in no other argument and not in its scratch; what an entry's function writes is in no other
    buffer that the task gives it. So different arguments of a function share nothing where one is written.
  }];
  let dependentDialects = ["::dt::rt::RTDialect"];
}

#endif // PASSES_LOWER_PASSES

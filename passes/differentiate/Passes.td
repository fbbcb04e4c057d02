//===- Passes.td - Passes of the differentiate phase -------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_DIFFERENTIATE_PASSES
#define PASSES_DIFFERENTIATE_PASSES

include "passes/Pipeline.td"

include "mlir/Pass/PassBase.td"

// From modules with @forward to modules with @forward.fwd and @forward.bwd.
def DifferentiatePipeline : Pipeline<[
  "dist-mark-wanted",
  "dist.module(dist-count-work)",
  // One read a parameter: its gradients then come together.
  "dist.module(func.func(cse), "
    "nn-differentiate, func.func(canonicalize, cse), nn-mark-untouched)",
  "nn-verify-differentiated"
]>;

def MarkWanted : Pass<"dist-mark-wanted", "::mlir::ModuleOp"> {
  let summary = "Decide which gradients a program needs";
  let description = [{
    Works on the graph of modules. A value *varies* if something trainable is upstream of it, and *counts* if a loss is downstream. An input of a module that comes over an edge wants a gradient if both hold
    (`nn.wants_grad`). An output gets one gradient from each loss, and from each edge whose input wants one (`nn.gradients`, in this order).

    All else is left alone: a frozen encoder has no backward function, and a frozen model in the middle passes gradients on without computing those of its weights.
  }];
}

def CountWork : Pass<"dist-count-work", "::dt::dist::ModuleOp"> {
  let summary = "Count the FLOPs of the model in a module";
  let description = [{
    Sets `work` of a module whose `@forward` is marked: FLOPs of products, convolutions and attention in a part, forward, and once more for the gradient of each factor that gets one. So what is frozen has no gradients of weights, and
    nothing is counted that a saved set makes again or tensor parallelism makes on several ranks. A program divides them by time: FLOP/s and MFU (docs/tour.md).
  }];
  let dependentDialects = ["::dt::dist::DistDialect"];
}

def Differentiate : Pass<"nn-differentiate", "::dt::dist::ModuleOp"> {
  let summary = "Make .fwd and .bwd of every marked function";
  let description = [{
    Reverse mode. The vector-Jacobian products of the ops on active paths are written after the forward ops; then the function is cut in two. What the backward half uses of the forward half is an argument, a residual, or
    computed again. `nn.save` on a function or a module decides:

    | `nn.save` | what the backward function uses |
    | --- | --- |
    | "vjp" (default) | residuals; ops with the trait Recomputable run again, unless that would keep more bytes than the value itself has |
    | "all" | residuals for everything that is asked for; but elementwise ops that only elementwise ops go back from run again, of operands that are kept anyway |
    | "none" on a function | its inputs: it runs again |
    | "none" on a module | the inputs of the layers that its function calls: each layer runs again in its own backward function, all else in the module's |

    Calls are differentiated once for each combination of callee, gradients that exist and gradients that are wanted. Contributions are added in the order of the reversed program. Gradients of parameters are not added: each
    goes into its own nn.accumulate or `nn.param_grad` result.
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::mlir::func::FuncDialect"];
}

def MarkUntouched : Pass<"nn-mark-untouched", "::dt::dist::ModuleOp"> {
  let summary = "Mark trainable parameters that get no gradient";
  let description = [{
    `no_gradient` on such a parameter: no backward function accumulates into it, so the optimizer must leave it alone (no decay either).
  }];
}

def VerifyDifferentiated : Pass<"nn-verify-differentiated", "::mlir::ModuleOp"> {
  let summary = "State what the differentiate phase guarantees";
  let description = [{
    - No marks are left.
    - `.fwd` returns outputs, then residuals.
    - `.bwd` takes these residuals in equal order and of equal types, inputs and gradients of outputs by name, and returns gradients of inputs.
    - Each gradient that comes over an edge is a result of the edge's other end.
    - Layer functions read and accumulate nothing; their parameter gradients only go into nn.accumulate or into parameter gradients of the caller.
    - Halves of a split `.bwd` name the residuals that they take. The input half accumulates nothing. The weight half returns nothing, and takes everything that the input half keeps for it.
  }];
}

#endif // PASSES_DIFFERENTIATE_PASSES

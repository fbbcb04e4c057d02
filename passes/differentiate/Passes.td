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
  // One read a parameter: its gradients then come together.
  "dist.module(func.func(cse), "
    "nn-differentiate, func.func(canonicalize, cse), nn-mark-untouched)",
  "nn-verify-differentiated"
]>;

def MarkWanted : Pass<"dist-mark-wanted", "::mlir::ModuleOp"> {
  let summary = "Decide which gradients a program needs";
  let description = [{
    Over the graph of modules: a value varies if something trainable is upstream of it, and counts if a loss is downstream. An input of a module wants a gradient if both hold and it comes over an
    edge (`nn.wants_grad`); an output gets one gradient from each loss and from each edge whose input wants one (`nn.gradients`, in this order). Parts without either are left alone: a frozen
    encoder has no backward function, a frozen model in the middle passes gradients on without computing any of its weights'.
  }];
}

def Differentiate : Pass<"nn-differentiate", "::dt::dist::ModuleOp"> {
  let summary = "Make .fwd and .bwd of every marked function";
  let description = [{
    Reverse mode. The vector-Jacobian products of the ops on active paths are written after the forward ops; then the function is cut in two. What the backward half uses of the forward half is an
    argument, a residual, or computed again: by default (`nn.save = "vjp"`) ops with the trait Recomputable, unless that would keep more bytes than the value itself has; "all" keeps everything
    that is asked for; "none" keeps nothing and computes the function again from its inputs. The attribute stands on a function or on the module: of a module that says "none" the layers that its function
    calls run again, each in its own backward function, and what else the function has in its backward; what comes into the layers is kept.

    Calls are differentiated once for each combination of callee, gradients that exist and gradients that are wanted. Contributions are added in the order of the reversed program, gradients of
    parameters not at all: each goes into its own nn.accumulate or `nn.param_grad` result.
  }];
  let dependentDialects = ["::dt::nn::NNDialect", "::mlir::func::FuncDialect"];
}

def MarkUntouched : Pass<"nn-mark-untouched", "::dt::dist::ModuleOp"> {
  let summary = "Mark trainable parameters that get no gradient";
  let description = [{ `nn.no_gradient`: no backward function accumulates into it, so the optimizer must leave it alone (no decay either). }];
}

def VerifyDifferentiated : Pass<"nn-verify-differentiated", "::mlir::ModuleOp"> {
  let summary = "State what the differentiate phase guarantees";
  let description = [{
    No marks are left; `.fwd` returns outputs, then residuals; `.bwd` takes these residuals in equal order and of equal types, inputs and gradients of outputs by name, and returns gradients of inputs; each
    gradient that an edge brings is a result of its other end; layer functions read and accumulate nothing, and their parameter gradients only go into nn.accumulate or into parameter gradients of the caller. Halves of a split `.bwd` name the residuals that they take; the input half adds up nothing, the weight half returns
    nothing and takes everything that the input half keeps for it.
  }];
}

#endif // PASSES_DIFFERENTIATE_PASSES

//===- Passes.td - Passes of the precision phase --------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PRECISION_PASSES
#define PASSES_PRECISION_PASSES

include "passes/Pipeline.td"

include "mlir/Pass/PassBase.td"

// After the phase modules, whose modules are the recipe's and those of losses; before equal layers are functions.
def PrecisionPipeline : Pipeline<[
  "nn-narrow",
  // To the parameters' reads; then behind what reads them wide.
  "nn-move-casts",
  "nn-working-copies",
  "nn-move-casts",
  "dist.module(func.func(cse))",
  "nn-verify-precision"
]>;

def Narrow : Pass<"nn-narrow", "::mlir::ModuleOp"> {
  let summary = "Compute-heavy operators of modules with dist.precision = \"bf16\" take and give bf16";
  let description = [{
    In `@forward` of such a module (but of `whole_batch` ones): float32 operands of products, convolutions and attention are cast to bf16 and results back to float32, as the operator's precision rule allows
    (PrecisionOpInterface). An operator stays as it is if an operand is made of integers only (angles made of positions), which bf16 has up to 256.

    A float32 value that goes over an edge between two such modules is cast to bf16 at its source and back at its target.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def MoveCasts : Pass<"nn-move-casts", "::mlir::ModuleOp"> {
  let summary = "Casts between float32 and 16-bit floats move through ops that only move elements";
  let description = [{
    A widening cast sinks below views, concatenations and gathers (all float operands must be widened), a narrowing one rises above those that make nothing larger: what is stored between has 2 bytes. Both change no number. Casts that meet
    cancel.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def WorkingCopies : Pass<"nn-working-copies", "::mlir::ModuleOp"> {
  let summary = "Parameters that are narrowed where they are read are stored narrow";
  let description = [{
    A float32 parameter with a cast to a 16-bit float among the users of its `nn.read`s becomes `working` of that type, and is read in it, as are those that are tied to it in the same module; other users get it widened again. A cast a microbatch becomes one a step, the
    optimizer's.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def VerifyPrecision : Pass<"nn-verify-precision", "::mlir::ModuleOp"> {
  let summary = "Compute-heavy operators have one float type, elementwise ones none of 16 bits but in casts";
  let description = [{ What differentiation and lowering rely on. }];
}

#endif // PASSES_PRECISION_PASSES

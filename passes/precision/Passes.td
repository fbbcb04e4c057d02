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
  "nn-narrow-residual",
  "nn-narrow",
  // To the parameters' reads; then behind what reads them wide.
  "nn-move-casts",
  "nn-working-copies",
  "nn-move-casts",
  "dist.module(func.func(cse))",
  "nn-verify-precision"
]>;

def NarrowResidual : Pass<"nn-narrow-residual", "::mlir::ModuleOp"> {
  let summary = "Values that layers hand on are stored in bf16, in modules with narrow_residual";
  let description = [{
    An addition is *residual* if one operand is made of the other by some compute-heavy operator. The operand that goes past this operator and the sum are what layers hand on. Each that is stored is cast to bf16, and back for those
    that take it: additions compute in float32, and the sum is rounded once. So is its gradient, the sum of those of all that take it.

    An operand is looked for behind views, and behind elementwise ops that take nothing else but constants and parameters (a scaled stream). What one elementwise op takes is not stored; of a sum of several terms the whole is.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def Narrow : Pass<"nn-narrow", "::mlir::ModuleOp"> {
  let summary = "Compute-heavy operators of modules with precision bf16 take and give bf16";
  let description = [{
    Works on `@forward` of such modules, except `whole_batch` ones. Float32 operands of products, convolutions and attention are cast to bf16, and results back to float32, as the operator's precision rule allows
    (PrecisionOpInterface). An operator stays as it is if an operand is computed from integers only (angles from positions), since bf16 represents integers exactly only up to 256.

    A float32 value that goes over an edge between two such modules is cast to bf16 at its source and back at its target.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def MoveCasts : Pass<"nn-move-casts", "::mlir::ModuleOp"> {
  let summary = "Casts between float32 and 16-bit floats move through ops that only move elements";
  let description = [{
    A widening cast sinks below views, concatenations and gathers (if all float operands are widened). A narrowing cast rises above ops that make nothing larger. So the tensors in between have 2 bytes an element.
    Both keep all numbers. Casts that meet cancel.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def WorkingCopies : Pass<"nn-working-copies", "::mlir::ModuleOp"> {
  let summary = "Parameters that are narrowed where they are read are stored narrow";
  let description = [{
    Applies to float32 parameters whose `nn.read`s have a cast to a 16-bit float among their users, and to those of which all that is taken is narrowed, at once or behind ops that give elements as they are (lookups, views, a choice between tensors): a table of which each row that is looked up is rounded. Such a parameter becomes `working` of that type, and is read in it, as are parameters of the same module that are tied to it.
    Other users get it widened again. So the optimizer casts once a step, in place of a cast for each microbatch.

    In modules with `narrow_gradients` trained ones become `narrow_gradient`, but those that are tied.
  }];
  let dependentDialects = ["::dt::nn::NNDialect"];
}

def VerifyPrecision : Pass<"nn-verify-precision", "::mlir::ModuleOp"> {
  let summary = "Operands of compute-heavy operators have one float type, and elementwise ops but casts have no 16-bit operand";
  let description = [{
    Differentiation and lowering rely on this.
  }];
}

#endif // PASSES_PRECISION_PASSES

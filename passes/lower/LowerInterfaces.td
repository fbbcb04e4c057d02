//===- LowerInterfaces.td - Ops that become calls and kernels ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LOWER_INTERFACES
#define PASSES_LOWER_INTERFACES

include "mlir/IR/OpBase.td"

def LoweringOpInterface : OpInterface<"LoweringOpInterface"> {
  let cppNamespace = "::dt::lower";
  let description = [{
    An op on tensors that becomes library calls and kernels on buffers. The ops of nn and dist get it from the files Lower*.cpp when their dialects are loaded, so that the dialects
    know nothing of buffers; an op of a plugin declares it. Elementwise ops need none: their scalar body says it all.
  }];
  let methods = [
    InterfaceMethod<"Emits the rt ops at `f.builder()` and says where each result is (`destination`, `accumulating` or `alias`).",
      "::llvm::LogicalResult", "lowerToRT", (ins "::dt::lower::FunctionLowering &":$f)>
  ];
}

#endif // PASSES_LOWER_INTERFACES

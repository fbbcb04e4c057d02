//===- ScanOps.td - A dialect of a plugin ------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An op that lives outside the compiler: its methods are all that the phases
// ask of it.
//
//===----------------------------------------------------------------------===//

#ifndef EXAMPLE_SCANOPS
#define EXAMPLE_SCANOPS

include "dialects/nn/NNBase.td"
include "passes/lower/LowerInterfaces.td"

def Example_Dialect : Dialect {
  let name = "example";
  let cppNamespace = "::example";
  let summary = "Operators of a plugin";
}

def Example_ScanOp : Op<Example_Dialect, "scan", [
    Pure, NN_InferTypes, DeclareOpInterfaceMethods<VjpOpInterface>, DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>,
    DeclareOpInterfaceMethods<ItemOpInterface, ["inferItems"]>, DeclareOpInterfaceMethods<ShardingOpInterface, ["getShardingRule"]>, PrecisionOpInterface,
    OnnxOpInterface, DeclareOpInterfaceMethods<LoweringOpInterface>]> {
  let summary = "linear recurrence over tokens, a decay for each channel";
  let description = [{
    `input` [batch, tokens, channels], `decay` [channels]: result[b, t, c] = decay[c] * result[b, t - 1, c] + input[b, t, c], from 0. With `reverse` the last token is the first.
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$decay, DefaultValuedAttr<I64Attr, "0">:$reverse);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input `,` $decay attr-dict `:` type(operands)";
  let extraClassDeclaration = [{ static ::llvm::StringRef getOnnxName() { return "example::Scan"; } }];
}

#endif // EXAMPLE_SCANOPS

//===- NNInterfaces.td - What an nn op tells the passes ---------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNINTERFACES
#define DIALECTS_NN_NNINTERFACES

include "mlir/IR/OpBase.td"

def ScalarOpInterface : OpInterface<"ScalarOpInterface"> {
  let cppNamespace = "::dt::nn";
  let description = [{
    An elementwise op: result element i is a scalar function of the operands' elements i (operands broadcast as in NumPy). One kernel body serves every
    target and every fusion.
  }];
  let methods = [
    InterfaceMethod<"Emits arith/math ops that compute one result element from one element of each operand.",
      "::mlir::Value", "buildScalar", (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$elements)>
  ];
}

def VjpOpInterface : OpInterface<"VjpOpInterface"> {
  let cppNamespace = "::dt::nn";
  let description = [{
    Reverse-mode gradient. Ops whose results do not depend smoothly on any operand carry the trait `ZeroGradient` instead; an op with neither on an active path is an
    error of the differentiate phase that names it.
  }];
  let methods = [
    InterfaceMethod<[{
      Emits the vector-Jacobian products. `resultGrads[i]` is the gradient of result i, null when nothing uses it. `wanted[j]` says whether the gradient of operand j is
      needed; on return `operandGrads[j]` has the type of operand j, or stays null (unwanted, or zero). May use operands and results of the op itself: what is used becomes residual.
      }],
      "::llvm::LogicalResult", "buildVjp",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGrads, "::llvm::ArrayRef<bool>":$wanted,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$operandGrads)>
  ];
}

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::dt::nn";
  let description = [{ What an op costs, as polynomials of the module's symbols. }];
  let methods = [
    InterfaceMethod<"Floating-point operations (a multiply-add counts 2); by default one a result element.",
      "::dt::nn::DimExpr", "getFlops", (ins), "", [{
        return ::dt::nn::elementwiseFlops($_op.getOperation());
      }]>,
    InterfaceMethod<"Bytes that must move between memory and the core: operands read, results written, once each.",
      "::dt::nn::DimExpr", "getBytes", (ins), "", [{
        return ::dt::nn::operandAndResultBytes($_op.getOperation());
      }]>,
    InterfaceMethod<"What a cost model takes the op for; by default it streams its operands and results.",
      "::dt::nn::Work", "getWork", (ins), "", [{ return ::dt::nn::Work::Stream; }]>
  ];
}

def ItemOpInterface : OpInterface<"ItemOpInterface"> {
  let cppNamespace = "::dt::nn";
  let description = [{
    How an op treats the items (samples, images) of a batch: whether it may be cut into parts. An op without this interface counts as mixing them.
  }];
  let methods = [
    InterfaceMethod<"State of the results from those of the operands (NNItems.h). By default that of an elementwise op.",
      "::dt::nn::ItemState", "inferItems", (ins "::dt::nn::ItemStates":$operands, "const ::dt::nn::ItemContext &":$context), "", [{
        return ::dt::nn::elementwiseItems($_op.getOperation(), operands);
      }]>,
    InterfaceMethod<"Whether operand 1 has indices that pick items, not what lies inside of them.",
      "bool", "picksItems", (ins "::dt::nn::ItemStates":$operands), "", [{ return false; }]>,
    InterfaceMethod<"Whether an operand's elements for pairs of different items change nothing.",
      "bool", "hidesForeignPairs", (ins "unsigned":$operand), "", [{ return false; }]>
  ];
}

def IndexedOpInterface : OpInterface<"IndexedOpInterface"> {
  let cppNamespace = "::dt::nn";
  let description = [{
    An op with indices of the rows of a table, or with labels of classes. What the shard phase does to the table it says here.
  }];
  let methods = [
    InterfaceMethod<"Which indices are right in a block of the table; null: the table is whole.", "::dt::nn::BlockAttr", "getBlockAttr">,
    InterfaceMethod<"", "void", "setBlockAttr", (ins "::dt::nn::BlockAttr":$block)>,
    InterfaceMethod<"Rows (classes) in files of a table that is padded; nothing: it is not.", "::std::optional<uint64_t>", "getUnpadded">,
    InterfaceMethod<"", "void", "setUnpadded", (ins "::std::optional<uint64_t>":$size)>,
    InterfaceMethod<"Whether the indices are a raw input as it is, ids or labels: none is meant to count from the end.", "bool", "getFromStart">,
    InterfaceMethod<"", "void", "setFromStart", (ins "bool":$from)>
  ];
}

def OnnxOpInterface : OpInterface<"OnnxOpInterface"> {
  let cppNamespace = "::dt::nn";
  let description = [{
    An op that is an ONNX operator as it stands: its operands are the node's inputs in order, its attributes have the names that the node's have. It needs no import rule.
  }];
  let methods = [
    StaticInterfaceMethod<"The operator: \"Sigmoid\", of a domain \"domain::Name\".", "::llvm::StringRef", "getOnnxName">
  ];
}

def ShardingOpInterface : OpInterface<"ShardingOpInterface"> {
  let cppNamespace = "::dt::nn";
  let description = [{
    How an op may be cut over ranks. What strategies follow from a rule, and what they cost, is the partitioner's business.
  }];
  let methods = [
    InterfaceMethod<"Factors of all dims, and the groups of operands in which the op is linear (NNSharding.h). By default those of an elementwise op.",
      "::dt::nn::ShardingRule", "getShardingRule", (ins), "", [{
        return ::dt::nn::elementwiseShardingRule($_op.getOperation());
      }]>
  ];
}

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::dt::nn";
  let description = [{ Which values an op may have in 16 bits, and whether it sums in 32 bits inside. }];
  let methods = [
    InterfaceMethod<"By default all floating-point operands and results may be narrow.",
      "::dt::nn::PrecisionRule", "getPrecisionRule", (ins), "", [{
        return ::dt::nn::PrecisionRule::anyNarrow($_op.getOperation());
      }]>
  ];
}

#endif // DIALECTS_NN_NNINTERFACES

//===- NNSizes.td - Sizes as attributes of ops -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNSIZES
#define DIALECTS_NN_NNSIZES

include "mlir/IR/AttrTypeBase.td"

/// A size, `#nn.dim<16*images>`.
def NN_Dim : Attr<CPred<"::llvm::isa<::dt::nn::DimAttr>($_self)">, "a size, #nn.dim"> {
  let storageType = "::dt::nn::DimAttr";
  let returnType = "::dt::nn::DimExpr";
  let convertFromStorage = "$_self.getSize()";
  let constBuilderCall = "::dt::nn::DimAttr::get($_builder.getContext(), ::dt::nn::DimExpr($0))";
}

/// Sizes, `#nn.dims<16*images, 64>`.
def NN_Dims : Attr<CPred<"::llvm::isa<::dt::nn::DimsAttr>($_self)">, "sizes, #nn.dims"> {
  let storageType = "::dt::nn::DimsAttr";
  let returnType = "::dt::nn::Shape";
  let convertFromStorage = "$_self.getShape()";
}

/// A rank's rows of the whole, `#nn.stripes<chunk = 8, over = 2, stride = 1>`.
def NN_Stripes : Attr<CPred<"::llvm::isa<::dt::nn::StripesAttr>($_self)">, "stripes, #nn.stripes"> {
  let storageType = "::dt::nn::StripesAttr";
  let returnType = "::dt::nn::StripesAttr";
  let convertFromStorage = "$_self";
}

def NN_NotNegative : ConfinedAttr<F64Attr, [AttrConstraint<CPred<"::llvm::cast<::mlir::FloatAttr>($_self).getValue().isFinite() && !::llvm::cast<::mlir::FloatAttr>($_self).getValue().isNegative()">, "which is finite and not negative">]>;

def NN_Positive : ConfinedAttr<F64Attr, [AttrConstraint<CPred<"::llvm::cast<::mlir::FloatAttr>($_self).getValue().isFinite() && ::llvm::cast<::mlir::FloatAttr>($_self).getValueAsDouble() > 0">, "which is finite and above 0">]>;

#endif // DIALECTS_NN_NNSIZES

//===- NNDialect.h - The nn dialect: attributes, traits, interfaces -------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNDIALECT_H
#define DIALECTS_NN_NNDIALECT_H

#include "dialects/nn/DimExpr.h"
#include "dialects/nn/NNItems.h"
#include "dialects/nn/NNShape.h"
#include "dialects/nn/NNSharding.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace dt::nn {
/// The derivative is zero wherever it exists: gradients stop at this op.
template <typename ConcreteOp>
class ZeroGradient : public mlir::OpTrait::TraitBase<ConcreteOp, ZeroGradient> {
};
/// Cheap enough to be computed again in the backward function.
template <typename ConcreteOp>
class Recomputable : public mlir::OpTrait::TraitBase<ConcreteOp, Recomputable> {
};

/// Elements go elsewhere as they are, of whatever type.
template <typename ConcreteOp>
class MovesElements
    : public mlir::OpTrait::TraitBase<ConcreteOp, MovesElements> {};

/// Integers: a count stays one behind it.
template <typename ConcreteOp>
class KeepsCount : public mlir::OpTrait::TraitBase<ConcreteOp, KeepsCount> {};

/// The properties of an op under construction: those already set, and of the
/// rest what the attribute dictionary has.
template <typename OpT, typename Properties>
Properties completeProperties(mlir::DictionaryAttr attributes,
                              mlir::OpaqueProperties properties) {
  Properties result;
  if (properties)
    result = *properties.as<Properties *>();
  if constexpr (!std::is_same_v<Properties, mlir::EmptyProperties>)
    if (attributes)
      for (mlir::NamedAttribute attribute : attributes)
        OpT::setInherentAttr(result, attribute.getName(), attribute.getValue());
  return result;
}
/// The element type of the first result that an operator's attribute `stored`
/// gives, in place of what the operands say (docs/precision.md).
void applyStored(mlir::DictionaryAttr attributes,
                 llvm::SmallVectorImpl<mlir::Type> &types);
/// Elementwise ops that are linear in all their floating-point operands
/// together, in each alone, in the first or in the last one.
template <typename ConcreteOp>
class LinearJointly
    : public mlir::OpTrait::TraitBase<ConcreteOp, LinearJointly> {};
template <typename ConcreteOp>
class LinearEach : public mlir::OpTrait::TraitBase<ConcreteOp, LinearEach> {};
template <typename ConcreteOp>
class LinearFirst : public mlir::OpTrait::TraitBase<ConcreteOp, LinearFirst> {};
template <typename ConcreteOp>
class LinearLast : public mlir::OpTrait::TraitBase<ConcreteOp, LinearLast> {};
} // namespace dt::nn

#include "dialects/nn/NNDialect.h.inc"
#include "dialects/nn/NNEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/nn/NNAttrs.h.inc"

namespace dt::nn {
/// A size as types and ops print it, without `#nn.dim<>` around it.
mlir::ParseResult parseDim(mlir::AsmParser &parser, DimAttr &out);
} // namespace dt::nn
#include "dialects/nn/NNInterfaces.h.inc"

#endif // DIALECTS_NN_NNDIALECT_H

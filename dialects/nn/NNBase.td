//===- NNBase.td - The nn dialect, its attributes and base classes ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNBASE
#define DIALECTS_NN_NNBASE

include "dialects/nn/NNSizes.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/nn/NNInterfaces.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::dt::nn";
  let summary = "The model: tensor operators with value semantics";
  let description = [{
    What networks compute, one op an operator that the field has a name for. Ops are pure and work on ranked tensors; a dim that is not a number is an
    expression of the module's symbols, kept in the tensor's encoding (`#nn.dims`). Each op says its result type, gradient, cost, sharding rule and
    precision through interfaces, so that no pass switches on op names.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

class NN_Attr<string name, string attrMnemonic, list<Trait> traits = []> : AttrDef<NN_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def NN_DimAttr : NN_Attr<"Dim", "dim"> {
  let summary = "A size: a polynomial of the module's symbols";
  let description = [{
    `#nn.dim<16*images + 1>`, `#nn.dim<64>`. Sizes that are equal for all values of the symbols are the same attribute, however they were written.
  }];
  let parameters = (ins AttrParameter<"::dt::nn::DimExpr", "the size", "const ::dt::nn::DimExpr &">:$size);
  let hasCustomAssemblyFormat = 1;
}

def NN_DimsAttr : NN_Attr<"Dims", "dims", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "Sizes; as a tensor's encoding those of its `?` dims, in order";
  let description = [{
    `tensor<?x16x?xf32, #nn.dims<images, 4*batch>>`: one polynomial a `?`.
  }];
  let parameters = (ins ArrayRefParameter<"::dt::nn::DimAttr">:$dims);
  let builders = [AttrBuilder<(ins "::llvm::ArrayRef<::dt::nn::DimExpr>":$shape)>];
  let extraClassDeclaration = "::dt::nn::Shape getShape() const;";
  let hasCustomAssemblyFormat = 1;
}

def NN_OnnxAttr : NN_Attr<"Onnx", "onnx"> {
  let summary = "A tensor that stays in an ONNX file: file and initializer";
  let parameters = (ins StringRefParameter<>:$file, StringRefParameter<>:$initializer);
  let assemblyFormat = "`<` $file `,` $initializer `>`";
}

def NN_InitAttr : NN_Attr<"Init", "init"> {
  let summary = "A parameter that is drawn by rule, e.g. \"normal(0, 0.02)\"";
  let description = [{
    Values depend on the program's seed, the parameter's name and the element's index only. Rules: docs/weights.md.
  }];
  let parameters = (ins StringRefParameter<>:$rule, StringRefParameter<>:$file, StringRefParameter<>:$initializer);
  let assemblyFormat = "`<` $rule `,` $file `,` $initializer `>`";
}

def NN_GradientAttr : NN_Attr<"Gradient", "gradient"> {
  let summary = "What a value is the gradient of, and where it comes from";
  let description = [{
    `of`: the name of the output (on an argument of a backward function) or of the input (on a result). `edge`, "module.input", or `loss`, by name: who gives the gradient of an output.
  }];
  let parameters = (ins OptionalParameter<"::mlir::StringAttr">:$of, OptionalParameter<"::mlir::StringAttr">:$edge, OptionalParameter<"::mlir::StringAttr">:$loss);
  let assemblyFormat = "`<` struct(params) `>`";
}

def NN_BlockAttr : NN_Attr<"Block", "block"> {
  let summary = "Which indices are right, where a table is one rank's block of rows";
  let description = [{
    Indices count from the block's begin and give zeros outside of it. `extent` of the whole; the block's `chunk`, and the axis, `over` ranks with `stride`. `wrap`: negative ones have been counted from the end; `ignored`: what the
    index in the whole may be besides; `what`: "classes of cross_entropy", if not the rows of this op. `within`: such cuts (chunk, over, stride) of the block, of the block within it, and so on. A padded table that is not cut, and a
    cross_entropy over padded classes, are one block of their own.
  }];
  let parameters = (ins "int64_t":$extent, "int64_t":$chunk, "int64_t":$over, "int64_t":$stride, DefaultValuedParameter<"bool", "false">:$wrap, OptionalParameter<"std::optional<int64_t>">:$ignored,
    OptionalParameter<"::mlir::StringAttr">:$what, OptionalArrayRefParameter<"int64_t">:$within);
  let assemblyFormat = "`<` struct(params) `>`";
}

def NN_StripesAttr : NN_Attr<"Stripes", "stripes"> {
  let summary = "Which rows of the whole one rank has, where these are cut over an axis";
  let description = [{
    All rows are seen as blocks of `chunk`; a rank has every `over`-th of them, in order, beginning with that of its place on the axis of `over` ranks with `stride`. `behind`: they are those of the rank so many places before it.
  }];
  let parameters = (ins "int64_t":$chunk, "int64_t":$over, "int64_t":$stride, DefaultValuedParameter<"int64_t", "0">:$behind);
  let assemblyFormat = "`<` struct(params) `>`";
}

def NN_Tensor : RankedTensorOf<[AnyFloat, I1, I8, I32, I64, UI8]>;
def NN_FloatTensor : RankedTensorOf<[AnyFloat]>;
def NN_IntTensor : RankedTensorOf<[I32, I64]>;
def NN_BoolTensor : RankedTensorOf<[I1]>;

/// Further arguments of an IndexedOpInterface.
defvar NN_IndexNotes = (ins OptionalAttr<NN_BlockAttr>:$block, OptionalAttr<I64Attr>:$unpadded, UnitAttr:$from_start);

/// Its derivative is zero wherever it exists: gradients stop here.
def NN_ZeroGradient : NativeOpTrait<"ZeroGradient"> { let cppNamespace = "::dt::nn"; }
/// Cheap enough to be computed again in the backward function instead of being kept.
def NN_Recomputable : NativeOpTrait<"Recomputable"> { let cppNamespace = "::dt::nn"; }

/// Elements go elsewhere as they are, of whatever type.
def NN_Moves : NativeOpTrait<"MovesElements"> { let cppNamespace = "::dt::nn"; }

/// Integers: a count stays one behind it.
def NN_KeepsCount : NativeOpTrait<"KeepsCount"> { let cppNamespace = "::dt::nn"; }

class NN_Op<string mnemonic, list<Trait> traits = []> : Op<NN_Dialect, mnemonic, traits>;
/// An op without effects whose result types follow from its operands and attributes.
class NN_PureOp<string mnemonic, list<Trait> traits = []> : NN_Op<mnemonic, traits # [Pure]>;

/// MLIR's InferTypeOpAdaptor for text too: while an op is parsed, result types are inferred when the attributes of its dictionary are not yet
/// properties, and inference would read nulls. `call` infers them, of `location`, `operands`, `adaptor` and `types`.
class NN_InferTypesBy<string call, code declaration = ""> : TraitList<[
  DeclareOpInterfaceMethods<InferTypeOpInterface>,
  NativeOpTrait<"InferTypeOpAdaptor", [], declaration,
    [{
      ::llvm::LogicalResult $cppClass::inferReturnTypes(::mlir::MLIRContext *context, std::optional<::mlir::Location> location, ::mlir::ValueRange operands,
          ::mlir::DictionaryAttr attributes, ::mlir::OpaqueProperties properties, ::mlir::RegionRange regions, ::llvm::SmallVectorImpl<::mlir::Type> &types) {
        using Stored = typename ::mlir::PropertiesSelector<$cppClass>::type;
        Stored stored = ::dt::nn::completeProperties<$cppClass, Stored>(attributes, properties);
        $cppClass::Adaptor adaptor(operands, attributes, ::mlir::OpaqueProperties(&stored), regions);
        if (::mlir::failed(adaptor.verify(location.value_or(::mlir::UnknownLoc::get(context)))))
          return ::mlir::failure();
        if (::mlir::failed(}] # call # [{))
          return ::mlir::failure();
        ::dt::nn::applyStored(attributes, types);
        return ::mlir::success();
      }
    }]>
]>;
/// The op's .cpp has a function of the adaptor.
def NN_InferTypes : NN_InferTypesBy<"$cppClass::inferReturnTypes(context, location, adaptor, types)", [{
  static ::llvm::LogicalResult inferReturnTypes(::mlir::MLIRContext *context, std::optional<::mlir::Location> location, Adaptor adaptor,
                                                ::llvm::SmallVectorImpl<::mlir::Type> &types);
}]>;
/// The operands alone say it (NNInference.h).
class NN_InferTypesOf<string function> : NN_InferTypesBy<"::dt::nn::" # function # "(location, operands, types)">;
def NN_TypeOfFirst : NN_InferTypesOf<"typeOfFirst">;
def NN_TypeOfBoth : NN_InferTypesOf<"typeOfBoth">;
/// The result type is given (and verified), where operands do not determine it.
def NN_TypeGiven : TraitList<[]>;

// What an op says of itself beside its types; each answer is a short method in its .cpp.
defvar NN_Smooth = DeclareOpInterfaceMethods<VjpOpInterface>;
defvar NN_Priced = DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>;
defvar NN_Sharded = DeclareOpInterfaceMethods<ShardingOpInterface, ["getShardingRule"]>;
defvar NN_Items = DeclareOpInterfaceMethods<ItemOpInterface, ["inferItems"]>;
defvar NN_Rounded = DeclareOpInterfaceMethods<PrecisionOpInterface, ["getPrecisionRule"]>;

/// What cost models take the op for (Work in NNSharding.h).
class NN_Work<string kind> {
  code declaration = " ::dt::nn::Work getWork() { return ::dt::nn::Work::" # kind # "; }";
}

// The result is a tensor of floats, or of what was moved, if the operator says nothing else.
class NN_SmoothOp<string mnemonic, list<Trait> traits = [], Trait type = NN_InferTypes>
    : NN_PureOp<mnemonic, traits # [NN_Smooth, NN_Priced, NN_Items, NN_Sharded, NN_Rounded, type]> {
  let results = (outs NN_FloatTensor:$result);
}
class NN_GradOp<string mnemonic, list<Trait> traits = [], Trait type = NN_InferTypes>
    : NN_PureOp<mnemonic, traits # [NN_Priced, NN_Sharded, NN_Rounded, type]> {
  let results = (outs NN_FloatTensor:$result);
}
/// Elements go elsewhere as they are: nothing is computed or rounded.
class NN_MovementOp<string mnemonic, list<Trait> traits = [], Trait type = NN_InferTypes, string work = "Stream">
    : NN_PureOp<mnemonic, traits # [NN_Moves, NN_Smooth, CostOpInterface, NN_Items, NN_Sharded, PrecisionOpInterface, type]> {
  let results = (outs NN_Tensor:$result);
  code declarations = "::dt::nn::DimExpr getFlops() { return 0; }" # NN_Work<work>.declaration;
  let extraClassDeclaration = declarations;
}

#endif // DIALECTS_NN_NNBASE

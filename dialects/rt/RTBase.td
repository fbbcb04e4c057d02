//===- RTBase.td - The rt dialect, its type and base classes ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTBASE
#define DIALECTS_RT_RTBASE

include "dialects/nn/NNSizes.td"

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ViewLikeInterface.td"

def RT_Dialect : Dialect {
  let name = "rt";
  let cppNamespace = "::dt::rt";
  let summary = "What one rank executes: buffers, library calls, kernels, tasks";
  let description = [{
    The last dialect before C++. It has no tensors: a value is the address of a contiguous, row-major buffer, and an op gets the buffers that it writes as operands (destination-passing style). Functions are straight-line. The code
    for each element is the body of `rt.kernel`, in arith, math and scf, and is the same for every target.

    Sizes are polynomials of the module's symbols, as in nn: `#nn.dim<16*images>`, `#nn.dims<…>` for several.

    Discardable attributes:

    | attribute | of | meaning |
    | --- | --- | --- |
    | `rt.name` | an argument | its name in the source |
    | `rt.access` | an argument of rt.func | "in", "out" (fully written) or "inout" (added to) |
    | `rt.simd` (unit) | scf.for inside a kernel | iterations touch different memory, so lanes may run them together; carried values are reductions whose combining op is the op that makes the yielded value, and may be reassociated |
  }];
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect", "::dt::nn::NNDialect"];
  let extraClassDeclaration = [{
    void registerTypes();
    /// Names of the discardable attributes.
    static constexpr ::llvm::StringLiteral kName = "rt.name";
    static constexpr ::llvm::StringLiteral kAccess = "rt.access";
    static constexpr ::llvm::StringLiteral kSimd = "rt.simd";
  }];
}

def RT_BufferType : TypeDef<RT_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "address of a contiguous row-major array";
  let description = [{
    `!rt.buffer<f32, [2, 16*images, 64]>`: element type and dims. i1 takes one byte. 16-bit floats exist in memory only: scalar code uses f32.
  }];
  let parameters = (ins "::mlir::Type":$elementType, ArrayRefParameter<"::dt::nn::DimAttr">:$dims);
  let builders = [
    TypeBuilderWithInferredContext<(ins "::mlir::Type":$elementType, "::llvm::ArrayRef<::dt::nn::DimExpr>":$shape)>,
    /// The buffer that holds a tensor.
    TypeBuilderWithInferredContext<(ins "::mlir::RankedTensorType":$tensor)>
  ];
  let extraClassDeclaration = [{
    ::dt::nn::Shape getShape() const;
    int64_t getRank() const { return getDims().size(); }
    ::dt::nn::DimExpr getNumElements() const;
    ::dt::nn::DimExpr getNumBytes() const;
    /// The same elements seen with other dims.
    BufferType withShape(::llvm::ArrayRef<::dt::nn::DimExpr> shape) const;
  }];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def RT_EventType : TypeDef<RT_Dialect, "Event"> {
  let mnemonic = "event";
  let summary = "a point in a stream";
}

/// Queues of a device: what is in one runs in its order (docs/streams.md).
def RT_Stream : I32EnumAttr<"Stream", "a queue of the device", [I32EnumAttrCase<"compute", 0>, I32EnumAttrCase<"tp", 1>]> {
  let cppNamespace = "::dt::rt";
}

class RT_Op<string mnemonic, list<Trait> traits = []> : Op<RT_Dialect, mnemonic, traits>;

class RT_In<string what> : Arg<RT_BufferType, what, [MemRead]>;
class RT_Out<string what> : Arg<RT_BufferType, what, [MemWrite]>;
class RT_InOut<string what> : Arg<RT_BufferType, what, [MemRead, MemWrite]>;

#endif // DIALECTS_RT_RTBASE

//===- RTKernel.td - Generated loops ----------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTKERNEL
#define DIALECTS_RT_RTKERNEL

include "dialects/rt/RTBase.td"

def RT_KernelShape : I32EnumAttr<"KernelShape", "how a kernel's work is divided among threads", [
  I32EnumAttrCase<"point", 0>, I32EnumAttrCase<"row", 1>, I32EnumAttrCase<"column", 2>, I32EnumAttrCase<"all", 3>]> {
  let cppNamespace = "::dt::rt";
}

def RT_KernelOp : RT_Op<"kernel", [IsolatedFromAbove, SingleBlock, NoTerminator, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a parallel loop nest over generated scalar code";
  let description = [{
    ```mlir
    rt.kernel @silu_mul [%i < "40*batch", %j < 128] (%x = %a : !rt.buffer<f32, [2, 20, "batch", 128]> as !rt.buffer<f32, ["40*batch", 128]>, %o = %out : …) {
      %0 = rt.load %x[%i, %j] : !rt.buffer<f32, ["40*batch", 128]>
      …
      rt.store %1, %o[%i, %j] : …
    }
    ```
    The body runs once for each point of the bounds, in any order and concurrently: points are independent. It contains arith, math, scf.for, scf.if, rt.load, rt.store, rt.size. With an empty list of
    bounds the body runs once. Buffers are captured as block arguments, possibly with other dims (same element type, same number of elements).

    The shape, a word behind the name that `rt-shape-kernels` writes, says how the work may be divided among many more threads than points:

    | shape | threads |
    | --- | --- |
    | `point` (also if absent) | one for each point |
    | `row` | many divide the iterations of a point's `rt.simd` loops. Each carried value is combined from theirs by its op, in a fixed order. All of them do everything else; one stores |
    | `column` | loops over rows add into cells of memory, one for each column. A thread takes a column and some of the rows; the partial results are combined in a fixed order |
    | `all` | for few points, each with one `rt.simd` loop (or nest) of carried values: ranges of it are computed separately and combined, as in `column` |

    The verifier checks that the body allows the shape (`dialects/rt/RTShape.h`). On the CPU, whatever the shape, the outer dims are an OpenMP loop, and the innermost is a simd loop if the body has no loop of its own.
    CUDA: [cuda-kernels.md](../cuda-kernels.md).
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<RT_KernelShape>:$shape, NN_Dims:$bounds, Variadic<RT_BufferType>:$buffers);
  let regions = (region SizedRegion<1>:$body);
  let builders = [
    /// `argTypes`: how the body sees each buffer. The body is empty.
    OpBuilder<(ins "::llvm::StringRef":$name, "::llvm::ArrayRef<::dt::nn::DimExpr>":$bounds, "::mlir::ValueRange":$buffers, "::mlir::TypeRange":$argTypes)>
  ];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::dt::nn::DimExpr getNumPoints();
    ::mlir::Block::BlockArgListType getIndices() { return getBody().front().getArguments().take_front(getBoundsAttr().getDims().size()); }
    ::mlir::Block::BlockArgListType getBufferArgs() { return getBody().front().getArguments().drop_front(getBoundsAttr().getDims().size()); }
    /// Whether the body reads / writes the i-th buffer.
    bool reads(unsigned i);
    bool writes(unsigned i);
  }];
}
def RT_LoadOp : RT_Op<"load"> {
  let summary = "an element of a buffer, with one index for each dim; a bf16 element is read as f32";
  let arguments = (ins RT_In<"buffer">:$buffer, Variadic<Index>:$indices);
  let results = (outs AnyType:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$buffer, "::mlir::ValueRange":$indices)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}
def RT_StoreOp : RT_Op<"store"> {
  let summary = "writes an element of a buffer; a bf16 buffer takes an f32, rounded to nearest, ties to even";
  let arguments = (ins AnyType:$value, RT_Out<"buffer">:$buffer, Variadic<Index>:$indices);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}
def RT_SizeOp : RT_Op<"size", [Pure]> {
  let summary = "the value of a size expression at run time";
  let arguments = (ins NN_Dim:$size);
  let results = (outs Index:$result);
  let hasFolder = 1;
  let assemblyFormat = "$size attr-dict";
}

#endif // DIALECTS_RT_RTKERNEL

//===- RTKernel.td - Generated loops ----------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTKERNEL
#define DIALECTS_RT_RTKERNEL

include "dialects/rt/RTBase.td"

def RT_KernelShape : I32EnumAttr<"KernelShape", "how a kernel's work is shared out", [
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
    The body runs once for each point of the bounds, in any order and together: points are independent. It holds arith, math, scf.for, scf.if, rt.load, rt.store, rt.size. An empty list of
    bounds: the body runs once. Buffers are captured as block arguments, possibly with other dims (same element type, same number of elements).

    The word behind the name, which `rt-shape-kernels` writes, says how the work may be shared out where there are many more threads than points:

    - `point` (also: nothing): points are independent, a point is worked on by one thread;
    - `row`: a point's `rt.simd` loops are shared by many threads, each carried value is what its op makes of theirs in a fixed order; all else is done by all of them, stores by one;
    - `column`: loops over rows add into cells of memory, a column each: threads take a column and some of the rows, and what they made is combined in a fixed order;
    - `all`: few points, each with one such `rt.simd` loop (or nest) that makes carried values: parts of it are computed apart, as in `column`.

    The verifier checks that the body allows it (`dialects/rt/RTShape.h`). CPU, whatever the shape: the outer dims are an OpenMP loop, the innermost is a simd loop where the body has no loop of its own.
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
  let summary = "element of a buffer, at as many indices as it has dims; a bf16 one as f32";
  let arguments = (ins RT_In<"buffer">:$buffer, Variadic<Index>:$indices);
  let results = (outs AnyType:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$buffer, "::mlir::ValueRange":$indices)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}
def RT_StoreOp : RT_Op<"store"> {
  let summary = "writes an element of a buffer; a bf16 one takes an f32, which is rounded to nearest, ties to even";
  let arguments = (ins AnyType:$value, RT_Out<"buffer">:$buffer, Variadic<Index>:$indices);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}
def RT_SizeOp : RT_Op<"size", [Pure]> {
  let summary = "value of a size expression at run time";
  let arguments = (ins NN_Dim:$size);
  let results = (outs Index:$result);
  let hasFolder = 1;
  let assemblyFormat = "$size attr-dict";
}

#endif // DIALECTS_RT_RTKERNEL

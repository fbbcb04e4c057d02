// What goes to another module is whole on every rank, and so are gradients of inputs: edges carry whole rows. Other outputs may stay cut.
// RUN: dt-opt %s --pass-pipeline='builtin.module(dist.module(dist-prepare-shard{tp=2},dist-shard,dist-finish-shard))' 2>/dev/null | FileCheck %s
// RUN: sed 's/"z" to @head "z"/"hidden" to @head "z"/' %s | dt-opt - --pass-pipeline='builtin.module(dist.module(dist-prepare-shard{tp=2},dist-shard,dist-finish-shard))' 2>/dev/null | FileCheck %s --check-prefix=OTHER

dist.batch global 4096 micro 2048
dist.edge @tower "z" to @head "z"
dist.edge @source "pixels" to @tower "pixels"

// Partial sums are added before they leave; the hidden values do not leave.
// CHECK-LABEL: dist.module @tower
// CHECK: @forward.fwd({{.*}}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.name = "z"}, tensor<?x256xf32, #nn.dims<batch>> {dist.layout = #dist.layout<?x512, [#dist.cut<1, 256, 2, 1>]>, nn.name = "hidden"}
// CHECK: %[[P:.*]] = nn.matmul {{.*}}tensor<?x256xf32
// CHECK: %[[Z:.*]] = dist.all_reduce sum %[[P]]
// CHECK: return %[[Z]],
// The gradient of the input, too.
// CHECK: @forward.bwd({{.*}}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "pixels">})
// CHECK: %[[G:.*]] = nn.matmul {{.*}}tensor<256x64xf32>
// CHECK: %[[D:.*]] = dist.all_reduce sum %[[G]]
// CHECK: return %[[D]]

// OTHER-LABEL: dist.module @tower
// OTHER: @forward.fwd({{.*}}nn.name = "z"}, tensor<?x512xf32, #nn.dims<batch>> {nn.name = "hidden"}
dist.module @tower {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 2048
  nn.parameter @w : tensor<512x64xf32> trainable from #nn.onnx<"tower.onnx", "w">
  nn.parameter @u : tensor<512x64xf32> trainable from #nn.onnx<"tower.onnx", "u">
  func.func @forward.fwd(%p: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "pixels"}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.name = "z"}, tensor<?x512xf32, #nn.dims<batch>> {nn.name = "hidden"}, tensor<?x512xf32, #nn.dims<batch>> {nn.residual}) {
    %w = nn.read @w : tensor<512x64xf32>
    %u = nn.read @u : tensor<512x64xf32>
    %0 = nn.linear %p, %w : tensor<?x64xf32, #nn.dims<batch>>, tensor<512x64xf32>
    %1 = nn.exp %0 : tensor<?x512xf32, #nn.dims<batch>>
    %2 = nn.matmul %1, %u : tensor<?x512xf32, #nn.dims<batch>>, tensor<512x64xf32>
    return %2, %1, %1 : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x512xf32, #nn.dims<batch>>, tensor<?x512xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd(%p: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "pixels"}, %h: tensor<?x512xf32, #nn.dims<batch>> {nn.residual}, %g: tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "z", edge = "head.z">}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "pixels">}) {
    %w = nn.read @w : tensor<512x64xf32>
    %u = nn.read @u : tensor<512x64xf32>
    %0 = nn.linear_dw %g, %h : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x512xf32, #nn.dims<batch>>
    nn.accumulate @u, %0 : tensor<512x64xf32>
    %1 = nn.linear %g, %u : tensor<?x64xf32, #nn.dims<batch>>, tensor<512x64xf32>
    %2 = nn.mul %1, %h : tensor<?x512xf32, #nn.dims<batch>>, tensor<?x512xf32, #nn.dims<batch>>
    %3 = nn.linear_dw %p, %2 : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x512xf32, #nn.dims<batch>>
    nn.accumulate @w, %3 : tensor<512x64xf32>
    %4 = nn.matmul %2, %w : tensor<?x512xf32, #nn.dims<batch>>, tensor<512x64xf32>
    return %4 : tensor<?x64xf32, #nn.dims<batch>>
  }
}

// Memory so dear that a parameter is gathered where it is used: in each function anew.
// CHECK-LABEL: dist.module @head
// CHECK: nn.parameter @u : tensor<512x32xf32>
// CHECK: @forward.bwd(
// CHECK: %[[U:.*]] = nn.read @u : tensor<512x32xf32>
// CHECK: dist.all_gather %[[U]] axis 1 chunk 32 over 2 stride 1
dist.module @head attributes {memory_price = 1.0e6 : f64} {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 2048
  nn.parameter @u : tensor<512x64xf32> trainable from #nn.onnx<"head.onnx", "u">
  func.func @forward.fwd(%z: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "z"}) -> (tensor<?x512xf32, #nn.dims<batch>> {nn.name = "h"}) {
    %u = nn.read @u : tensor<512x64xf32>
    %0 = nn.linear %z, %u : tensor<?x64xf32, #nn.dims<batch>>, tensor<512x64xf32>
    return %0 : tensor<?x512xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd(%z: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "z"}, %g: tensor<?x512xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "h", edge = "next.h">}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "z">}) {
    %u = nn.read @u : tensor<512x64xf32>
    %0 = nn.linear_dw %z, %g : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x512xf32, #nn.dims<batch>>
    nn.accumulate @u, %0 : tensor<512x64xf32>
    %1 = nn.matmul %g, %u : tensor<?x512xf32, #nn.dims<batch>>, tensor<512x64xf32>
    return %1 : tensor<?x64xf32, #nn.dims<batch>>
  }
}
dist.edge @head "h" to @next "h"
dist.module @next {
}
dist.module @source {
}

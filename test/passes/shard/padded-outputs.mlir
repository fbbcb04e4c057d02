// An output that is padded, on one axis or on two, knows the shape that it has in files.
// RUN: dt-opt %s --pass-pipeline='builtin.module(dist.module(dist-prepare-shard{tp=2}))' 2>/dev/null | FileCheck %s

// CHECK: @forward.fwd({{.*}}) -> (tensor<?x96xf32, #nn.dims<batch>> {dist.layout = #dist.layout<?x96 of ?x95, []>, nn.name = "scores"}, tensor<96x8xf32> {dist.layout = #dist.layout<96x8 of 95x7, []>, nn.name = "likeness"})
dist.module @m of "sample" {
  nn.dim @batch of "sample" max 4
  nn.parameter @words : tensor<95x64xf32> trainable from #nn.onnx<"m.onnx", "words">
  nn.parameter @places : tensor<7x64xf32> trainable from #nn.onnx<"m.onnx", "places">
  func.func @forward.fwd(%ids: tensor<?xi64, #nn.dims<batch>> {nn.name = "ids"}, %at: tensor<?xi64, #nn.dims<batch>> {nn.name = "at"}) -> (tensor<?x95xf32, #nn.dims<batch>> {nn.name = "scores"}, tensor<95x7xf32> {nn.name = "likeness"}) {
    %w = nn.read @words : tensor<95x64xf32>
    %p = nn.read @places : tensor<7x64xf32>
    %a = nn.gather %w at %ids {axis = 0 : i64} : tensor<95x64xf32>, tensor<?xi64, #nn.dims<batch>>
    %b = nn.gather %p at %at {axis = 0 : i64} : tensor<7x64xf32>, tensor<?xi64, #nn.dims<batch>>
    %h = nn.add %a, %b : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    %s = nn.linear %h, %w : tensor<?x64xf32, #nn.dims<batch>>, tensor<95x64xf32>
    %l = nn.linear %w, %p : tensor<95x64xf32>, tensor<7x64xf32>
    return %s, %l : tensor<?x95xf32, #nn.dims<batch>>, tensor<95x7xf32>
  }
}

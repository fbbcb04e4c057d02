// RUN: dt-opt %s --nn-narrow | FileCheck %s

// What goes from one bf16 module to another has 2 bytes an element, also where
// no product makes it; what goes to a float32 module has 4.

// CHECK-LABEL: dist.module @from
dist.module @from precision bf16 {
  nn.dim @batch of "sample" max 2
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  // CHECK: func.func @forward({{.*}}) -> (tensor<?x4xbf16, #nn.dims<batch>> {nn.name = "a"}, tensor<?x4xf32, #nn.dims<batch>> {nn.name = "b"}, tensor<?x4xf32, #nn.dims<batch>> {nn.name = "c"})
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "a"}, tensor<?x4xf32, #nn.dims<batch>> {nn.name = "b"}, tensor<?x4xf32, #nn.dims<batch>> {nn.name = "c"}) {
    %a = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    %b = nn.neg %x : tensor<?x4xf32, #nn.dims<batch>>
    // A product's result, too.
    // CHECK: %[[P:.*]] = nn.linear {{.*}}bf16
    // CHECK: %[[C:.*]] = nn.cast %[[P]] : {{.*}} to tensor<?x4xf32
    // CHECK: return %{{.*}}, %{{.*}}, %[[C]]
    %w = nn.read @w : tensor<4x4xf32>
    %c = nn.linear %x, %w : tensor<?x4xf32, #nn.dims<batch>>, tensor<4x4xf32>
    return %a, %b, %c : tensor<?x4xf32, #nn.dims<batch>>, tensor<?x4xf32, #nn.dims<batch>>, tensor<?x4xf32, #nn.dims<batch>>
  }
}
// CHECK-LABEL: dist.module @to
dist.module @to precision bf16 {
  nn.dim @batch of "sample" max 2
  // CHECK: func.func @forward(%[[A:.*]]: tensor<?x4xbf16, #nn.dims<batch>> {nn.name = "a"})
  func.func @forward(%a: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "a"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    // CHECK: %[[W:.*]] = nn.cast %[[A]] : {{.*}} to tensor<?x4xf32
    // CHECK: nn.tanh %[[W]]
    %y = nn.tanh %a : tensor<?x4xf32, #nn.dims<batch>>
    return %y : tensor<?x4xf32, #nn.dims<batch>>
  }
}
// CHECK-LABEL: dist.module @full
dist.module @full {
  nn.dim @batch of "sample" max 2
  // CHECK-NOT: bf16
  // CHECK: return
  func.func @forward(%b: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "b"}, %c: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "c"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %y = nn.add %b, %c : tensor<?x4xf32, #nn.dims<batch>>, tensor<?x4xf32, #nn.dims<batch>>
    return %y : tensor<?x4xf32, #nn.dims<batch>>
  }
}
dist.edge @from "a" to @to "a"
dist.edge @from "b" to @full "b"
dist.edge @from "c" to @full "c"

// RUN: dt-opt %s --nn-join-results -split-input-file | FileCheck %s

// All columns of a tensor leave a layer function, and the module's forward, as
// the tensor; backward functions take it, whatever they use of it.
// CHECK-LABEL: func.func private @layer.fwd(
// CHECK: %[[Y:.*]] = nn.exp
// CHECK: return %{{.*}}, %[[Y]] : tensor<3x4xf32>, tensor<3x10xf32>
// CHECK-LABEL: func.func private @layer.bwd(
// CHECK-SAME: %[[G:.*]]: tensor<3x4xf32>, %[[Y:.*]]: tensor<3x10xf32>)
// CHECK: nn.slice %[[Y]] [0, 4] step [1, 1] : tensor<3x10xf32> to tensor<3x6xf32>
// CHECK-LABEL: func.func @forward.fwd(
// CHECK-SAME: -> (tensor<3x4xf32> {nn.name = "y"}, tensor<3x10xf32> {nn.residual}, tensor<3x4xf32> {nn.residual})
// CHECK: %[[L:.*]]:2 = call @layer.fwd(
// CHECK-NOT: nn.slice
// CHECK: return %[[L]]#0, %[[L]]#1, %[[L]]#0
// CHECK-LABEL: func.func @forward.bwd.input(
// CHECK-SAME: %{{.*}}: tensor<3x4xf32> {nn.residual = 1 : i64}, %[[Y:.*]]: tensor<3x10xf32> {nn.residual = 0 : i64}, %{{.*}}: tensor<3x4xf32> {nn.gradient = #nn.gradient<of = "y">})
// CHECK-NOT: nn.slice
// CHECK: call @layer.bwd(%{{.*}}, %[[Y]])
// CHECK-LABEL: func.func @forward.bwd.weight(
// CHECK-SAME: %[[Y:.*]]: tensor<3x10xf32> {nn.residual = 0 : i64}, %{{.*}}: tensor<3x4xf32> {nn.residual = 2 : i64})
// CHECK: %[[A:.*]] = nn.slice %[[Y]] [0, 0] step [1, 1] : tensor<3x10xf32> to tensor<3x4xf32>
// CHECK: nn.reshape %[[A]] : tensor<3x4xf32> to tensor<3x2x2xf32>
dist.module @m {
  dist.forward @layer.fwd backward @layer.bwd
  dist.forward @forward.fwd input @forward.bwd.input weight @forward.bwd.weight
  func.func private @layer.fwd(%x: tensor<3x10xf32>) -> (tensor<3x4xf32>, tensor<3x2x2xf32>, tensor<3x6xf32>) {
    %y = nn.exp %x : tensor<3x10xf32>
    %a = nn.slice %y [0, 0] step [1, 1] : tensor<3x10xf32> to tensor<3x4xf32>
    %b = nn.slice %y [0, 4] step [1, 1] : tensor<3x10xf32> to tensor<3x6xf32>
    %v = nn.reshape %a : tensor<3x4xf32> to tensor<3x2x2xf32>
    %o = nn.exp %a : tensor<3x4xf32>
    return %o, %v, %b : tensor<3x4xf32>, tensor<3x2x2xf32>, tensor<3x6xf32>
  }
  func.func private @layer.bwd(%g: tensor<3x4xf32>, %b: tensor<3x6xf32>) -> tensor<3x6xf32> {
    %0 = nn.exp %b : tensor<3x6xf32>
    return %0 : tensor<3x6xf32>
  }
  func.func @forward.fwd(%x: tensor<3x10xf32> {nn.name = "x"}) -> (tensor<3x4xf32> {nn.name = "y"}, tensor<3x2x2xf32> {nn.residual}, tensor<3x4xf32> {nn.residual}, tensor<3x6xf32> {nn.residual}) {
    %0:3 = call @layer.fwd(%x) : (tensor<3x10xf32>) -> (tensor<3x4xf32>, tensor<3x2x2xf32>, tensor<3x6xf32>)
    return %0#0, %0#1, %0#0, %0#2 : tensor<3x4xf32>, tensor<3x2x2xf32>, tensor<3x4xf32>, tensor<3x6xf32>
  }
  func.func @forward.bwd.input(%o: tensor<3x4xf32> {nn.residual = 1 : i64}, %b: tensor<3x6xf32> {nn.residual = 2 : i64}, %g: tensor<3x4xf32> {nn.gradient = #nn.gradient<of = "y">}) -> (tensor<3x6xf32> {nn.gradient = #nn.gradient<of = "x">}, tensor<3x4xf32> {nn.residual}) {
    %0 = nn.mul %g, %o : tensor<3x4xf32>, tensor<3x4xf32>
    %1 = call @layer.bwd(%0, %b) : (tensor<3x4xf32>, tensor<3x6xf32>) -> tensor<3x6xf32>
    return %1, %0 : tensor<3x6xf32>, tensor<3x4xf32>
  }
  func.func @forward.bwd.weight(%v: tensor<3x2x2xf32> {nn.residual = 0 : i64}, %k: tensor<3x4xf32> {nn.residual = 3 : i64}) -> tensor<3x2x2xf32> {
    %0 = nn.exp %v : tensor<3x2x2xf32>
    return %0 : tensor<3x2x2xf32>
  }
}

// -----

// In one backward function residuals go by their order. Columns that are read
// twice, and from the end, are the same ones.
// CHECK-LABEL: func.func @forward.fwd(
// CHECK-SAME: -> (tensor<3x2xf32> {nn.residual}, tensor<3x4xf32> {nn.residual})
// CHECK-LABEL: func.func @forward.bwd(
// CHECK-SAME: %[[X:.*]]: tensor<3x2xf32> {nn.residual}, %[[Y:.*]]: tensor<3x4xf32> {nn.residual})
// CHECK-DAG: %[[A:.*]] = nn.slice %[[Y]] [0, 0] step [1, 1]
// CHECK-DAG: %[[B:.*]] = nn.slice %[[Y]] [0, 2] step [1, 1]
// CHECK: %[[D:.*]] = nn.sub %[[A]], %[[B]]
// CHECK: return %[[X]], %[[D]]
dist.module @ordered {
  dist.forward @forward.fwd backward @forward.bwd
  func.func @forward.fwd(%x: tensor<3x2xf32>, %y: tensor<3x4xf32>) -> (tensor<3x2xf32> {nn.residual}, tensor<3x2xf32> {nn.residual}, tensor<3x2xf32> {nn.residual}) {
    %e = nn.exp %y : tensor<3x4xf32>
    %a = nn.slice %e [0, 0] step [1, 1] : tensor<3x4xf32> to tensor<3x2xf32>
    %b = nn.slice %e [0, 2] step [1, 1] : tensor<3x4xf32> to tensor<3x2xf32>
    return %x, %b, %a : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>
  }
  func.func @forward.bwd(%x: tensor<3x2xf32> {nn.residual}, %b: tensor<3x2xf32> {nn.residual}, %a: tensor<3x2xf32> {nn.residual}) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
    %0 = nn.sub %a, %b : tensor<3x2xf32>, tensor<3x2xf32>
    return %x, %0 : tensor<3x2xf32>, tensor<3x2xf32>
  }
}

// -----

// What stays: some of the columns, outputs, gradients of parameters, a range of
// one row, operands that are other columns in another call.
// CHECK-LABEL: dist.module @stays
// CHECK: func.func private @some.fwd(%{{.*}}) -> tensor<3x2xf32>
// CHECK: func.func private @gradients.bwd({{.*}}) -> (tensor<3x2xf32> {nn.param_grad}, tensor<3x2xf32> {nn.param_grad})
// CHECK: func.func private @row.fwd({{.*}}) -> (tensor<1x2xf32>, tensor<1x2xf32>)
// CHECK: func.func private @two.bwd(%{{.*}}: tensor<3x2xf32>) -> tensor<3x2xf32>
// CHECK: func.func @forward.fwd({{.*}}) -> (tensor<3x2xf32> {nn.name = "a"}, tensor<3x2xf32> {nn.name = "b"})
dist.module @stays {
  dist.forward @some.fwd
  dist.forward @row.fwd
  dist.forward @forward.fwd
  func.func private @some.fwd(%y: tensor<3x4xf32>) -> tensor<3x2xf32> {
    %e = nn.exp %y : tensor<3x4xf32>
    %a = nn.slice %e [0, 0] step [1, 1] : tensor<3x4xf32> to tensor<3x2xf32>
    return %a : tensor<3x2xf32>
  }
  func.func private @gradients.bwd(%y: tensor<3x4xf32>) -> (tensor<3x2xf32> {nn.param_grad}, tensor<3x2xf32> {nn.param_grad}) {
    %e = nn.exp %y : tensor<3x4xf32>
    %a = nn.slice %e [0, 0] step [1, 1] : tensor<3x4xf32> to tensor<3x2xf32>
    %b = nn.slice %e [0, 2] step [1, 1] : tensor<3x4xf32> to tensor<3x2xf32>
    return %a, %b : tensor<3x2xf32>, tensor<3x2xf32>
  }
  func.func private @row.fwd(%y: tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
    %e = nn.exp %y : tensor<1x4xf32>
    %a = nn.slice %e [0, 0] step [1, 1] : tensor<1x4xf32> to tensor<1x2xf32>
    %b = nn.slice %e [0, 2] step [1, 1] : tensor<1x4xf32> to tensor<1x2xf32>
    return %a, %b : tensor<1x2xf32>, tensor<1x2xf32>
  }
  func.func private @two.bwd(%a: tensor<3x2xf32>) -> tensor<3x2xf32> {
    %0 = nn.exp %a : tensor<3x2xf32>
    return %0 : tensor<3x2xf32>
  }
  func.func @forward.fwd(%y: tensor<3x4xf32>, %z: tensor<1x4xf32>) -> (tensor<3x2xf32> {nn.name = "a"}, tensor<3x2xf32> {nn.name = "b"}) {
    %0 = call @some.fwd(%y) : (tensor<3x4xf32>) -> tensor<3x2xf32>
    %1:2 = call @gradients.bwd(%y) : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>)
    %2:2 = call @row.fwd(%z) : (tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>)
    %a = nn.slice %y [0, 0] step [1, 1] : tensor<3x4xf32> to tensor<3x2xf32>
    %b = nn.slice %y [0, 2] step [1, 1] : tensor<3x4xf32> to tensor<3x2xf32>
    %3 = call @two.bwd(%a) : (tensor<3x2xf32>) -> tensor<3x2xf32>
    %4 = call @two.bwd(%b) : (tensor<3x2xf32>) -> tensor<3x2xf32>
    return %a, %b : tensor<3x2xf32>, tensor<3x2xf32>
  }
}

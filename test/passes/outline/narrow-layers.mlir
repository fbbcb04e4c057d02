// RUN: dt-opt %s --pass-pipeline="builtin.module(dist.module(nn-narrow-layers))" --split-input-file | FileCheck %s

// Windows that begin in front of the narrowing cast: what layers hand on is narrow in each case.

// CHECK-LABEL: dist.module @front
dist.module @front {
  // CHECK: func.func private @layer(%[[X:.*]]: tensor<2x4xbf16>) -> tensor<2x4xbf16>
  // CHECK-NEXT: %[[W:.*]] = nn.cast %[[X]] : tensor<2x4xbf16> to tensor<2x4xf32>
  // CHECK-NEXT: %[[Y:.*]] = nn.silu %[[W]]
  // CHECK-NEXT: %[[N:.*]] = nn.cast %[[Y]] : tensor<2x4xf32> to tensor<2x4xbf16>
  // CHECK-NEXT: return %[[N]]
  func.func private @layer(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %n = nn.cast %x : tensor<2x4xf32> to tensor<2x4xbf16>
    %w = nn.cast %n : tensor<2x4xbf16> to tensor<2x4xf32>
    %y = nn.silu %w : tensor<2x4xf32>
    return %y : tensor<2x4xf32>
  }
  // CHECK: func.func @forward(%[[X:.*]]: tensor<2x4xf32>)
  // CHECK-NEXT: %[[N:.*]] = nn.cast %[[X]] : tensor<2x4xf32> to tensor<2x4xbf16>
  // CHECK-NEXT: %[[A:.*]] = call @layer(%[[N]])
  // CHECK-NEXT: %[[B:.*]] = call @layer(%[[A]])
  // CHECK-NEXT: return %[[B]]
  func.func @forward(%x: tensor<2x4xf32>) -> tensor<2x4xbf16> {
    %a = call @layer(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %b = call @layer(%a) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %n = nn.cast %b : tensor<2x4xf32> to tensor<2x4xbf16>
    return %n : tensor<2x4xbf16>
  }
}

// -----

// Windows that begin behind the widening one.
// CHECK-LABEL: dist.module @behind
dist.module @behind {
  // CHECK: func.func private @layer(%[[X:.*]]: tensor<2x4xbf16>) -> tensor<2x4xbf16>
  // CHECK-NEXT: %[[W:.*]] = nn.cast %[[X]]
  // CHECK-NEXT: %[[Y:.*]] = nn.silu %[[W]]
  // CHECK-NEXT: %[[N:.*]] = nn.cast %[[Y]]
  // CHECK: return %[[N]]
  func.func private @layer(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %y = nn.silu %x : tensor<2x4xf32>
    %n = nn.cast %y : tensor<2x4xf32> to tensor<2x4xbf16>
    %w = nn.cast %n : tensor<2x4xbf16> to tensor<2x4xf32>
    return %w : tensor<2x4xf32>
  }
  // CHECK: func.func @forward(%[[X:.*]]: tensor<2x4xbf16>)
  // CHECK: %[[A:.*]] = call @layer(%[[X]])
  // CHECK: %[[B:.*]] = call @layer(%[[A]])
  // CHECK: %[[W:.*]] = nn.cast %[[B]] : tensor<2x4xbf16> to tensor<2x4xf32>
  // CHECK: return %[[W]]
  func.func @forward(%n: tensor<2x4xbf16>) -> tensor<2x4xf32> {
    %x = nn.cast %n : tensor<2x4xbf16> to tensor<2x4xf32>
    %a = call @layer(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %b = call @layer(%a) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %b : tensor<2x4xf32>
  }
}

// -----

// What something else takes in float32 stays float32, and so does a parameter.
// CHECK-LABEL: dist.module @others
dist.module @others {
  nn.parameter @w : tensor<2x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  // CHECK: func.func private @layer(%{{.*}}: tensor<2x4xf32>, %{{.*}}: tensor<2x4xf32>) -> tensor<2x4xf32>
  func.func private @layer(%x: tensor<2x4xf32>, %w: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %r = nn.mul %x, %w : tensor<2x4xf32>, tensor<2x4xf32>
    return %r : tensor<2x4xf32>
  }
  // CHECK: func.func private @only(%{{.*}}: tensor<2x4xf32>, %{{.*}}: tensor<2x4xf32>) -> (tensor<2x4xbf16>, tensor<2x4xbf16>)
  func.func private @only(%x: tensor<2x4xf32>, %w: tensor<2x4xf32>) -> (tensor<2x4xbf16>, tensor<2x4xbf16>) {
    %n = nn.cast %x : tensor<2x4xf32> to tensor<2x4xbf16>
    %v = nn.cast %w : tensor<2x4xf32> to tensor<2x4xbf16>
    return %n, %v : tensor<2x4xbf16>, tensor<2x4xbf16>
  }
  func.func @forward(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xbf16>, tensor<2x4xbf16>) {
    %w = nn.read @w : tensor<2x4xf32>
    %a = call @layer(%x, %w) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %b:2 = call @only(%a, %w) : (tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x4xbf16>, tensor<2x4xbf16>)
    return %a, %b#0, %b#1 : tensor<2x4xf32>, tensor<2x4xbf16>, tensor<2x4xbf16>
  }
}

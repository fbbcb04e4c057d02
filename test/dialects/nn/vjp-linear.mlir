// RUN: dt-opt %s --pass-pipeline="builtin.module(dist.module(nn-differentiate,func.func(cse)))" | FileCheck %s

// Gradients of products, convolutions, attention.

dist.module @m {
  nn.dim @batch
  nn.dim @seq
  nn.dim @a
  nn.dim @b

// CHECK-LABEL: func.func @linear.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.linear %[[DY]], %[[X2]] {in_out}
// CHECK-NEXT: %[[V1:.*]] = nn.linear_dw %[[X]], %[[DY]]
// CHECK-NEXT: %[[V2:.*]] = nn.reduce sum %[[DY]] {axes = array<i64: 0, 1>}
// CHECK-NEXT: return %[[V0]], %[[V1]], %[[V2]]
  func.func @linear(%x: tensor<2x5x3xf32> {nn.wants_grad}, %w: tensor<4x3xf32> {nn.wants_grad}, %b: tensor<4xf32> {nn.wants_grad}) -> (tensor<2x5x4xf32> {nn.gradients = [#nn.gradient<edge = "m.linear">]}) {
    %0 = nn.linear %x, %w, %b : tensor<2x5x3xf32>, tensor<4x3xf32>, tensor<4xf32>
    return %0 : tensor<2x5x4xf32>
  }

// CHECK-LABEL: func.func @linear_in_out.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.linear %[[DY]], %[[X2]]
// CHECK-NEXT: %[[V1:.*]] = nn.linear_dw %[[X]], %[[DY]] {in_out}
// CHECK-NEXT: return %[[V0]], %[[V1]]
  func.func @linear_in_out(%x: tensor<2x5x3xf32> {nn.wants_grad}, %w: tensor<3x4xf32> {nn.wants_grad}) -> (tensor<2x5x4xf32> {nn.gradients = [#nn.gradient<edge = "m.linear_in_out">]}) {
    %0 = nn.linear %x, %w {in_out} : tensor<2x5x3xf32>, tensor<3x4xf32>
    return %0 : tensor<2x5x4xf32>
  }

// A frozen weight: x is not needed.
// CHECK-LABEL: func.func @linear_frozen.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.linear %[[DY]], %[[X]] {in_out}
// CHECK-NEXT: return %[[V0]]
  func.func @linear_frozen(%x: tensor<2x5x3xf32> {nn.wants_grad}, %w: tensor<4x3xf32>) -> (tensor<2x5x4xf32> {nn.gradients = [#nn.gradient<edge = "m.linear_frozen">]}) {
    %0 = nn.linear %x, %w : tensor<2x5x3xf32>, tensor<4x3xf32>
    return %0 : tensor<2x5x4xf32>
  }

// CHECK-LABEL: func.func @matmul_nn.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.matmul %[[DY]], %[[X2]] {trans_b}
// CHECK-NEXT: %[[V1:.*]] = nn.matmul %[[X]], %[[DY]] {trans_a}
// CHECK-NEXT: return %[[V0]], %[[V1]]
  func.func @matmul_nn(%x: tensor<6x2x3xf32> {nn.wants_grad}, %y: tensor<6x3x4xf32> {nn.wants_grad}) -> (tensor<6x2x4xf32> {nn.gradients = [#nn.gradient<edge = "m.matmul_nn">]}) {
    %0 = nn.matmul %x, %y : tensor<6x2x3xf32>, tensor<6x3x4xf32>
    return %0 : tensor<6x2x4xf32>
  }

// CHECK-LABEL: func.func @matmul_nt.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.matmul %[[DY]], %[[X2]]
// CHECK-NEXT: %[[V1:.*]] = nn.matmul %[[DY]], %[[X]] {trans_a}
// CHECK-NEXT: return %[[V0]], %[[V1]]
  func.func @matmul_nt(%x: tensor<6x2x3xf32> {nn.wants_grad}, %y: tensor<6x4x3xf32> {nn.wants_grad}) -> (tensor<6x2x4xf32> {nn.gradients = [#nn.gradient<edge = "m.matmul_nt">]}) {
    %0 = nn.matmul %x, %y {trans_b} : tensor<6x2x3xf32>, tensor<6x4x3xf32>
    return %0 : tensor<6x2x4xf32>
  }

// CHECK-LABEL: func.func @matmul_tn.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.matmul %[[X2]], %[[DY]] {trans_b}
// CHECK-NEXT: %[[V1:.*]] = nn.matmul %[[X]], %[[DY]]
// CHECK-NEXT: return %[[V0]], %[[V1]]
  func.func @matmul_tn(%x: tensor<6x3x2xf32> {nn.wants_grad}, %y: tensor<6x3x4xf32> {nn.wants_grad}) -> (tensor<6x2x4xf32> {nn.gradients = [#nn.gradient<edge = "m.matmul_tn">]}) {
    %0 = nn.matmul %x, %y {trans_a} : tensor<6x3x2xf32>, tensor<6x3x4xf32>
    return %0 : tensor<6x2x4xf32>
  }

// CHECK-LABEL: func.func @matmul_tt.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.matmul %[[X2]], %[[DY]] {trans_a, trans_b}
// CHECK-NEXT: %[[V1:.*]] = nn.matmul %[[DY]], %[[X]] {trans_a, trans_b}
// CHECK-NEXT: return %[[V0]], %[[V1]]
  func.func @matmul_tt(%x: tensor<6x3x2xf32> {nn.wants_grad}, %y: tensor<6x4x3xf32> {nn.wants_grad}) -> (tensor<6x2x4xf32> {nn.gradients = [#nn.gradient<edge = "m.matmul_tt">]}) {
    %0 = nn.matmul %x, %y {trans_a, trans_b} : tensor<6x3x2xf32>, tensor<6x4x3xf32>
    return %0 : tensor<6x2x4xf32>
  }

// A right side without batch: one product over all rows.
// CHECK-LABEL: func.func @matmul_shared.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.linear_dw %[[X]], %[[DY]] {in_out}
// CHECK-NEXT: return %[[V0]]
  func.func @matmul_shared(%x: tensor<6x2x3xf32>, %y: tensor<3x4xf32> {nn.wants_grad}) -> (tensor<6x2x4xf32> {nn.gradients = [#nn.gradient<edge = "m.matmul_shared">]}) {
    %0 = nn.matmul %x, %y : tensor<6x2x3xf32>, tensor<3x4xf32>
    return %0 : tensor<6x2x4xf32>
  }

// A broadcast left side: the products are summed.
// CHECK-LABEL: func.func @matmul_broadcast.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.matmul %[[DY]], %[[X]] {trans_b}
// CHECK-NEXT: %[[V1:.*]] = nn.reduce sum %[[V0]] {axes = array<i64: 0>}
// CHECK-NEXT: %[[V2:.*]] = nn.reshape %[[V1]] : tensor<2x3xf32> to tensor<1x2x3xf32>
// CHECK-NEXT: return %[[V2]]
  func.func @matmul_broadcast(%x: tensor<1x2x3xf32> {nn.wants_grad}, %y: tensor<6x3x4xf32>) -> (tensor<6x2x4xf32> {nn.gradients = [#nn.gradient<edge = "m.matmul_broadcast">]}) {
    %0 = nn.matmul %x, %y : tensor<1x2x3xf32>, tensor<6x3x4xf32>
    return %0 : tensor<6x2x4xf32>
  }

// CHECK-LABEL: func.func @conv.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.conv_dx %[[DY]], %[[X2]] {dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x4x4x4xf32>, tensor<4x3x3x3xf32>) -> tensor<2x3x8x8xf32>
// CHECK-NEXT: %[[V1:.*]] = nn.conv_dw %[[X]], %[[DY]] {dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x3x8x8xf32>, tensor<2x4x4x4xf32>) -> tensor<4x3x3x3xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.reduce sum %[[DY]] {axes = array<i64: 0, 2, 3>}
// CHECK-NEXT: return %[[V0]], %[[V1]], %[[V2]]
  func.func @conv(%x: tensor<2x3x8x8xf32> {nn.wants_grad}, %w: tensor<4x3x3x3xf32> {nn.wants_grad}, %b: tensor<4xf32> {nn.wants_grad}) -> (tensor<2x4x4x4xf32> {nn.gradients = [#nn.gradient<edge = "m.conv">]}) {
    %0 = nn.conv %x, %w, %b {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>
    return %0 : tensor<2x4x4x4xf32>
  }

// The transposed convolution.
// CHECK-LABEL: func.func @conv_dx.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.conv %[[DY]], %[[X2]] {dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>}
// CHECK-NEXT: %[[V1:.*]] = nn.conv_dw %[[DY]], %[[X]] {dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x3x8x8xf32>, tensor<2x4x4x4xf32>) -> tensor<4x3x3x3xf32>
// CHECK-NEXT: return %[[V0]], %[[V1]]
  func.func @conv_dx(%x: tensor<2x4x4x4xf32> {nn.wants_grad}, %w: tensor<4x3x3x3xf32> {nn.wants_grad}) -> (tensor<2x3x8x8xf32> {nn.gradients = [#nn.gradient<edge = "m.conv_dx">]}) {
    %0 = nn.conv_dx %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x4x4x4xf32>, tensor<4x3x3x3xf32>) -> tensor<2x3x8x8xf32>
    return %0 : tensor<2x3x8x8xf32>
  }

// CHECK-LABEL: func.func @pool.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.pool_dx max %[[X]], %[[DY]] {dilations = array<i64: 1, 1>, kernel = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>}
// CHECK-NEXT: return %[[V0]]
  func.func @pool(%x: tensor<2x3x8x8xf32> {nn.wants_grad}) -> (tensor<2x3x4x4xf32> {nn.gradients = [#nn.gradient<edge = "m.pool">]}) {
    %0 = nn.pool max %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
    return %0 : tensor<2x3x4x4xf32>
  }

// Output and log-sum-exp are kept, not the probabilities.
// CHECK-LABEL: func.func @attention.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[X3:[a-z0-9]+]]:{{.*}}%[[R:[a-z0-9]+]]:{{.*}}%[[R2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[Vdquery:.*]], %[[Vdkey:.*]], %[[Vdvalue:.*]] = nn.attention_grad %[[X]], %[[X2]], %[[X3]] of %[[R]], %[[R2]], %[[DY]] {causal, scale = 5.000000e-01 : f64}
// CHECK-NEXT: return %[[Vdquery]], %[[Vdkey]], %[[Vdvalue]]
  func.func @attention(%q: tensor<2x5x4x8xf32> {nn.wants_grad}, %k: tensor<2x6x2x8xf32> {nn.wants_grad}, %v: tensor<2x6x2x8xf32> {nn.wants_grad}) -> (tensor<2x5x4x8xf32> {nn.gradients = [#nn.gradient<edge = "m.attention">]}) {
    %0, %1 = nn.attention %q, %k, %v {scale = 0.5 : f64, causal} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>
    return %0 : tensor<2x5x4x8xf32>
  }

// Segments and a window hide keys in both directions; they have no gradient.
// CHECK-LABEL: func.func @attention_segments.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[X3:[a-z0-9]+]]:{{.*}}%[[S:[a-z0-9]+]]:{{.*}}%[[S2:[a-z0-9]+]]:{{.*}}%[[R:[a-z0-9]+]]:{{.*}}%[[R2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[Vdquery:.*]], %{{.*}}, %{{.*}} = nn.attention_grad %[[X]], %[[X2]], %[[X3]] segments %[[S]] by %[[S2]] of %[[R]], %[[R2]], %[[DY]] {scale = 5.000000e-01 : f64, window = 3 : i64}
// CHECK-NEXT: return %[[Vdquery]]
  func.func @attention_segments(%q: tensor<2x5x4x8xf32> {nn.wants_grad}, %k: tensor<2x6x2x8xf32>, %v: tensor<2x6x2x8xf32>, %s: tensor<1x5xi64>, %r: tensor<2x6xi64>) -> (tensor<2x5x4x8xf32> {nn.gradients = [#nn.gradient<edge = "m.attention_segments">]}) {
    %0, %1 = nn.attention %q, %k, %v segments %s by %r {scale = 0.5 : f64, window = 3 : i64} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<1x5xi64>, tensor<2x6xi64>
    return %0 : tensor<2x5x4x8xf32>
  }

// A trained bias on the scores gets the gradient of the scores.
// CHECK-LABEL: func.func @attention_mask.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[X3:[a-z0-9]+]]:{{.*}}%[[X4:[a-z0-9]+]]:{{.*}}%[[R:[a-z0-9]+]]:{{.*}}%[[R2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.transpose %[[X]] [0, 2, 1, 3]
// CHECK-NEXT: %[[V1:.*]] = nn.reshape %[[V0]] : tensor<2x4x5x8xf32> to tensor<2x2x2x5x8xf32>
// CHECK-NEXT: %[[V2:.*]] = nn.transpose %[[X2]] [0, 2, 1, 3]
// CHECK-NEXT: %[[V3:.*]] = nn.reshape %[[V2]] : tensor<2x2x6x8xf32> to tensor<2x2x1x6x8xf32>
// CHECK-NEXT: %[[V4:.*]] = nn.transpose %[[X3]] [0, 2, 1, 3]
// CHECK-NEXT: %[[V5:.*]] = nn.reshape %[[V4]] : tensor<2x2x6x8xf32> to tensor<2x2x1x6x8xf32>
// CHECK-NEXT: %[[V6:.*]] = nn.transpose %[[DY]] [0, 2, 1, 3]
// CHECK-NEXT: %[[V7:.*]] = nn.reshape %[[V6]] : tensor<2x4x5x8xf32> to tensor<2x2x2x5x8xf32>
// CHECK-NEXT: %[[V8:.*]] = nn.matmul %[[V1]], %[[V3]] {trans_b}
// CHECK-NEXT: %[[V9:.*]] = nn.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT: %[[V10:.*]] = nn.mul %[[V8]], %[[V9]]
// CHECK-NEXT: %[[V11:.*]] = nn.reshape %[[V10]] : tensor<2x2x2x5x6xf32> to tensor<2x4x5x6xf32>
// CHECK-NEXT: %[[V12:.*]] = nn.add %[[V11]], %[[X4]]
// CHECK-NEXT: %[[V13:.*]] = nn.reshape %[[R2]] : tensor<2x4x5xf32> to tensor<2x4x5x1xf32>
// CHECK-NEXT: %[[V14:.*]] = nn.sub %[[V12]], %[[V13]]
// CHECK-NEXT: %[[V15:.*]] = nn.exp %[[V14]]
// CHECK-NEXT: %[[V16:.*]] = nn.constant dense<0xFF800000> : tensor<f32>
// CHECK-NEXT: %[[V17:.*]] = nn.cmp gt %[[V13]], %[[V16]]
// CHECK-NEXT: %[[V18:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[V19:.*]] = nn.where %[[V17]], %[[V15]], %[[V18]]
// CHECK-NEXT: %[[V20:.*]] = nn.matmul %[[V7]], %[[V5]] {trans_b}
// CHECK-NEXT: %[[V21:.*]] = nn.reshape %[[V20]] : tensor<2x2x2x5x6xf32> to tensor<2x4x5x6xf32>
// CHECK-NEXT: %[[V22:.*]] = nn.mul %[[DY]], %[[R]]
// CHECK-NEXT: %[[V23:.*]] = nn.reduce sum %[[V22]] {axes = array<i64: 3>}
// CHECK-NEXT: %[[V24:.*]] = nn.transpose %[[V23]] [0, 2, 1]
// CHECK-NEXT: %[[V25:.*]] = nn.reshape %[[V24]] : tensor<2x4x5xf32> to tensor<2x4x5x1xf32>
// CHECK-NEXT: %[[V26:.*]] = nn.sub %[[V21]], %[[V25]]
// CHECK-NEXT: %[[V27:.*]] = nn.mul %[[V19]], %[[V26]]
// CHECK-NEXT: %[[V28:.*]] = nn.reduce sum %[[V27]] {axes = array<i64: 0>}
// CHECK-NEXT: %[[V29:.*]] = nn.reshape %[[V28]] : tensor<4x5x6xf32> to tensor<1x4x5x6xf32>
// CHECK-NEXT: return %[[V29]]
  func.func @attention_mask(%q: tensor<2x5x4x8xf32>, %k: tensor<2x6x2x8xf32>, %v: tensor<2x6x2x8xf32>, %m: tensor<1x4x5x6xf32> {nn.wants_grad}) -> (tensor<2x5x4x8xf32> {nn.gradients = [#nn.gradient<edge = "m.attention_mask">]}) {
    %0, %1 = nn.attention %q, %k, %v mask %m {scale = 0.5 : f64} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<1x4x5x6xf32>
    return %0 : tensor<2x5x4x8xf32>
  }

// CHECK-LABEL: func.func @rotary.bwd(
// CHECK-SAME: %[[X:[a-z0-9]+]]:{{.*}}%[[X2:[a-z0-9]+]]:{{.*}}%[[DY:[a-z0-9]+]]:
// CHECK-NEXT: %[[V0:.*]] = nn.rotary %[[DY]], %[[X]], %[[X2]] {inverse}
// CHECK-NEXT: return %[[V0]]
  func.func @rotary(%x: tensor<2x5x4x8xf32> {nn.wants_grad}, %c: tensor<5x4xf32>, %s: tensor<5x4xf32>) -> (tensor<2x5x4x8xf32> {nn.gradients = [#nn.gradient<edge = "m.rotary">]}) {
    %0 = nn.rotary %x, %c, %s : tensor<2x5x4x8xf32>, tensor<5x4xf32>, tensor<5x4xf32>
    return %0 : tensor<2x5x4x8xf32>
  }
}

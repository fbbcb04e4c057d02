// RUN: dt-opt %s --lower-nn-to-rt --cse | FileCheck %s

// Columns are read where they are by elementwise ops, rotary embeddings, norms
// over the last axes and attention.
dist.module @m {
  nn.dim @batch of "sample" max 2
  // CHECK-LABEL: rt.func @elementwise(
  // CHECK-SAME: %[[X:[a-z0-9]+]]: !rt.buffer<f32, [batch, 6, 7]>
  // CHECK-NOT: rt.alloc
  // CHECK: rt.kernel @fused [%[[I:.*]] < 6*batch, %[[J:.*]] < 3] ({{.*}}%[[IN:[a-z0-9]+]] = %[[X]] : !rt.buffer<f32, [batch, 6, 7]> as !rt.buffer<f32, [6*batch, 7]>
  // CHECK: rt.load %[[IN]][%[[I]], %[[J]]]
  // CHECK: %[[FOUR:.*]] = arith.constant 4 : index
  // CHECK: %[[AT:.*]] = arith.addi %[[J]], %[[FOUR]]
  // CHECK: rt.load %[[IN]][%[[I]], %[[AT]]]
  // CHECK-NOT: rt.kernel
  func.func @elementwise(%x: tensor<?x6x7xf32, #nn.dims<batch>>) -> tensor<?x6x3xf32, #nn.dims<batch>> {
    %a = nn.slice %x [0, 0, 0] step [1, 1, 1] : tensor<?x6x7xf32, #nn.dims<batch>> to tensor<?x6x3xf32, #nn.dims<batch>>
    %b = nn.slice %x [0, 0, 4] step [1, 1, 1] : tensor<?x6x7xf32, #nn.dims<batch>> to tensor<?x6x3xf32, #nn.dims<batch>>
    %0 = nn.fused %a, %b : (tensor<?x6x3xf32, #nn.dims<batch>>, tensor<?x6x3xf32, #nn.dims<batch>>) -> tensor<?x6x3xf32, #nn.dims<batch>> {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      nn.yield %r : f32
    }
    return %0 : tensor<?x6x3xf32, #nn.dims<batch>>
  }

  // Queries and keys are turned, values go into attention with the pitch of
  // their rows.
  // CHECK-LABEL: rt.func @heads(
  // CHECK-SAME: %[[X:[a-z0-9]+]]: !rt.buffer<f32, [batch, 6, 32]>
  // CHECK-NOT: rt.kernel @slice
  // CHECK: rt.kernel @rotary {{.*}} = %[[X]] : !rt.buffer<f32, [batch, 6, 32]> as !rt.buffer<f32, [batch, 6, 8, 4]>
  // CHECK: rt.view %[[X]] {offset = #nn.dim<24>} : <f32, [batch, 6, 32]> to <f32, [192*batch - 24]>
  // CHECK: rt.attention {{.*}}k_strides = #nn.dims<48, 8, 4>{{.*}}q_strides = #nn.dims<96, 16, 4>{{.*}}v_strides = #nn.dims<192, 32, 4>
  // CHECK-NOT: rt.kernel @slice
  func.func @heads(%x: tensor<?x6x32xf32, #nn.dims<batch>>, %cos: tensor<6x2xf32>) -> (tensor<?x6x4x4xf32, #nn.dims<batch>>, tensor<?x4x6xf32, #nn.dims<batch>>) {
    %a = nn.slice %x [0, 0, 0] step [1, 1, 1] : tensor<?x6x32xf32, #nn.dims<batch>> to tensor<?x6x16xf32, #nn.dims<batch>>
    %b = nn.slice %x [0, 0, 16] step [1, 1, 1] : tensor<?x6x32xf32, #nn.dims<batch>> to tensor<?x6x8xf32, #nn.dims<batch>>
    %c = nn.slice %x [0, 0, 24] step [1, 1, 1] : tensor<?x6x32xf32, #nn.dims<batch>> to tensor<?x6x8xf32, #nn.dims<batch>>
    %q = nn.reshape %a : tensor<?x6x16xf32, #nn.dims<batch>> to tensor<?x6x4x4xf32, #nn.dims<batch>>
    %k = nn.reshape %b : tensor<?x6x8xf32, #nn.dims<batch>> to tensor<?x6x2x4xf32, #nn.dims<batch>>
    %v = nn.reshape %c : tensor<?x6x8xf32, #nn.dims<batch>> to tensor<?x6x2x4xf32, #nn.dims<batch>>
    %0 = nn.rotary %q, %cos, %cos : tensor<?x6x4x4xf32, #nn.dims<batch>>, tensor<6x2xf32>, tensor<6x2xf32>
    %1 = nn.rotary %k, %cos, %cos : tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<6x2xf32>, tensor<6x2xf32>
    %o, %lse = nn.attention %0, %1, %v {scale = 0.5 : f64, empty_row = 0 : i32} : tensor<?x6x4x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>
    return %o, %lse : tensor<?x6x4x4xf32, #nn.dims<batch>>, tensor<?x4x6xf32, #nn.dims<batch>>
  }

  // Gradients are dense where queries are columns, and say so.
  // CHECK-LABEL: rt.func @gradients(
  // CHECK: rt.attention_grad {{.*}}dk_strides = #nn.dims<48, 8, 4>, dq_strides = #nn.dims<48, 8, 4>{{.*}}dv_strides = #nn.dims<48, 8, 4>{{.*}}k_strides = #nn.dims<144, 24, 4>
  func.func @gradients(%x: tensor<?x6x24xf32, #nn.dims<batch>>, %o: tensor<?x6x2x4xf32, #nn.dims<batch>>, %lse: tensor<?x2x6xf32, #nn.dims<batch>>)
      -> (tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>) {
    %h = nn.reshape %x : tensor<?x6x24xf32, #nn.dims<batch>> to tensor<?x6x6x4xf32, #nn.dims<batch>>
    %q = nn.slice %h [0, 0, 0, 0] step [1, 1, 1, 1] : tensor<?x6x6x4xf32, #nn.dims<batch>> to tensor<?x6x2x4xf32, #nn.dims<batch>>
    %k = nn.slice %h [0, 0, 2, 0] step [1, 1, 1, 1] : tensor<?x6x6x4xf32, #nn.dims<batch>> to tensor<?x6x2x4xf32, #nn.dims<batch>>
    %v = nn.slice %h [0, 0, 4, 0] step [1, 1, 1, 1] : tensor<?x6x6x4xf32, #nn.dims<batch>> to tensor<?x6x2x4xf32, #nn.dims<batch>>
    %dq, %dk, %dv = nn.attention_grad %q, %k, %v of %o, %lse, %o {scale = 0.5 : f64, empty_row = 0 : i32} : tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x2x6xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>
    return %dq, %dk, %dv : tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>
  }

  // A norm of each head: rows of rows.
  // CHECK-LABEL: rt.func @norm(
  // CHECK-SAME: %[[X:[a-z0-9]+]]: !rt.buffer<f32, [batch, 6, 20]>
  // CHECK-NOT: rt.kernel @slice
  // CHECK: rt.kernel @rms_norm [%[[R:.*]] < 6*batch, %[[H:.*]] < 2] ({{.*}}%[[IN:[a-z0-9]+]] = %[[X]] : !rt.buffer<f32, [batch, 6, 20]> as !rt.buffer<f32, [6*batch, 5, 4]>
  // CHECK: rt.load %[[IN]][%[[R]], %{{.*}}, %{{.*}}]
  func.func @norm(%x: tensor<?x6x20xf32, #nn.dims<batch>>, %w: tensor<4xf32>) -> tensor<?x6x2x4xf32, #nn.dims<batch>> {
    %a = nn.slice %x [0, 0, 12] step [1, 1, 1] : tensor<?x6x20xf32, #nn.dims<batch>> to tensor<?x6x8xf32, #nn.dims<batch>>
    %h = nn.reshape %a : tensor<?x6x8xf32, #nn.dims<batch>> to tensor<?x6x2x4xf32, #nn.dims<batch>>
    %0 = nn.rms_norm %h scale %w {eps = 1.0e-6 : f64} : tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<4xf32>
    return %0 : tensor<?x6x2x4xf32, #nn.dims<batch>>
  }

  // What is copied: columns that leave, that a product reads, that are smaller
  // than the result of who reads them, that run over ends of rows.
  // CHECK-LABEL: rt.func @copied(
  // CHECK-COUNT-4: rt.kernel @slice
  // CHECK-NOT: rt.kernel @slice
  func.func @copied(%x: tensor<?x6x8xf32, #nn.dims<batch>>, %w: tensor<5x4xf32>, %y: tensor<?x6x4xf32, #nn.dims<batch>>)
      -> (tensor<?x6x2xf32, #nn.dims<batch>>, tensor<?x6x5xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>, tensor<?x12xf32, #nn.dims<batch>>) {
    %a = nn.slice %x [0, 0, 0] step [1, 1, 1] : tensor<?x6x8xf32, #nn.dims<batch>> to tensor<?x6x2xf32, #nn.dims<batch>>
    %b = nn.slice %x [0, 0, 4] step [1, 1, 1] : tensor<?x6x8xf32, #nn.dims<batch>> to tensor<?x6x4xf32, #nn.dims<batch>>
    %c = nn.slice %x [0, 0, 7] step [1, 1, 1] : tensor<?x6x8xf32, #nn.dims<batch>> to tensor<?x6x1xf32, #nn.dims<batch>>
    %d = nn.slice %x [0, 0, 2] step [1, 1, 1] : tensor<?x6x8xf32, #nn.dims<batch>> to tensor<?x6x2xf32, #nn.dims<batch>>
    %0 = nn.linear %b, %w : tensor<?x6x4xf32, #nn.dims<batch>>, tensor<5x4xf32>
    %1 = nn.fused %c, %y : (tensor<?x6x1xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>) -> tensor<?x6x4xf32, #nn.dims<batch>> {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      nn.yield %r : f32
    }
    %2 = nn.reshape %d : tensor<?x6x2xf32, #nn.dims<batch>> to tensor<?x12xf32, #nn.dims<batch>>
    %3 = nn.fused %2 : (tensor<?x12xf32, #nn.dims<batch>>) -> tensor<?x12xf32, #nn.dims<batch>> {
    ^bb0(%p: f32):
      %r = math.exp %p : f32
      nn.yield %r : f32
    }
    return %a, %0, %1, %3 : tensor<?x6x2xf32, #nn.dims<batch>>, tensor<?x6x5xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>, tensor<?x12xf32, #nn.dims<batch>>
  }
}

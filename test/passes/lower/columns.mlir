// RUN: dt-opt %s --lower-nn-to-rt --cse | FileCheck %s

// Parts of a concatenation are written where they stand in it: elementwise ops
// with the whole's rows as another shape.
// CHECK-LABEL: rt.func @elementwise(
// CHECK-SAME: %[[X:[a-z0-9]+]]: !rt.buffer<f32, [batch, 6, 4]>{{.*}}, %[[Y:[a-z0-9]+]]: !rt.buffer<f32, [batch, 6, 3]>{{.*}}, %[[OUT:[a-z0-9]+]]: !rt.buffer<f32, [batch, 6, 7]>
// CHECK-NOT: rt.alloc
// CHECK: rt.kernel @fused [%[[I:.*]] < 6*batch, %[[J:.*]] < 4] ({{.*}}, %[[O:.*]] = %[[OUT]] : !rt.buffer<f32, [batch, 6, 7]> as !rt.buffer<f32, [6*batch, 7]>)
// CHECK: rt.store %{{.*}}, %[[O]][%[[I]], %[[J]]]
// CHECK: rt.kernel @fused [%[[I:.*]] < 6*batch, %[[J:.*]] < 3] ({{.*}}, %[[O:.*]] = %[[OUT]]
// CHECK: %[[FOUR:.*]] = arith.constant 4 : index
// CHECK: %[[AT:.*]] = arith.addi %[[J]], %[[FOUR]]
// CHECK: rt.store %{{.*}}, %[[O]][%[[I]], %[[AT]]]
// CHECK-NOT: rt.kernel
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @elementwise(%x: tensor<?x6x4xf32, #nn.dims<batch>>, %y: tensor<?x6x3xf32, #nn.dims<batch>>) -> tensor<?x6x7xf32, #nn.dims<batch>> {
    %0 = nn.fused %x : (tensor<?x6x4xf32, #nn.dims<batch>>) -> tensor<?x6x4xf32, #nn.dims<batch>> {
    ^bb0(%a: f32):
      %r = math.exp %a : f32
      nn.yield %r : f32
    }
    %1 = nn.fused %y : (tensor<?x6x3xf32, #nn.dims<batch>>) -> tensor<?x6x3xf32, #nn.dims<batch>> {
    ^bb0(%a: f32):
      %r = arith.negf %a : f32
      nn.yield %r : f32
    }
    %2 = nn.concat %0, %1 {axis = 2 : i64} : tensor<?x6x4xf32, #nn.dims<batch>>, tensor<?x6x3xf32, #nn.dims<batch>>
    return %2 : tensor<?x6x7xf32, #nn.dims<batch>>
  }

  // Heads are as many heads of the whole's rows; attention's gradients have
  // strides. What is an argument is copied.
  // CHECK-LABEL: rt.func @heads(
  // CHECK: %[[ALL:.*]] = rt.alloc {{.*}} : <f32, [batch, 6, 24]>
  // CHECK: rt.view %[[ALL]] {offset = #nn.dim<8>} : <f32, [batch, 6, 24]> to <f32, [144*batch - 8]>
  // CHECK: rt.attention_grad {{.*}}dv_strides = #nn.dims<144, 24, 4>
  // CHECK: rt.kernel @rotary [%[[B:.*]] < batch, %[[T:.*]] < 6, %[[H:.*]] < 2] ({{.*}} = %[[ALL]] : !rt.buffer<f32, [batch, 6, 24]> as !rt.buffer<f32, [batch, 6, 6, 4]>)
  // CHECK: rt.store %{{.*}}[%[[B]], %[[T]], %[[H]], %{{.*}}]
  // CHECK: rt.kernel @concat
  // CHECK-NOT: rt.kernel @concat
  // CHECK: rt.matmul %[[ALL]]
  func.func @heads(%q: tensor<?x6x2x4xf32, #nn.dims<batch>>, %k: tensor<?x6x2x4xf32, #nn.dims<batch>>, %v: tensor<?x6x2x4xf32, #nn.dims<batch>>, %o: tensor<?x6x2x4xf32, #nn.dims<batch>>,
                   %lse: tensor<?x2x6xf32, #nn.dims<batch>>, %do: tensor<?x6x2x4xf32, #nn.dims<batch>>, %cos: tensor<6x2xf32>, %dk: tensor<?x6x8xf32, #nn.dims<batch>>, %w: tensor<24x5xf32>)
      -> (tensor<?x6x5xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>) {
    %dq, %unused, %dv = nn.attention_grad %q, %k, %v of %o, %lse, %do {scale = 0.5 : f64, empty_row = 0 : i32} : tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x2x6xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>
    %0 = nn.rotary %dq, %cos, %cos {inverse} : tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<6x2xf32>, tensor<6x2xf32>
    %1 = nn.reshape %0 : tensor<?x6x2x4xf32, #nn.dims<batch>> to tensor<?x6x8xf32, #nn.dims<batch>>
    %2 = nn.reshape %dv : tensor<?x6x2x4xf32, #nn.dims<batch>> to tensor<?x6x8xf32, #nn.dims<batch>>
    %3 = nn.concat %1, %2, %dk {axis = 2 : i64} : tensor<?x6x8xf32, #nn.dims<batch>>, tensor<?x6x8xf32, #nn.dims<batch>>, tensor<?x6x8xf32, #nn.dims<batch>>
    %4 = nn.linear %3, %w {in_out} : tensor<?x6x24xf32, #nn.dims<batch>>, tensor<24x5xf32>
    return %4, %unused : tensor<?x6x5xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>
  }

  // What has another user too stands by itself and is copied.
  // CHECK-LABEL: rt.func @two_users(
  // CHECK: rt.kernel @fused [%{{.*}} < 24*batch]
  // CHECK: rt.kernel @concat
  // CHECK: rt.kernel @concat
  func.func @two_users(%x: tensor<?x6x4xf32, #nn.dims<batch>>) -> (tensor<?x6x8xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>) {
    %0 = nn.fused %x : (tensor<?x6x4xf32, #nn.dims<batch>>) -> tensor<?x6x4xf32, #nn.dims<batch>> {
    ^bb0(%a: f32):
      %r = math.exp %a : f32
      nn.yield %r : f32
    }
    %1 = nn.concat %0, %x {axis = 2 : i64} : tensor<?x6x4xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>
    return %1, %0 : tensor<?x6x8xf32, #nn.dims<batch>>, tensor<?x6x4xf32, #nn.dims<batch>>
  }

  // Half a head is no column of attention's, and a head of another size than
  // the whole's is elements of a row.
  // CHECK-LABEL: rt.func @odd(
  // CHECK: rt.attention_grad
  // CHECK-NOT: dq_strides
  // CHECK: rt.kernel @rotary {{.*}} = %{{[a-z0-9]+}} : !rt.buffer<f32, [batch, 6, 13]>)
  // CHECK: arith.muli
  func.func @odd(%q: tensor<?x6x2x4xf32, #nn.dims<batch>>, %lse: tensor<?x2x6xf32, #nn.dims<batch>>, %cos: tensor<6x2xf32>, %five: tensor<?x6x5xf32, #nn.dims<batch>>) -> (tensor<?x6x2x8xf32, #nn.dims<batch>>, tensor<?x6x13xf32, #nn.dims<batch>>) {
    %dq, %dk, %dv = nn.attention_grad %q, %q, %q of %q, %lse, %q {scale = 0.5 : f64, empty_row = 0 : i32} : tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x2x6xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>
    %0 = nn.concat %dq, %dk {axis = 3 : i64} : tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<?x6x2x4xf32, #nn.dims<batch>>
    %1 = nn.rotary %dv, %cos, %cos : tensor<?x6x2x4xf32, #nn.dims<batch>>, tensor<6x2xf32>, tensor<6x2xf32>
    %2 = nn.reshape %1 : tensor<?x6x2x4xf32, #nn.dims<batch>> to tensor<?x6x8xf32, #nn.dims<batch>>
    %3 = nn.concat %2, %five {axis = 2 : i64} : tensor<?x6x8xf32, #nn.dims<batch>>, tensor<?x6x5xf32, #nn.dims<batch>>
    return %0, %3 : tensor<?x6x2x8xf32, #nn.dims<batch>>, tensor<?x6x13xf32, #nn.dims<batch>>
  }

  // Joined parameters and gradients are one address.
  // CHECK-LABEL: rt.func @parameters(
  // CHECK: %[[G:.*]] = rt.gradient @w {beside = [@v]} : <f32, [24, 4]>
  // CHECK: %[[P:.*]] = rt.parameter @w {beside = [@v]} : <f32, [24, 4]>
  // CHECK: rt.matmul {{.*}}, %[[P]]
  // CHECK: rt.matmul {{.*}} to %[[G]] {accumulate
  func.func @parameters(%dy: tensor<?x24xf32, #nn.dims<batch>>, %x: tensor<?x4xf32, #nn.dims<batch>>) -> tensor<?x4xf32, #nn.dims<batch>> {
    %0 = nn.read @w {beside = [@v]} : tensor<24x4xf32>
    %1 = nn.linear %dy, %0 {in_out} : tensor<?x24xf32, #nn.dims<batch>>, tensor<24x4xf32>
    %2 = nn.linear_dw %x, %dy : tensor<?x4xf32, #nn.dims<batch>>, tensor<?x24xf32, #nn.dims<batch>>
    nn.accumulate @w, %2 {beside = [@v]} : tensor<24x4xf32>
    return %1 : tensor<?x4xf32, #nn.dims<batch>>
  }
  nn.parameter @w : tensor<16x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @v : tensor<8x4xf32> trainable from #nn.init<"zeros", "", "">
}

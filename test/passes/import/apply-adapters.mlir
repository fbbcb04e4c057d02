// A frozen product has two thin ones beside it, of both orientations; biases stay, and each user gets the sum.
// RUN: dt-opt %s --pass-pipeline='builtin.module(dist.module(nn-apply-adapters))' | FileCheck %s --implicit-check-not=nn.adapter

// CHECK-LABEL: dist.module @m
dist.module @m {
  nn.parameter @q : tensor<6x4xf32> from #nn.onnx<"m.onnx", "q">
  nn.parameter @q.A : tensor<2x4xf32> trainable from #nn.init<"kaiming_uniform", "", "">
  nn.parameter @q.B : tensor<6x2xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @d : tensor<6x4xf32> from #nn.onnx<"m.onnx", "d">
  nn.parameter @d.A : tensor<2x6xf32> trainable from #nn.init<"kaiming_uniform", "", "">
  nn.parameter @d.B : tensor<4x2xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @b : tensor<6xf32> from #nn.onnx<"m.onnx", "b">
  nn.adapter @q down @q.A up @q.B scale 2.0
  nn.adapter @d down @d.A up @d.B scale 1.0
  // CHECK: @forward(%[[X:[a-z0-9]+]]
  func.func @forward(%x: tensor<3x4xf32> {nn.name = "x"}) -> (tensor<3x4xf32> {nn.name = "y"}, tensor<3x6xf32> {nn.name = "h"}) {
    %q = nn.read @q : tensor<6x4xf32>
    %b = nn.read @b : tensor<6xf32>
    // CHECK: %[[BASE:.*]] = nn.linear %[[X]], %{{.*}}, %{{.*}} :
    // CHECK-DAG: %[[A:.*]] = nn.read @q.A
    // CHECK: %[[THIN:.*]] = nn.linear %[[X]], %[[A]] : tensor<3x4xf32>, tensor<2x4xf32>
    // CHECK: %[[TWO:.*]] = nn.constant dense<2.000000e+00> : tensor<f32>
    // CHECK: %[[SCALED:.*]] = nn.mul %[[THIN]], %[[TWO]]
    // CHECK: %[[B:.*]] = nn.read @q.B
    // CHECK: %[[WIDE:.*]] = nn.linear %[[SCALED]], %[[B]] : tensor<3x2xf32>, tensor<6x2xf32>
    // CHECK: %[[H:.*]] = nn.add %[[BASE]], %[[WIDE]]
    %h = nn.linear %x, %q, %b : tensor<3x4xf32>, tensor<6x4xf32>, tensor<6xf32>
    %d = nn.read @d : tensor<6x4xf32>
    // CHECK: %[[DOWN:.*]] = nn.linear %[[H]], %{{.*}} {in_out} : tensor<3x6xf32>, tensor<6x4xf32>
    // CHECK: %[[DTHIN:.*]] = nn.linear %[[H]], %{{.*}} : tensor<3x6xf32>, tensor<2x6xf32>
    // CHECK-NOT: nn.mul
    // CHECK: %[[DWIDE:.*]] = nn.linear %[[DTHIN]], %{{.*}} : tensor<3x2xf32>, tensor<4x2xf32>
    // CHECK: %[[Y:.*]] = nn.add %[[DOWN]], %[[DWIDE]]
    %y = nn.linear %h, %d {in_out} : tensor<3x6xf32>, tensor<6x4xf32>
    // CHECK: return %[[Y]], %[[H]]
    return %y, %h : tensor<3x4xf32>, tensor<3x6xf32>
  }
}

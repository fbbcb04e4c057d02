// Two names of one parameter have one gradient.
// RUN: dt-opt %s --lower-nn-to-rt --cse | FileCheck %s

dist.module @m {
  nn.parameter @w : tensor<4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @v : tensor<4xf32> trainable from #nn.init<"zeros", "", "">
  // CHECK-LABEL: rt.func @f(
  // CHECK: %[[G:.*]] = rt.gradient @w
  // CHECK-NOT: rt.gradient
  // CHECK: rt.kernel @accumulate {{.*}} = %[[G]]
  // CHECK: rt.kernel @accumulate {{.*}} = %[[G]]
  func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) {
    nn.accumulate @v, %x : tensor<4xf32>
    nn.accumulate @w, %y : tensor<4xf32>
    return
  }
}
dist.tie @m::@v = @m::@w

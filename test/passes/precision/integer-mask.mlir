// RUN: dt-opt %s --nn-narrow | FileCheck %s

// A mask of numbers that is made of integers, as padding is, stays float32; the attention that it hides keys from is narrow.

dist.module @m precision bf16 {
  nn.dim @batch of "sample" max 2
  // CHECK-LABEL: func.func @forward
  func.func @forward(%q: tensor<?x8x2x8xf32, #nn.dims<batch>> {nn.name = "q"}, %valid: tensor<?x1x1x8xi64, #nn.dims<batch>> {nn.name = "valid"}) -> (tensor<?x8x2x8xf32, #nn.dims<batch>> {nn.name = "y"}) {
    // CHECK: %[[MASK:.*]] = nn.mul {{.*}}xf32
    // CHECK: %[[Q:.*]] = nn.cast %arg0 : {{.*}} to tensor<?x8x2x8xbf16
    // CHECK: nn.attention %[[Q]], %[[Q]], %[[Q]] mask %[[MASK]]
    %one = nn.constant dense<1.0> : tensor<f32>
    %lowest = nn.constant dense<-3.40282347E+38> : tensor<f32>
    %number = nn.cast %valid : tensor<?x1x1x8xi64, #nn.dims<batch>> to tensor<?x1x1x8xf32, #nn.dims<batch>>
    %hidden = nn.sub %one, %number : tensor<f32>, tensor<?x1x1x8xf32, #nn.dims<batch>>
    %mask = nn.mul %hidden, %lowest : tensor<?x1x1x8xf32, #nn.dims<batch>>, tensor<f32>
    %y, %lse = nn.attention %q, %q, %q mask %mask {scale = 1.0} : tensor<?x8x2x8xf32, #nn.dims<batch>>, tensor<?x8x2x8xf32, #nn.dims<batch>>, tensor<?x8x2x8xf32, #nn.dims<batch>>, tensor<?x1x1x8xf32, #nn.dims<batch>>
    return %y : tensor<?x8x2x8xf32, #nn.dims<batch>>
  }
}

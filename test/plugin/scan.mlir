// What the phases make of a plugin's operator: its gradient and its kernel.
//
// RUN: dt-opt %s --load-plugin=%plugins/Example.so --nn-verify-import | FileCheck %s
// RUN: dt-opt %s --load-plugin=%plugins/Example.so --pass-pipeline='builtin.module(dist.module(nn-differentiate))' | FileCheck %s --check-prefix=VJP
// RUN: dt-opt %s --load-plugin=%plugins/Example.so --pass-pipeline='builtin.module(dist.module(nn-differentiate),lower-nn-to-rt)' | FileCheck %s --check-prefix=KERNEL


dist.module @m {
  nn.dim @batch of "sample" max 4
  nn.parameter @decay : tensor<8xf32> trainable from #nn.onnx<"m.onnx", "decay">
  // CHECK: example.scan %{{.*}}, %{{.*}} {reverse = 1 : i64} : tensor<?x6x8xf32, #nn.dims<batch>>, tensor<8xf32>
  // VJP-LABEL: func.func @forward.bwd
  // VJP: %[[G:.*]] = example.scan %{{.*}}, %{{.*}} : tensor<?x6x8xf32, #nn.dims<batch>>, tensor<8xf32>
  // VJP: nn.slice
  // VJP: nn.reduce sum
  // VJP: nn.accumulate @decay
  // KERNEL: rt.kernel @scan [%{{.*}} < batch, %{{.*}} < 8]
  func.func @forward(%x: tensor<?x6x8xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss", nn.gradients = [#nn.gradient<loss = "l">]}) {
    %0 = nn.read @decay : tensor<8xf32>
    %1 = example.scan %x, %0 {reverse = 1 : i64} : tensor<?x6x8xf32, #nn.dims<batch>>, tensor<8xf32>
    %2 = nn.reduce sum %1 {axes = array<i64: 0, 1, 2>} : tensor<?x6x8xf32, #nn.dims<batch>>
    return %2 : tensor<f32>
  }
}

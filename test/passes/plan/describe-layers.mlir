// RUN: dt-opt %s --dist-describe-layers 2>&1 -o /dev/null | FileCheck %s --check-prefix=TP1
// RUN: dt-opt %s --dist-describe-layers="tp=2 save=all" 2>&1 -o /dev/null | FileCheck %s --check-prefix=TP2
// RUN: dt-opt %s --dist-describe-layers="tp=2 save=none" 2>&1 -o /dev/null | FileCheck %s --check-prefix=NONE
// RUN: dt-opt %s --dist-describe-layers="tp=16" 2>&1 -o /dev/null | FileCheck %s --check-prefix=TP16
// RUN: not dt-opt %s --dist-describe-layers="tp=3" 2>&1 | FileCheck %s --check-prefix=BADTP
// RUN: not dt-opt %s --dist-describe-layers="save=some" 2>&1 | FileCheck %s --check-prefix=BADSAVE

// A product is 2 * 4 * 8 FLOPs an item. Back there are two of a weight and one of the second product's input.
// TP1: layer 'embed' of one of 1 ranks, an item: forward linear 2x: 128 FLOPs, 352 bytes; fused 1x: 8 FLOPs, 64 bytes;
// TP1-SAME: sends nothing | gradients of inputs nothing | of weights
// TP1-SAME: linear 1x: 64 FLOPs
// TP1-SAME: linear_dw 2x: 128 FLOPs
// The input and the result of the tanh.
// TP1-SAME: keeps 48 bytes, 48 of them and 0 more for weights | needs {{[0-9]+}} bytes | 64 parameters

// Over two ranks all of it is half; the loss alone is summed, once for a part.
// TP2: layer 'embed' of one of 2 ranks, an item: forward linear 2x: 64 FLOPs, 192 bytes; fused 1x: 4 FLOPs, 32 bytes;
// TP2-SAME: sends all_reduce of 0 bytes
// TP2-SAME: linear_dw 2x: 64 FLOPs
// TP2-SAME: keeps 32 bytes, 32 of them and 0 more for weights | needs {{[0-9]+}} bytes | 32 parameters

// What the tanh takes is computed again, and only the input is kept.
// NONE: of weights
// NONE-SAME: linear 2x: 64 FLOPs
// NONE-SAME: keeps 16 bytes

// TP16: is not cut over 16 ranks
// BADTP: error: dist-describe-layers: tp: expected a power of two, not 3
// BADSAVE: error: dist-describe-layers: save: expected none, vjp or all, not 'some'

dist.module @m of "sample" {
  nn.dim @batch of "sample" max 4
  nn.parameter @up : tensor<8x4xf32> trainable from #nn.onnx<"m.onnx", "up">
  nn.parameter @down : tensor<4x8xf32> trainable from #nn.onnx<"m.onnx", "down">
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %up = nn.read @up : tensor<8x4xf32>
    %down = nn.read @down : tensor<4x8xf32>
    %0 = nn.linear %x, %up : tensor<?x4xf32, #nn.dims<batch>>, tensor<8x4xf32>
    %1 = nn.tanh %0 : tensor<?x8xf32, #nn.dims<batch>>
    %2 = nn.linear %1, %down : tensor<?x8xf32, #nn.dims<batch>>, tensor<4x8xf32>
    %l = nn.reduce sum %2 {axes = array<i64: 0, 1>} : tensor<?x4xf32, #nn.dims<batch>>
    return %l : tensor<f32>
  }
  func.func @d() -> tensor<f32> {
    %0 = nn.constant dense<1.0> : tensor<f32>
    return %0 : tensor<f32>
  }
}
dist.loss "l" in @m numerator "loss.l" denominator @d weight 1.0
dist.batch global 4 micro 4

// RUN: dt-opt %s | dt-opt | FileCheck %s
// RUN: dt-opt %s --emit-bytecode | dt-opt | FileCheck %s

// CHECK: dist.item "image" max 3
dist.item "image" max 3
// CHECK: dist.measure "patches" of "image" max 64 part 256 multiple 16
dist.measure "patches" of "image" max 64 part 256 multiple 16
// CHECK: dist.padding "llm" "labels" = -100
dist.padding "llm" "labels" = -100
// CHECK: dist.input "llm.input_ids" = {tokens = "ids"}
dist.input "llm.input_ids" = {tokens = "ids"}
// CHECK: dist.data {sequence = 40 : i64, special = ["<pad>", "<bos>"]}
dist.data {sequence = 40, special = ["<pad>", "<bos>"]}

// CHECK: dist.module @vision of "image" role encoder {
dist.module @vision of "image" role encoder {
  nn.dim @images of "image" max 6
  // CHECK: nn.parameter @w : tensor<8x4xf32> trainable from #nn.onnx<"vision.onnx", "w"> {no_decay}
  nn.parameter @w : tensor<8x4xf32> trainable from #nn.onnx<"vision.onnx", "w"> {no_decay}
  // CHECK: nn.parameter @b : tensor<8xf32> trainable from #nn.onnx<"vision.onnx", "b"> {lr_factor = 1.000000e-01 : f64, weight_decay = 0.000000e+00 : f64}
  nn.parameter @b : tensor<8xf32> trainable from #nn.onnx<"vision.onnx", "b"> {lr_factor = 0.1, weight_decay = 0.0}
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<images>> {nn.name = "pixels"}) -> (tensor<?x8xf32, #nn.dims<images>> {nn.name = "embeds"}) {
    %w = nn.read @w : tensor<8x4xf32>
    %y = nn.linear %x, %w : tensor<?x4xf32, #nn.dims<images>>, tensor<8x4xf32>
    return %y : tensor<?x8xf32, #nn.dims<images>>
  }
}
// CHECK: dist.module @llm of "sample" role backbone {
dist.module @llm of "sample" role backbone {
  nn.dim @pictures of "image" max 6
  nn.parameter @wte : tensor<4x8xf32> trainable from #nn.init<"normal(0,0.02)", "llm.onnx", "wte">
  nn.parameter @head : tensor<4x8xf32> trainable from #nn.onnx<"llm.onnx", "head">
  func.func @forward(%e: tensor<?x8xf32, #nn.dims<pictures>> {nn.name = "image_embeds"}) -> (tensor<f32> {nn.name = "loss.text"}) {
    %s = nn.reduce sum %e {axes = array<i64: 0, 1>} : tensor<?x8xf32, #nn.dims<pictures>>
    return %s : tensor<f32>
  }
  func.func @text.denominator(%labels: tensor<2x40xi64> {nn.name = "labels"}) -> tensor<f32> {
    %0 = nn.constant dense<1.0> : tensor<f32>
    return %0 : tensor<f32>
  }
}
// CHECK: dist.module @contrast role head whole_batch {
dist.module @contrast role head whole_batch {
}
// CHECK: dist.edge @vision "embeds" to @llm "image_embeds"
dist.edge @vision "embeds" to @llm "image_embeds"
// CHECK: dist.tie @llm::@head = @llm::@wte
dist.tie @llm::@head = @llm::@wte
// CHECK: dist.loss "text" in @llm numerator "loss.text" denominator @text.denominator weight 1.0
dist.loss "text" in @llm numerator "loss.text" denominator @text.denominator weight 1.0
// CHECK: dist.optimizer adamw {beta2 = 5.000000e-01 : f64} lr 1.000000e-03 schedule linear {clip = 1.000000e+00 : f64}
dist.optimizer adamw {beta2 = 0.5} lr 1.0e-3 schedule linear {clip = 1.0}
// CHECK: dist.batch global 8 micro 2
dist.batch global 8 micro 2
// CHECK: dist.seed 7
dist.seed 7
// CHECK: dist.module @stage attributes {dp = 2 : i64, ranks = array<i64: 2, 3, 4, 5>, stage = 1 : i64, tp = 2 : i64, unit = "gpt", zero = 1 : i64}
dist.module @stage attributes {unit = "gpt", stage = 1 : i64, tp = 2 : i64, dp = 2 : i64, ranks = array<i64: 2, 3, 4, 5>, zero = 1 : i64} {
}
// CHECK: dist.plan ranks 12 schedule "1f1b" pace @gpt reorder "both" bucket 4194304 depth 2 narrow_sums
dist.plan ranks 12 schedule "1f1b" pace @gpt reorder "both" bucket 4194304 depth 2 narrow_sums

// CHECK-LABEL: dist.module @linked
// CHECK-NEXT: dist.forward @layer.fwd input @layer.bwd.input weight @layer.bwd.weight of @layer
// CHECK-NEXT: dist.forward @forward.fwd backward @forward.bwd
dist.module @linked {
  dist.forward @layer.fwd input @layer.bwd.input weight @layer.bwd.weight of @layer
  dist.forward @forward.fwd backward @forward.bwd
  func.func private @layer()
  func.func private @layer.fwd()
  func.func private @layer.bwd.input()
  func.func private @layer.bwd.weight()
  func.func @forward.fwd() { return }
  func.func @forward.bwd() { return }
}

// CHECK: dist.module @half precision bf16 save none
dist.module @half precision bf16 save none {}
// CHECK: dist.module @cut saves [none, all] attributes {overlap = 2 : i64, pp = 2 : i64, times = #dist.times<"profile.json", [
dist.module @cut saves [none, all] attributes {pp = 2 : i64, overlap = 2 : i64, times = #dist.times<"profile.json", [[1, 2], [3, 4]]>} {}

// RUN: dt-opt %s --lower-nn-to-rt --cse --rt-plan-memory --lower-program --rt-place-waits --rt-verify-lowered | FileCheck %s

// Two modules, an edge, a loss, two microbatches of up to 2 samples.

dist.batch global 3 micro 2
dist.seed 7
dist.optimizer adamw lr 1.0e-3 {weight_decay = 0.01 : f64}
dist.edge @vision "embeds" to @llm "embeds"
dist.loss "text" in @llm numerator "num" denominator @text.denominator weight 0.5
dist.data {sequence = 40}
dist.input "llm.labels" = {tokens = "labels"}

dist.module @llm {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 2
  nn.parameter @scale : tensor<64xf32> trainable from #nn.onnx<"llm.onnx", "scale"> {no_decay, weight_decay = 0.5, lr_factor = 2.0, routing_rate = 0.125}
  func.func @forward.fwd(%e: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "embeds"}, %l: tensor<?xi64, #nn.dims<batch>> {nn.name = "labels"}) -> (tensor<f32> {nn.name = "num"}, tensor<?x64xf32, #nn.dims<batch>> {nn.residual}) {
    %s = nn.read @scale : tensor<64xf32>
    %h = nn.mul %e, %s : tensor<?x64xf32, #nn.dims<batch>>, tensor<64xf32>
    %0 = nn.reduce sum %h {axes = array<i64: 0, 1>} : tensor<?x64xf32, #nn.dims<batch>>
    return %0, %h : tensor<f32>, tensor<?x64xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd(%e: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "embeds"}, %h: tensor<?x64xf32, #nn.dims<batch>> {nn.residual}, %seed: tensor<f32> {nn.gradient = #nn.gradient<of = "num", loss = "text">}) -> (tensor<?x64xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "embeds">}) {
    %s = nn.read @scale : tensor<64xf32>
    %0 = nn.broadcast %s : tensor<64xf32> to tensor<?x64xf32, #nn.dims<batch>>
    %1 = nn.mul %0, %seed : tensor<?x64xf32, #nn.dims<batch>>, tensor<f32>
    %2 = nn.mul %e, %seed : tensor<?x64xf32, #nn.dims<batch>>, tensor<f32>
    %3 = nn.reduce sum %2 {axes = array<i64: 0>} : tensor<?x64xf32, #nn.dims<batch>>
    nn.accumulate @scale, %3 : tensor<64xf32>
    return %1 : tensor<?x64xf32, #nn.dims<batch>>
  }
  func.func @text.denominator(%l: tensor<?xi64, #nn.dims<batch>> {nn.name = "labels"}) -> tensor<f32> {
    %0 = nn.cast %l : tensor<?xi64, #nn.dims<batch>> to tensor<?xf32, #nn.dims<batch>>
    %1 = nn.reduce sum %0 {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    return %1 : tensor<f32>
  }
}
dist.module @vision {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @images of "sample" max 2
  nn.parameter @table : tensor<4xf32> buffer from #nn.onnx<"vision.onnx", "table">
  nn.parameter @w : tensor<64x32xf32> trainable from #nn.init<"normal(0, 0.02)", "vision.onnx", "w"> {lr_factor = 0.5, weight_decay = 0.25}
  func.func @forward.fwd(%p: tensor<?x32xf32, #nn.dims<images>> {nn.name = "pixels"}) -> (tensor<?x64xf32, #nn.dims<images>> {nn.name = "embeds"}) {
    %w = nn.read @w : tensor<64x32xf32>
    %0 = nn.linear %p, %w : tensor<?x32xf32, #nn.dims<images>>, tensor<64x32xf32>
    return %0 : tensor<?x64xf32, #nn.dims<images>>
  }
  func.func @forward.bwd(%p: tensor<?x32xf32, #nn.dims<images>> {nn.name = "pixels"}, %g: tensor<?x64xf32, #nn.dims<images>> {nn.gradient = #nn.gradient<of = "embeds", edge = "llm.embeds">}) {
    %0 = nn.linear_dw %p, %g : tensor<?x32xf32, #nn.dims<images>>, tensor<?x64xf32, #nn.dims<images>>
    nn.accumulate @w, %0 : tensor<64x32xf32>
    return
  }
}

// What the runtime reads stays; modules in order of the edges.
// CHECK: dist.data
// CHECK: dist.input
// CHECK: rt.program @program batch 3 micro 2 seed 7 pace @vision {
// CHECK: rt.module @vision ranks [0] arena [[ARENA:[0-9]+]] scratch 0 parameters 8256 trainable 8192 {
// CHECK: rt.symbol @images of "sample" max 2
// Frozen parameters stand behind trained ones.
// CHECK: rt.parameter_decl @table : !rt.buffer<f32, [4]> index 1 at 8192 from [#nn.onnx<"vision.onnx", "table">]
// CHECK: rt.parameter_decl @w : !rt.buffer<f32, [64, 32]> index 0 at 0 trainable gradient decay by 2.500000e-01 lr_factor 5.000000e-01 init "normal(0, 0.02)" from [#nn.onnx<"vision.onnx", "w">]
// CHECK: rt.buffer_decl @pixels : !rt.buffer<f32, [images, 32]> at 0 stride 0
// CHECK: rt.buffer_decl @embeds : !rt.buffer<f32, [images, 64]> at 256 stride 0
// CHECK: rt.buffer_decl @grad.llm.embeds : !rt.buffer<f32, [images, 64]> at 768 stride 0
// CHECK: rt.input "pixels" @pixels
// CHECK: rt.output "embeds" @embeds
// CHECK: rt.entry forward @forward.fwd [@pixels, @embeds]
// CHECK: rt.entry backward @forward.bwd [@pixels, @grad.llm.embeds]
// CHECK: rt.module @llm ranks [0] arena {{[0-9]+}} scratch {{[0-9]+}} parameters 256 trainable 256 {
// CHECK: rt.parameter_decl @scale : !rt.buffer<f32, [64]> index 2 at 0 trainable gradient lr_factor 2.000000e+00 routing 1.250000e-01 from
// What an edge brings has slots of its own.
// CHECK: rt.buffer_decl @embeds : !rt.buffer<f32, [batch, 64]> at 0 stride 0 received
// CHECK: rt.buffer_decl @saved0
// CHECK: rt.buffer_decl @text.denominator_1
// CHECK: rt.buffer_decl @grad.embeds : !rt.buffer<f32, [batch, 64]> at {{[0-9]+}} stride 0
// CHECK: rt.input "embeds" @embeds from @vision {output = 0 : i64}
// CHECK: rt.input "labels" @labels
// CHECK: rt.entry forward @forward.fwd [@embeds, @labels, @num, @saved0]
// CHECK: rt.entry backward @forward.bwd [@embeds, @saved0, @grad.embeds]
// CHECK: rt.entry denominator @text.denominator [@labels, @text.denominator_1]
// CHECK: rt.edge @vision 0 to @llm 0 gradient @grad.embeds to @grad.llm.embeds
// CHECK: rt.loss @text weight 5.000000e-01 of @llm @num over @text.denominator @text.denominator_1 reads [1]
// CHECK: rt.optimizer {{.*}}kind = "adamw"
// CHECK: rt.rank 0 {
// CHECK-NEXT: rt.task denominator @text microbatch 0 slot 0
// CHECK-NEXT: rt.task denominator @text microbatch 1 slot 0
// CHECK-NEXT: rt.task forward @vision microbatch 0 slot 0
// CHECK-NEXT: rt.task copy edge 0 microbatch 0 slot 0
// CHECK-NEXT: rt.task forward @llm microbatch 0 slot 0
// CHECK-NEXT: rt.task backward @llm microbatch 0 slot 0
// CHECK-NEXT: rt.task copy edge 0 microbatch 0 slot 0 gradient
// CHECK-NEXT: rt.task backward @vision microbatch 0 slot 0
// CHECK-NEXT: rt.task forward @vision microbatch 1 slot 0
// CHECK-NEXT: rt.task copy edge 0 microbatch 1 slot 0
// CHECK-NEXT: rt.task forward @llm microbatch 1 slot 0
// CHECK-NEXT: rt.task backward @llm microbatch 1 slot 0
// CHECK-NEXT: rt.task copy edge 0 microbatch 1 slot 0 gradient
// CHECK-NEXT: rt.task reduce @llm microbatch 0 slot 0
// CHECK-NEXT: rt.task backward @vision microbatch 1 slot 0
// CHECK-NEXT: rt.task reduce @vision microbatch 0 slot 0
// CHECK-NEXT: }

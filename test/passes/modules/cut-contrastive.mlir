// RUN: dt-opt %s --dist-cut-contrastive --dist-verify-modules | FileCheck %s
// RUN: sed 's/micro 2/micro 8/' %s | dt-opt --dist-cut-contrastive | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/micro 2/micro 8/; s/role backbone {/role backbone precision bf16 {/' %s | dt-opt --dist-cut-contrastive | FileCheck %s --check-prefix=NARROW

// The comparison is float32 where the towers are not, whatever the microbatch.
// NARROW: dist.module @model of "sample" role tower precision bf16 
// NARROW: dist.module @model_head of "sample" role head whole_batch origin "model" {

// With one microbatch nothing is cut.
// WHOLE-NOT: whole_batch

// CHECK: dist.module @model of "sample" role tower {
// CHECK-NOT: @logit_scale
// CHECK: func.func @forward
// CHECK-SAME: (%{{.*}}: {{.*}} {nn.name = "text"}, %{{.*}}: {{.*}} {nn.name = "image"})
// CHECK-SAME: -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "image_embeds"}, tensor<?x4xf32, #nn.dims<batch>> {nn.name = "cut.0"})
// CHECK-NOT: nn.matmul
// CHECK: dist.module @model_head of "sample" role head whole_batch origin "model" {
// CHECK: nn.dim @batch of "sample" max 8
// CHECK: nn.parameter @logit_scale
// CHECK: func.func @forward(%{{.*}}: {{.*}} {nn.name = "image_embeds"}, %{{.*}}: {{.*}} {nn.name = "cut.0"})
// CHECK-SAME: -> (tensor<?x?xf32, #nn.dims<batch, batch>> {nn.name = "logits"}, tensor<f32> {nn.name = "loss.c"})
// CHECK: nn.generate
// CHECK: func.func @c.denominator
// CHECK-DAG: dist.edge @model "image_embeds" to @model_head "image_embeds"
// CHECK-DAG: dist.edge @model "cut.0" to @model_head "cut.0"
// CHECK-DAG: dist.loss "c" in @model_head numerator "loss.c" denominator @c.denominator
dist.module @model of "sample" role backbone {
  nn.dim @batch of "sample" max 2
  nn.parameter @wt : tensor<4x8xf32> trainable from #nn.onnx<"m.onnx", "wt">
  nn.parameter @wi : tensor<4x8xf32> trainable from #nn.onnx<"m.onnx", "wi">
  nn.parameter @logit_scale : tensor<f32> trainable from #nn.onnx<"m.onnx", "logit_scale">
  func.func @forward(%text: tensor<?x8xf32, #nn.dims<batch>> {nn.name = "text"}, %image: tensor<?x8xf32, #nn.dims<batch>> {nn.name = "image"})
      -> (tensor<?x?xf32, #nn.dims<batch, batch>> {nn.name = "logits"}, tensor<?x4xf32, #nn.dims<batch>> {nn.name = "image_embeds"}, tensor<f32> {nn.name = "loss.c"}) {
    %wt = nn.read @wt : tensor<4x8xf32>
    %wi = nn.read @wi : tensor<4x8xf32>
    %t = nn.linear %text, %wt : tensor<?x8xf32, #nn.dims<batch>>, tensor<4x8xf32>
    %i = nn.linear %image, %wi : tensor<?x8xf32, #nn.dims<batch>>, tensor<4x8xf32>
    %scale = nn.read @logit_scale : tensor<f32>
    %s = nn.exp %scale : tensor<f32>
    %it = nn.transpose %i [1, 0] : tensor<?x4xf32, #nn.dims<batch>>
    %p = nn.matmul %t, %it : tensor<?x4xf32, #nn.dims<batch>>, tensor<4x?xf32, #nn.dims<batch>>
    %logits = nn.mul %p, %s : tensor<?x?xf32, #nn.dims<batch, batch>>, tensor<f32>
    %labels = nn.generate : tensor<?xi64, #nn.dims<batch>> {
    ^bb0(%k: index):
      %0 = arith.index_cast %k : index to i64
      nn.yield %0 : i64
    }
    %rows = nn.cross_entropy %logits, %labels : tensor<?x?xf32, #nn.dims<batch, batch>>, tensor<?xi64, #nn.dims<batch>>
    %sum = nn.reduce sum %rows {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    return %logits, %i, %sum : tensor<?x?xf32, #nn.dims<batch, batch>>, tensor<?x4xf32, #nn.dims<batch>>, tensor<f32>
  }
  func.func @c.denominator() -> tensor<f32> {
    %0 = nn.constant dense<1.0> : tensor<f32>
    return %0 : tensor<f32>
  }
}
dist.loss "c" in @model numerator "loss.c" denominator @c.denominator weight 1.0
dist.batch global 8 micro 2

// An encoder of images (at most 3 a sample), and what reads their embeddings.
module {
  dist.item "image" max 3
  dist.module @vision of "image" role encoder {
    nn.dim @images of "image" max 12
    nn.parameter @w : tensor<8x8xf32> trainable from #nn.onnx<"m.onnx", "w">
    func.func @forward(%x: tensor<?x8xf32, #nn.dims<images>> {nn.name = "pixels"}) -> (tensor<?x8xf32, #nn.dims<images>> {nn.name = "embeds"}) {
      %w = nn.read @w : tensor<8x8xf32>
      %y = nn.linear %x, %w : tensor<?x8xf32, #nn.dims<images>>, tensor<8x8xf32>
      return %y : tensor<?x8xf32, #nn.dims<images>>
    }
  }
  dist.module @llm of "sample" role backbone {
    nn.dim @batch of "sample" max 4
    nn.dim @images of "image" max 12
    nn.parameter @w : tensor<8x8xf32> trainable from #nn.onnx<"m.onnx", "w">
    func.func @forward(%x: tensor<?x8xf32, #nn.dims<batch>> {nn.name = "x"}, %e: tensor<?x8xf32, #nn.dims<images>> {nn.name = "embeds"}, %table: tensor<8x8xf32> {nn.name = "table"}) -> (tensor<f32> {nn.name = "loss"}) {
      %w = nn.read @w : tensor<8x8xf32>
      %t = nn.matmul %w, %table : tensor<8x8xf32>, tensor<8x8xf32>
      %y = nn.linear %x, %t : tensor<?x8xf32, #nn.dims<batch>>, tensor<8x8xf32>
      %z = nn.linear %e, %w : tensor<?x8xf32, #nn.dims<images>>, tensor<8x8xf32>
      %a = nn.reduce sum %y {axes = array<i64: 0, 1>} : tensor<?x8xf32, #nn.dims<batch>>
      %b = nn.reduce sum %z {axes = array<i64: 0, 1>} : tensor<?x8xf32, #nn.dims<images>>
      %l = nn.add %a, %b : tensor<f32>, tensor<f32>
      return %l : tensor<f32>
    }
  }
  dist.module @table of "sample" {
    nn.dim @batch of "sample" max 4
    nn.parameter @w : tensor<8x8xf32> trainable from #nn.onnx<"m.onnx", "w">
    func.func @forward() -> (tensor<8x8xf32> {nn.name = "table"}) {
      %w = nn.read @w : tensor<8x8xf32>
      %t = nn.gelu %w : tensor<8x8xf32>
      return %t : tensor<8x8xf32>
    }
  }
  dist.edge @vision "embeds" to @llm "embeds"
  dist.edge @table "table" to @llm "table"
  dist.loss "loss" in @llm numerator "loss" weight 1.0
  dist.optimizer adamw lr 1.000000e-03
  dist.batch global 8 micro 4
}

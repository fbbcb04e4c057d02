// RUN: dt-opt %s --dist-round-rows -split-input-file 2>%t.said | FileCheck %s
// RUN: FileCheck %s --check-prefix=SAID --input-file=%t.said

// Ranks that share rows out: sizes and the bound follow. Blocks are smaller where rows are few.
// CHECK-LABEL: dist.module @m
// CHECK: nn.dim @seq of "sample" measure "tokens" largest 64 multiple 64 max 32
// CHECK: func.func @forward(%{{.*}}: tensor<?x8xf32, #nn.dims<128*seq>>
// CHECK: nn.reshape {{.*}} to tensor<?x16xf32, #nn.dims<64*seq>>
dist.measure "tokens" of "sample" max 64
dist.module @m of "sample" attributes {tp = 2 : i64, cp = 2 : i64, sequence_parallel} {
  nn.dim @seq of "sample" measure "tokens" largest 64 max 2048
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<"2*seq">> {nn.name = "x"}) -> (tensor<?x16xf32, #nn.dims<seq>> {nn.name = "y"}) {
    %0 = nn.reshape %x : tensor<?x8xf32, #nn.dims<"2*seq">> to tensor<?x16xf32, #nn.dims<seq>>
    return %0 : tensor<?x16xf32, #nn.dims<seq>>
  }
}

// -----

// What the recipe has is kept; a plan makes a common multiple of it. What is rounded is rounded once.
// CHECK-LABEL: dist.module @said
// CHECK: nn.dim @seq of "sample" measure "tokens" largest 64 multiple 48 max 6
// CHECK-LABEL: dist.module @both
// CHECK: nn.dim @seq of "sample" measure "tokens" largest 64 multiple 240 max 2
dist.measure "tokens" of "sample" max 64 multiple 48
dist.module @said of "sample" {
  nn.dim @seq of "sample" measure "tokens" largest 64 max 256
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<seq>> {nn.name = "x"}) -> (tensor<?x8xf32, #nn.dims<seq>> {nn.name = "y"}) {
    return %x : tensor<?x8xf32, #nn.dims<seq>>
  }
}
dist.module @both of "sample" attributes {cp = 5 : i64} {
  nn.dim @seq of "sample" measure "tokens" largest 64 multiple 48 max 6
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<"48*seq">> {nn.name = "x"}) -> (tensor<?x8xf32, #nn.dims<"48*seq">> {nn.name = "y"}) {
    return %x : tensor<?x8xf32, #nn.dims<"48*seq">>
  }
}

// -----

// Rows stay as they are where those behind the last item's would reach others.
// CHECK-LABEL: dist.module @written
// CHECK: nn.dim @seq of "sample" measure "tokens" largest 64 max 256
// SAID: rows of 'sample.tokens' are not rounded up to a multiple of 8, so that 2 ranks do not share them out: those behind the last item's are nobody's, but 'nn.scatter_nd'{{.*}} writes where they say
dist.measure "tokens" of "sample" max 64
dist.module @written of "sample" attributes {cp = 2 : i64} {
  nn.dim @seq of "sample" measure "tokens" largest 64 max 256
  func.func @forward(%x: tensor<16x8xf32> {nn.name = "x"}, %at: tensor<?x1xi64, #nn.dims<seq>> {nn.name = "at"}, %y: tensor<?x8xf32, #nn.dims<seq>> {nn.name = "y"}) -> (tensor<16x8xf32> {nn.name = "z"}) {
    %0 = nn.scatter_nd set %x at %at, %y : tensor<16x8xf32>, tensor<?x1xi64, #nn.dims<seq>>, tensor<?x8xf32, #nn.dims<seq>>
    return %0 : tensor<16x8xf32>
  }
}

// -----

// Rows of other items may not be there.
// CHECK-LABEL: dist.module @read
// SAID: but 'nn.gather'{{.*}} reads rows of other items where they say
dist.item "image" max 2
dist.measure "tokens" of "sample" max 64
dist.module @read of "sample" attributes {cp = 2 : i64} {
  nn.dim @seq of "sample" measure "tokens" largest 64 max 256
  nn.dim @images of "image" max 8
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<images>> {nn.name = "x"}, %at: tensor<?xi64, #nn.dims<seq>> {nn.name = "at"}) -> (tensor<?x8xf32, #nn.dims<seq>> {nn.name = "z"}) {
    %0 = nn.gather %x at %at {axis = 0} : tensor<?x8xf32, #nn.dims<images>>, tensor<?xi64, #nn.dims<seq>>
    return %0 : tensor<?x8xf32, #nn.dims<seq>>
  }
}

// -----

// A routing bias counts what they choose.
// CHECK-LABEL: dist.module @chosen
// SAID: but 'nn.balance'{{.*}} counts them
dist.measure "tokens" of "sample" max 64
dist.module @chosen of "sample" attributes {cp = 2 : i64} {
  nn.dim @seq of "sample" measure "tokens" largest 64 max 256
  func.func @forward(%x: tensor<?x2xf32, #nn.dims<seq>> {nn.name = "x"}, %bias: tensor<4xf32> {nn.name = "bias"}, %ids: tensor<?x2xi64, #nn.dims<seq>> {nn.name = "ids"}) -> (tensor<?x2xf32, #nn.dims<seq>> {nn.name = "y"}) {
    %0 = nn.balance %x, %bias by %ids : tensor<?x2xf32, #nn.dims<seq>>, tensor<4xf32>, tensor<?x2xi64, #nn.dims<seq>>
    return %0 : tensor<?x2xf32, #nn.dims<seq>>
  }
}

// -----

// A loss counts them, unless it leaves out what has no label.
// CHECK-LABEL: dist.module @counted
// SAID: but loss 'l' adds them up
// CHECK-LABEL: dist.module @ignored
// CHECK: nn.dim @seq of "sample" measure "tokens" largest 64 multiple 8 max 32
dist.measure "tokens" of "sample" max 64
dist.module @counted of "sample" attributes {cp = 2 : i64} {
  nn.dim @seq of "sample" measure "tokens" largest 64 max 256
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<seq>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %0 = nn.reduce sum %x {axes = array<i64: 0, 1>} : tensor<?x8xf32, #nn.dims<seq>>
    %1 = nn.mul %0, %0 : tensor<f32>, tensor<f32>
    return %1 : tensor<f32>
  }
}
dist.module @ignored of "sample" attributes {cp = 2 : i64} {
  nn.dim @seq of "sample" measure "tokens" largest 64 max 256
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<seq>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss.m"}) {
    %0 = nn.reduce sum %x {axes = array<i64: 0, 1>} : tensor<?x8xf32, #nn.dims<seq>>
    return %0 : tensor<f32>
  }
}
dist.loss "l" in @counted numerator "loss.l" weight 1.0
dist.loss "m" in @ignored numerator "loss.m" weight 1.0 {ignores_padding}

// -----

// Replicas that share out experts have as many samples each, without any made up.
// CHECK-LABEL: dist.module @joined
// CHECK-SAME: joined = 2
// CHECK: nn.dim @n of "sample" multiple 2 max 2
// CHECK: func.func @forward(%{{.*}}: tensor<?x8xf32, #nn.dims<2*n>>
dist.batch global 8 micro 8
dist.module @joined of "sample" attributes {joined = 2 : i64, dp = 2 : i64, ep = 2 : i64} {
  nn.dim @n of "sample" max 4
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<n>> {nn.name = "x"}) -> (tensor<?x8xf32, #nn.dims<n>> {nn.name = "y"}) {
    return %x : tensor<?x8xf32, #nn.dims<n>>
  }
}

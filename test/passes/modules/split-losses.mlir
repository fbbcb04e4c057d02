// RUN: dt-opt %s --dist-split-losses -split-input-file | FileCheck %s

// Sum over count: llama_loss_gather's form, with the count clipped. The bound is
// one of the sum over all parts.
// CHECK-LABEL: dist.module @m
dist.module @m {
  nn.dim @batch of "sample" max 2
  nn.parameter @w : tensor<8x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  // CHECK: func.func @forward
  // CHECK-SAME: -> (tensor<?xf32, #nn.dims<batch>> {nn.name = "rows"}, tensor<f32> {nn.name = "loss.text"})
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %labels: tensor<?xi64, #nn.dims<batch>> {nn.name = "labels"})
      -> (tensor<?xf32, #nn.dims<batch>> {nn.name = "rows"}, tensor<f32> {nn.name = "loss.text"}) {
    %w = nn.read @w : tensor<8x4xf32>
    %logits = nn.linear %x, %w : tensor<?x4xf32, #nn.dims<batch>>, tensor<8x4xf32>
    // CHECK: %[[ROWS:.*]] = nn.cross_entropy
    %rows = nn.cross_entropy %logits, %labels : tensor<?x8xf32, #nn.dims<batch>>, tensor<?xi64, #nn.dims<batch>>
    // CHECK: %[[SUM:.*]] = nn.reduce sum %[[ROWS]]
    %sum = nn.reduce sum %rows {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    %ignore = nn.constant dense<-100> : tensor<i64>
    %valid = nn.cmp ne %labels, %ignore : tensor<?xi64, #nn.dims<batch>>, tensor<i64>
    %ones = nn.cast %valid : tensor<?xi1, #nn.dims<batch>> to tensor<?xi64, #nn.dims<batch>>
    %count = nn.reduce sum %ones {axes = array<i64: 0>} : tensor<?xi64, #nn.dims<batch>>
    %one = nn.constant dense<1> : tensor<i64>
    %clipped = nn.max %count, %one : tensor<i64>, tensor<i64>
    %den = nn.cast %clipped : tensor<i64> to tensor<f32>
    %loss = nn.div %sum, %den : tensor<f32>, tensor<f32>
    // CHECK: return %[[ROWS]], %[[SUM]]
    return %rows, %loss : tensor<?xf32, #nn.dims<batch>>, tensor<f32>
  }
  // CHECK: func.func @text.denominator(%{{.*}}: tensor<?xi64, #nn.dims<batch>> {nn.name = "labels"}) -> tensor<f32>
  // CHECK: nn.reduce sum
  // CHECK-NOT: nn.max
  // CHECK: return
}
// CHECK: dist.loss "text" in @m numerator "loss.text" denominator @text.denominator weight 5.000000e-01 {at_least = 1.000000e+00 : f64}
dist.loss "text" in @m numerator "loss.text" weight 0.5
dist.batch global 4 micro 2

// -----

// A mean, negated and scaled: sum and number of elements. The sign and the factor
// stay in the graph, so that the term is reported with them.
// CHECK-LABEL: dist.module @m
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    // CHECK: %[[SUM:.*]] = nn.reduce sum %{{.*}} {axes = array<i64: 0, 1>}
    %mean = nn.reduce mean %x {axes = array<i64: 0, 1>} : tensor<?x4xf32, #nn.dims<batch>>
    %neg = nn.neg %mean : tensor<f32>
    %half = nn.constant dense<0.5> : tensor<f32>
    %loss = nn.mul %neg, %half : tensor<f32>, tensor<f32>
    // CHECK: %[[C:.*]] = nn.constant dense<-5.000000e-01>
    // CHECK: %[[L:.*]] = nn.mul %[[SUM]], %[[C]]
    // CHECK: return %[[L]]
    return %loss : tensor<f32>
  }
  // CHECK: func.func @l.denominator() -> tensor<f32>
  // CHECK: nn.size <4*batch>
}
// CHECK: dist.loss "l" in @m numerator "loss.l" denominator @l.denominator weight 1.000000e+00
dist.loss "l" in @m numerator "loss.l" weight 1.0
dist.batch global 4 micro 2

// -----

// Two quotients become two losses; a plain sum counts once, whatever the number of parts.
// CHECK-LABEL: dist.module @m
// CHECK: nn.constant dense<-1.000000e+00>
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %mean = nn.reduce mean %x {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    %square = nn.mul %x, %x : tensor<?xf32, #nn.dims<batch>>, tensor<?xf32, #nn.dims<batch>>
    %sum = nn.reduce sum %square {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    %loss = nn.sub %mean, %sum : tensor<f32>, tensor<f32>
    return %loss : tensor<f32>
  }
}
// CHECK-DAG: dist.loss "l.0" in @m numerator "loss.l.0" denominator @l.0.denominator weight 1.000000e+00
// CHECK-DAG: dist.loss "l.1" in @m numerator "loss.l.1" weight 1.000000e+00
dist.loss "l" in @m numerator "loss.l" weight 1.0
dist.batch global 4 micro 2

// -----

// A guard for a count of 0, and a learned weight.
// CHECK-LABEL: dist.module @m
dist.module @m {
  nn.dim @batch of "sample" max 2
  nn.parameter @s : tensor<f32> trainable from #nn.onnx<"m.onnx", "s">
  // CHECK: func.func @forward
  func.func @forward(%x: tensor<?xf32, #nn.dims<batch>> {nn.name = "x"}, %mask: tensor<?xi1, #nn.dims<batch>> {nn.name = "mask"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %zero = nn.constant dense<0.0> : tensor<f32>
    %m = nn.cast %mask : tensor<?xi1, #nn.dims<batch>> to tensor<?xf32, #nn.dims<batch>>
    %masked = nn.mul %x, %m : tensor<?xf32, #nn.dims<batch>>, tensor<?xf32, #nn.dims<batch>>
    %sum = nn.reduce sum %masked {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    %count = nn.reduce sum %m {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    %some = nn.cmp gt %count, %zero : tensor<f32>, tensor<f32>
    %mean = nn.div %sum, %count : tensor<f32>, tensor<f32>
    %guarded = nn.where %some, %mean, %zero : tensor<i1>, tensor<f32>, tensor<f32>
    %s = nn.read @s : tensor<f32>
    // CHECK: %[[S:.*]] = nn.exp
    %e = nn.exp %s : tensor<f32>
    %loss = nn.mul %e, %guarded : tensor<f32>, tensor<f32>
    // CHECK: %[[R:.*]] = nn.mul %{{.*}}, %[[S]]
    // CHECK: return %[[R]]
    return %loss : tensor<f32>
  }
}
// CHECK: dist.loss "l" in @m numerator "loss.l" denominator @l.denominator weight 1.000000e+00
dist.loss "l" in @m numerator "loss.l" weight 1.0
dist.batch global 4 micro 2

// -----

// A condition that knows no items stays around the sum.
// CHECK-LABEL: dist.module @m
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?xf32, #nn.dims<batch>> {nn.name = "x"}, %flag: tensor<i1> {nn.name = "flag"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %mean = nn.reduce mean %x {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    %zero = nn.constant dense<0.0> : tensor<f32>
    // CHECK: %[[S:.*]] = nn.reduce sum
    // CHECK: %[[L:.*]] = nn.where %arg1, %[[S]], %
    // CHECK: return %[[L]]
    %loss = nn.where %flag, %mean, %zero : tensor<i1>, tensor<f32>, tensor<f32>
    return %loss : tensor<f32>
  }
}
// CHECK: dist.loss "l" in @m numerator "loss.l" denominator @l.denominator weight 1.000000e+00
dist.loss "l" in @m numerator "loss.l" weight 1.0
dist.batch global 4 micro 2

// -----

// A condition on the whole batch other than that there is nothing to count: not split.
// CHECK-LABEL: dist.module @m
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?xf32, #nn.dims<batch>> {nn.name = "x"}, %mask: tensor<?xi1, #nn.dims<batch>> {nn.name = "mask"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %sum = nn.reduce sum %x {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    %m = nn.cast %mask : tensor<?xi1, #nn.dims<batch>> to tensor<?xf32, #nn.dims<batch>>
    %count = nn.reduce sum %m {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    %zero = nn.constant dense<0.0> : tensor<f32>
    %ten = nn.constant dense<10.0> : tensor<f32>
    %many = nn.cmp gt %count, %ten : tensor<f32>, tensor<f32>
    %mean = nn.div %sum, %count : tensor<f32>, tensor<f32>
    // CHECK: %[[L:.*]] = nn.where
    // CHECK: return %[[L]]
    %loss = nn.where %many, %mean, %zero : tensor<i1>, tensor<f32>, tensor<f32>
    return %loss : tensor<f32>
  }
}
// CHECK: dist.loss "l" in @m numerator "loss.l" weight 1.000000e+00
dist.loss "l" in @m numerator "loss.l" weight 1.0
dist.batch global 4 micro 2

// -----

// A count that is cut off above is no sum: not split.
// CHECK-LABEL: dist.module @m
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?xf32, #nn.dims<batch>> {nn.name = "x"}, %mask: tensor<?xi1, #nn.dims<batch>> {nn.name = "mask"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %sum = nn.reduce sum %x {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    %m = nn.cast %mask : tensor<?xi1, #nn.dims<batch>> to tensor<?xf32, #nn.dims<batch>>
    %count = nn.reduce sum %m {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    %ten = nn.constant dense<10.0> : tensor<f32>
    %many = nn.cmp gt %count, %ten : tensor<f32>, tensor<f32>
    %few = nn.where %many, %ten, %count : tensor<i1>, tensor<f32>, tensor<f32>
    // CHECK: %[[L:.*]] = nn.div
    // CHECK: return %[[L]]
    %loss = nn.div %sum, %few : tensor<f32>, tensor<f32>
    return %loss : tensor<f32>
  }
}
// CHECK: dist.loss "l" in @m numerator "loss.l" weight 1.000000e+00
dist.loss "l" in @m numerator "loss.l" weight 1.0
dist.batch global 4 micro 2

// -----

// Bounds and numbers added apply to the sum over all parts, of whatever is summed: 2 (max(n, 4) + 0.5).
// CHECK-LABEL: dist.module @m
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %sum = nn.reduce sum %x {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    %four = nn.constant dense<4.0> : tensor<f32>
    %half = nn.constant dense<0.5> : tensor<f32>
    %two = nn.constant dense<2.0> : tensor<f32>
    %weights = nn.reduce sum %x {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    %a = nn.max %weights, %four : tensor<f32>, tensor<f32>
    %b = nn.add %a, %half : tensor<f32>, tensor<f32>
    %c = nn.mul %b, %two : tensor<f32>, tensor<f32>
    // CHECK: nn.constant dense<5.000000e-01>
    %loss = nn.div %sum, %c : tensor<f32>, tensor<f32>
    return %loss : tensor<f32>
  }
}
// CHECK: dist.loss "l" in @m numerator "loss.l" denominator @l.denominator weight 1.000000e+00 {at_least = 4.000000e+00 : f64, plus = 5.000000e-01 : f64}
dist.loss "l" in @m numerator "loss.l" weight 1.0
dist.batch global 4 micro 2

// -----

// The number of images or 1: of the whole batch, not of a part.
// CHECK-LABEL: dist.module @m
dist.module @m {
  nn.dim @images of "image" max 6
  func.func @forward(%x: tensor<?xf32, #nn.dims<images>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %sum = nn.reduce sum %x {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<images>>
    %count = nn.generate : tensor<f32> {
      %n = nn.size <images>
      %one = arith.constant 1 : index
      %some = arith.maxsi %n, %one : index
      %i = arith.index_cast %some : index to i64
      %f = arith.sitofp %i : i64 to f32
      nn.yield %f : f32
    }
    %loss = nn.div %sum, %count : tensor<f32>, tensor<f32>
    return %loss : tensor<f32>
  }
}
// CHECK: func.func @l.denominator
// CHECK-NOT: arith.maxsi
// CHECK: dist.loss "l" in @m numerator "loss.l" denominator @l.denominator weight 1.000000e+00 {at_least = 1.000000e+00 : f64}
dist.item "image" max 3
dist.loss "l" in @m numerator "loss.l" weight 1.0
dist.batch global 4 micro 2

// -----

// A number that comes with the batch, added: each part would add it again. Not split.
// CHECK-LABEL: dist.module @m
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?xf32, #nn.dims<batch>> {nn.name = "x"}, %penalty: tensor<f32> {nn.name = "penalty"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %mean = nn.reduce mean %x {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    // CHECK: %[[L:.*]] = nn.add
    // CHECK: return %[[L]]
    %loss = nn.add %mean, %penalty : tensor<f32>, tensor<f32>
    return %loss : tensor<f32>
  }
}
// CHECK: dist.loss "l" in @m numerator "loss.l" weight 1.000000e+00
dist.loss "l" in @m numerator "loss.l" weight 1.0
dist.batch global 4 micro 2

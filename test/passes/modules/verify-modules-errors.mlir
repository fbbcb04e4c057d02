// RUN: dt-opt %s --dist-verify-modules -verify-diagnostics -split-input-file

// llava's three images.
// expected-error @+1 {{input 'pixels' of module 'm' has the fixed dim 3 where items should be counted ('tensor<3x8xf32>'), so the batch cannot be cut into microbatches}}
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %pixels: tensor<3x8xf32> {nn.name = "pixels"}) { return }
}
dist.batch global 4 micro 2

// -----

// Batch normalisation in training form.
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    // expected-error @+1 {{'nn.reduce' of module 'm' takes a mean over all items (batch normalisation in training form? the recipe may say "batch_norm": "local"), and loss 'l' depends on it, so the batch cannot be cut into microbatches}}
    %mean = nn.reduce mean %x {axes = array<i64: 0>} : tensor<?x4xf32, #nn.dims<batch>>
    %c = nn.sub %x, %mean : tensor<?x4xf32, #nn.dims<batch>>, tensor<4xf32>
    %s = nn.reduce sum %c {axes = array<i64: 0, 1>} : tensor<?x4xf32, #nn.dims<batch>>
    return %s : tensor<f32>
  }
  func.func @d() -> tensor<f32> {
    %0 = nn.constant dense<1.0> : tensor<f32>
    return %0 : tensor<f32>
  }
}
dist.loss "l" in @m numerator "loss.l" denominator @d weight 1.0
dist.batch global 4 micro 2

// -----

// A softmax over the batch.
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    // expected-error @+1 {{'nn.softmax' of module 'm' works along the axis of items, and loss 'l' depends on it}}
    %p = nn.softmax %x {axis = 0} : tensor<?x4xf32, #nn.dims<batch>>
    %s = nn.reduce sum %p {axes = array<i64: 0, 1>} : tensor<?x4xf32, #nn.dims<batch>>
    return %s : tensor<f32>
  }
  func.func @d() -> tensor<f32> {
    %0 = nn.constant dense<1.0> : tensor<f32>
    return %0 : tensor<f32>
  }
}
dist.loss "l" in @m numerator "loss.l" denominator @d weight 1.0
dist.batch global 4 micro 2

// -----

// A loss of the graph that is no quotient of sums.
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %s = nn.reduce sum %x {axes = array<i64: 0, 1>} : tensor<?x4xf32, #nn.dims<batch>>
    // expected-error @+1 {{'nn.sqrt' of module 'm' is not linear in a sum over items, and loss 'l' depends on it}}
    %r = nn.sqrt %s : tensor<f32>
    return %r : tensor<f32>
  }
}
dist.loss "l" in @m numerator "loss.l" weight 1.0
dist.batch global 4 micro 2

// -----

// Rows picked by positions that nobody rebases.
dist.module @m {
  nn.dim @batch of "sample" max 2
  nn.dim @images of "image" max 4
  func.func @forward(%x: tensor<?x4x8xf32, #nn.dims<batch>> {nn.name = "x"}, %p: tensor<?xi64, #nn.dims<images>> {nn.name = "positions"})
      -> (tensor<?x8xf32, #nn.dims<images>> {nn.name = "rows"}) {
    %flat = nn.reshape %x : tensor<?x4x8xf32, #nn.dims<batch>> to tensor<?x8xf32, #nn.dims<"4*batch">>
    // expected-error @+1 {{'nn.gather' of module 'm' picks among all items by positions that the recipe's `inputs` does not declare as an index, and output 'rows' depends on it}}
    %r = nn.gather %flat at %p {axis = 0} : tensor<?x8xf32, #nn.dims<"4*batch">>, tensor<?xi64, #nn.dims<images>>
    return %r : tensor<?x8xf32, #nn.dims<images>>
  }
}
dist.module @n {
  nn.dim @images of "image" max 4
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<images>> {nn.name = "x"}) { return }
}
dist.item "image" max 2
dist.edge @m "rows" to @n "x"
dist.batch global 4 micro 2

// -----

// An output whose items come second.
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<4x?xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %t = nn.transpose %x [1, 0] : tensor<?x4xf32, #nn.dims<batch>>
    return %t : tensor<4x?xf32, #nn.dims<batch>>
  }
}
dist.module @n {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<4x?xf32, #nn.dims<batch>> {nn.name = "x"}) { return }
}
// expected-error @+1 {{output 'y' of module 'm' does not have its items on the first axis, so the batch cannot be cut into microbatches}}
dist.edge @m "y" to @n "x"
dist.batch global 4 micro 2

// -----

// A running count is good to pick rows in order, for nothing else.
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?xi64, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?xf32, #nn.dims<batch>> {nn.name = "y"}) {
    // expected-error @+1 {{'nn.cumsum' of module 'm' works along the axis of items, and output 'y' depends on it, so the batch cannot be cut into microbatches}}
    %n = nn.cumsum %x {axis = 0 : i64} : tensor<?xi64, #nn.dims<batch>>
    %y = nn.cast %n : tensor<?xi64, #nn.dims<batch>> to tensor<?xf32, #nn.dims<batch>>
    return %y : tensor<?xf32, #nn.dims<batch>>
  }
}
dist.module @n {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?xf32, #nn.dims<batch>> {nn.name = "x"}) { return }
}
dist.edge @m "y" to @n "x"
dist.batch global 4 micro 2

// -----

// Several replicas cut the batch, too.
// expected-error @+1 {{input 'pixels' of module 'm' has the fixed dim 3 where items should be counted}}
dist.module @m of "sample" attributes {dp = 2 : i64, ranks = array<i64: 0, 1>} {
  nn.dim @batch of "sample" max 4
  func.func @forward(%x: tensor<3x4xf32> {nn.name = "pixels"}) -> (tensor<3x4xf32> {nn.name = "y"}) {
    return %x : tensor<3x4xf32>
  }
}
dist.batch global 4 micro 4

// -----

// A part's items would take the table's first rows again.
dist.module @m {
  nn.dim @batch of "sample" max 2
  nn.parameter @w : tensor<8x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %w = nn.read @w : tensor<8x4xf32>
    // expected-error @+1 {{'nn.slice' of module 'm' gives items rows by their place in the batch, and output 'y' depends on it, so the batch cannot be cut into microbatches}}
    %rows = nn.slice %w [0, 0] step [1, 1] : tensor<8x4xf32> to tensor<?x4xf32, #nn.dims<batch>>
    %y = nn.mul %x, %rows : tensor<?x4xf32, #nn.dims<batch>>, tensor<?x4xf32, #nn.dims<batch>>
    return %y : tensor<?x4xf32, #nn.dims<batch>>
  }
}
dist.module @n {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) { return }
}
dist.edge @m "y" to @n "x"
dist.batch global 4 micro 2

// -----

// The same by numbers of rows.
dist.module @m {
  nn.dim @batch of "sample" max 2
  nn.parameter @w : tensor<8x4xf32> trainable from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %w = nn.read @w : tensor<8x4xf32>
    %own = nn.generate : tensor<?xi64, #nn.dims<batch>> {
    ^bb0(%i: index):
      %n = arith.index_cast %i : index to i64
      nn.yield %n : i64
    }
    // expected-error @+1 {{'nn.gather' of module 'm' depends on the number of the item in its part, and output 'y' depends on it, so the batch cannot be cut into microbatches}}
    %rows = nn.gather %w at %own {axis = 0} : tensor<8x4xf32>, tensor<?xi64, #nn.dims<batch>>
    %y = nn.mul %x, %rows : tensor<?x4xf32, #nn.dims<batch>>, tensor<?x4xf32, #nn.dims<batch>>
    return %y : tensor<?x4xf32, #nn.dims<batch>>
  }
}
dist.module @n {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) { return }
}
dist.edge @m "y" to @n "x"
dist.batch global 4 micro 2

// -----

// A number of a row is no value.
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %own = nn.generate : tensor<?xi64, #nn.dims<batch>> {
    ^bb0(%i: index):
      %n = arith.index_cast %i : index to i64
      nn.yield %n : i64
    }
    // expected-error @+1 {{'nn.cast' of module 'm' depends on the number of the item in its part, and output 'y' depends on it, so the batch cannot be cut into microbatches}}
    %f = nn.cast %own : tensor<?xi64, #nn.dims<batch>> to tensor<?xf32, #nn.dims<batch>>
    %y = nn.mul %x, %f : tensor<?xf32, #nn.dims<batch>>, tensor<?xf32, #nn.dims<batch>>
    return %y : tensor<?xf32, #nn.dims<batch>>
  }
}
dist.module @n {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?xf32, #nn.dims<batch>> {nn.name = "x"}) { return }
}
dist.edge @m "y" to @n "x"
dist.batch global 4 micro 2

// -----

// Nor one of a column.
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %own = nn.generate : tensor<?x1xi64, #nn.dims<batch>> {
    ^bb0(%i: index, %j: index):
      %n = arith.index_cast %i : index to i64
      nn.yield %n : i64
    }
    // expected-error @+1 {{'nn.gather_nd' of module 'm' depends on the number of the item in its part, and output 'y' depends on it, so the batch cannot be cut into microbatches}}
    %y = nn.gather_nd %x at %own {batch_dims = 1 : i64} : tensor<?x4xf32, #nn.dims<batch>>, tensor<?x1xi64, #nn.dims<batch>>
    return %y : tensor<?xf32, #nn.dims<batch>>
  }
}
dist.module @n {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?xf32, #nn.dims<batch>> {nn.name = "x"}) { return }
}
dist.edge @m "y" to @n "x"
dist.batch global 4 micro 2

// -----

// One module's items after another's, against pairs.
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %y: tensor<?xi64, #nn.dims<"2*batch">> {nn.name = "y"}) -> (tensor<?xf32, #nn.dims<"2*batch">> {nn.name = "l"}) {
    %xx = nn.concat %x, %x {axis = 0} : tensor<?x4xf32, #nn.dims<batch>>, tensor<?x4xf32, #nn.dims<batch>>
    // expected-error @+1 {{'nn.cross_entropy' of module 'm' combines items in different orders, and output 'l' depends on it, so the batch cannot be cut into microbatches}}
    %l = nn.cross_entropy %xx, %y : tensor<?x4xf32, #nn.dims<"2*batch">>, tensor<?xi64, #nn.dims<"2*batch">>
    return %l : tensor<?xf32, #nn.dims<"2*batch">>
  }
}
dist.module @n {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?xf32, #nn.dims<"2*batch">> {nn.name = "x"}) { return }
}
dist.edge @m "l" to @n "x"
dist.batch global 4 micro 2

// -----

dist.measure "tokens" of "sample" max 8
dist.batch global 4 micro 2
dist.module @together {
  nn.dim @seq of "sample" measure "tokens" largest 8 max 16
  func.func @forward(%x: tensor<1x?x2x4xf32, #nn.dims<seq>> {nn.name = "x"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    // expected-error @+1 {{'nn.attention' of module 'together' lets items see one another, and loss 'l' depends on it, so the batch cannot be cut}}
    %o, %lse = nn.attention %x, %x, %x {causal, scale = 1.0 : f64} : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>
    %l = nn.reduce sum %o {axes = array<i64: 0, 1, 2, 3>} : tensor<1x?x2x4xf32, #nn.dims<seq>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @together numerator "loss.l" weight 1.0

// -----

dist.measure "tokens" of "sample" max 8
dist.batch global 4 micro 2
dist.module @padded {
  nn.dim @seq of "sample" measure "tokens" largest 8 max 16
  func.func @forward(%x: tensor<1x?x2x4xf32, #nn.dims<seq>> {nn.name = "x"}, %q: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "q"}, %k: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "k"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    // expected-error @+1 {{'nn.attention' of module 'padded' gives a query that sees no key the mean of all items, and loss 'l' depends on it}}
    %o, %lse = nn.attention %x, %x, %x segments %q by %k {causal, scale = 1.0 : f64} : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>
    %l = nn.reduce sum %o {axes = array<i64: 0, 1, 2, 3>} : tensor<1x?x2x4xf32, #nn.dims<seq>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @padded numerator "loss.l" weight 1.0

// -----

// Documents from 1, and 0 for what is hidden: two samples may both have hidden
// tokens.
dist.measure "tokens" of "sample" max 8
dist.batch global 4 micro 2
dist.module @hidden {
  nn.dim @seq of "sample" measure "tokens" largest 8 max 16
  func.func @forward(%x: tensor<1x?x2x4xf32, #nn.dims<seq>> {nn.name = "x"}, %ids: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "ids"}, %keep: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "keep"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %kept = nn.mul %ids, %keep : tensor<1x?xi64, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>
    // expected-error @+1 {{'nn.attention' of module 'hidden' keeps items apart by numbers that the graph computes, of which two items may have the same, where it should compare integers of an input as they are, and loss 'l' depends on it}}
    %o, %lse = nn.attention %x, %x, %x segments %kept by %kept {causal, scale = 1.0 : f64} : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>
    %l = nn.reduce sum %o {axes = array<i64: 0, 1, 2, 3>} : tensor<1x?x2x4xf32, #nn.dims<seq>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @hidden numerator "loss.l" weight 1.0

// -----

// A table by where rows stand, not by how far apart they are.
dist.measure "tokens" of "sample" max 8
dist.batch global 4 micro 2
dist.module @by_place {
  nn.dim @seq of "sample" measure "tokens" largest 8 max 16
  func.func @forward(%x: tensor<1x?x2x4xf32, #nn.dims<seq>> {nn.name = "x"}, %ids: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "texts"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    // expected-error @+1 {{'nn.generate' of module 'by_place' is a table of items by items, and loss 'l' depends on it}}
    %mask = nn.generate : tensor<?x?xi1, #nn.dims<seq, seq>> {
    ^bb0(%i: index, %j: index):
      %c9 = arith.constant 9 : index
      %sum = arith.addi %i, %j : index
      %m = arith.cmpi slt, %sum, %c9 : index
      nn.yield %m : i1
    }
    %o, %lse = nn.attention %x, %x, %x mask %mask segments %ids by %ids {empty_row = 1 : i32, scale = 1.0 : f64} : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<?x?xi1, #nn.dims<seq, seq>>, tensor<1x?xi64, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>
    %l = nn.reduce sum %o {axes = array<i64: 0, 1, 2, 3>} : tensor<1x?x2x4xf32, #nn.dims<seq>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @by_place numerator "loss.l" weight 1.0

// -----

// A table by distance, and no segments that hide pairs of different samples.
dist.measure "tokens" of "sample" max 8
dist.batch global 4 micro 2
dist.module @unsegmented {
  nn.dim @seq of "sample" measure "tokens" largest 8 max 16
  func.func @forward(%x: tensor<1x?x2x4xf32, #nn.dims<seq>> {nn.name = "x"}, %ids: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "texts"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    // expected-error @+1 {{'nn.generate' of module 'unsegmented' is a table of items by items, and loss 'l' depends on it}}
    %mask = nn.generate : tensor<?x?xi1, #nn.dims<seq, seq>> {
    ^bb0(%i: index, %j: index):
      %m = arith.cmpi sle, %j, %i : index
      nn.yield %m : i1
    }
    %o, %lse = nn.attention %x, %x, %x mask %mask {empty_row = 1 : i32, scale = 1.0 : f64} : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<?x?xi1, #nn.dims<seq, seq>>
    %l = nn.reduce sum %o {axes = array<i64: 0, 1, 2, 3>} : tensor<1x?x2x4xf32, #nn.dims<seq>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @unsegmented numerator "loss.l" weight 1.0

// -----

// What is left of a table that was added up along an axis knows of other samples.
dist.measure "tokens" of "sample" max 8
dist.batch global 4 micro 2
dist.module @counted {
  nn.dim @seq of "sample" measure "tokens" largest 8 max 16
  func.func @forward(%x: tensor<1x?x2x4xf32, #nn.dims<seq>> {nn.name = "x"}, %ids: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "texts"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    // expected-error @+1 {{'nn.generate' of module 'counted' is a table of items by items, and loss 'l' depends on it}}
    %near = nn.generate : tensor<?x?xf32, #nn.dims<seq, seq>> {
    ^bb0(%i: index, %j: index):
      %before = arith.cmpi sle, %j, %i : index
      %m = arith.uitofp %before : i1 to f32
      nn.yield %m : f32
    }
    %mask = nn.reduce sum %near {axes = array<i64: 0>, keepdims} : tensor<?x?xf32, #nn.dims<seq, seq>>
    %o, %lse = nn.attention %x, %x, %x mask %mask segments %ids by %ids {empty_row = 1 : i32, scale = 1.0 : f64} : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?xf32, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>
    %l = nn.reduce sum %o {axes = array<i64: 0, 1, 2, 3>} : tensor<1x?x2x4xf32, #nn.dims<seq>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @counted numerator "loss.l" weight 1.0

// -----

// Of 8 bits many are the same.
dist.measure "tokens" of "sample" max 8
dist.batch global 4 micro 2
dist.module @narrow {
  nn.dim @seq of "sample" measure "tokens" largest 8 max 16
  func.func @forward(%x: tensor<1x?x2x4xf32, #nn.dims<seq>> {nn.name = "x"}, %ids: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "ids"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %narrow = nn.cast %ids : tensor<1x?xi64, #nn.dims<seq>> to tensor<1x?xi8, #nn.dims<seq>>
    %again = nn.cast %narrow : tensor<1x?xi8, #nn.dims<seq>> to tensor<1x?xi32, #nn.dims<seq>>
    // expected-error @+1 {{'nn.attention' of module 'narrow' keeps items apart by numbers that the graph computes}}
    %o, %lse = nn.attention %x, %x, %x segments %again by %again {causal, scale = 1.0 : f64} : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?xi32, #nn.dims<seq>>, tensor<1x?xi32, #nn.dims<seq>>
    %l = nn.reduce sum %o {axes = array<i64: 0, 1, 2, 3>} : tensor<1x?x2x4xf32, #nn.dims<seq>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @narrow numerator "loss.l" weight 1.0

// -----

// As numbers places are other ones in each part.
dist.item "image" max 2
dist.batch global 4 micro 2
dist.module @numbered {
  nn.dim @batch of "sample" max 2
  nn.dim @images of "image" max 4
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %at: tensor<?xi64, #nn.dims<images>> {nn.name = "at"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    // expected-error @+1 {{'nn.cast' of module 'numbered' computes with places of an input, which each part counts anew, instead of picking rows by them, and loss 'l' depends on it, so the batch cannot be cut}}
    %n = nn.cast %at : tensor<?xi64, #nn.dims<images>> to tensor<?xf32, #nn.dims<images>>
    %l = nn.reduce sum %n {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<images>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @numbered numerator "loss.l" weight 1.0
dist.input "numbered.at" = {index = ["sample", "token"]}

// -----

// The next row may be of another part.
dist.item "image" max 2
dist.batch global 4 micro 2
dist.module @next {
  nn.dim @batch of "sample" max 2
  nn.dim @images of "image" max 4
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %at: tensor<?xi64, #nn.dims<images>> {nn.name = "at"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %one = nn.constant dense<1> : tensor<i64>
    // expected-error @+1 {{'nn.add' of module 'next' computes with places of an input, which each part counts anew, instead of picking rows by them, and loss 'l' depends on it, so the batch cannot be cut}}
    %n = nn.add %at, %one : tensor<?xi64, #nn.dims<images>>, tensor<i64>
    %rows = nn.gather %x at %n {axis = 0 : i64} : tensor<?x4xf32, #nn.dims<batch>>, tensor<?xi64, #nn.dims<images>>
    %l = nn.reduce sum %rows {axes = array<i64: 0, 1>} : tensor<?x4xf32, #nn.dims<images>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @next numerator "loss.l" weight 1.0
dist.input "next.at" = {index = ["sample", "token"]}

// -----

// A table has other rows for them.
dist.item "image" max 2
dist.batch global 4 micro 2
dist.module @table {
  nn.dim @batch of "sample" max 2
  nn.dim @images of "image" max 4
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %at: tensor<?xi64, #nn.dims<images>> {nn.name = "at"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %t = nn.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    // expected-error @+1 {{'nn.gather' of module 'table' computes with places of an input, which each part counts anew, instead of picking rows by them, and loss 'l' depends on it, so the batch cannot be cut}}
    %rows = nn.gather %t at %at {axis = 0 : i64} : tensor<3xf32>, tensor<?xi64, #nn.dims<images>>
    %l = nn.reduce sum %rows {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<images>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @table numerator "loss.l" weight 1.0
dist.input "table.at" = {index = ["sample", "token"]}

// -----

// One place in each part is the second.
dist.item "image" max 2
dist.batch global 4 micro 2
dist.module @second {
  nn.dim @batch of "sample" max 2
  nn.dim @images of "image" max 4
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %at: tensor<?xi64, #nn.dims<images>> {nn.name = "at"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %one = nn.constant dense<1> : tensor<i64>
    // expected-error @+1 {{'nn.cmp' of module 'second' computes with places of an input, which each part counts anew, instead of picking rows by them, and loss 'l' depends on it, so the batch cannot be cut}}
    %is = nn.cmp eq %at, %one : tensor<?xi64, #nn.dims<images>>, tensor<i64>
    %n = nn.cast %is : tensor<?xi1, #nn.dims<images>> to tensor<?xf32, #nn.dims<images>>
    %l = nn.reduce sum %n {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<images>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @second numerator "loss.l" weight 1.0
dist.input "second.at" = {index = ["sample", "token"]}

// -----

// Queries that are one more than the keys' numbers are the next item's.
dist.measure "tokens" of "sample" max 8
dist.batch global 4 micro 2
dist.module @moved {
  nn.dim @seq of "sample" measure "tokens" largest 8 max 16
  func.func @forward(%x: tensor<1x?x2x4xf32, #nn.dims<seq>> {nn.name = "x"}, %ids: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "ids"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %one = nn.constant dense<1> : tensor<i64>
    %more = nn.add %ids, %one : tensor<1x?xi64, #nn.dims<seq>>, tensor<i64>
    // expected-error @+1 {{'nn.attention' of module 'moved' keeps items apart by numbers that the graph computes}}
    %o, %lse = nn.attention %x, %x, %x segments %more by %ids {causal, empty_row = 1 : i32, scale = 1.0 : f64} : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>
    %l = nn.reduce sum %o {axes = array<i64: 0, 1, 2, 3>} : tensor<1x?x2x4xf32, #nn.dims<seq>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @moved numerator "loss.l" weight 1.0

// -----

// Rows of experts are a token's own, in whatever order they stand; but experts that the batch chooses together are not.
dist.module @m {
  nn.dim @batch of "sample" max 2
  nn.parameter @w : tensor<2x4x4xf32> from #nn.onnx<"m.onnx", "w">
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %given: tensor<?xi64, #nn.dims<batch>> {nn.name = "ids"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %w = nn.read @w : tensor<2x4x4xf32>
    %order, %place, %offsets = nn.route %given of 2 : tensor<?xi64, #nn.dims<batch>>
    %0 = nn.dispatch %x by %order, %place each 1 : tensor<?x4xf32, #nn.dims<batch>>, tensor<?xi32, #nn.dims<batch>>, tensor<?xi32, #nn.dims<batch>>
    %1 = nn.grouped_linear %0, %w at %offsets : tensor<?x4xf32, #nn.dims<batch>>, tensor<2x4x4xf32>, tensor<3xi32>
    %2 = nn.combine %1 by %order, %place each 1 : tensor<?x4xf32, #nn.dims<batch>>, tensor<?xi32, #nn.dims<batch>>, tensor<?xi32, #nn.dims<batch>>
    %scores = nn.reduce sum %2 {axes = array<i64: 1>} : tensor<?x4xf32, #nn.dims<batch>>
    // expected-error @+1 {{'nn.softmax' of module 'm' works along the axis of items, and loss 'l' depends on it}}
    %even = nn.softmax %scores {axis = 0 : i64} : tensor<?xf32, #nn.dims<batch>>
    %ids = nn.cast %even : tensor<?xf32, #nn.dims<batch>> to tensor<?xi64, #nn.dims<batch>>
    %order2, %place2, %offsets2 = nn.route %ids of 2 : tensor<?xi64, #nn.dims<batch>>
    %3 = nn.dispatch %2 by %order2, %place2 each 1 : tensor<?x4xf32, #nn.dims<batch>>, tensor<?xi32, #nn.dims<batch>>, tensor<?xi32, #nn.dims<batch>>
    %4 = nn.grouped_linear %3, %w at %offsets2 : tensor<?x4xf32, #nn.dims<batch>>, tensor<2x4x4xf32>, tensor<3xi32>
    %5 = nn.combine %4 by %order2, %place2 each 1 : tensor<?x4xf32, #nn.dims<batch>>, tensor<?xi32, #nn.dims<batch>>, tensor<?xi32, #nn.dims<batch>>
    %s = nn.reduce sum %5 {axes = array<i64: 0, 1>} : tensor<?x4xf32, #nn.dims<batch>>
    return %s : tensor<f32>
  }
  func.func @d() -> tensor<f32> {
    %0 = nn.constant dense<1.0> : tensor<f32>
    return %0 : tensor<f32>
  }
}
dist.loss "l" in @m numerator "loss.l" denominator @d weight 1.0
dist.batch global 4 micro 2

// -----

// A capacity counts the rows of a sample, here tokens that stand apart: also where nothing is cut.
dist.module @capacity {
  nn.dim @batch of "sample" max 2
  func.func @forward(%scores: tensor<?x5x4xf32, #nn.dims<batch>> {nn.name = "scores"}) -> (tensor<?xi1, #nn.dims<10*batch>> {nn.name = "kept"}) {
    %turned = nn.transpose %scores [1, 0, 2] : tensor<?x5x4xf32, #nn.dims<batch>>
    %rows = nn.reshape %turned : tensor<5x?x4xf32, #nn.dims<batch>> to tensor<?x4xf32, #nn.dims<5*batch>>
    %top, %ids = nn.top_k %rows {axis = 1 : i64} : (tensor<?x4xf32, #nn.dims<5*batch>>) -> (tensor<?x2xf32, #nn.dims<5*batch>>, tensor<?x2xi64, #nn.dims<5*batch>>)
    %choices = nn.reshape %ids : tensor<?x2xi64, #nn.dims<5*batch>> to tensor<?x10xi64, #nn.dims<batch>>
    // expected-error @+1 {{'capacity' has a capacity of experts (experts.capacity), but rows of different samples stand between one another}}
    %kept = nn.limit_choices %choices of 4 within 1.25 : tensor<?x10xi64, #nn.dims<batch>>
    %0 = nn.reshape %kept : tensor<?x10xi1, #nn.dims<batch>> to tensor<?xi1, #nn.dims<10*batch>>
    return %0 : tensor<?xi1, #nn.dims<10*batch>>
  }
}
dist.batch global 2 micro 2

// -----

// As they should.
dist.module @capacity {
  nn.dim @batch of "sample" max 2
  func.func @forward(%scores: tensor<?x5x4xf32, #nn.dims<batch>> {nn.name = "scores"}) -> (tensor<?x10xi1, #nn.dims<batch>> {nn.name = "kept"}) {
    %top, %ids = nn.top_k %scores {axis = 2 : i64} : (tensor<?x5x4xf32, #nn.dims<batch>>) -> (tensor<?x5x2xf32, #nn.dims<batch>>, tensor<?x5x2xi64, #nn.dims<batch>>)
    %choices = nn.reshape %ids : tensor<?x5x2xi64, #nn.dims<batch>> to tensor<?x10xi64, #nn.dims<batch>>
    %kept = nn.limit_choices %choices of 4 within 1.25 : tensor<?x10xi64, #nn.dims<batch>>
    return %kept : tensor<?x10xi1, #nn.dims<batch>>
  }
}
dist.batch global 2 micro 2

// -----

// Packed rows, kept apart by what the graph computes.
dist.module @packed {
  nn.dim @seq of "sample" measure "tokens" largest 8 max 16
  func.func @forward(%scores: tensor<?x4xf32, #nn.dims<seq>> {nn.name = "scores"}, %ids: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "ids"}) -> (tensor<1x?xi1, #nn.dims<2*seq>> {nn.name = "kept"}) {
    %segments = nn.mul %ids, %ids : tensor<1x?xi64, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>
    %top, %chosen = nn.top_k %scores {axis = 1 : i64} : (tensor<?x4xf32, #nn.dims<seq>>) -> (tensor<?x2xf32, #nn.dims<seq>>, tensor<?x2xi64, #nn.dims<seq>>)
    %choices = nn.reshape %chosen : tensor<?x2xi64, #nn.dims<seq>> to tensor<1x?xi64, #nn.dims<2*seq>>
    // expected-error @+1 {{'packed' has a capacity of experts (experts.capacity), but rows of different samples stand between one another}}
    %kept = nn.limit_choices %choices of 4 within 1.25 apart %segments : tensor<1x?xi64, #nn.dims<2*seq>>, tensor<1x?xi64, #nn.dims<seq>>
    return %kept : tensor<1x?xi1, #nn.dims<2*seq>>
  }
}
dist.batch global 2 micro 2

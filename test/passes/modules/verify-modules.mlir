// RUN: dt-opt %s --dist-verify-modules -split-input-file | FileCheck %s

// What a transformer does with items: each op carries the axis through.
// CHECK-LABEL: dist.module @m
dist.module @m {
  nn.dim @batch of "sample" max 2
  nn.dim @images of "image" max 4
  nn.parameter @wte : tensor<16x8xf32> trainable from #nn.onnx<"m.onnx", "wte">
  func.func @forward(%ids: tensor<?x4xi64, #nn.dims<batch>> {nn.name = "ids"}, %e: tensor<?x2x8xf32, #nn.dims<images>> {nn.name = "embeds"},
                     %p: tensor<?x2xi64, #nn.dims<images>> {nn.name = "positions"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %wte = nn.read @wte : tensor<16x8xf32>
    %h = nn.gather %wte at %ids {axis = 0} : tensor<16x8xf32>, tensor<?x4xi64, #nn.dims<batch>>
    // Images are written to declared positions of all tokens.
    %flat = nn.reshape %h : tensor<?x4x8xf32, #nn.dims<batch>> to tensor<?x8xf32, #nn.dims<"4*batch">>
    %rows = nn.reshape %e : tensor<?x2x8xf32, #nn.dims<images>> to tensor<?x8xf32, #nn.dims<"2*images">>
    %at = nn.reshape %p : tensor<?x2xi64, #nn.dims<images>> to tensor<?x1xi64, #nn.dims<"2*images">>
    %s = nn.scatter_nd set %flat at %at, %rows : tensor<?x8xf32, #nn.dims<"4*batch">>, tensor<?x1xi64, #nn.dims<"2*images">>, tensor<?x8xf32, #nn.dims<"2*images">>
    %x = nn.reshape %s : tensor<?x8xf32, #nn.dims<"4*batch">> to tensor<?x4x2x4xf32, #nn.dims<batch>>
    %q = nn.transpose %x [0, 2, 1, 3] : tensor<?x4x2x4xf32, #nn.dims<batch>>
    %k = nn.transpose %x [0, 2, 3, 1] : tensor<?x4x2x4xf32, #nn.dims<batch>>
    %scores = nn.matmul %q, %k : tensor<?x2x4x4xf32, #nn.dims<batch>>, tensor<?x2x4x4xf32, #nn.dims<batch>>
    %mask = nn.generate : tensor<4x4xf32> {
    ^bb0(%i: index, %j: index):
      %c = arith.cmpi sle, %j, %i : index
      %z = arith.uitofp %c : i1 to f32
      nn.yield %z : f32
    }
    %masked = nn.mul %scores, %mask : tensor<?x2x4x4xf32, #nn.dims<batch>>, tensor<4x4xf32>
    %a = nn.softmax %masked {axis = 3} : tensor<?x2x4x4xf32, #nn.dims<batch>>
    %o = nn.matmul %a, %q : tensor<?x2x4x4xf32, #nn.dims<batch>>, tensor<?x2x4x4xf32, #nn.dims<batch>>
    %l = nn.reduce sum %o {axes = array<i64: 0, 1, 2, 3>} : tensor<?x2x4x4xf32, #nn.dims<batch>>
    return %l : tensor<f32>
  }
  func.func @d() -> tensor<f32> {
    %0 = nn.constant dense<1.0> : tensor<f32>
    return %0 : tensor<f32>
  }
}
dist.item "image" max 2
dist.input "m.positions" = {index = ["sample", "token"], of = "image"}
dist.loss "l" in @m numerator "loss.l" denominator @d weight 1.0
dist.batch global 4 micro 2

// -----

// CLIP's end-of-text row: an index tuple that begins with the item's own number.
// CHECK-LABEL: dist.module @clip
dist.module @clip {
  nn.dim @batch of "sample" max 2
  func.func @forward(%h: tensor<?x4x8xf32, #nn.dims<batch>> {nn.name = "h"}, %ids: tensor<?x4xi64, #nn.dims<batch>> {nn.name = "ids"})
      -> (tensor<?x8xf32, #nn.dims<batch>> {nn.name = "row"}) {
    %eot = nn.arg_max %ids {axis = 1} : tensor<?x4xi64, #nn.dims<batch>>
    %e = nn.reshape %eot : tensor<?xi64, #nn.dims<batch>> to tensor<?x1xi64, #nn.dims<batch>>
    %own = nn.generate : tensor<?xi64, #nn.dims<batch>> {
    ^bb0(%i: index):
      %n = arith.index_cast %i : index to i64
      nn.yield %n : i64
    }
    %o = nn.reshape %own : tensor<?xi64, #nn.dims<batch>> to tensor<?x1xi64, #nn.dims<batch>>
    %at = nn.concat %o, %e {axis = 1} : tensor<?x1xi64, #nn.dims<batch>>, tensor<?x1xi64, #nn.dims<batch>>
    %row = nn.gather_nd %h at %at : tensor<?x4x8xf32, #nn.dims<batch>>, tensor<?x2xi64, #nn.dims<batch>>
    return %row : tensor<?x8xf32, #nn.dims<batch>>
  }
}
dist.module @n {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<batch>> {nn.name = "x"}) { return }
}
dist.edge @clip "row" to @n "x"
dist.batch global 4 micro 2

// -----

// Batch normalisation with statistics of the part.
// CHECK-LABEL: dist.module @bn
dist.module @bn {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %mean = nn.reduce mean %x {axes = array<i64: 0>} : tensor<?x4xf32, #nn.dims<batch>>
    %c = nn.sub %x, %mean : tensor<?x4xf32, #nn.dims<batch>>, tensor<4xf32>
    return %c : tensor<?x4xf32, #nn.dims<batch>>
  }
}
dist.module @n {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) { return }
}
dist.edge @bn "y" to @n "x"
dist.batch global 4 micro 2 local_statistics

// -----

// Places of the text filled in order with rows of pictures: a part's places and rows are its samples'.
// CHECK-LABEL: dist.module @fill
dist.module @fill {
  nn.dim @batch of "sample" max 2
  func.func @forward(%places: tensor<?x3xi64, #nn.dims<batch>> {nn.name = "places"}, %rows: tensor<?x2x8xf32, #nn.dims<batch>> {nn.name = "rows"})
      -> (tensor<?x3x8xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %flat = nn.reshape %places : tensor<?x3xi64, #nn.dims<batch>> to tensor<?xi64, #nn.dims<3*batch>>
    %n = nn.cumsum %flat {axis = 0 : i64} : tensor<?xi64, #nn.dims<3*batch>>
    %one = nn.constant dense<1> : tensor<i64>
    %at = nn.sub %n, %one : tensor<?xi64, #nn.dims<3*batch>>, tensor<i64>
    %table = nn.reshape %rows : tensor<?x2x8xf32, #nn.dims<batch>> to tensor<?x8xf32, #nn.dims<2*batch>>
    %picked = nn.gather %table at %at {axis = 0 : i64} : tensor<?x8xf32, #nn.dims<2*batch>>, tensor<?xi64, #nn.dims<3*batch>>
    %y = nn.reshape %picked : tensor<?x8xf32, #nn.dims<3*batch>> to tensor<?x3x8xf32, #nn.dims<batch>>
    return %y : tensor<?x3x8xf32, #nn.dims<batch>>
  }
}
dist.module @n {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x3x8xf32, #nn.dims<batch>> {nn.name = "x"}) { return }
}
dist.edge @fill "y" to @n "x"
dist.batch global 4 micro 2

// -----

// Generated positions: a mask that is repeated for every item's four windows, and
// each item's own rows of what was flattened.
// CHECK-LABEL: dist.module @windows
dist.module @windows {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<"4*batch">> {nn.name = "x"})
      -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %mask = nn.generate : tensor<?x8xf32, #nn.dims<"4*batch">> {
    ^bb0(%i: index, %j: index):
      %c4 = arith.constant 4 : index
      %w = arith.remsi %i, %c4 : index
      %c = arith.cmpi sle, %j, %w : index
      %z = arith.uitofp %c : i1 to f32
      nn.yield %z : f32
    }
    %masked = nn.mul %x, %mask : tensor<?x8xf32, #nn.dims<"4*batch">>, tensor<?x8xf32, #nn.dims<"4*batch">>
    %mean = nn.reduce mean %masked {axes = array<i64: 1>} : tensor<?x8xf32, #nn.dims<"4*batch">>
    %own = nn.generate : tensor<?x4xi64, #nn.dims<batch>> {
    ^bb0(%i: index, %j: index):
      %c4 = arith.constant 4 : index
      %first = arith.muli %i, %c4 : index
      %row = arith.addi %first, %j : index
      %n = arith.index_cast %row : index to i64
      nn.yield %n : i64
    }
    %y = nn.gather %mean at %own {axis = 0} : tensor<?xf32, #nn.dims<"4*batch">>, tensor<?x4xi64, #nn.dims<batch>>
    return %y : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// -----

// A table of angles is joined of halves: it has no items, whoever uses it.
// CHECK-LABEL: dist.module @angles
dist.module @angles {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<batch>> {nn.name = "x"})
      -> (tensor<?x8xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %half = nn.constant dense<[0.5, 1.0, 1.5, 2.0]> : tensor<4xf32>
    %table = nn.concat %half, %half {axis = 0 : i64} : tensor<4xf32>, tensor<4xf32>
    %y = nn.mul %x, %table : tensor<?x8xf32, #nn.dims<batch>>, tensor<8xf32>
    return %y : tensor<?x8xf32, #nn.dims<batch>>
  }
}
dist.module @after {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<batch>> {nn.name = "x"}) { return }
}
dist.edge @angles "y" to @after "x"
dist.batch global 4 micro 2

// -----

// An output that only is looked at may mix items, but is not joined from parts; nor
// is one that has all items twice, one after another.
// CHECK-LABEL: dist.module @m
// CHECK: func.func @forward
// CHECK-SAME: -> (tensor<f32> {nn.name = "loss.l"}, tensor<?x4xf32, #nn.dims<batch>> {nn.name = "rows"},
// CHECK-SAME: tensor<?x4xf32, #nn.dims<batch>> {dist.unjoined, nn.name = "centred"}, tensor<?x4xf32, #nn.dims<2*batch>> {dist.unjoined, nn.name = "twice"})
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"})
      -> (tensor<f32> {nn.name = "loss.l"}, tensor<?x4xf32, #nn.dims<batch>> {nn.name = "rows"},
          tensor<?x4xf32, #nn.dims<batch>> {nn.name = "centred"}, tensor<?x4xf32, #nn.dims<"2*batch">> {nn.name = "twice"}) {
    %l = nn.reduce sum %x {axes = array<i64: 0, 1>} : tensor<?x4xf32, #nn.dims<batch>>
    %m = nn.reduce mean %x {axes = array<i64: 0>, keepdims} : tensor<?x4xf32, #nn.dims<batch>>
    %c = nn.sub %x, %m : tensor<?x4xf32, #nn.dims<batch>>, tensor<1x4xf32>
    %t = nn.concat %x, %x {axis = 0} : tensor<?x4xf32, #nn.dims<batch>>, tensor<?x4xf32, #nn.dims<batch>>
    return %l, %x, %c, %t : tensor<f32>, tensor<?x4xf32, #nn.dims<batch>>, tensor<?x4xf32, #nn.dims<batch>>, tensor<?x4xf32, #nn.dims<"2*batch">>
  }
}
dist.loss "l" in @m numerator "loss.l" weight 1.0
dist.batch global 4 micro 2

// -----

// Samples of an image (GridSample): each item is read at places that it says itself.
// CHECK-LABEL: dist.module @sampled
dist.module @sampled {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x20x3xf32, #nn.dims<batch>> {nn.name = "x"}, %at: tensor<?x2x2x6x1xi64, #nn.dims<batch>> {nn.name = "at"})
      -> (tensor<?x2x2x6x3xf32, #nn.dims<batch>> {nn.name = "row"}) {
    %row = nn.gather_nd %x at %at {batch_dims = 1 : i64} : tensor<?x20x3xf32, #nn.dims<batch>>, tensor<?x2x2x6x1xi64, #nn.dims<batch>>
    return %row : tensor<?x2x2x6x3xf32, #nn.dims<batch>>
  }
}
dist.module @n {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x2x2x6x3xf32, #nn.dims<batch>> {nn.name = "x"}) { return }
}
dist.edge @sampled "row" to @n "x"
dist.batch global 4 micro 2

// -----

// Items behind what the tuples address keep their place behind the tuples' own axes, of which the shared ones are some.
// CHECK-LABEL: dist.module @behind
dist.module @behind {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x3x5xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x3x2xf32, #nn.dims<batch>> {nn.name = "row"}) {
    %t = nn.transpose %x [1, 2, 0] : tensor<?x3x5xf32, #nn.dims<batch>>
    %at = nn.constant dense<[[[0], [4]], [[1], [1]], [[2], [0]]]> : tensor<3x2x1xi64>
    %g = nn.gather_nd %t at %at {batch_dims = 1 : i64} : tensor<3x5x?xf32, #nn.dims<batch>>, tensor<3x2x1xi64>
    %row = nn.transpose %g [2, 0, 1] : tensor<3x2x?xf32, #nn.dims<batch>>
    return %row : tensor<?x3x2xf32, #nn.dims<batch>>
  }
}
dist.module @n {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x3x2xf32, #nn.dims<batch>> {nn.name = "x"}) { return }
}
dist.edge @behind "row" to @n "x"
dist.batch global 4 micro 2

// -----

// Texts one behind another: numbers keep them apart, and the program checks these.
// CHECK-LABEL: dist.module @packed
dist.measure "tokens" of "sample" max 8
dist.batch global 4 micro 2
dist.module @packed {
  nn.dim @seq of "sample" measure "tokens" largest 8 max 16
  func.func @forward(%x: tensor<1x?x2x4xf32, #nn.dims<seq>> {nn.name = "x"}, %ids: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "texts"}, %cos: tensor<1x?x2xf32, #nn.dims<seq>> {nn.name = "cos"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %q = nn.rotary %x, %cos, %cos : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2xf32, #nn.dims<seq>>, tensor<1x?x2xf32, #nn.dims<seq>>
    %o, %lse = nn.attention %q, %q, %x segments %ids by %ids {causal, scale = 1.0 : f64, window = 3} : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>
    %l = nn.reduce sum %o {axes = array<i64: 0, 1, 2, 3>} : tensor<1x?x2x4xf32, #nn.dims<seq>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @packed numerator "loss.l" weight 1.0
// CHECK: dist.segments "packed" "texts"

// -----

// Rows of one number see one another, others what stands before: a table whose
// elements follow from the two rows and how far apart they are. Segments hide
// pairs of different samples.
// CHECK-LABEL: dist.module @blocks
dist.measure "tokens" of "sample" max 8
dist.batch global 4 micro 2
dist.module @blocks {
  nn.dim @seq of "sample" measure "tokens" largest 8 max 16
  func.func @forward(%x: tensor<1x?x2x4xf32, #nn.dims<seq>> {nn.name = "x"}, %ids: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "texts"}, %blocks: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "blocks"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %down = nn.reshape %blocks : tensor<1x?xi64, #nn.dims<seq>> to tensor<1x?x1xi64, #nn.dims<seq>>
    %across = nn.reshape %blocks : tensor<1x?xi64, #nn.dims<seq>> to tensor<1x1x?xi64, #nn.dims<seq>>
    %same = nn.cmp eq %down, %across : tensor<1x?x1xi64, #nn.dims<seq>>, tensor<1x1x?xi64, #nn.dims<seq>>
    %near = nn.generate : tensor<?x?xi1, #nn.dims<seq, seq>> {
    ^bb0(%i: index, %j: index):
      %c2 = arith.constant 2 : index
      %last = arith.addi %j, %c2 : index
      %before = arith.cmpi sle, %j, %i : index
      %within = arith.cmpi sle, %i, %last : index
      %both = arith.andi %before, %within : i1
      nn.yield %both : i1
    }
    %seen = nn.or %near, %same : tensor<?x?xi1, #nn.dims<seq, seq>>, tensor<1x?x?xi1, #nn.dims<seq, seq>>
    %mask = nn.reshape %seen : tensor<1x?x?xi1, #nn.dims<seq, seq>> to tensor<1x1x?x?xi1, #nn.dims<seq, seq>>
    %o, %lse = nn.attention %x, %x, %x mask %mask segments %ids by %ids {empty_row = 1 : i32, scale = 1.0 : f64} : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x1x?x?xi1, #nn.dims<seq, seq>>, tensor<1x?xi64, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>
    %l = nn.reduce sum %o {axes = array<i64: 0, 1, 2, 3>} : tensor<1x?x2x4xf32, #nn.dims<seq>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @blocks numerator "loss.l" weight 1.0
// CHECK: dist.segments "blocks" "texts"

// -----

// Rows of samples, picked by each image's sample: the data path numbers the
// samples of a part anew.
// CHECK-LABEL: dist.module @of_sample
dist.item "image" max 2
dist.module @of_sample {
  nn.dim @batch of "sample" max 2
  nn.dim @images of "image" max 4
  func.func @forward(%table: tensor<?x8xf32, #nn.dims<batch>> {nn.name = "table"}, %of: tensor<?xi64, #nn.dims<images>> {nn.name = "of"})
      -> (tensor<?x8xf32, #nn.dims<images>> {nn.name = "rows"}) {
    %rows = nn.gather %table at %of {axis = 0 : i64} : tensor<?x8xf32, #nn.dims<batch>>, tensor<?xi64, #nn.dims<images>>
    return %rows : tensor<?x8xf32, #nn.dims<images>>
  }
}
dist.module @taker {
  nn.dim @images of "image" max 4
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<images>> {nn.name = "x"}) { return }
}
dist.edge @of_sample "rows" to @taker "x"
dist.input "of_sample.of" = {item_of = "image"}
dist.batch global 4 micro 2

// -----

// A query for each picture and keys for each of its patches: both sides are checked, together.
// CHECK-LABEL: dist.module @pooled
dist.item "image" max 2
dist.measure "patches" of "image" max 8
dist.batch global 4 micro 2
dist.module @pooled {
  nn.dim @images of "image" max 4
  nn.dim @patches of "image" measure "patches" largest 8 max 16
  func.func @forward(%x: tensor<1x?x2x4xf32, #nn.dims<patches>> {nn.name = "x"}, %q: tensor<1x?x2x4xf32, #nn.dims<images>> {nn.name = "q"}, %ids: tensor<1x?xi64, #nn.dims<patches>> {nn.name = "numbers"}, %own: tensor<1x?xi64, #nn.dims<images>> {nn.name = "pictures"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %o, %lse = nn.attention %q, %x, %x segments %own by %ids {empty_row = 1 : i32, scale = 1.0 : f64} : tensor<1x?x2x4xf32, #nn.dims<images>>, tensor<1x?x2x4xf32, #nn.dims<patches>>, tensor<1x?x2x4xf32, #nn.dims<patches>>, tensor<1x?xi64, #nn.dims<images>>, tensor<1x?xi64, #nn.dims<patches>>
    %l = nn.reduce sum %o {axes = array<i64: 0, 1, 2, 3>} : tensor<1x?x2x4xf32, #nn.dims<images>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @pooled numerator "loss.l" weight 1.0
// CHECK-DAG: dist.segments "pooled" "pictures"{{$}}
// CHECK-DAG: dist.segments "pooled" "numbers" with "pictures"{{$}}

// -----

// One more for all: still other numbers for each item.
// CHECK-LABEL: dist.module @shifted
dist.measure "tokens" of "sample" max 8
dist.batch global 4 micro 2
dist.module @shifted {
  nn.dim @seq of "sample" measure "tokens" largest 8 max 16
  func.func @forward(%x: tensor<1x?x2x4xf32, #nn.dims<seq>> {nn.name = "x"}, %ids: tensor<1x?xi64, #nn.dims<seq>> {nn.name = "ids"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %one = nn.constant dense<1> : tensor<i64>
    %more = nn.add %ids, %one : tensor<1x?xi64, #nn.dims<seq>>, tensor<i64>
    %o, %lse = nn.attention %x, %x, %x segments %more by %more {causal, scale = 1.0 : f64} : tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?x2x4xf32, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>, tensor<1x?xi64, #nn.dims<seq>>
    %l = nn.reduce sum %o {axes = array<i64: 0, 1, 2, 3>} : tensor<1x?x2x4xf32, #nn.dims<seq>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @shifted numerator "loss.l" weight 1.0
// CHECK: dist.segments "shifted" "ids"{{$}}

// -----

// Places pick rows; what has none gets the first, and is known as such.
// CHECK-LABEL: dist.module @places
dist.item "image" max 2
dist.batch global 4 micro 2
dist.module @places {
  nn.dim @batch of "sample" max 2
  nn.dim @images of "image" max 4
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %at: tensor<?xi64, #nn.dims<images>> {nn.name = "at"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %zero = nn.constant dense<0> : tensor<i64>
    %first = nn.max %at, %zero : tensor<?xi64, #nn.dims<images>>, tensor<i64>
    %has = nn.cmp ge %at, %zero : tensor<?xi64, #nn.dims<images>>, tensor<i64>
    %one = nn.cast %has : tensor<?xi1, #nn.dims<images>> to tensor<?xf32, #nn.dims<images>>
    %rows = nn.gather %x at %first {axis = 0 : i64} : tensor<?x4xf32, #nn.dims<batch>>, tensor<?xi64, #nn.dims<images>>
    %sums = nn.reduce sum %rows {axes = array<i64: 1>} : tensor<?x4xf32, #nn.dims<images>>
    %kept = nn.mul %sums, %one : tensor<?xf32, #nn.dims<images>>, tensor<?xf32, #nn.dims<images>>
    %l = nn.reduce sum %kept {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<images>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @places numerator "loss.l" weight 1.0
dist.input "places.at" = {index = ["sample", "token"]}

// RUN: dt-opt %s -verify-diagnostics -split-input-file

// expected-error @+1 {{'dist.tp' is a number of ranks, at least 1, of dist.module}}
dist.module @m attributes {dist.tp = 0 : i64} {}

// -----

// expected-error @+1 {{'dist.tp' is a number of ranks, at least 1, of dist.module}}
dist.module @m attributes {dist.tp = "two"} {}

// -----

// expected-error @+1 {{'dist.sequence_parallel' is a unit attribute of dist.module}}
dist.module @m attributes {dist.sequence_parallel = 1 : i64} {}

// -----

// expected-error @+1 {{'dist.overlap' is a number of strips, at least 1, of dist.module}}
dist.module @m attributes {dist.overlap = 0 : i64} {}

// -----

// expected-error @+1 {{'dist.strips' is a number of strips, at least 1, of a collective}}
dist.module @m attributes {dist.strips = 2 : i64} {}

// -----

func.func private @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{'dist.strips' is a number of strips, at least 1, of a collective}}
  %0 = dist.all_reduce sum %x over 2 stride 1 {dist.strips = -1 : i64} : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// expected-error @+1 {{'dist.memory_price' is a number of bytes (f64) of dist.module}}
dist.module @m attributes {dist.memory_price = 1 : i64} {}

// -----

dist.module @m {
  // expected-error @+1 {{'dist.layout' is a #dist.layout whose local shape is that of the parameter's type}}
  nn.parameter @w : tensor<4x4xf32> from #nn.onnx<"a.onnx", "w"> {dist.layout = #dist.layout<4x4, [#dist.cut<0, 2, 2, 1>]>}
}

// -----

// expected-error @+1 {{#dist.layout: 2 x 3 does not divide dim 0 of size 4}}
func.func private @f() attributes {a = #dist.layout<4x4, [#dist.cut<0, 3, 2, 1>]>}

// -----

// expected-error @+1 {{#dist.layout cuts dim 2 of a tensor of rank 2}}
func.func private @f() attributes {a = #dist.layout<4x4, [#dist.cut<2, 2, 2, 1>]>}

// -----

// expected-error @+1 {{#dist.layout: the whole is smaller than what it pads}}
func.func private @f() attributes {a = #dist.layout<4x4 of 5x4, []>}

// -----

// expected-error @+1 {{#dist.cut needs a chunk, ranks and a stride of at least 1}}
func.func private @f() attributes {a = #dist.cut<0, 2, 0, 1>}

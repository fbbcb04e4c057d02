// RUN: dt-opt %s -verify-diagnostics -split-input-file

// expected-error @+1 {{'dist.module' op attribute 'tp' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
dist.module @m attributes {tp = 0 : i64} {}

// -----

// expected-error @+1 {{'dist.module' op attribute 'tp' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
dist.module @m attributes {tp = "two"} {}

// -----

// expected-error @+1 {{'dist.module' op attribute 'sequence_parallel' failed to satisfy constraint: unit attribute}}
dist.module @m attributes {sequence_parallel = 1 : i64} {}

// -----

// expected-error @+1 {{'dist.module' op attribute 'overlap' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
dist.module @m attributes {overlap = 0 : i64} {}

// -----

// expected-error @+1 {{'dist.module' op has no attribute 'strips'}}
dist.module @m attributes {strips = 2 : i64} {}

// -----

func.func private @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{'dist.all_reduce' op attribute 'strips' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %0 = dist.all_reduce sum %x over 2 stride 1 {strips = -1 : i64} : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// expected-error @+1 {{'dist.module' op attribute 'memory_price' failed to satisfy constraint: 64-bit float attribute which is finite and not negative}}
dist.module @m attributes {memory_price = 1 : i64} {}

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

// -----

// expected-error @+1 {{'dist.module' op attribute 'ep' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
dist.module @m attributes {ep = 0 : i64} {}

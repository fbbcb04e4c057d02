// RUN: dt-opt %s --lower-nn-to-rt --rt-plan-memory --lower-program -split-input-file -verify-diagnostics -o /dev/null

// expected-error @+1 {{has neither a dist.forward of its own functions nor @forward}}
dist.module @a {
  nn.dim @batch of "sample" max 2
}

// -----

// expected-error @+1 {{is run for the whole batch: its backward function cannot be split}}
dist.module @a whole_batch {
  dist.forward @forward.fwd weight @forward.bwd.weight
  nn.dim @batch of "sample" max 2
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"a.onnx", "w">
  func.func @forward.fwd(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd.weight() {
    %0 = nn.read @w : tensor<4xf32>
    nn.accumulate @w, %0 : tensor<4xf32>
    return
  }
}

// -----

// expected-error @+1 {{edges between modules form a cycle}}
module {
dist.edge @a "y" to @b "x"
dist.edge @b "y" to @a "x"
dist.module @a {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}
dist.module @b {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}
}

// -----

// expected-error @+1 {{leads from a whole-batch module to one that runs a microbatch at a time}}
dist.edge @a "y" to @b "x"
dist.module @a whole_batch {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}
dist.module @b {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// -----

dist.batch global 4 micro 2
// expected-error @+1 {{brings '!rt.buffer<f32, [2, 4]>', whose first dim counts no items: it cannot be put together from several parts}}
dist.edge @a "y" to @b "x"
dist.module @a {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}
dist.module @b whole_batch {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}

// -----

// expected-error @+1 {{is placed on other ranks than 0, but there is no sched.solution}}
dist.module @a attributes {ranks = array<i64: 1>} {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// -----

dist.module @a {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 2
  func.func @forward.fwd(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
  // expected-error @+1 {{takes a gradient from 'b.x', which gives none}}
  func.func @forward.bwd(%g: tensor<?x4xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "y", edge = "b.x">}) {
    return
  }
}

// -----

dist.module @a {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 2
  func.func @forward.fwd(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
  // expected-error @+1 {{argument 0 is no input, residual or gradient of the module}}
  func.func @forward.bwd(%g: tensor<?x4xf32, #nn.dims<batch>> {nn.residual = 7 : i64}) {
    return
  }
}

// -----

// expected-error @+1 {{brings no gradient back, but its source takes one}}
dist.edge @a "y" to @b "x"
dist.module @a {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 2
  func.func @forward.fwd(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd(%g: tensor<?x4xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "y", edge = "b.x">}) {
    return
  }
}
dist.module @b {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// -----

// expected-error @+1 {{brings a gradient back that its source does not take}}
dist.edge @a "y" to @b "x"
dist.module @a {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}
dist.module @b {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 2
  func.func @forward.fwd(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd(%g: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.gradient = #nn.gradient<of = "x">}) {
    %0 = nn.exp %g : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// -----

// expected-error @+1 {{ties parameters that are cut differently}}
dist.tie @b::@w = @a::@w
dist.module @a attributes {tp = 2 : i64} {
  nn.dim @batch of "sample" max 2
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"a.onnx", "w"> {dist.layout = #dist.layout<8, [#dist.cut<0, 4, 2, 1>]>}
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}
dist.module @b {
  nn.dim @batch of "sample" max 2
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"a.onnx", "w">
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// -----

dist.module @a {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// expected-error @+1 {{has 2 microbatches; the program has 1}}
sched.problem @step ranks 1 microbatches 2 {
  sched.unit @u
  sched.stage @a of @u on [[0]] forward [1] no_backward
}
sched.solution of @step {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.run F @a mb 1
  }
}

// -----

dist.module @a {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// expected-error @+1 {{has 2 stages; the program has 1 modules}}
sched.problem @step ranks 1 microbatches 1 {
  sched.unit @u
  sched.stage @a of @u on [[0]] forward [1] no_backward
  sched.stage @b of @u on [[0]] forward [1] no_backward
}
sched.solution of @step {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.run F @b mb 0
  }
}

// -----

dist.module @a {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// expected-error @+1 {{has a stage 'b', which is no module}}
sched.problem @step ranks 1 microbatches 1 {
  sched.unit @u
  sched.stage @b of @u on [[0]] forward [1] no_backward
}
sched.solution of @step {
  sched.rank 0 {
    sched.run F @b mb 0
  }
}

// -----

dist.module @a attributes {dp = 2 : i64, ranks = array<i64: 0, 1>} {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// expected-error @+1 {{places stage 'a' otherwise than the module}}
sched.problem @step ranks 1 microbatches 1 {
  sched.unit @u
  sched.stage @a of @u on [[0]] forward [1] no_backward
}
sched.solution of @step {
  sched.rank 0 {
    sched.run F @a mb 0
  }
}

// -----

dist.edge @a "y" to @b "x"
dist.module @a {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}
dist.module @b {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// expected-error @+1 {{has other edges than the program, or in another order}}
sched.problem @step ranks 1 microbatches 1 {
  sched.unit @u
  sched.stage @a of @u on [[0]] forward [1] no_backward
  sched.stage @b of @u on [[0]] forward [1] no_backward
}
sched.solution of @step {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.run F @b mb 0
  }
}

// -----

// expected-error @+1 {{brings no gradient back; the sched.problem says otherwise}}
dist.edge @a "y" to @b "x"
dist.module @a {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}
dist.module @b {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

sched.problem @step ranks 1 microbatches 1 {
  sched.unit @u
  sched.stage @a of @u on [[0]] forward [1] input [1]
  sched.stage @b of @u on [[0]] forward [1] input [1]
  sched.edge @a to @b latency 0
}
sched.solution of @step {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.run F @b mb 0
    sched.run B @b mb 0
    sched.run B @a mb 0
  }
}

// -----

// expected-error @+1 {{is scheduled to go back, but has no backward function}}
dist.module @a {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

sched.problem @step ranks 1 microbatches 1 {
  sched.unit @u
  sched.stage @a of @u on [[0]] forward [1] input [1]
}
sched.solution of @step {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.run B @a mb 0
  }
}

// -----

// expected-error @+1 {{has a backward function that the schedule does not run}}
dist.module @a {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 2
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"a.onnx", "w">
  func.func @forward.fwd(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd() {
    %0 = nn.read @w : tensor<4xf32>
    nn.accumulate @w, %0 : tensor<4xf32>
    return
  }
}

sched.problem @step ranks 1 microbatches 1 {
  sched.unit @u
  sched.stage @a of @u on [[0]] forward [1] no_backward
}
sched.solution of @step {
  sched.rank 0 {
    sched.run F @a mb 0
  }
}

// -----

// expected-error @+1 {{is scheduled to run W, but its backward function is not split}}
dist.module @a {
  dist.forward @forward.fwd backward @forward.bwd
  nn.dim @batch of "sample" max 2
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"a.onnx", "w">
  func.func @forward.fwd(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
  func.func @forward.bwd() {
    %0 = nn.read @w : tensor<4xf32>
    nn.accumulate @w, %0 : tensor<4xf32>
    return
  }
}

sched.problem @step ranks 1 microbatches 1 {
  sched.unit @u
  sched.stage @a of @u on [[0]] forward [1] input [1] weight [1]
}
sched.solution of @step {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.run I @a mb 0
    sched.run W @a mb 0
  }
}

// -----

dist.module @a {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.exp %x : tensor<?x4xf32, #nn.dims<batch>>
    return %0 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

sched.problem @step ranks 1 microbatches 1 {
  sched.unit @u
  sched.stage @a of @u on [[0]] forward [1] no_backward
}
// expected-error @+1 {{is not the only one: a program has one step}}
sched.solution of @step {
  sched.rank 0 {
    sched.run F @a mb 0
  }
}
sched.solution of @step {
  sched.rank 0 {
    sched.run F @a mb 0
  }
}

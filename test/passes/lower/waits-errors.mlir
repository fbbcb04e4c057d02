// Rows of a step (docs/streams.md), wrong in each way that there is. Rank 0 has @a, whose output goes to @b on rank 1.
// RUN: dt-opt %s --rt-verify-lowered -verify-diagnostics -split-input-file

// What is read is still coming.
rt.program @p batch 2 micro 1 seed 0 pace @a {
  rt.module @a ranks [0] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @h : !rt.buffer<f32, [16]> at 0 stride 64
    rt.buffer_decl @gh : !rt.buffer<f32, [16]> at 128 stride 64
    rt.output "h" @h
    rt.entry forward @f [@h]
    rt.entry backward @g [@gh]
    rt.func @f(%h: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
    rt.func @g(%gh: !rt.buffer<f32, [16]>) {}
  }
  rt.module @b ranks [1] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @x : !rt.buffer<f32, [16]> at 0 stride 64 received
    rt.buffer_decl @dx : !rt.buffer<f32, [16]> at 128 stride 64
    rt.input "x" @x from @a {output = 0 : i64}
    rt.entry forward @f [@x]
    rt.entry backward @g [@x, @dx]
    rt.func @f(%x: !rt.buffer<f32, [16]>) {}
    rt.func @g(%x: !rt.buffer<f32, [16]>, %dx: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
  }
  rt.edge @a 0 to @b 0 gradient @dx to @gh
  rt.rank 0 {
  }
  rt.rank 1 {
    // expected-note @+1 {{which is this}}
    rt.task receive edge 0 microbatch 0 slot 0
    // expected-error @+1 {{touches bytes of row 0, for which nothing has waited}}
    rt.task forward @b microbatch 0 slot 0
  }
}

// -----

// A slot is used again while the microbatch before is sent from it.
rt.program @p batch 2 micro 1 seed 0 pace @a {
  rt.module @a ranks [0] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @h : !rt.buffer<f32, [16]> at 0 stride 64
    rt.buffer_decl @gh : !rt.buffer<f32, [16]> at 128 stride 64
    rt.output "h" @h
    rt.entry forward @f [@h]
    rt.entry backward @g [@gh]
    rt.func @f(%h: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
    rt.func @g(%gh: !rt.buffer<f32, [16]>) {}
  }
  rt.module @b ranks [1] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @x : !rt.buffer<f32, [16]> at 0 stride 64 received
    rt.buffer_decl @dx : !rt.buffer<f32, [16]> at 128 stride 64
    rt.input "x" @x from @a {output = 0 : i64}
    rt.entry forward @f [@x]
    rt.entry backward @g [@x, @dx]
    rt.func @f(%x: !rt.buffer<f32, [16]>) {}
    rt.func @g(%x: !rt.buffer<f32, [16]>, %dx: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
  }
  rt.edge @a 0 to @b 0 gradient @dx to @gh
  rt.rank 0 {
    rt.task forward @a microbatch 0 slot 0
    // expected-note @+1 {{which is this}}
    rt.task send edge 0 microbatch 0 slot 0
    // expected-error @+1 {{touches bytes of row 1, for which nothing has waited}}
    rt.task forward @a microbatch 1 slot 0
  }
  rt.rank 1 {
  }
}

// -----

// A message comes into a slot while another one does.
rt.program @p batch 2 micro 1 seed 0 pace @a {
  rt.module @a ranks [0] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @h : !rt.buffer<f32, [16]> at 0 stride 64
    rt.buffer_decl @gh : !rt.buffer<f32, [16]> at 128 stride 64
    rt.output "h" @h
    rt.entry forward @f [@h]
    rt.entry backward @g [@gh]
    rt.func @f(%h: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
    rt.func @g(%gh: !rt.buffer<f32, [16]>) {}
  }
  rt.module @b ranks [1] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @x : !rt.buffer<f32, [16]> at 0 stride 64 received
    rt.buffer_decl @dx : !rt.buffer<f32, [16]> at 128 stride 64
    rt.input "x" @x from @a {output = 0 : i64}
    rt.entry forward @f [@x]
    rt.entry backward @g [@x, @dx]
    rt.func @f(%x: !rt.buffer<f32, [16]>) {}
    rt.func @g(%x: !rt.buffer<f32, [16]>, %dx: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
  }
  rt.edge @a 0 to @b 0 gradient @dx to @gh
  rt.rank 0 {
  }
  rt.rank 1 {
    // expected-note @+1 {{which is this}}
    rt.task receive edge 0 microbatch 0 slot 0
    // expected-error @+1 {{touches bytes of row 0, for which nothing has waited}}
    rt.task receive edge 0 microbatch 1 slot 0
  }
}

// -----

// Another message is waited for.
rt.program @p batch 2 micro 1 seed 0 pace @a {
  rt.module @a ranks [0] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @h : !rt.buffer<f32, [16]> at 0 stride 64
    rt.buffer_decl @gh : !rt.buffer<f32, [16]> at 128 stride 64
    rt.output "h" @h
    rt.entry forward @f [@h]
    rt.entry backward @g [@gh]
    rt.func @f(%h: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
    rt.func @g(%gh: !rt.buffer<f32, [16]>) {}
  }
  rt.module @b ranks [1] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @x : !rt.buffer<f32, [16]> at 0 stride 64 received
    rt.buffer_decl @dx : !rt.buffer<f32, [16]> at 128 stride 64
    rt.input "x" @x from @a {output = 0 : i64}
    rt.entry forward @f [@x]
    rt.entry backward @g [@x, @dx]
    rt.func @f(%x: !rt.buffer<f32, [16]>) {}
    rt.func @g(%x: !rt.buffer<f32, [16]>, %dx: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
  }
  rt.edge @a 0 to @b 0 gradient @dx to @gh
  rt.rank 0 {
  }
  rt.rank 1 {
    // expected-note @+1 {{which is this}}
    rt.task receive edge 0 microbatch 0 slot 0
    rt.task receive edge 0 microbatch 1 slot 1
    // expected-error @+1 {{touches bytes of row 0, for which nothing has waited}}
    rt.task forward @b microbatch 0 slot 0 waits [1]
  }
}

// -----

// Waits too late: the row that waits does not run where the losses of a batch are asked for.
rt.program @p batch 2 micro 1 seed 0 pace @a {
  rt.module @a ranks [0] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @h : !rt.buffer<f32, [16]> at 0 stride 64
    rt.buffer_decl @gh : !rt.buffer<f32, [16]> at 128 stride 64
    rt.output "h" @h
    rt.entry forward @f [@h]
    rt.entry backward @g [@gh]
    rt.func @f(%h: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
    rt.func @g(%gh: !rt.buffer<f32, [16]>) {}
  }
  rt.module @b ranks [1] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @x : !rt.buffer<f32, [16]> at 0 stride 64 received
    rt.buffer_decl @dx : !rt.buffer<f32, [16]> at 128 stride 64
    rt.input "x" @x from @a {output = 0 : i64}
    rt.entry forward @f [@x]
    rt.entry backward @g [@x, @dx]
    rt.func @f(%x: !rt.buffer<f32, [16]>) {}
    rt.func @g(%x: !rt.buffer<f32, [16]>, %dx: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
  }
  rt.edge @a 0 to @b 0 gradient @dx to @gh
  rt.rank 0 {
    rt.task forward @a microbatch 0 slot 0
    // expected-note @+1 {{which is this}}
    rt.task send edge 0 microbatch 0 slot 0
    rt.task backward @a microbatch 0 slot 0 waits [1]
    // expected-error @+1 {{touches bytes of row 1, for which nothing has waited}}
    rt.task forward @a microbatch 1 slot 0
  }
  rt.rank 1 {
  }
}

// -----

// Adds to gradients that are summed.
rt.program @p batch 2 micro 1 seed 0 pace @a {
  rt.module @a ranks [0] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @h : !rt.buffer<f32, [16]> at 0 stride 64
    rt.buffer_decl @gh : !rt.buffer<f32, [16]> at 128 stride 64
    rt.output "h" @h
    rt.entry forward @f [@h]
    rt.entry backward @g [@gh]
    rt.func @f(%h: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
    rt.func @g(%gh: !rt.buffer<f32, [16]>) {}
  }
  rt.module @b ranks [1] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @x : !rt.buffer<f32, [16]> at 0 stride 64 received
    rt.buffer_decl @dx : !rt.buffer<f32, [16]> at 128 stride 64
    rt.input "x" @x from @a {output = 0 : i64}
    rt.entry forward @f [@x]
    rt.entry backward @g [@x, @dx]
    rt.func @f(%x: !rt.buffer<f32, [16]>) {}
    rt.func @g(%x: !rt.buffer<f32, [16]>, %dx: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
  }
  rt.edge @a 0 to @b 0 gradient @dx to @gh
  rt.rank 0 {
    rt.task backward @a microbatch 0 slot 0
    // expected-note @+1 {{which is this}}
    rt.task reduce @a microbatch 0 slot 0
    // expected-error @+1 {{touches bytes of row 1, which sums until the step ends}}
    rt.task backward @a microbatch 1 slot 1
  }
  rt.rank 1 {
  }
}

// -----

// The second slot of what is sent is the first one of what comes.
rt.program @p batch 2 micro 1 seed 0 pace @a {
  rt.module @a ranks [0] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @h : !rt.buffer<f32, [16]> at 0 stride 64
    rt.buffer_decl @gh : !rt.buffer<f32, [16]> at 64 stride 64
    rt.output "h" @h
    rt.entry forward @f [@h]
    rt.entry backward @g [@gh]
    rt.func @f(%h: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
    rt.func @g(%gh: !rt.buffer<f32, [16]>) {}
  }
  rt.module @b ranks [1] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @x : !rt.buffer<f32, [16]> at 0 stride 64 received
    rt.buffer_decl @dx : !rt.buffer<f32, [16]> at 128 stride 64
    rt.input "x" @x from @a {output = 0 : i64}
    rt.entry forward @f [@x]
    rt.entry backward @g [@x, @dx]
    rt.func @f(%x: !rt.buffer<f32, [16]>) {}
    rt.func @g(%x: !rt.buffer<f32, [16]>, %dx: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
  }
  rt.edge @a 0 to @b 0 gradient @dx to @gh
  rt.rank 0 {
    rt.task forward @a microbatch 1 slot 1
    // expected-note @+1 {{which is this}}
    rt.task send edge 0 microbatch 1 slot 1
    // expected-error @+1 {{touches bytes of row 1, for which nothing has waited}}
    rt.task receive edge 0 microbatch 0 slot 0 gradient
  }
  rt.rank 1 {
  }
}

// -----

// Waits for what has not begun.
rt.program @p batch 2 micro 1 seed 0 pace @a {
  rt.module @a ranks [0] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @h : !rt.buffer<f32, [16]> at 0 stride 64
    rt.buffer_decl @gh : !rt.buffer<f32, [16]> at 128 stride 64
    rt.output "h" @h
    rt.entry forward @f [@h]
    rt.entry backward @g [@gh]
    rt.func @f(%h: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
    rt.func @g(%gh: !rt.buffer<f32, [16]>) {}
  }
  rt.module @b ranks [1] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @x : !rt.buffer<f32, [16]> at 0 stride 64 received
    rt.buffer_decl @dx : !rt.buffer<f32, [16]> at 128 stride 64
    rt.input "x" @x from @a {output = 0 : i64}
    rt.entry forward @f [@x]
    rt.entry backward @g [@x, @dx]
    rt.func @f(%x: !rt.buffer<f32, [16]>) {}
    rt.func @g(%x: !rt.buffer<f32, [16]>, %dx: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
  }
  rt.edge @a 0 to @b 0 gradient @dx to @gh
  rt.rank 0 {
  }
  rt.rank 1 {
    // expected-error @+1 {{waits for row 1, which is no message before it}}
    rt.task forward @b microbatch 0 slot 0 waits [1]
    rt.task receive edge 0 microbatch 0 slot 0
  }
}

// -----

// Waits for what is no message.
rt.program @p batch 2 micro 1 seed 0 pace @a {
  rt.module @a ranks [0] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @h : !rt.buffer<f32, [16]> at 0 stride 64
    rt.buffer_decl @gh : !rt.buffer<f32, [16]> at 128 stride 64
    rt.output "h" @h
    rt.entry forward @f [@h]
    rt.entry backward @g [@gh]
    rt.func @f(%h: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
    rt.func @g(%gh: !rt.buffer<f32, [16]>) {}
  }
  rt.module @b ranks [1] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @x : !rt.buffer<f32, [16]> at 0 stride 64 received
    rt.buffer_decl @dx : !rt.buffer<f32, [16]> at 128 stride 64
    rt.input "x" @x from @a {output = 0 : i64}
    rt.entry forward @f [@x]
    rt.entry backward @g [@x, @dx]
    rt.func @f(%x: !rt.buffer<f32, [16]>) {}
    rt.func @g(%x: !rt.buffer<f32, [16]>, %dx: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
  }
  rt.edge @a 0 to @b 0 gradient @dx to @gh
  rt.rank 0 {
    rt.task forward @a microbatch 0 slot 0
    // expected-error @+1 {{waits for row 0, which is no message before it}}
    rt.task backward @a microbatch 0 slot 0 waits [0]
  }
  rt.rank 1 {
  }
}

// -----

rt.program @p batch 2 micro 1 seed 0 pace @a {
  rt.module @a ranks [0] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @h : !rt.buffer<f32, [16]> at 0 stride 64
    rt.buffer_decl @gh : !rt.buffer<f32, [16]> at 128 stride 64
    rt.output "h" @h
    rt.entry forward @f [@h]
    rt.entry backward @g [@gh]
    rt.func @f(%h: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
    rt.func @g(%gh: !rt.buffer<f32, [16]>) {}
  }
  rt.module @b ranks [1] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @x : !rt.buffer<f32, [16]> at 0 stride 64 received
    rt.buffer_decl @dx : !rt.buffer<f32, [16]> at 128 stride 64
    rt.input "x" @x from @a {output = 0 : i64}
    rt.entry forward @f [@x]
    rt.entry backward @g [@x, @dx]
    rt.func @f(%x: !rt.buffer<f32, [16]>) {}
    rt.func @g(%x: !rt.buffer<f32, [16]>, %dx: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
  }
  rt.edge @a 0 to @b 0 gradient @dx to @gh
  rt.rank 0 {
  }
  rt.rank 1 {
    rt.task receive edge 0 microbatch 0 slot 0
    // expected-error @+1 {{waits for row 0 twice}}
    rt.task forward @b microbatch 0 slot 0 waits [0, 0]
  }
}

// -----

// The slot is one of the kind that the buffer is of.
rt.program @p batch 2 micro 1 seed 0 pace @a {
  rt.module @a ranks [0] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @h : !rt.buffer<f32, [16]> at 0 stride 64
    rt.buffer_decl @gh : !rt.buffer<f32, [16]> at 128 stride 64
    rt.output "h" @h
    rt.entry forward @f [@h]
    rt.entry backward @g [@gh]
    rt.func @f(%h: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
    rt.func @g(%gh: !rt.buffer<f32, [16]>) {}
  }
  rt.module @b ranks [1] arena 256 scratch 0 parameters 64 trainable 64 {
    rt.buffer_decl @x : !rt.buffer<f32, [16]> at 0 stride 64 early
    rt.buffer_decl @dx : !rt.buffer<f32, [16]> at 128 stride 64
    rt.input "x" @x from @a {output = 0 : i64}
    rt.entry forward @f [@x]
    rt.entry backward @g [@x, @dx]
    rt.func @f(%x: !rt.buffer<f32, [16]>) {}
    rt.func @g(%x: !rt.buffer<f32, [16]>, %dx: !rt.buffer<f32, [16]> {rt.access = "out"}) {}
  }
  rt.edge @a 0 to @b 0 gradient @dx to @gh
  rt.rank 0 {
  }
  rt.rank 1 {
    // expected-note @+1 {{which is this}}
    rt.task receive edge 0 microbatch 0 slot 1
    rt.task forward @b microbatch 1 slot 1 received 1 late 1
    // expected-error @+1 {{touches bytes of row 0, for which nothing has waited}}
    rt.task forward @b microbatch 0 slot 0 early 1
  }
}

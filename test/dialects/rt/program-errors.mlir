// RUN: dt-opt %s -verify-diagnostics -split-input-file

// What holds between the tables of a program, and inside of each.

rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
  rt.func @f(%a: !rt.buffer<f32, [2]>) {
  }
  // expected-note @+1 {{declared here}}
  rt.buffer_decl @b : !rt.buffer<f32, [3]> at 0 stride 0
  // expected-error @+1 {{gives @b of type}}
  rt.entry forward @f [@b]
}

// -----

// expected-error @+1 {{speeds are 2 numbers from 1 to 2147483647, none of a whole batch}}
rt.module @m dp 2 ranks [0, 1] speeds [1, 0] arena 64 scratch 0 parameters 0 trainable 0 {
}

// -----

// expected-error @+1 {{needs 1 <= micro <= batch}}
rt.program @p batch 1 micro 2 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
  }
  rt.rank 0 {
  }
}

// -----

// expected-error @+1 {{names no rt.module as pace: @n}}
rt.program @p batch 1 micro 1 seed 0 pace @n {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
  }
  rt.rank 0 {
  }
}

// -----

// expected-error @+1 {{reorder 'some' is none of none, intra, inter, both}}
rt.program @p batch 1 micro 1 seed 0 pace @m reorder "some" {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
  }
  rt.rank 0 {
  }
}

// -----

// expected-error @+1 {{needs a bucket of at least 1 byte}}
rt.program @p batch 1 micro 1 seed 0 pace @m bucket 0 {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
  }
  rt.rank 0 {
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
  }
  // expected-error @+1 {{is of rank 1, but none is of rank 0}}
  rt.rank 1 {
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
  }
  rt.rank 0, 2 {
  }
  // expected-error @+1 {{is the second of rank 2}}
  rt.rank 1, 2 {
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
  }
  // expected-error @+1 {{is of rank -1}}
  rt.rank 0, -1 {
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
  }
  // expected-error @+1 {{is of no rank}}
  "rt.rank"() <{ranks = array<i64>}> ({
  ^bb0:
  }) : () -> ()
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  // expected-error @+1 {{runs on rank 1; the program has 1}}
  rt.module @m ranks [1] arena 64 scratch 0 parameters 0 trainable 0 {
  }
  rt.rank 0 {
  }
}

// -----

// expected-error @+1 {{tp 2 and dp 1 do not make 1 ranks}}
rt.module @m tp 2 ranks [0] arena 0 scratch 0 parameters 0 trainable 0 {
}

// -----

// expected-error @+1 {{sub is from 1 to 32767, and 1 of a whole batch}}
rt.module @m ranks [0] sub 0 arena 0 scratch 0 parameters 0 trainable 0 {
}

// -----

// expected-error @+1 {{sub is from 1 to 32767, and 1 of a whole batch}}
rt.module @m whole_batch ranks [0] sub 2 arena 0 scratch 0 parameters 0 trainable 0 {
}

// -----

// expected-error @+1 {{zero is 0 or 1}}
rt.module @m ranks [0] zero 2 arena 0 scratch 0 parameters 0 trainable 0 {
}

// -----

// expected-error @+1 {{trains 64 bytes of 0}}
rt.module @m ranks [0] arena 0 scratch 0 parameters 0 trainable 64 {
}

// -----

rt.module @m ranks [0] arena 64 scratch 0 parameters 128 trainable 64 {
  // expected-error @+1 {{at 64 is not in a region of 64 bytes, or not at a multiple of 64}}
  rt.parameter_decl @w : !rt.buffer<f32, [4]> index 0 at 64 trainable from []
}

// -----

rt.module @m ranks [0] arena 64 scratch 0 parameters 128 trainable 64 {
  // expected-error @+1 {{at 8 is not in a region of 64 bytes, or not at a multiple of 64}}
  rt.buffer_decl @b : !rt.buffer<f32, [4]> at 8 stride 0
}

// -----

rt.module @m ranks [0] arena 64 scratch 0 parameters 128 trainable 64 {
  // expected-error @+1 {{stride must be a multiple of 64 bytes}}
  rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 16
}

// -----

rt.module @m ranks [0] arena 64 scratch 0 parameters 128 trainable 64 {
  // expected-error @+1 {{is no part by #dist.layout<4x8, [#dist.cut<0, 2, 2, 1>]>}}
  rt.parameter_decl @w : !rt.buffer<f32, [4, 8]> index 0 at 0 trainable from [] layout #dist.layout<4x8, [#dist.cut<0, 2, 2, 1>]>
}

// -----

rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
  rt.symbol @n max 2
  // expected-error @+1 {{of type '!rt.buffer<f32, [n, 4]>' is no part by #dist.layout<?x4 of ?x3, [#dist.cut<1, 2, 2, 1>]>}}
  rt.buffer_decl @b : !rt.buffer<f32, [n, 4]> at 0 stride 0 layout #dist.layout<?x4 of ?x3, [#dist.cut<1, 2, 2, 1>]>
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 0 scratch 0 parameters 64 trainable 64 {
    rt.parameter_decl @w : !rt.buffer<f32, [4]> index 0 at 0 trainable from []
  }
  rt.module @n ranks [0] arena 0 scratch 0 parameters 128 trainable 128 {
    // expected-error @+1 {{is tied to no rt.parameter_decl: @m::@v}}
    rt.parameter_decl @w : !rt.buffer<f32, [4]> index 1 at 0 trainable from [] tied @m::@v
  }
  rt.rank 0 {
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 0 scratch 0 parameters 64 trainable 64 {
    rt.parameter_decl @w : !rt.buffer<f32, [8]> index 0 at 0 trainable from []
  }
  rt.module @n ranks [0] arena 0 scratch 0 parameters 128 trainable 128 {
    // expected-error @+1 {{is a copy of @m::@w and has another shape or layout}}
    rt.parameter_decl @w : !rt.buffer<f32, [4]> index 1 at 0 trainable from [] tied @m::@w
  }
  rt.rank 0 {
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 0 scratch 0 parameters 64 trainable 64 {
    rt.parameter_decl @w : !rt.buffer<f32, [4]> index 0 at 0 trainable from []
  }
  rt.module @n ranks [0] arena 0 scratch 0 parameters 128 trainable 128 {
    // expected-error @+1 {{is tied to a copy: @n::@v}}
    rt.parameter_decl @w : !rt.buffer<f32, [4]> index 1 at 0 trainable from [] tied @n::@v
    rt.parameter_decl @v : !rt.buffer<f32, [4]> index 2 at 64 trainable from [] tied @m::@w
  }
  rt.rank 0 {
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  // expected-error @+1 {{names no rt.module: @x}}
  rt.edge @x 0 to @n 0
  rt.rank 0 {
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  // expected-error @+1 {{names no rt.module: @x}}
  rt.edge @m 0 to @x 0
  rt.rank 0 {
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  // expected-error @+1 {{takes output 1 of @m, which has 1}}
  rt.edge @m 1 to @n 0
  rt.rank 0 {
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  // expected-error @+1 {{feeds input 1 of @n, which has 1}}
  rt.edge @m 0 to @n 1
  rt.rank 0 {
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  // expected-error @+1 {{names no rt.buffer_decl of @n: @g}}
  rt.edge @m 0 to @n 0 gradient @g to @b
  rt.rank 0 {
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  // expected-error @+1 {{names no rt.buffer_decl of @m: @g}}
  rt.edge @m 0 to @n 0 gradient @b to @g
  rt.rank 0 {
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  rt.edge @m 0 to @n 0
  rt.rank 0 {
    // expected-error @+1 {{has a number out of range}}
    rt.task forward @m microbatch 0 slot -1
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  rt.edge @m 0 to @n 0
  rt.rank 0 {
    // expected-error @+1 {{has a number out of range}}
    rt.task forward @m microbatch 0 slot 0 late 32768
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  rt.edge @m 0 to @n 0
  rt.rank 0 {
    // expected-error @+1 {{needs a subject and no edge}}
    rt.task forward edge 0 microbatch 0 slot 0
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  rt.edge @m 0 to @n 0
  rt.rank 0 {
    // expected-error @+1 {{needs an edge and no subject}}
    rt.task send @m microbatch 0 slot 0
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  rt.edge @m 0 to @n 0
  rt.rank 0 {
    // expected-error @+1 {{is about edge 1; the program has 1}}
    rt.task copy edge 1 microbatch 0 slot 0
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  rt.edge @m 0 to @n 0
  rt.rank 0 {
    // expected-error @+1 {{is about no rt.loss: @m}}
    rt.task denominator @m microbatch 0 slot 0
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  rt.edge @m 0 to @n 0
  rt.rank 0 {
    // expected-error @+1 {{is about no rt.module: @x}}
    rt.task forward @x microbatch 0 slot 0
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  rt.edge @m 0 to @n 0
  rt.rank 0 {
    // expected-error @+1 {{runs what @m has no rt.entry for}}
    rt.task backward @m microbatch 0 slot 0
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.module @m ranks [0] sub 2 arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.output "b" @b
  }
  rt.module @n ranks [0] arena 64 scratch 0 parameters 0 trainable 0 {
    rt.buffer_decl @b : !rt.buffer<f32, [4]> at 0 stride 0
    rt.input "b" @b from @m {output = 0 : i64}
  }
  rt.edge @m 0 to @n 0
  rt.rank 0 {
    rt.task send edge 0 microbatch 0 piece 1 slot 1
    // expected-error @+1 {{is about piece 1 of @n, which has 1}}
    rt.task receive edge 0 microbatch 0 piece 1 slot 0 peer 1
  }
}

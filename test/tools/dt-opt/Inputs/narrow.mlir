// Two replicas that share the optimizer's state. Of @w 64 of 128 elements are a
// rank's; @b is too small to be shared.
rt.program @p batch 2 micro 1 seed 0 pace @m {
  rt.module @m dp 2 ranks [0, 1] zero 1 arena 0 scratch 0 parameters 512 trainable 640 {
    rt.parameter_decl @w : !rt.buffer<bf16, [128]> index 0 at 0 trainable gradient init "zeros" from []
    rt.parameter_decl @b : !rt.buffer<f32, [32]> index 1 at 256 trainable at 512 gradient init "zeros" from []
    rt.parameter_decl @frozen : !rt.buffer<bf16, [64]> index 2 at 384 init "zeros" from []
  }
  rt.rank 0 {
  }
  rt.rank 1 {
  }
  rt.optimizer {kind = "adamw", lr = 0.1}
}

// RUN: dt-opt %s --dist-schedule -verify-diagnostics -split-input-file

// expected-error @+1 {{'dist.module' op has neither a dist.forward of its own functions nor @forward}}
dist.module @m of "sample" {
}

// -----

dist.module @m of "sample" {
  nn.dim @batch of "sample" max 4
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    return %x : tensor<?x4xf32, #nn.dims<batch>>
  }
}
// expected-error @+1 {{pipelines.schedule: 'fastest': no schedule 'fastest'; expected one of 1f1b, accumulate}}
dist.plan ranks 1 schedule "fastest" pace @m reorder "none" bucket 4096 depth 2

// -----

// Nothing may come after what needs the whole batch.
// expected-error @below {{'sched.problem' op cannot be: edge head -> m: nothing may follow a batch-sync}}
module {
  dist.module @head of "sample" whole_batch {
    nn.dim @batch of "sample" max 4
    func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
      return %x : tensor<?x4xf32, #nn.dims<batch>>
    }
  }
  dist.module @m of "sample" {
    nn.dim @batch of "sample" max 4
    func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
      return %x : tensor<?x4xf32, #nn.dims<batch>>
    }
  }
  dist.edge @head "y" to @m "x"
}

// -----

// expected-error @below {{has a sched.problem; dist-schedule makes it}}
module {
  dist.module @m of "sample" {
  }
  sched.problem @other ranks 1 microbatches 1 {
    sched.unit @u
    sched.stage @s of @u on [[0]] forward [1]
  }
}

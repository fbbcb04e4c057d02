// What an output is a part of, and whether parts of the batch make the whole, is said where its buffer is declared: of inputs and residuals nothing.
// RUN: dt-opt %s --lower-nn-to-rt --cse --rt-plan-memory --lower-program --rt-place-waits --rt-verify-lowered | FileCheck %s

dist.batch global 4 micro 2
dist.optimizer sgd lr 1.0e-3

// CHECK: rt.buffer_decl @x : !rt.buffer<f32, [batch, 64]> at {{[0-9]+}} stride {{[0-9]+$}}
// CHECK: rt.buffer_decl @scores : !rt.buffer<f32, [batch, 32]> at {{[0-9]+}} stride {{[0-9]+}} layout <?x64 of ?x61, [#dist.cut<1, 32, 2, 1>]>{{$}}
// CHECK: rt.buffer_decl @mixed : !rt.buffer<f32, [batch, 64]> at {{[0-9]+}} stride {{[0-9]+}} unjoined{{$}}
// CHECK: rt.buffer_decl @plain : !rt.buffer<f32, [batch, 64]> at {{[0-9]+}} stride {{[0-9]+$}}
// CHECK: rt.output "scores" @scores
// CHECK: rt.output "mixed" @mixed
// CHECK: rt.output "plain" @plain
dist.module @m {
  nn.dim @batch of "sample" max 2
  func.func @forward(%x: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "x"}) -> (tensor<?x32xf32, #nn.dims<batch>> {nn.name = "scores", dist.layout = #dist.layout<?x64 of ?x61, [#dist.cut<1, 32, 2, 1>]>}, tensor<?x64xf32, #nn.dims<batch>> {nn.name = "mixed", dist.unjoined}, tensor<?x64xf32, #nn.dims<batch>> {nn.name = "plain"}) {
    %0 = nn.slice %x [0, 0] step [1, 1] {from_end = array<i1>} : tensor<?x64xf32, #nn.dims<batch>> to tensor<?x32xf32, #nn.dims<batch>>
    %1 = nn.tanh %x : tensor<?x64xf32, #nn.dims<batch>>
    %2 = nn.neg %x : tensor<?x64xf32, #nn.dims<batch>>
    return %0, %1, %2 : tensor<?x32xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
  }
}

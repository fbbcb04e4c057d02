// What the largest call of a collective gives, and packs where it cuts inside
// rows: on the compute stream or beside it. One row needs no packing.
// RUN: dt-opt %s --dt-print-program -o /dev/null | FileCheck %s
// CHECK: CollectiveInfo kCollectives[3] = {
// CHECK-NEXT: CollectiveKind::AllGather, .type = dt::rt::DType::F32, .over = 2, .stride = 1, .calls = 2, .elements = {{.*}}, .most = 32, .packed = 256},
// CHECK-NEXT: CollectiveKind::AllGather, .type = dt::rt::DType::F32, .over = 2, .stride = 2, .calls = 1, .elements = {{.*}}, .most = 32},
// CHECK-NEXT: CollectiveKind::ReduceScatter, .type = dt::rt::DType::F32, .over = 2, .stride = 1, .calls = 1, .elements = {{.*}}, .most = 64, .beside = 256}};

rt.program @p batch 2 micro 2 seed 0 pace @m {
  rt.module @m tp 4 ranks [0, 1, 2, 3] arena 384 scratch 0 parameters 0 trainable 0 {
    rt.symbol @n of "sample" max 8
    rt.buffer_decl @x : !rt.buffer<f32, [n, 4]> at 0 stride 0
    rt.buffer_decl @y : !rt.buffer<f32, [n, 8]> at 128 stride 0
    rt.entry forward @f [@x, @y]
    rt.func @f(%x: !rt.buffer<f32, [n, 4]> {rt.access = "inout"}, %y: !rt.buffer<f32, [n, 8]> {rt.access = "inout"}) {
      rt.collective all_gather %x to %y chunk <4> over 2 stride 1 : !rt.buffer<f32, [n, 4]>, !rt.buffer<f32, [n, 8]>
      rt.collective all_gather %x to %y over 2 stride 1 : !rt.buffer<f32, [n, 4]>, !rt.buffer<f32, [n, 8]>
      rt.collective all_gather %x to %y chunk <4*n> over 2 stride 2 : !rt.buffer<f32, [n, 4]>, !rt.buffer<f32, [n, 8]>
      rt.collective reduce_scatter %y to %x chunk <4> over 2 stride 1 on tp : !rt.buffer<f32, [n, 8]>, !rt.buffer<f32, [n, 4]>
    }
  }
  rt.optimizer {kind = "sgd"}
  rt.rank 0 {
    rt.task forward @m microbatch 0 slot 0
  }
  rt.rank 1 {
    rt.task forward @m microbatch 0 slot 0
  }
  rt.rank 2 {
    rt.task forward @m microbatch 0 slot 0
  }
  rt.rank 3 {
    rt.task forward @m microbatch 0 slot 0
  }
}

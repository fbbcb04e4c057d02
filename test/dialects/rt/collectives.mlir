// Collectives print and parse, over sizes with symbols too.
// RUN: dt-opt %s | dt-opt | FileCheck %s

// CHECK-LABEL: rt.func @f
rt.func @f(%a: !rt.buffer<f32, [batch, 8]>, %b: !rt.buffer<f32, [batch, 16]> {rt.access = "out"}, %c: !rt.buffer<f32, [batch, 8]> {rt.access = "out"}, %i: !rt.buffer<i64, []> {rt.access = "out"}) {
  // CHECK: rt.collective all_reduce by max %{{.*}} to %{{.*}} over 2 stride 2
  rt.collective all_reduce by max %a to %a over 2 stride 2 : !rt.buffer<f32, [batch, 8]>, !rt.buffer<f32, [batch, 8]>
  // CHECK: rt.collective all_gather %{{.*}} to %{{.*}} chunk <4> over 2 stride 1
  rt.collective all_gather %a to %b chunk <4> over 2 stride 1 : !rt.buffer<f32, [batch, 8]>, !rt.buffer<f32, [batch, 16]>
  // CHECK: rt.collective all_gather %{{.*}} to %{{.*}} chunk <8*batch> over 2 stride 1
  rt.collective all_gather %a to %b chunk <8*batch> over 2 stride 1 : !rt.buffer<f32, [batch, 8]>, !rt.buffer<f32, [batch, 16]>
  // CHECK: rt.collective reduce_scatter %{{.*}} to %{{.*}} chunk <8> over 2 stride 1
  rt.collective reduce_scatter %b to %a chunk <8> over 2 stride 1 : !rt.buffer<f32, [batch, 16]>, !rt.buffer<f32, [batch, 8]>
  // CHECK: rt.collective reduce_scatter %{{.*}} to %{{.*}} chunk <8> pitch <12> over 2 stride 1
  rt.collective reduce_scatter %b to %a chunk <8> pitch <12> over 2 stride 1 : !rt.buffer<f32, [batch, 16]>, !rt.buffer<f32, [batch, 8]>
  // CHECK: rt.collective all_to_all %{{.*}} to %{{.*}} over 4 stride 1
  rt.collective all_to_all %a to %a over 4 stride 1 : !rt.buffer<f32, [batch, 8]>, !rt.buffer<f32, [batch, 8]>
  // CHECK: rt.collective shift %{{.*}} to %{{.*}} over 4 stride 1
  rt.collective shift %a to %c over 4 stride 1 : !rt.buffer<f32, [batch, 8]>, !rt.buffer<f32, [batch, 8]>
  // CHECK: rt.rank_place %{{.*}} over 4 stride 1
  rt.rank_place %i over 4 stride 1 : !rt.buffer<i64, []>
}

// Marked collectives and the products beside them as ordinary ops: a strip is under way before the one before it is multiplied, or as soon as its product is done.
// RUN: dt-opt %s --lower-nn-to-rt | FileCheck %s

dist.module @m {
  nn.dim @batch of "sample" max 4

  // Strip i of both ranks stands in a buffer of its own; products write to its rows of the whole result, 5 rows of every rank and item apart.
  // CHECK-LABEL: rt.func @gather
  // CHECK: %[[G0:.*]] = rt.alloc "gathered" : <f32, [2*batch, 2, 16]>
  // CHECK: %[[X0:.*]] = rt.view %arg0 : {{.*}} to <f32, [80*batch]>
  // CHECK: rt.collective all_gather %[[X0]] to %[[G0]] chunk <32> pitch <80> over 2 stride 1
  // CHECK: %[[G1:.*]] = rt.alloc "gathered" : <f32, [2*batch, 3, 16]>
  // CHECK: %[[X1:.*]] = rt.view %arg0 {offset = #nn.dim<32>} : {{.*}} to <f32, [80*batch - 32]>
  // CHECK: rt.collective all_gather %[[X1]] to %[[G1]] chunk <48> pitch <80> over 2 stride 1
  // CHECK: rt.matmul %{{.*}}, %arg1 bias %arg3 to %{{.*}} {batch = #nn.dim<2*batch>, k = #nn.dim<16>, m = #nn.dim<2>, n = #nn.dim<8>, stride_a = #nn.dim<32>, stride_c = #nn.dim<40>, trans_b}
  // CHECK: rt.matmul %{{.*}}, %arg2 to %{{.*}} {batch = #nn.dim<2*batch>, k = #nn.dim<16>, m = #nn.dim<2>, n = #nn.dim<4>, stride_a = #nn.dim<32>, stride_c = #nn.dim<20>}
  // CHECK: %[[Y1:.*]] = rt.view %arg4 {offset = #nn.dim<16>} : {{.*}} to <f32, [80*batch - 16]>
  // CHECK: rt.matmul %{{.*}}, %arg1 bias %arg3 to %[[Y1]] {batch = #nn.dim<2*batch>, k = #nn.dim<16>, m = #nn.dim<3>, n = #nn.dim<8>, stride_a = #nn.dim<48>, stride_c = #nn.dim<40>, trans_b}
  // CHECK: rt.matmul %{{.*}}, %arg2 to %{{.*}} {batch = #nn.dim<2*batch>, k = #nn.dim<16>, m = #nn.dim<3>, n = #nn.dim<4>, stride_a = #nn.dim<48>, stride_c = #nn.dim<20>}
  // CHECK-NOT: rt.kernel
  func.func @gather(%x: tensor<?x5x16xf32, #nn.dims<batch>>, %w: tensor<8x16xf32>, %v: tensor<16x4xf32>, %b: tensor<8xf32>) -> (tensor<?x10x8xf32, #nn.dims<batch>>, tensor<?x10x4xf32, #nn.dims<batch>>) {
    %0 = dist.all_gather %x axis 1 chunk 5 over 2 stride 1 {strips = 2 : i64} : tensor<?x5x16xf32, #nn.dims<batch>> to tensor<?x10x16xf32, #nn.dims<batch>>
    %1 = nn.linear %0, %w, %b : tensor<?x10x16xf32, #nn.dims<batch>>, tensor<8x16xf32>, tensor<8xf32>
    %2 = nn.linear %0, %v {in_out} : tensor<?x10x16xf32, #nn.dims<batch>>, tensor<16x4xf32>
    return %1, %2 : tensor<?x10x8xf32, #nn.dims<batch>>, tensor<?x10x4xf32, #nn.dims<batch>>
  }

  // Somebody else wants the whole: it is put together behind the products.
  // CHECK-LABEL: rt.func @whole
  // CHECK-COUNT-2: rt.collective all_gather
  // CHECK-COUNT-2: rt.matmul
  // CHECK: rt.alloc "all_gather" : <f32, [batch, 10, 16]>
  // CHECK-COUNT-2: rt.kernel @put_together
  // CHECK: rt.kernel @exp
  func.func @whole(%x: tensor<?x5x16xf32, #nn.dims<batch>>, %w: tensor<8x16xf32>) -> (tensor<?x10x8xf32, #nn.dims<batch>>, tensor<?x10x16xf32, #nn.dims<batch>>) {
    %0 = dist.all_gather %x axis 1 chunk 5 over 2 stride 1 {strips = 2 : i64} : tensor<?x5x16xf32, #nn.dims<batch>> to tensor<?x10x16xf32, #nn.dims<batch>>
    %1 = nn.exp %0 : tensor<?x10x16xf32, #nn.dims<batch>>
    %2 = nn.linear %0, %w : tensor<?x10x16xf32, #nn.dims<batch>>, tensor<8x16xf32>
    return %2, %1 : tensor<?x10x8xf32, #nn.dims<batch>>, tensor<?x10x16xf32, #nn.dims<batch>>
  }

  // CHECK-LABEL: rt.func @scatter
  // CHECK: %[[P0:.*]] = rt.alloc "partial" : <f32, [2*batch, 2, 16]>
  // CHECK: rt.matmul {{.*}} {batch = #nn.dim<2*batch>, k = #nn.dim<8>, m = #nn.dim<2>, n = #nn.dim<16>, stride_a = #nn.dim<40>, stride_c = #nn.dim<32>, trans_b}
  // CHECK: rt.collective reduce_scatter %[[P0]] to %{{.*}} chunk <32> pitch <80> over 2 stride 1
  // CHECK: rt.matmul {{.*}} {batch = #nn.dim<2*batch>, k = #nn.dim<8>, m = #nn.dim<3>, n = #nn.dim<16>, stride_a = #nn.dim<40>, stride_c = #nn.dim<48>, trans_b}
  // CHECK: rt.view %arg2 {offset = #nn.dim<32>}
  // CHECK: rt.collective reduce_scatter %{{.*}} chunk <48> pitch <80> over 2 stride 1
  func.func @scatter(%x: tensor<?x10x8xf32, #nn.dims<batch>>, %w: tensor<16x8xf32>) -> tensor<?x5x16xf32, #nn.dims<batch>> {
    %0 = nn.linear %x, %w : tensor<?x10x8xf32, #nn.dims<batch>>, tensor<16x8xf32>
    %1 = dist.reduce_scatter %0 axis 1 chunk 5 over 2 stride 1 {strips = 2 : i64} : tensor<?x10x16xf32, #nn.dims<batch>> to tensor<?x5x16xf32, #nn.dims<batch>>
    return %1 : tensor<?x5x16xf32, #nn.dims<batch>>
  }

  // Runs of rows of the result itself, 3 and 4 times what the batch has.
  // CHECK-LABEL: rt.func @reduce
  // CHECK: rt.matmul {{.*}} {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<3*batch>, n = #nn.dim<16>, trans_b}
  // CHECK: %[[Y0:.*]] = rt.view %arg2 : {{.*}} to <f32, [48*batch]>
  // CHECK: rt.collective all_reduce by sum %[[Y0]] to %[[Y0]] over 2 stride 1
  // CHECK: rt.matmul {{.*}} {batch = #nn.dim<1>, k = #nn.dim<8>, m = #nn.dim<4*batch>, n = #nn.dim<16>, trans_b}
  // CHECK: %[[Y1:.*]] = rt.view %arg2 {offset = #nn.dim<48*batch>} : {{.*}} to <f32, [64*batch]>
  // CHECK: rt.collective all_reduce by sum %[[Y1]] to %[[Y1]] over 2 stride 1
  func.func @reduce(%x: tensor<?x7x8xf32, #nn.dims<batch>>, %w: tensor<16x8xf32>) -> tensor<?x7x16xf32, #nn.dims<batch>> {
    %0 = nn.linear %x, %w : tensor<?x7x8xf32, #nn.dims<batch>>, tensor<16x8xf32>
    %1 = dist.all_reduce sum %0 over 2 stride 1 {strips = 2 : i64} : tensor<?x7x16xf32, #nn.dims<batch>>
    return %1 : tensor<?x7x16xf32, #nn.dims<batch>>
  }
}

// Collectives become calls in the forms of runtime/comm/Collectives.h. What a rank keeps by its place is a kernel that reads the place.
// RUN: dt-opt %s --lower-nn-to-rt --cse | FileCheck %s

// Straight into the result.
// CHECK-LABEL: rt.func @reduce(
// CHECK: rt.collective all_reduce by sum %arg0 to %arg1 over 2 stride 1
func.func @reduce(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = dist.all_reduce sum %x over 2 stride 1 : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// In place: nobody else reads the operand.
// CHECK-LABEL: rt.func @reduce_in_place(
// CHECK: %[[X:.*]] = rt.alloc "exp"
// CHECK: rt.collective all_reduce by max %[[X]] to %[[X]] over 2 stride 2
// CHECK-NOT: rt.alloc
func.func @reduce_in_place(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.exp %x : tensor<4x8xf32>
  %1 = dist.all_reduce max %0 over 2 stride 2 : tensor<4x8xf32>
  %2 = nn.exp %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// Not in place: the operand, or a view of it, is read after that.
// CHECK-LABEL: rt.func @reduce_copy(
// CHECK: %[[X:.*]] = rt.alloc "exp"
// CHECK: %[[Y:.*]] = rt.alloc "all_reduce"
// CHECK: rt.collective all_reduce by sum %[[X]] to %[[Y]]
func.func @reduce_copy(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.exp %x : tensor<4x8xf32>
  %1 = dist.all_reduce sum %0 over 2 stride 1 : tensor<4x8xf32>
  %2 = nn.add %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// What goes to another rank is sent from where it is, never from where it comes to.
// CHECK-LABEL: rt.func @shift(
// CHECK: %[[X:.*]] = rt.alloc "exp"
// CHECK: %[[Y:.*]] = rt.alloc "shift"
// CHECK: rt.collective shift %[[X]] to %[[Y]] over 4 stride 2
func.func @shift(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.exp %x : tensor<4x8xf32>
  %1 = dist.shift %0 over 4 stride 2 : tensor<4x8xf32>
  %2 = nn.exp %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// CHECK-LABEL: rt.func @gather(
// CHECK: rt.collective all_gather %arg0 to %arg1 chunk <32> over 2 stride 1
func.func @gather(%x: tensor<4x8x16xf32>) -> tensor<4x16x16xf32> {
  %0 = dist.all_gather %x axis 1 chunk 2 over 2 stride 1 : tensor<4x8x16xf32> to tensor<4x16x16xf32>
  return %0 : tensor<4x16x16xf32>
}

// CHECK-LABEL: rt.func @scatter(
// CHECK: rt.collective reduce_scatter %arg0 to %arg1 chunk <128> over 2 stride 1
func.func @scatter(%x: tensor<4x16x16xf32>) -> tensor<4x8x16xf32> {
  %0 = dist.reduce_scatter %x axis 1 chunk 8 over 2 stride 1 : tensor<4x16x16xf32> to tensor<4x8x16xf32>
  return %0 : tensor<4x8x16xf32>
}

// From the front to the front of rows: nothing to pack.
// CHECK-LABEL: rt.func @exchange_rows(
// CHECK-NOT: rt.kernel @pack
// CHECK: rt.collective all_to_all %arg0 to %[[R:.*]] over 2 stride 1
// CHECK: rt.kernel @unpack [%[[N:.*]] < 2, %[[I:.*]] < 4, %[[J:.*]] < 4]
// CHECK: %[[V:.*]] = rt.load %{{.*}}[%[[N]], %[[I]], %[[J]]] : !rt.buffer<f32, [2, 4, 4]>
// CHECK: rt.store %[[V]], %{{.*}}[%[[I]], %[[N]], %[[J]]] : !rt.buffer<f32, [4, 2, 4]>
func.func @exchange_rows(%x: tensor<8x4xf32>) -> tensor<4x8xf32> {
  %0 = dist.all_to_all %x gather 1 chunk 4 scatter 0 chunk 4 over 2 stride 1 : tensor<8x4xf32> to tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: rt.func @exchange_columns(
// CHECK: rt.kernel @pack [%[[N:.*]] < 2, %[[I:.*]] < 8, %[[J:.*]] < 2]
// CHECK: %[[V:.*]] = rt.load %{{.*}}[%[[I]], %[[N]], %[[J]]] : !rt.buffer<f32, [8, 2, 2]>
// CHECK: rt.store %[[V]], %{{.*}}[%[[N]], %[[I]], %[[J]]] : !rt.buffer<f32, [2, 8, 2]>
// CHECK: rt.collective all_to_all %{{.*}} to %arg1 over 2 stride 1
// CHECK-NOT: rt.kernel @unpack
func.func @exchange_columns(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %0 = dist.all_to_all %x gather 0 chunk 4 scatter 1 chunk 2 over 2 stride 1 : tensor<4x8xf32> to tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// CHECK-LABEL: rt.func @slice(
// CHECK: %[[P:.*]] = rt.alloc "place" : <i64, []>
// CHECK: rt.rank_place %[[P]] over 2 stride 1
// CHECK: rt.kernel @slice [%[[I:.*]] < 12, %[[J:.*]] < 32]
// CHECK-DAG: %[[N:.*]] = rt.load %{{.*}}[] : !rt.buffer<i64, []>
// CHECK-DAG: %[[K:.*]] = arith.index_cast %[[N]]
// CHECK: rt.load %{{.*}}[%[[I]], %[[K]], %[[J]]] : !rt.buffer<f32, [12, 2, 32]>
func.func @slice(%x: tensor<4x12x16xf32>) -> tensor<4x6x16xf32> {
  %0 = dist.slice %x axis 1 chunk 2 over 2 stride 1 : tensor<4x12x16xf32> to tensor<4x6x16xf32>
  return %0 : tensor<4x6x16xf32>
}

// CHECK-LABEL: rt.func @partial(
// CHECK: rt.rank_place
// CHECK: rt.kernel @partial [%{{.*}} < 32]
// CHECK: arith.select
func.func @partial(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = dist.partial %x over 2 stride 1 : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: rt.func @rank(
// CHECK: rt.rank_place %arg0 over 2 stride 4
func.func @rank() -> tensor<i64> {
  %0 = dist.rank over 2 stride 4 : tensor<i64>
  return %0 : tensor<i64>
}

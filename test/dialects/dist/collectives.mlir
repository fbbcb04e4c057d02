// RUN: dt-opt %s | dt-opt | FileCheck %s
// RUN: dt-opt %s --canonicalize | FileCheck %s --check-prefix=FOLD

// CHECK-LABEL: @all
// CHECK: dist.all_reduce sum %{{.*}} over 4 stride 1 : tensor<8x8xf32>
// CHECK: dist.all_reduce max
// CHECK: dist.reduce_scatter %{{.*}} axis 0 chunk 2 over 4 stride 1 : tensor<8x8xf32> to tensor<2x8xf32>
// CHECK: dist.all_to_all %{{.*}} gather 0 chunk 2 scatter 1 chunk 2 over 4 stride 1 : tensor<2x8xf32> to tensor<8x2xf32>
// CHECK: dist.all_gather %{{.*}} axis 1 chunk 2 over 4 stride 1 : tensor<8x2xf32> to tensor<8x8xf32>
// CHECK: dist.shift %{{.*}} over 4 stride 1 : tensor<8x8xf32>
// CHECK: dist.partial %{{.*}} over 4 stride 1 : tensor<8x8xf32>
// CHECK: dist.slice %{{.*}} axis 1 chunk 1 over 4 stride 2 : tensor<8x8xf32> to tensor<8x2xf32>
// CHECK: dist.rank over 2 stride 4 : tensor<i64>
func.func @all(%x: tensor<8x8xf32>) -> (tensor<8x2xf32>, tensor<i64>) {
  %0 = dist.all_reduce sum %x over 4 stride 1 : tensor<8x8xf32>
  %1 = dist.all_reduce max %0 over 4 stride 1 : tensor<8x8xf32>
  %2 = dist.reduce_scatter %1 axis 0 chunk 2 over 4 stride 1 : tensor<8x8xf32> to tensor<2x8xf32>
  %3 = dist.all_to_all %2 gather 0 chunk 2 scatter 1 chunk 2 over 4 stride 1 : tensor<2x8xf32> to tensor<8x2xf32>
  %4 = dist.all_gather %3 axis 1 chunk 2 over 4 stride 1 : tensor<8x2xf32> to tensor<8x8xf32>
  %8 = dist.shift %4 over 4 stride 1 : tensor<8x8xf32>
  %5 = dist.partial %8 over 4 stride 1 : tensor<8x8xf32>
  %6 = dist.slice %5 axis 1 chunk 1 over 4 stride 2 : tensor<8x8xf32> to tensor<8x2xf32>
  %7 = dist.rank over 2 stride 4 : tensor<i64>
  return %6, %7 : tensor<8x2xf32>, tensor<i64>
}

// An axis of one rank does nothing.
// FOLD-LABEL: @one
// FOLD-NEXT: return %arg0
func.func @one(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = dist.all_reduce sum %x over 1 stride 1 : tensor<8x8xf32>
  %1 = dist.all_gather %0 axis 1 chunk 8 over 1 stride 1 : tensor<8x8xf32> to tensor<8x8xf32>
  %2 = dist.partial %1 over 1 stride 1 : tensor<8x8xf32>
  %3 = dist.shift %2 over 1 stride 1 : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}

// A part of what was gathered from those parts.
// FOLD-LABEL: @again
// FOLD-NEXT: return %arg0
func.func @again(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = dist.all_gather %x axis 0 chunk 2 over 4 stride 1 : tensor<2x8xf32> to tensor<8x8xf32>
  %1 = dist.slice %0 axis 0 chunk 2 over 4 stride 1 : tensor<8x8xf32> to tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// Neighbouring axes are one of more ranks.
// FOLD-LABEL: @joint
// FOLD-DAG: dist.all_reduce sum %arg0 over 4 stride 1
// FOLD-DAG: dist.all_gather %arg1 axis 0 chunk 1 over 4 stride 1 : tensor<2x8xf32> to tensor<8x8xf32>
// FOLD-DAG: dist.all_gather %arg2 axis 0 chunk 1 over 4 stride 1 : tensor<2x8xf32> to tensor<8x8xf32>
// FOLD-DAG: dist.reduce_scatter %arg0 axis 0 chunk 2 over 4 stride 1 : tensor<8x8xf32> to tensor<2x8xf32>
func.func @joint(%x: tensor<8x8xf32>, %y: tensor<2x8xf32>, %z: tensor<2x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<2x8xf32>) {
  %0 = dist.all_reduce sum %x over 2 stride 2 : tensor<8x8xf32>
  %1 = dist.all_reduce sum %0 over 2 stride 1 : tensor<8x8xf32>
  %2 = dist.all_gather %y axis 0 chunk 1 over 2 stride 1 : tensor<2x8xf32> to tensor<4x8xf32>
  %3 = dist.all_gather %2 axis 0 chunk 2 over 2 stride 2 : tensor<4x8xf32> to tensor<8x8xf32>
  %4 = dist.all_gather %z axis 0 chunk 1 over 2 stride 2 : tensor<2x8xf32> to tensor<4x8xf32>
  %5 = dist.all_gather %4 axis 0 chunk 1 over 2 stride 1 : tensor<4x8xf32> to tensor<8x8xf32>
  %6 = dist.reduce_scatter %x axis 0 chunk 4 over 2 stride 2 : tensor<8x8xf32> to tensor<4x8xf32>
  %7 = dist.reduce_scatter %6 axis 0 chunk 2 over 2 stride 1 : tensor<4x8xf32> to tensor<2x8xf32>
  return %1, %3, %5, %7 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<2x8xf32>
}

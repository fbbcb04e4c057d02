// Collectives of rows beside products are marked; as many strips as there are rows at most. What is marked is all that changes.
// RUN: dt-opt %s --pass-pipeline='builtin.module(dist.module(dist-overlap))' -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: dist.module @some
dist.module @some attributes {tp = 2 : i64, overlap = 4 : i64} {
  dist.forward @forward.fwd
  nn.dim @batch of "sample" max 4
  // Of what is gathered, what multiplies it as its rows; what is added up, if one product makes it and nobody else reads that.
  // CHECK-LABEL: @forward.fwd
  // CHECK: dist.all_gather %arg0 axis 1 chunk 3 over 2 stride 1 {strips = 3 : i64}
  // CHECK: dist.all_gather %{{.*}} axis 1 chunk 8 over 2 stride 1 : tensor<16x8xf32>
  // CHECK: dist.reduce_scatter %{{.*}} axis 1 chunk 3 over 2 stride 1 {strips = 3 : i64}
  // CHECK: dist.all_reduce sum %{{.*}} over 2 stride 1 {strips = 4 : i64}
  // CHECK: dist.all_reduce sum %{{.*}} over 2 stride 1 :
  // CHECK: dist.all_reduce sum %{{.*}} over 2 stride 1 :
  // CHECK: dist.all_gather %{{.*}} axis 2 chunk 8 over 2 stride 1 :
  func.func @forward.fwd(%x: tensor<?x3x16xf32, #nn.dims<batch>>, %u: tensor<16x8xf32>, %w: tensor<8x16xf32>) -> (tensor<?x3x16xf32, #nn.dims<batch>>, tensor<?x6x16xf32, #nn.dims<batch>>, tensor<?x6x16xf32, #nn.dims<batch>>, tensor<?x16xf32, #nn.dims<batch>>, tensor<?x6x16xf32, #nn.dims<batch>>) {
    %0 = dist.all_gather %x axis 1 chunk 3 over 2 stride 1 : tensor<?x3x16xf32, #nn.dims<batch>> to tensor<?x6x16xf32, #nn.dims<batch>>
    // A parameter: no rows of this product.
    %1 = dist.all_gather %u axis 1 chunk 8 over 2 stride 1 : tensor<16x8xf32> to tensor<16x16xf32>
    %2 = nn.linear %0, %1 : tensor<?x6x16xf32, #nn.dims<batch>>, tensor<16x16xf32>
    %3 = nn.linear %0, %w : tensor<?x6x16xf32, #nn.dims<batch>>, tensor<8x16xf32>
    %4 = nn.exp %2 : tensor<?x6x16xf32, #nn.dims<batch>>
    %5 = nn.linear %4, %1 : tensor<?x6x16xf32, #nn.dims<batch>>, tensor<16x16xf32>
    %6 = dist.reduce_scatter %5 axis 1 chunk 3 over 2 stride 1 : tensor<?x6x16xf32, #nn.dims<batch>> to tensor<?x3x16xf32, #nn.dims<batch>>
    %7 = nn.linear %4, %1 : tensor<?x6x16xf32, #nn.dims<batch>>, tensor<16x16xf32>
    %8 = dist.all_reduce sum %7 over 2 stride 1 : tensor<?x6x16xf32, #nn.dims<batch>>
    // A product is cut for what it takes, or for what it makes.
    %9 = nn.linear %0, %1 : tensor<?x6x16xf32, #nn.dims<batch>>, tensor<16x16xf32>
    %10 = dist.all_reduce sum %9 over 2 stride 1 : tensor<?x6x16xf32, #nn.dims<batch>>
    // Rows are as many as the batch has: there is nothing to cut evenly.
    %11 = nn.reduce sum %4 {axes = array<i64: 1>} : tensor<?x6x16xf32, #nn.dims<batch>>
    %12 = nn.linear %11, %1 : tensor<?x16xf32, #nn.dims<batch>>, tensor<16x16xf32>
    %13 = dist.all_reduce sum %12 over 2 stride 1 : tensor<?x16xf32, #nn.dims<batch>>
    // Cut along the last dim: no rows.
    %14 = dist.all_gather %3 axis 2 chunk 8 over 2 stride 1 : tensor<?x6x8xf32, #nn.dims<batch>> to tensor<?x6x16xf32, #nn.dims<batch>>
    %15 = nn.linear %14, %1 : tensor<?x6x16xf32, #nn.dims<batch>>, tensor<16x16xf32>
    return %6, %8, %10, %13, %15 : tensor<?x3x16xf32, #nn.dims<batch>>, tensor<?x6x16xf32, #nn.dims<batch>>, tensor<?x6x16xf32, #nn.dims<batch>>, tensor<?x16xf32, #nn.dims<batch>>, tensor<?x6x16xf32, #nn.dims<batch>>
  }
}

// -----

// CHECK-LABEL: dist.module @off
dist.module @off attributes {tp = 2 : i64, overlap = 1 : i64} {
  dist.forward @forward.fwd
  // CHECK: dist.all_reduce sum %{{.*}} over 2 stride 1 :
  func.func @forward.fwd(%x: tensor<6x16xf32>, %u: tensor<16x16xf32>) -> tensor<6x16xf32> {
    %0 = nn.linear %x, %u : tensor<6x16xf32>, tensor<16x16xf32>
    %1 = dist.all_reduce sum %0 over 2 stride 1 : tensor<6x16xf32>
    return %1 : tensor<6x16xf32>
  }
}

// -----

// expected-remark @+1 {{overlap does nothing for 'llm': no product stands beside a collective of rows}}
dist.module @idle attributes {tp = 2 : i64, overlap = 2 : i64, unit = "llm"} {
  dist.forward @forward.fwd
  func.func @forward.fwd(%x: tensor<6x16xf32>) -> tensor<6x16xf32> {
    %0 = nn.exp %x : tensor<6x16xf32>
    %1 = dist.all_reduce sum %0 over 2 stride 1 : tensor<6x16xf32>
    return %1 : tensor<6x16xf32>
  }
}

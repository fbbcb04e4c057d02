// The dialect of collectives is loaded after nn.
//
// RUN: dt-opt %s --lower-nn-to-rt | FileCheck %s

// CHECK: rt.collective all_reduce
func.func @sum(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.exp %x : tensor<4x8xf32>
  %1 = dist.all_reduce sum %0 over 2 stride 2 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// A pass of a plugin finds the dialects of dt-opt, runs by name and in a pipeline, and stands in --help.
//
// RUN: dt-opt %s --load-plugin=%plugins/Example.so --example-count-cost | FileCheck %s
// RUN: dt-opt %s --load-plugin=%plugins/Example.so --pass-pipeline='builtin.module(dist.module(example-count-cost{bytes}))' | FileCheck %s --check-prefix=BYTES
// RUN: dt-opt --load-plugin=%plugins/Example.so --help | FileCheck %s --check-prefix=HELP

// HELP: --example-count-cost

dist.module @head {
  nn.dim @batch of "sample" max 4
  // 2 * batch * 8 * 16 of the product, batch * 16 of the bias or the activation.
  // CHECK: func.func @forward
  // CHECK-SAME: example.flops = "272*batch"
  // BYTES: example.bytes = "{{[0-9]+}}*batch + {{[0-9]+}}"
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<batch>>, %w: tensor<16x8xf32>) -> tensor<?x16xf32, #nn.dims<batch>> {
    %0 = nn.linear %x, %w : tensor<?x8xf32, #nn.dims<batch>>, tensor<16x8xf32>
    %1 = nn.exp %0 : tensor<?x16xf32, #nn.dims<batch>>
    return %1 : tensor<?x16xf32, #nn.dims<batch>>
  }
}

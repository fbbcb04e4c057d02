// Ops that the test does without go, whole functions at once; uses take another value of the type.
//
// RUN: dt-reduce %s --shrink='test=%S/Inputs/fails.sh' | FileCheck %s --implicit-check-not=nn.linear --implicit-check-not=@other
// RUN: not dt-reduce %s --shrink='test=true' 2>&1 | FileCheck %s --check-prefix=PROGRAM
// RUN: printf '#!/bin/sh\nexit 0\n' > %t.sh && chmod +x %t.sh && not dt-reduce %s --shrink='test=%t.sh' 2>&1 | FileCheck %s --check-prefix=DULL

// PROGRAM: error: --shrink: expected test=PROGRAM, not 'true'
// DULL: error: --shrink: '{{.*}}.sh' does not end with 1 for the whole of it

// CHECK: func.func @forward(%[[X:[a-z0-9]+]]:
// CHECK-NEXT: nn.tanh %[[X]]
// CHECK-NEXT: return
dist.module @head {
  nn.dim @batch of "sample" max 4
  func.func @other(%x: tensor<?x8xf32, #nn.dims<batch>>, %w: tensor<8x8xf32>) -> tensor<?x8xf32, #nn.dims<batch>> {
    %0 = nn.linear %x, %w : tensor<?x8xf32, #nn.dims<batch>>, tensor<8x8xf32>
    return %0 : tensor<?x8xf32, #nn.dims<batch>>
  }
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<batch>>, %w: tensor<8x8xf32>) -> tensor<?x8xf32, #nn.dims<batch>> {
    %0 = nn.linear %x, %w : tensor<?x8xf32, #nn.dims<batch>>, tensor<8x8xf32>
    %1 = nn.tanh %0 : tensor<?x8xf32, #nn.dims<batch>>
    %2 = nn.linear %1, %w : tensor<?x8xf32, #nn.dims<batch>>, tensor<8x8xf32>
    return %2 : tensor<?x8xf32, #nn.dims<batch>>
  }
}

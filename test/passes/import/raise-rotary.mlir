// RUN: dt-opt %s --pass-pipeline="builtin.module(func.func(nn-raise-attention,cse))" --split-input-file | FileCheck %s

// Llama's rotary embedding on [b, h, t, d] with angles repeated in both halves.
// CHECK-LABEL: @rotary
// CHECK-SAME: %[[X:.*]]: tensor<2x5x4x16xf32>
// CHECK: %[[R:.*]] = nn.rotary %[[X]]
// CHECK: return %[[R]]
func.func @rotary(%x: tensor<2x5x4x16xf32>, %f: tensor<1x5x8xf32>) -> tensor<2x5x4x16xf32> {
  %xt = nn.transpose %x [0, 2, 1, 3] : tensor<2x5x4x16xf32>
  %ff = nn.concat %f, %f {axis = 2} : tensor<1x5x8xf32>, tensor<1x5x8xf32>
  %c = nn.cos %ff : tensor<1x5x16xf32>
  %s = nn.sin %ff : tensor<1x5x16xf32>
  %c4 = nn.reshape %c : tensor<1x5x16xf32> to tensor<1x1x5x16xf32>
  %s4 = nn.reshape %s : tensor<1x5x16xf32> to tensor<1x1x5x16xf32>
  %lo = nn.slice %xt [0, 0, 0, 0] step [1, 1, 1, 1] : tensor<2x4x5x16xf32> to tensor<2x4x5x8xf32>
  %hi = nn.slice %xt [0, 0, 0, 8] step [1, 1, 1, 1] : tensor<2x4x5x16xf32> to tensor<2x4x5x8xf32>
  %n = nn.neg %hi : tensor<2x4x5x8xf32>
  %turned = nn.concat %n, %lo {axis = 3} : tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>
  %a = nn.mul %xt, %c4 : tensor<2x4x5x16xf32>, tensor<1x1x5x16xf32>
  %b = nn.mul %turned, %s4 : tensor<2x4x5x16xf32>, tensor<1x1x5x16xf32>
  %o = nn.add %a, %b : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  %ot = nn.transpose %o [0, 2, 1, 3] : tensor<2x4x5x16xf32>
  return %ot : tensor<2x5x4x16xf32>
}

// -----

// The angles are not known to repeat: the two halves may turn differently.
// CHECK-LABEL: @free_angles
// CHECK-NOT: nn.rotary
func.func @free_angles(%xt: tensor<2x4x5x16xf32>, %ff: tensor<1x1x5x16xf32>) -> tensor<2x4x5x16xf32> {
  %c4 = nn.cos %ff : tensor<1x1x5x16xf32>
  %s4 = nn.sin %ff : tensor<1x1x5x16xf32>
  %lo = nn.slice %xt [0, 0, 0, 0] step [1, 1, 1, 1] : tensor<2x4x5x16xf32> to tensor<2x4x5x8xf32>
  %hi = nn.slice %xt [0, 0, 0, 8] step [1, 1, 1, 1] : tensor<2x4x5x16xf32> to tensor<2x4x5x8xf32>
  %n = nn.neg %hi : tensor<2x4x5x8xf32>
  %turned = nn.concat %n, %lo {axis = 3} : tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>
  %a = nn.mul %xt, %c4 : tensor<2x4x5x16xf32>, tensor<1x1x5x16xf32>
  %b = nn.mul %turned, %s4 : tensor<2x4x5x16xf32>, tensor<1x1x5x16xf32>
  %o = nn.add %a, %b : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

// -----

// Angles folded to tables: the half that is needed stays.
// CHECK-LABEL: @table
// CHECK-DAG: nn.constant dense<{{\[}}[1.000000e+00, 5.000000e-01], [2.500000e-01, 1.250000e-01]]>
// CHECK-DAG: nn.constant dense<{{\[}}[3.000000e+00, 4.000000e+00], [5.000000e+00, 6.000000e+00]]>
// CHECK: nn.rotary
func.func @table(%xt: tensor<2x4x2x4xf32>) -> tensor<2x4x2x4xf32> {
  %c = nn.constant dense<[[1.0, 0.5, 1.0, 0.5], [0.25, 0.125, 0.25, 0.125]]> : tensor<2x4xf32>
  %s = nn.constant dense<[[3.0, 4.0, 3.0, 4.0], [5.0, 6.0, 5.0, 6.0]]> : tensor<2x4xf32>
  %lo = nn.slice %xt [0, 0, 0, 0] step [1, 1, 1, 1] : tensor<2x4x2x4xf32> to tensor<2x4x2x2xf32>
  %hi = nn.slice %xt [0, 0, 0, 2] step [1, 1, 1, 1] : tensor<2x4x2x4xf32> to tensor<2x4x2x2xf32>
  %n = nn.neg %hi : tensor<2x4x2x2xf32>
  %turned = nn.concat %n, %lo {axis = 3} : tensor<2x4x2x2xf32>, tensor<2x4x2x2xf32>
  %a = nn.mul %xt, %c : tensor<2x4x2x4xf32>, tensor<2x4xf32>
  %b = nn.mul %turned, %s : tensor<2x4x2x4xf32>, tensor<2x4xf32>
  %o = nn.add %a, %b : tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>
  return %o : tensor<2x4x2x4xf32>
}

// -----

// A table whose halves differ in one number.
// CHECK-LABEL: @uneven_table
// CHECK-NOT: nn.rotary
func.func @uneven_table(%xt: tensor<2x4x2x4xf32>) -> tensor<2x4x2x4xf32> {
  %c = nn.constant dense<[[1.0, 0.5, 1.0, 0.5], [0.25, 0.125, 0.25, 0.25]]> : tensor<2x4xf32>
  %lo = nn.slice %xt [0, 0, 0, 0] step [1, 1, 1, 1] : tensor<2x4x2x4xf32> to tensor<2x4x2x2xf32>
  %hi = nn.slice %xt [0, 0, 0, 2] step [1, 1, 1, 1] : tensor<2x4x2x4xf32> to tensor<2x4x2x2xf32>
  %n = nn.neg %hi : tensor<2x4x2x2xf32>
  %turned = nn.concat %n, %lo {axis = 3} : tensor<2x4x2x2xf32>, tensor<2x4x2x2xf32>
  %a = nn.mul %xt, %c : tensor<2x4x2x4xf32>, tensor<2x4xf32>
  %b = nn.mul %turned, %c : tensor<2x4x2x4xf32>, tensor<2x4xf32>
  %o = nn.add %a, %b : tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>
  return %o : tensor<2x4x2x4xf32>
}

// -----

// The halves that change places are not halves: nine elements and seven.
// CHECK-LABEL: @uneven_halves
// CHECK-NOT: nn.rotary
func.func @uneven_halves(%xt: tensor<2x4x5x16xf32>, %f: tensor<1x5x8xf32>) -> tensor<2x4x5x16xf32> {
  %ff = nn.concat %f, %f {axis = 2} : tensor<1x5x8xf32>, tensor<1x5x8xf32>
  %c = nn.cos %ff : tensor<1x5x16xf32>
  %s = nn.sin %ff : tensor<1x5x16xf32>
  %c4 = nn.reshape %c : tensor<1x5x16xf32> to tensor<1x1x5x16xf32>
  %s4 = nn.reshape %s : tensor<1x5x16xf32> to tensor<1x1x5x16xf32>
  %lo = nn.slice %xt [0, 0, 0, 0] step [1, 1, 1, 1] : tensor<2x4x5x16xf32> to tensor<2x4x5x9xf32>
  %hi = nn.slice %xt [0, 0, 0, 8] step [1, 1, 1, 1] : tensor<2x4x5x16xf32> to tensor<2x4x5x7xf32>
  %n = nn.neg %hi : tensor<2x4x5x7xf32>
  %turned = nn.concat %n, %lo {axis = 3} : tensor<2x4x5x7xf32>, tensor<2x4x5x9xf32>
  %a = nn.mul %xt, %c4 : tensor<2x4x5x16xf32>, tensor<1x1x5x16xf32>
  %b = nn.mul %turned, %s4 : tensor<2x4x5x16xf32>, tensor<1x1x5x16xf32>
  %o = nn.add %a, %b : tensor<2x4x5x16xf32>, tensor<2x4x5x16xf32>
  return %o : tensor<2x4x5x16xf32>
}

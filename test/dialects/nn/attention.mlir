// RUN: dt-opt %s --split-input-file | dt-opt --split-input-file | FileCheck %s

// What hides keys: a mask, numbers of segments, a window, the causal rule; and a cap.
// CHECK-LABEL: @all
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} segments %{{.*}} by %{{.*}} {causal, scale = 5.000000e-01 : f64, soft_cap = 3.000000e+01 : f64, window = 3 : i64} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x1x5x6xi1>, tensor<2x5xi64>, tensor<1x6xi64>
func.func @all(%q: tensor<2x5x4x8xf32>, %k: tensor<2x6x2x8xf32>, %v: tensor<2x6x2x8xf32>, %m: tensor<2x1x5x6xi1>, %s: tensor<2x5xi64>, %r: tensor<1x6xi64>) -> tensor<2x5x4x8xf32> {
  %0, %1 = nn.attention %q, %k, %v mask %m segments %s by %r {scale = 0.5 : f64, causal, window = 3 : i64, soft_cap = 30.0 : f64} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x1x5x6xi1>, tensor<2x5xi64>, tensor<1x6xi64>
  return %0 : tensor<2x5x4x8xf32>
}

// -----

// All queries of one segment.
// CHECK-LABEL: @padding
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} segments %{{.*}} by %{{.*}} {scale = 5.000000e-01 : f64}
func.func @padding(%q: tensor<?x5x4x8xf32, #nn.dims<batch>>, %k: tensor<?x6x2x8xf32, #nn.dims<batch>>, %s: tensor<1x1xi32>, %r: tensor<?x6xi32, #nn.dims<batch>>) -> tensor<?x5x4x8xf32, #nn.dims<batch>> {
  %0, %1 = nn.attention %q, %k, %k segments %s by %r {scale = 0.5 : f64} : tensor<?x5x4x8xf32, #nn.dims<batch>>, tensor<?x6x2x8xf32, #nn.dims<batch>>, tensor<?x6x2x8xf32, #nn.dims<batch>>, tensor<1x1xi32>, tensor<?x6xi32, #nn.dims<batch>>
  return %0 : tensor<?x5x4x8xf32, #nn.dims<batch>>
}

// -----

// A part of the keys that queries see: those of the rank before.
// CHECK-LABEL: @part
// CHECK: nn.attention {{.*}} {causal, empty_row = 1 : i32, key_stripes = #nn.stripes<chunk = 2, over = 2, stride = 1, behind = 1>, partial, scale = 5.000000e-01 : f64, stripes = #nn.stripes<chunk = 2, over = 2, stride = 1>}
// CHECK: nn.attention_grad {{.*}} {causal, empty_row = 1 : i32, key_stripes = #nn.stripes<chunk = 2, over = 2, stride = 1, behind = 1>, partial, scale
func.func @part(%q: tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32> {
  %0, %1 = nn.attention %q, %q, %q {causal, partial, empty_row = 1 : i32, scale = 0.5 : f64, stripes = #nn.stripes<chunk = 2, over = 2, stride = 1>, key_stripes = #nn.stripes<chunk = 2, over = 2, stride = 1, behind = 1>} : tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>
  %2, %3, %4 = nn.attention_grad %q, %q, %q of %0, %1, %q {causal, partial, empty_row = 1 : i32, scale = 0.5 : f64, stripes = #nn.stripes<chunk = 2, over = 2, stride = 1>, key_stripes = #nn.stripes<chunk = 2, over = 2, stride = 1, behind = 1>} : tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4xf32>, tensor<2x4x4x8xf32>
  return %2 : tensor<2x4x4x8xf32>
}

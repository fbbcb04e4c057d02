// RUN: dt-opt %s -verify-diagnostics -split-input-file

func.func @types(%q: tensor<2x5x4x8xf32>, %k: tensor<2x6x2x8xf32>, %s: tensor<2x5xi32>, %r: tensor<2x6xi64>) -> tensor<2x5x4x8xf32> {
  // expected-error @+1 {{segments of queries, 'i32', and of keys, 'i64', are of one type}}
  %0, %1 = nn.attention %q, %k, %k segments %s by %r {scale = 0.5 : f64} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x5xi32>, tensor<2x6xi64>
  return %0 : tensor<2x5x4x8xf32>
}

// -----

func.func @queries(%q: tensor<2x5x4x8xf32>, %k: tensor<2x6x2x8xf32>, %s: tensor<2x6xi32>, %r: tensor<2x6xi32>) -> tensor<2x5x4x8xf32> {
  // expected-error @+1 {{segments [2, 6] are not of queries [2, 5]}}
  %0, %1 = nn.attention %q, %k, %k segments %s by %r {scale = 0.5 : f64} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6xi32>, tensor<2x6xi32>
  return %0 : tensor<2x5x4x8xf32>
}

// -----

func.func @keys(%q: tensor<2x5x4x8xf32>, %k: tensor<2x6x2x8xf32>, %s: tensor<2x5xi32>, %r: tensor<2x5xi32>) -> tensor<2x5x4x8xf32> {
  // expected-error @+1 {{segments [2, 5] are not of keys [2, 6]}}
  %0, %1 = nn.attention %q, %k, %k segments %s by %r {scale = 0.5 : f64} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x5xi32>, tensor<2x5xi32>
  return %0 : tensor<2x5x4x8xf32>
}

// -----

func.func @one_key(%q: tensor<2x5x4x8xf32>, %k: tensor<2x6x2x8xf32>, %s: tensor<2x5xi32>, %r: tensor<2x1xi32>) -> tensor<2x5x4x8xf32> {
  // expected-error @+1 {{segments [2, 1] are not of keys [2, 6]}}
  %0, %1 = nn.attention %q, %k, %k segments %s by %r {scale = 0.5 : f64} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x5xi32>, tensor<2x1xi32>
  return %0 : tensor<2x5x4x8xf32>
}

// -----

func.func @heads(%q: tensor<2x5x4x8xf32>, %k: tensor<2x6x2x8xf32>, %s: tensor<2x4x5xi32>, %r: tensor<2x6xi32>) -> tensor<2x5x4x8xf32> {
  // expected-error @+1 {{segments [2, 4, 5] are not of queries [2, 5]}}
  %0, %1 = nn.attention %q, %k, %k segments %s by %r {scale = 0.5 : f64} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x4x5xi32>, tensor<2x6xi32>
  return %0 : tensor<2x5x4x8xf32>
}

// -----

func.func @floats(%q: tensor<2x5x4x8xf32>, %k: tensor<2x6x2x8xf32>, %s: tensor<2x5xf32>, %r: tensor<2x6xf32>) -> tensor<2x5x4x8xf32> {
  // expected-error @+1 {{operand #3 must be ranked tensor of 32-bit signless integer or 64-bit signless integer values}}
  %0, %1 = nn.attention %q, %k, %k segments %s by %r {scale = 0.5 : f64} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x5xf32>, tensor<2x6xf32>
  return %0 : tensor<2x5x4x8xf32>
}

// -----

func.func @window(%q: tensor<2x5x4x8xf32>, %k: tensor<2x6x2x8xf32>, %s: tensor<2x5xi32>, %r: tensor<2x6xi32>) -> tensor<2x5x4x8xf32> {
  // expected-error @+1 {{a window has 1 key or more, not 0}}
  %0, %1 = nn.attention %q, %k, %k segments %s by %r {scale = 0.5 : f64, window = 0 : i64} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>, tensor<2x5xi32>, tensor<2x6xi32>
  return %0 : tensor<2x5x4x8xf32>
}

// -----

func.func @half(%q: tensor<2x5x4x8xf32>, %s: tensor<2x5xi32>) -> tensor<2x5x4x8xf32> {
  // expected-error @+1 {{needs segments of queries and of keys, or none}}
  %0:2 = "nn.attention"(%q, %q, %q, %s) {scale = 0.5 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0>} : (tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5xi32>) -> (tensor<2x5x4x8xf32>, tensor<2x4x5xf32>)
  return %0#0 : tensor<2x5x4x8xf32>
}

// -----

func.func @gradient(%q: tensor<2x5x4x8xf32>, %l: tensor<2x4x5xf32>) -> tensor<2x5x4x8xf32> {
  // expected-error @+1 {{a window has 1 key or more, not -2}}
  %0, %1, %2 = nn.attention_grad %q, %q, %q of %q, %l, %q {scale = 0.5 : f64, window = -2 : i64} : tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x4x5xf32>, tensor<2x5x4x8xf32>
  return %0 : tensor<2x5x4x8xf32>
}

// -----

func.func @cap(%q: tensor<2x5x4x8xf32>, %k: tensor<2x6x2x8xf32>) -> tensor<2x5x4x8xf32> {
  // expected-error @+1 {{attribute 'soft_cap' failed to satisfy constraint: 64-bit float attribute which is finite and above 0}}
  %0, %1 = nn.attention %q, %k, %k {scale = 0.5 : f64, soft_cap = 0.0 : f64} : tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>
  return %0 : tensor<2x5x4x8xf32>
}

// -----

func.func @stripes(%q: tensor<2x5x4x8xf32>) -> tensor<2x5x4x8xf32> {
  // expected-error @+1 {{stripes of 2 rows over 2 ranks, 1 apart, are not of queries [2, 5, 4, 8]}}
  %0, %1 = nn.attention %q, %q, %q {causal, scale = 0.5 : f64, stripes = #nn.stripes<chunk = 2, over = 2, stride = 1>} : tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>
  return %0 : tensor<2x5x4x8xf32>
}

// -----

func.func @key_stripes(%q: tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32> {
  // expected-error @+1 {{stripes of 3 rows over 2 ranks, 1 apart, are not of keys [2, 4, 4, 8]}}
  %0, %1 = nn.attention %q, %q, %q {scale = 0.5 : f64, partial, empty_row = 1 : i32, key_stripes = #nn.stripes<chunk = 3, over = 2, stride = 1>} : tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>
  return %0 : tensor<2x4x4x8xf32>
}

// -----

func.func @behind(%q: tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32> {
  // expected-error @+1 {{stripes of keys are those of a rank 2 behind, of 2}}
  %0, %1 = nn.attention %q, %q, %q {scale = 0.5 : f64, partial, empty_row = 1 : i32, key_stripes = #nn.stripes<chunk = 2, over = 2, stride = 1, behind = 2>} : tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>
  return %0 : tensor<2x4x4x8xf32>
}

// -----

func.func @not_partial(%q: tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32> {
  // expected-error @+1 {{has stripes of keys, which are a part: expected `partial`}}
  %0, %1 = nn.attention %q, %q, %q {scale = 0.5 : f64, key_stripes = #nn.stripes<chunk = 2, over = 2, stride = 1>} : tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>
  return %0 : tensor<2x4x4x8xf32>
}

// -----

func.func @partial_mean(%q: tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32> {
  // expected-error @+1 {{of a part of the keys has no mask, and gives zero to a row that sees none of them}}
  %0, %1 = nn.attention %q, %q, %q {scale = 0.5 : f64, partial} : tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>
  return %0 : tensor<2x4x4x8xf32>
}

// -----

func.func @partial_mask(%q: tensor<2x4x4x8xf32>, %m: tensor<4x4xi1>) -> tensor<2x4x4x8xf32> {
  // expected-error @+1 {{of a part of the keys has no mask}}
  %0, %1 = nn.attention %q, %q, %q mask %m {scale = 0.5 : f64, partial, empty_row = 1 : i32} : tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<2x4x4x8xf32>, tensor<4x4xi1>
  return %0 : tensor<2x4x4x8xf32>
}

// RUN: dt-opt %s --split-input-file --verify-diagnostics

func.func @rank(%x: tensor<2x3x6xf32>, %ids: tensor<6xi64>, %w: tensor<4x8x6xf32>) {
  // expected-error @+1 {{takes rows of rank 2 and a weight of rank 3}}
  %0 = nn.expert_linear %x by %ids, %w : tensor<2x3x6xf32>, tensor<6xi64>, tensor<4x8x6xf32>
  return
}

// -----

func.func @inner(%x: tensor<6x8xf32>, %ids: tensor<6xi64>, %w: tensor<4x8x6xf32>) {
  // expected-error @+1 {{input [6, 8] does not end in the weight's 6}}
  %0 = nn.expert_linear %x by %ids, %w : tensor<6x8xf32>, tensor<6xi64>, tensor<4x8x6xf32>
  return
}

// -----

func.func @ids(%x: tensor<6x6xf32>, %ids: tensor<5xi64>, %w: tensor<4x8x6xf32>) {
  // expected-error @+1 {{experts must be [6], not [5]}}
  %0 = nn.expert_linear %x by %ids, %w : tensor<6x6xf32>, tensor<5xi64>, tensor<4x8x6xf32>
  return
}

// -----

func.func @bias(%x: tensor<6x6xf32>, %ids: tensor<6xi64>, %w: tensor<4x8x6xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{bias must be [4, 8]}}
  %0 = nn.expert_linear %x by %ids, %w, %b : tensor<6x6xf32>, tensor<6xi64>, tensor<4x8x6xf32>, tensor<8xf32>
  return
}

// -----

func.func @route(%ids: tensor<3x2xi64>) {
  // expected-error @+1 {{takes a vector of experts' numbers}}
  %0, %1, %2 = nn.route %ids of 4 : tensor<3x2xi64>
  return
}

// -----

func.func @slots(%ids: tensor<6xi64>, %first: tensor<i64>) {
  // expected-error @+1 {{'ranks' and 'slots' come together, of ranks that divide the experts}}
  %0, %1, %2 = nn.route %ids of 4 from %first take 4 {ranks = 2 : i64} : tensor<6xi64>, tensor<i64>
  return
}

// -----

func.func @ranks(%ids: tensor<6xi64>, %first: tensor<i64>) {
  // expected-error @+1 {{'ranks' and 'slots' come together, of ranks that divide the experts}}
  %0, %1, %2 = nn.route %ids of 4 from %first take 3 {ranks = 2 : i64, slots = #nn.dim<5>} : tensor<6xi64>, tensor<i64>
  return
}

// -----

func.func @all(%ids: tensor<6xi64>) {
  // expected-error @+1 {{rows for 'ranks' are of experts 'from' some on}}
  %0, %1, %2 = nn.route %ids of 4 {ranks = 2 : i64, slots = #nn.dim<5>} : tensor<6xi64>
  return
}

// -----

func.func @tokens(%x: tensor<4x6xf32>, %order: tensor<6xi32>) {
  // expected-error @+1 {{place must be [8], not [6]}}
  %0 = nn.dispatch %x by %order, %order each 2 : tensor<4x6xf32>, tensor<6xi32>, tensor<6xi32>
  return
}

// -----

func.func @place(%x: tensor<3x6xf32>, %order: tensor<6xi32>, %place: tensor<5xi32>) {
  // expected-error @+1 {{place must be [6], not [5]}}
  %0 = nn.dispatch %x by %order, %place each 2 : tensor<3x6xf32>, tensor<6xi32>, tensor<5xi32>
  return
}

// -----

func.func @each(%x: tensor<7x6xf32>, %order: tensor<7xi32>) {
  // expected-error @+1 {{7 rows are not 2 for each token}}
  %0 = nn.combine %x by %order, %order each 2 : tensor<7x6xf32>, tensor<7xi32>, tensor<7xi32>
  return
}

// -----

func.func @offsets(%x: tensor<6x6xf32>, %w: tensor<4x8x6xf32>, %offsets: tensor<4xi32>) {
  // expected-error @+1 {{offsets must be [5], not [4]}}
  %0 = nn.grouped_linear %x, %w at %offsets : tensor<6x6xf32>, tensor<4x8x6xf32>, tensor<4xi32>
  return
}

// -----

func.func @rows(%x: tensor<6x6xf32>, %dy: tensor<5x8xf32>, %offsets: tensor<5xi32>) {
  // expected-error @+1 {{input and gradient must be rows, equally many}}
  %0 = nn.grouped_linear_dw %x, %dy at %offsets : tensor<6x6xf32>, tensor<5x8xf32>, tensor<5xi32>
  return
}

// -----

func.func @from(%ids: tensor<6xi64>, %first: tensor<i64>) {
  // expected-error @+1 {{cannot take 5 of 4 experts}}
  %0, %1, %2 = nn.route %ids of 4 from %first take 5 : tensor<6xi64>, tensor<i64>
  return
}

// -----

func.func @several(%ids: tensor<6xi64>, %first: tensor<2xi64>) {
  // expected-error @+1 {{takes the first expert as one number, not [2]}}
  %0, %1, %2 = nn.route %ids of 4 from %first take 2 : tensor<6xi64>, tensor<2xi64>
  return
}

// -----

func.func @bias(%x: tensor<6x2xf32>, %b: tensor<4x1xf32>, %ids: tensor<6x2xi64>) -> tensor<6x2xf32> {
  // expected-error@+1 {{takes a bias of one number for each expert, not [4, 1]}}
  %0 = nn.balance %x, %b by %ids : tensor<6x2xf32>, tensor<4x1xf32>, tensor<6x2xi64>
  return %0 : tensor<6x2xf32>
}

// -----

func.func @chosen(%x: tensor<6x2xf32>, %b: tensor<4xf32>, %ids: tensor<i64>) -> tensor<6x2xf32> {
  // expected-error@+1 {{takes experts of shape [.., chosen of a row], not []}}
  %0 = nn.balance %x, %b by %ids : tensor<6x2xf32>, tensor<4xf32>, tensor<i64>
  return %0 : tensor<6x2xf32>
}

// -----

func.func @choices(%ids: tensor<6xi64>) {
  // expected-error@+1 {{takes experts of shape [samples, choices], not [6]}}
  %0 = nn.limit_choices %ids of 4 within 1.25 : tensor<6xi64>
  return
}

// -----

func.func @segments(%ids: tensor<2x6xi64>, %segments: tensor<2x4xi64>) {
  // expected-error@+1 {{segments [2, 4] are not a number for each of some choices of [2, 6]}}
  %0 = nn.limit_choices %ids of 4 within 1.25 apart %segments : tensor<2x6xi64>, tensor<2x4xi64>
  return
}

// -----

func.func @samples(%ids: tensor<2x6xi64>, %segments: tensor<1x3xi64>) {
  // expected-error@+1 {{segments [1, 3] are not a number for each of some choices of [2, 6]}}
  %0 = nn.limit_choices %ids of 4 within 1.25 apart %segments : tensor<2x6xi64>, tensor<1x3xi64>
  return
}

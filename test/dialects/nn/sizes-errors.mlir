// Numbers of a file that no tensor has: each is refused where it stands, none overflows.
// RUN: dt-opt %s -verify-diagnostics -split-input-file

// expected-error @+1 {{expected a size such as 'batch' or '16*images + 1'}}
func.func private @coefficient(tensor<?xf32, #nn.dims<9223372036854775807*n + n>>)

// -----

// expected-error @+1 {{expected a size such as 'batch' or '16*images + 1'}}
func.func private @product(tensor<?xf32, #nn.dims<4294967296*a*4294967296>>)

// -----

// expected-error @+1 {{expected a size such as 'batch' or '16*images + 1'}}
func.func private @terms(tensor<?xf32, #nn.dims<"(a+b+c+d+e)*(a+b+c+d+e)*(a+b+c+d+e)*(a+b+c+d+e)*(a+b+c+d+e)*(a+b+c+d+e)*(a+b+c+d+e)*(a+b+c+d+e)*(a+b+c+d+e)">>)

// -----

// expected-error @+1 {{expected a size such as 'batch' or '16*images + 1'}}
func.func private @name(tensor<?xf32, #nn.dims<".a">>)

// -----

func.func @slice(%x: tensor<8xf32>) -> tensor<3xf32> {
  // expected-error @+1 {{takes 3 elements of axis 0 with 8 from 0 on, step 9223372036854775807}}
  %0 = nn.slice %x [0] step [9223372036854775807] {from_end = array<i1>} : tensor<8xf32> to tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @pad(%x: tensor<8xf32>) -> tensor<9xf32> {
  // expected-error @+1 {{axis 0 of 8 does not fit into 9}}
  %0 = nn.pad %x low [9223372036854775807] interior [9223372036854775807] {reverse = array<i1>} : tensor<8xf32> to tensor<9xf32>
  return %0 : tensor<9xf32>
}

// -----

func.func @reach(%x: tensor<1x1x8xf32>, %w: tensor<1x1x3xf32>) -> tensor<1x1x8xf32> {
  // expected-error @+1 {{kernel sizes and dilations must be at least 1 and reach over less than 2^40 elements}}
  %0 = nn.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 9223372036854775807>} : tensor<1x1x8xf32>, tensor<1x1x3xf32>
  return %0 : tensor<1x1x8xf32>
}

// -----

func.func @padding(%x: tensor<1x1x8xf32>, %w: tensor<1x1x3xf32>) -> tensor<1x1x8xf32> {
  // expected-error @+1 {{paddings must be less than 2^40}}
  %0 = nn.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 9223372036854775807, 1>, dilations = array<i64: 1>} : tensor<1x1x8xf32>, tensor<1x1x3xf32>
  return %0 : tensor<1x1x8xf32>
}

// -----

// expected-error @+1 {{'nn.dim' op has 'measure' and 'largest' together or neither}}
"nn.dim"() <{sym_name = "patches", item = "image", measure = "patches"}> : () -> ()

// -----

// expected-error @+1 {{'nn.dim' op adds up 'patches' of no kind of item}}
"nn.dim"() <{sym_name = "patches", measure = "patches", largest = 4 : i64}> : () -> ()

// -----

// expected-error @+1 {{'nn.dim' op has a 'largest' below 0}}
nn.dim @patches of "image" measure "patches" largest -1 max 8

// -----

// expected-error @+1 {{'nn.dim' op has a 'multiple' of at least 1, of items}}
nn.dim @patches of "image" measure "patches" largest 4 multiple 0 max 8

// -----

// expected-error @+1 {{'nn.dim' op has a 'multiple' of at least 1, of items}}
nn.dim @images multiple 4 max 8

// RUN: dt-opt %s --dist-round-rows -split-input-file -verify-diagnostics

// Replicas that share out experts have as many samples each: 6 of a microbatch make 3 for each of two pairs.
dist.batch global 12 micro 6
// expected-error @+1 {{units.llm.ep: 2 ranks share out experts over 2 replicas, which need as many samples each; a microbatch has 6 samples (of 12 in a step) for 4 parts}}
dist.module @llm of "sample" attributes {joined = 2 : i64, dp = 2 : i64, ep = 2 : i64} {
  nn.dim @n of "sample" max 3
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<n>> {nn.name = "x"}) -> (tensor<?x8xf32, #nn.dims<n>> {nn.name = "y"}) {
    return %x : tensor<?x8xf32, #nn.dims<n>>
  }
}

// -----

// The last microbatch would have fewer.
dist.batch global 6 micro 4
// expected-error @+1 {{a microbatch has 4 samples (of 6 in a step) for 2 parts}}
dist.module @rest of "sample" attributes {joined = 2 : i64, ep = 2 : i64} {
  nn.dim @n of "sample" max 4
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<n>> {nn.name = "x"}) -> (tensor<?x8xf32, #nn.dims<n>> {nn.name = "y"}) {
    return %x : tensor<?x8xf32, #nn.dims<n>>
  }
}

// -----

// Parts of other sizes: more than their share fits.
dist.batch global 4 micro 4
// expected-error @+1 {{which need as many samples each}}
dist.module @larger of "sample" attributes {joined = 2 : i64, dp = 1 : i64, sub = 2 : i64, ep = 2 : i64} {
  nn.dim @n of "sample" max 4
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<n>> {nn.name = "x"}) -> (tensor<?x8xf32, #nn.dims<n>> {nn.name = "y"}) {
    return %x : tensor<?x8xf32, #nn.dims<n>>
  }
}

// -----

// Images of a microbatch are any number.
dist.item "image" max 2
dist.batch global 4 micro 4
// expected-error @+1 {{which need as many samples each}}
dist.module @vision of "image" attributes {joined = 2 : i64, ep = 2 : i64} {
  nn.dim @n of "image" max 8
  func.func @forward(%x: tensor<?x8xf32, #nn.dims<n>> {nn.name = "x"}) -> (tensor<?x8xf32, #nn.dims<n>> {nn.name = "y"}) {
    return %x : tensor<?x8xf32, #nn.dims<n>>
  }
}

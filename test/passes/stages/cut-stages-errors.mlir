// RUN: dt-opt %s --dist-cut-stages -verify-diagnostics -split-input-file

// expected-error @+1 {{units.m: 4 stages need 3 places to cut at; the module has 2}}
dist.module @m of "sample" attributes {pp = 4 : i64} {
  nn.dim @batch of "sample" max 4
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %w: tensor<4x4xf32> {nn.name = "w"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.linear %x, %w : tensor<?x4xf32, #nn.dims<batch>>, tensor<4x4xf32>
    %1 = nn.linear %0, %w : tensor<?x4xf32, #nn.dims<batch>>, tensor<4x4xf32>
    %2 = nn.linear %1, %w : tensor<?x4xf32, #nn.dims<batch>>, tensor<4x4xf32>
    return %2 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// -----

// Items are on the second axis of the only thing to cut at.
// expected-error @+1 {{units.m: 2 stages need 1 places to cut at; the module has 0 where all that crosses counts items on its first axis}}
dist.module @m of "sample" attributes {pp = 2 : i64, dp = 2 : i64} {
  nn.dim @batch of "sample" max 4
  func.func @forward(%x: tensor<4x?xf32, #nn.dims<batch>> {nn.name = "x"}, %w: tensor<4x4xf32> {nn.name = "w"}) -> (tensor<4x?xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.matmul %w, %x : tensor<4x4xf32>, tensor<4x?xf32, #nn.dims<batch>>
    %1 = nn.matmul %w, %0 : tensor<4x4xf32>, tensor<4x?xf32, #nn.dims<batch>>
    return %1 : tensor<4x?xf32, #nn.dims<batch>>
  }
}

// -----

// One stage has a list too, if a plan gives one.
// expected-error @+1 {{units.m.stages[0]: there is no piece 'nosuch' (pieces: layer.0, head)}}
dist.module @m of "sample" attributes {stages = [["nosuch"]]} {
  nn.dim @batch of "sample" max 4
  func.func private @layer(%x: tensor<?x4xf32, #nn.dims<batch>>) -> tensor<?x4xf32, #nn.dims<batch>> {
    return %x : tensor<?x4xf32, #nn.dims<batch>>
  }
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %w: tensor<4x4xf32> {nn.name = "w"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = call @layer(%x) : (tensor<?x4xf32, #nn.dims<batch>>) -> tensor<?x4xf32, #nn.dims<batch>>
    %1 = nn.linear %0, %w : tensor<?x4xf32, #nn.dims<batch>>, tensor<4x4xf32>
    return %1 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// -----

// expected-error @+1 {{units.m.stages[0]: there is no piece 'layer.1' (pieces: layer.0, head)}}
dist.module @m of "sample" attributes {stages = [["layer.1"], ["head"]]} {
  nn.dim @batch of "sample" max 4
  func.func private @layer(%x: tensor<?x4xf32, #nn.dims<batch>>) -> tensor<?x4xf32, #nn.dims<batch>> {
    return %x : tensor<?x4xf32, #nn.dims<batch>>
  }
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %w: tensor<4x4xf32> {nn.name = "w"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = call @layer(%x) : (tensor<?x4xf32, #nn.dims<batch>>) -> tensor<?x4xf32, #nn.dims<batch>>
    %1 = nn.linear %0, %w : tensor<?x4xf32, #nn.dims<batch>>, tensor<4x4xf32>
    return %1 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// -----

// expected-error @+1 {{units.m.stages[0]: expected 'layer.0' next, not 'head' (pieces in order: layer.0, head)}}
dist.module @m of "sample" attributes {stages = [["head"], ["layer.0"]]} {
  nn.dim @batch of "sample" max 4
  func.func private @layer(%x: tensor<?x4xf32, #nn.dims<batch>>) -> tensor<?x4xf32, #nn.dims<batch>> {
    return %x : tensor<?x4xf32, #nn.dims<batch>>
  }
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %w: tensor<4x4xf32> {nn.name = "w"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = call @layer(%x) : (tensor<?x4xf32, #nn.dims<batch>>) -> tensor<?x4xf32, #nn.dims<batch>>
    %1 = nn.linear %0, %w : tensor<?x4xf32, #nn.dims<batch>>, tensor<4x4xf32>
    return %1 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// -----

// expected-error @+1 {{units.m.stages[1]: 'head' is in no stage}}
dist.module @m of "sample" attributes {stages = [["layer.0"], ["layer.1"]]} {
  nn.dim @batch of "sample" max 4
  func.func private @layer(%x: tensor<?x4xf32, #nn.dims<batch>>) -> tensor<?x4xf32, #nn.dims<batch>> {
    return %x : tensor<?x4xf32, #nn.dims<batch>>
  }
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %w: tensor<4x4xf32> {nn.name = "w"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = call @layer(%x) : (tensor<?x4xf32, #nn.dims<batch>>) -> tensor<?x4xf32, #nn.dims<batch>>
    %1 = call @layer(%0) : (tensor<?x4xf32, #nn.dims<batch>>) -> tensor<?x4xf32, #nn.dims<batch>>
    %2 = nn.linear %1, %w : tensor<?x4xf32, #nn.dims<batch>>, tensor<4x4xf32>
    return %2 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// -----

// expected-error @+1 {{units.m.stages[1]: a tensor of type 'tensor<4x?xf32, #nn.dims<batch>>' would cross, which does not count items on its first axis, and a microbatch has 2 parts}}
dist.module @m of "sample" attributes {dp = 2 : i64, stages = [["layer.0"], ["head"]]} {
  nn.dim @batch of "sample" max 4
  func.func private @layer(%x: tensor<4x?xf32, #nn.dims<batch>>) -> tensor<4x?xf32, #nn.dims<batch>> {
    return %x : tensor<4x?xf32, #nn.dims<batch>>
  }
  func.func @forward(%x: tensor<4x?xf32, #nn.dims<batch>> {nn.name = "x"}, %w: tensor<4x4xf32> {nn.name = "w"}) -> (tensor<4x?xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = call @layer(%x) : (tensor<4x?xf32, #nn.dims<batch>>) -> tensor<4x?xf32, #nn.dims<batch>>
    %1 = nn.matmul %w, %0 : tensor<4x4xf32>, tensor<4x?xf32, #nn.dims<batch>>
    return %1 : tensor<4x?xf32, #nn.dims<batch>>
  }
}

// -----

// expected-error @+1 {{'unit_ranks' names 1 ranks; expected pp * dp * cp * tp = 2}}
dist.module @m of "sample" attributes {pp = 2 : i64, unit_ranks = array<i64: 0>} {
  func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    return %x : tensor<4xf32>
  }
}

// -----

// expected-error @+1 {{'dist.module' op attribute 'pp' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
dist.module @m of "sample" attributes {pp = 0 : i64} {
}

// -----

// expected-error @+1 {{'stages' is a list of names for each of 3 stages}}
dist.module @m of "sample" attributes {pp = 3 : i64, stages = [["a"], ["b"]]} {
}

// -----

// expected-error @+1 {{cannot be cut into stages: it has no function @forward}}
dist.module @m of "sample" attributes {pp = 3 : i64} {
}

// -----

// expected-error @+1 {{cannot be cut into stages: it runs over the whole batch}}
dist.module @m of "sample" whole_batch attributes {pp = 3 : i64} {
  func.func @forward(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
    return %x : tensor<4xf32>
  }
}

// -----

dist.module @m.1 of "sample" {
}
// expected-remark @+3 {{stage 0 of m}}
// expected-remark @+2 {{stage 1 of m}}
// expected-error @+1 {{its stage 1 would be called 'm.1', which exists}}
dist.module @m of "sample" attributes {pp = 2 : i64} {
  nn.dim @batch of "sample" max 4
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %w: tensor<4x4xf32> {nn.name = "w"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %0 = nn.linear %x, %w : tensor<?x4xf32, #nn.dims<batch>>, tensor<4x4xf32>
    %1 = nn.linear %0, %w : tensor<?x4xf32, #nn.dims<batch>>, tensor<4x4xf32>
    return %1 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

// -----

// Between products of experts each rank has other rows.
// expected-error @+1 {{units.m: 2 stages need 1 places to cut at; the module has 0 outside of layers of experts (ep)}}
dist.module @m of "sample" attributes {pp = 2 : i64, tp = 2 : i64, ep = 2 : i64} {
  nn.dim @batch of "sample" max 4
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<batch>> {nn.name = "x"}, %ids: tensor<?xi64, #nn.dims<batch>> {nn.name = "ids"}, %w: tensor<2x4x4xf32> {nn.name = "w"}) -> (tensor<?x4xf32, #nn.dims<batch>> {nn.name = "y"}) {
    %order, %place, %offsets = nn.route %ids of 2 : tensor<?xi64, #nn.dims<batch>>
    %0 = nn.dispatch %x by %order, %place each 1 : tensor<?x4xf32, #nn.dims<batch>>, tensor<?xi32, #nn.dims<batch>>, tensor<?xi32, #nn.dims<batch>>
    %1 = nn.grouped_linear %0, %w at %offsets : tensor<?x4xf32, #nn.dims<batch>>, tensor<2x4x4xf32>, tensor<3xi32>
    %2 = nn.grouped_linear %1, %w at %offsets : tensor<?x4xf32, #nn.dims<batch>>, tensor<2x4x4xf32>, tensor<3xi32>
    %3 = nn.combine %2 by %order, %place each 1 : tensor<?x4xf32, #nn.dims<batch>>, tensor<?xi32, #nn.dims<batch>>, tensor<?xi32, #nn.dims<batch>>
    return %3 : tensor<?x4xf32, #nn.dims<batch>>
  }
}

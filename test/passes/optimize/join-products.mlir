// RUN: dt-opt %s --nn-join-products -split-input-file | FileCheck %s
// RUN: dt-opt %s --nn-join-products -split-input-file | dt-opt -split-input-file | FileCheck %s

// What goes back to an input of three products is one product over their
// weights side by side; so are the gradients of weights and of biases, in the
// order of the parameters.
dist.module @joined {
  nn.parameter @q : tensor<8x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @k : tensor<16x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @v : tensor<24x4xf32> trainable from #nn.init<"zeros", "", "">
  // CHECK-LABEL: func.func @joined.bwd(
  // CHECK-SAME: %[[X:.*]]: tensor<5x4xf32>, %[[Q:.*]]: tensor<5x8xf32>, %[[K:.*]]: tensor<5x16xf32>, %[[V:.*]]: tensor<5x24xf32>, %[[OTHER:.*]]: tensor<5x4xf32>)
  // CHECK: %[[W:.*]] = nn.read @q {beside = [@k, @v]} : tensor<48x4xf32>
  // CHECK: %[[DQ:.*]] = nn.exp
  // CHECK: %[[DV:.*]] = nn.neg
  // CHECK: %[[DK:.*]] = nn.tanh
  // CHECK: %[[DY:.*]] = nn.concat %[[DQ]], %[[DK]], %[[DV]] {axis = 1 : i64}
  // CHECK: %[[DW:.*]] = nn.linear_dw %[[X]], %[[DY]] : tensor<5x4xf32>, tensor<5x48xf32>
  // CHECK: nn.accumulate @q, %[[DW]] {beside = [@k, @v]} : tensor<48x4xf32>
  // CHECK: %[[DX:.*]] = nn.linear %[[DY]], %[[W]] {in_out} : tensor<5x48xf32>, tensor<48x4xf32>
  // CHECK: %[[SUM:.*]] = nn.add %[[OTHER]], %[[DX]]
  // CHECK: return %[[SUM]]
  func.func @joined.bwd(%x: tensor<5x4xf32>, %q: tensor<5x8xf32>, %k: tensor<5x16xf32>, %v: tensor<5x24xf32>, %other: tensor<5x4xf32>) -> tensor<5x4xf32> {
    %wq = nn.read @q : tensor<8x4xf32>
    %wk = nn.read @k : tensor<16x4xf32>
    %wv = nn.read @v : tensor<24x4xf32>
    %dq = nn.exp %q : tensor<5x8xf32>
    %dv = nn.neg %v : tensor<5x24xf32>
    %0 = nn.linear %dv, %wv {in_out} : tensor<5x24xf32>, tensor<24x4xf32>
    %1 = nn.linear_dw %x, %dv : tensor<5x4xf32>, tensor<5x24xf32>
    nn.accumulate @v, %1 : tensor<24x4xf32>
    %dk = nn.tanh %k : tensor<5x16xf32>
    %2 = nn.linear %dq, %wq {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %3 = nn.linear %dk, %wk {in_out} : tensor<5x16xf32>, tensor<16x4xf32>
    %4 = nn.linear_dw %x, %dk : tensor<5x4xf32>, tensor<5x16xf32>
    nn.accumulate @k, %4 : tensor<16x4xf32>
    %5 = nn.linear_dw %x, %dq : tensor<5x4xf32>, tensor<5x8xf32>
    nn.accumulate @q, %5 : tensor<8x4xf32>
    %6 = nn.add %0, %other : tensor<5x4xf32>, tensor<5x4xf32>
    %7 = nn.add %6, %2 : tensor<5x4xf32>, tensor<5x4xf32>
    %8 = nn.add %7, %3 : tensor<5x4xf32>, tensor<5x4xf32>
    return %8 : tensor<5x4xf32>
  }
}

// -----

// A layer gets one operand and returns one gradient; what it needs of a weight
// by itself it goes on to get. Biases are joined in the order of the weights.
dist.module @layers {
  nn.parameter @a.b : tensor<32xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @a.w : tensor<32x4xf32> working bf16 trainable from #nn.init<"zeros", "", "">
  nn.parameter @a.v : tensor<64x4xf32> working bf16 trainable from #nn.init<"zeros", "", "">
  nn.parameter @a.c : tensor<64xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @b.b : tensor<32xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @b.w : tensor<32x4xf32> working bf16 trainable from #nn.init<"zeros", "", "">
  nn.parameter @b.v : tensor<64x4xf32> working bf16 trainable from #nn.init<"zeros", "", "">
  nn.parameter @b.c : tensor<64xf32> trainable from #nn.init<"zeros", "", "">
  // CHECK-LABEL: func.func private @layer.bwd(
  // CHECK-SAME: %{{.*}}: tensor<5x4xbf16>, %[[J:.*]]: tensor<96x4xbf16> {nn.name = "w.joined"}, %[[W:.*]]: tensor<32x4xbf16> {nn.name = "w"}, %{{.*}}: tensor<5x32xbf16>, %{{.*}}: tensor<5x64xbf16>)
  // CHECK-SAME: -> (tensor<5x4xbf16>, tensor<96xf32> {nn.param_grad}, tensor<96x4xf32> {nn.param_grad}, tensor<5x32xbf16>)
  // CHECK: nn.linear {{.*}}, %[[J]] {in_out}
  // CHECK: nn.linear_dw {{.*}} {stored = f32} : tensor<5x4xbf16>, tensor<5x96xbf16>
  // CHECK: nn.reduce sum {{.*}} : tensor<5x96xbf16>
  // CHECK: nn.linear {{.*}}, %[[W]] :
  func.func private @layer.bwd(%x: tensor<5x4xbf16>, %w: tensor<32x4xbf16> {nn.name = "w"}, %v: tensor<64x4xbf16> {nn.name = "v"}, %g: tensor<5x32xbf16>, %h: tensor<5x64xbf16>)
      -> (tensor<5x4xbf16>, tensor<32xf32> {nn.param_grad}, tensor<64xf32> {nn.param_grad}, tensor<32x4xf32> {nn.param_grad}, tensor<64x4xf32> {nn.param_grad}, tensor<5x32xbf16>) {
    %0 = nn.exp %g : tensor<5x32xbf16>
    %1 = nn.exp %h : tensor<5x64xbf16>
    %2 = nn.linear %0, %w {in_out} : tensor<5x32xbf16>, tensor<32x4xbf16>
    %3 = nn.linear %1, %v {in_out} : tensor<5x64xbf16>, tensor<64x4xbf16>
    %4 = nn.add %2, %3 : tensor<5x4xbf16>, tensor<5x4xbf16>
    %5 = nn.linear_dw %x, %0 {stored = f32} : tensor<5x4xbf16>, tensor<5x32xbf16>
    %6 = nn.linear_dw %x, %1 {stored = f32} : tensor<5x4xbf16>, tensor<5x64xbf16>
    %7 = nn.reduce sum %0 {axes = array<i64: 0>, stored = f32} : tensor<5x32xbf16>
    %8 = nn.reduce sum %1 {axes = array<i64: 0>, stored = f32} : tensor<5x64xbf16>
    %9 = nn.linear %x, %w : tensor<5x4xbf16>, tensor<32x4xbf16>
    return %4, %7, %8, %5, %6, %9 : tensor<5x4xbf16>, tensor<32xf32>, tensor<64xf32>, tensor<32x4xf32>, tensor<64x4xf32>, tensor<5x32xbf16>
  }
  // CHECK-LABEL: func.func @forward.bwd(
  // CHECK: %[[AJ:.*]] = nn.read @a.w {beside = [@a.v]} : tensor<96x4xbf16>
  // CHECK: %[[AW:.*]] = nn.read @a.w : tensor<32x4xbf16>
  // CHECK: %[[R:.*]]:4 = call @layer.bwd(%{{.*}}, %[[AJ]], %[[AW]], %{{.*}}, %{{.*}})
  // CHECK-DAG: nn.accumulate @a.b, %[[R]]#1 {beside = [@a.c]} : tensor<96xf32>
  // CHECK-DAG: nn.accumulate @a.w, %[[R]]#2 {beside = [@a.v]} : tensor<96x4xf32>
  // CHECK: %[[S:.*]]:4 = call @layer.bwd(%[[R]]#0,
  // CHECK-DAG: nn.accumulate @b.b, %[[S]]#1 {beside = [@b.c]} : tensor<96xf32>
  // CHECK-DAG: nn.accumulate @b.w, %[[S]]#2 {beside = [@b.v]} : tensor<96x4xf32>
  // CHECK: return %[[S]]#0, %[[S]]#3
  func.func @forward.bwd(%x: tensor<5x4xbf16>, %g: tensor<5x32xbf16>, %h: tensor<5x64xbf16>) -> (tensor<5x4xbf16>, tensor<5x32xbf16>) {
    %aw = nn.read @a.w : tensor<32x4xbf16>
    %av = nn.read @a.v : tensor<64x4xbf16>
    %bw = nn.read @b.w : tensor<32x4xbf16>
    %bv = nn.read @b.v : tensor<64x4xbf16>
    %0:6 = call @layer.bwd(%x, %aw, %av, %g, %h) : (tensor<5x4xbf16>, tensor<32x4xbf16>, tensor<64x4xbf16>, tensor<5x32xbf16>, tensor<5x64xbf16>) -> (tensor<5x4xbf16>, tensor<32xf32>, tensor<64xf32>, tensor<32x4xf32>, tensor<64x4xf32>, tensor<5x32xbf16>)
    nn.accumulate @a.b, %0#1 : tensor<32xf32>
    nn.accumulate @a.c, %0#2 : tensor<64xf32>
    nn.accumulate @a.w, %0#3 : tensor<32x4xf32>
    nn.accumulate @a.v, %0#4 : tensor<64x4xf32>
    %1:6 = call @layer.bwd(%0#0, %bw, %bv, %g, %h) : (tensor<5x4xbf16>, tensor<32x4xbf16>, tensor<64x4xbf16>, tensor<5x32xbf16>, tensor<5x64xbf16>) -> (tensor<5x4xbf16>, tensor<32xf32>, tensor<64xf32>, tensor<32x4xf32>, tensor<64x4xf32>, tensor<5x32xbf16>)
    nn.accumulate @b.b, %1#1 : tensor<32xf32>
    nn.accumulate @b.c, %1#2 : tensor<64xf32>
    nn.accumulate @b.w, %1#3 : tensor<32x4xf32>
    nn.accumulate @b.v, %1#4 : tensor<64x4xf32>
    return %1#0, %1#5 : tensor<5x4xbf16>, tensor<5x32xbf16>
  }
}

// -----

// Frozen weights are not joined with trained ones, but with one another.
dist.module @frozen {
  nn.parameter @q : tensor<8x4xf32> from #nn.init<"zeros", "", "">
  nn.parameter @k : tensor<8x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @v : tensor<8x4xf32> from #nn.init<"zeros", "", "">
  // CHECK-LABEL: func.func @frozen.bwd(
  // CHECK: nn.read @q {beside = [@v]} : tensor<16x4xf32>
  // CHECK: nn.linear_dw {{.*}} : tensor<5x4xf32>, tensor<5x8xf32>
  // CHECK: nn.accumulate @k, %{{.*}} : tensor<8x4xf32>
  // CHECK: nn.linear {{.*}} : tensor<5x16xf32>, tensor<16x4xf32>
  func.func @frozen.bwd(%x: tensor<5x4xf32>, %q: tensor<5x8xf32>, %k: tensor<5x8xf32>, %v: tensor<5x8xf32>) -> tensor<5x4xf32> {
    %wq = nn.read @q : tensor<8x4xf32>
    %wk = nn.read @k : tensor<8x4xf32>
    %wv = nn.read @v : tensor<8x4xf32>
    %dq = nn.exp %q : tensor<5x8xf32>
    %dk = nn.exp %k : tensor<5x8xf32>
    %dv = nn.exp %v : tensor<5x8xf32>
    %0 = nn.linear %dq, %wq {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %1 = nn.linear %dk, %wk {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %2 = nn.linear %dv, %wv {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %3 = nn.linear_dw %x, %dk : tensor<5x4xf32>, tensor<5x8xf32>
    nn.accumulate @k, %3 : tensor<8x4xf32>
    %4 = nn.add %0, %1 : tensor<5x4xf32>, tensor<5x4xf32>
    %5 = nn.add %4, %2 : tensor<5x4xf32>, tensor<5x4xf32>
    return %5 : tensor<5x4xf32>
  }
}

// -----

// Two inputs: their weights' gradients stay two products.
dist.module @inputs {
  nn.parameter @q : tensor<8x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @k : tensor<8x4xf32> trainable from #nn.init<"zeros", "", "">
  // CHECK-LABEL: func.func @inputs.bwd(
  // CHECK-NOT: beside
  func.func @inputs.bwd(%x: tensor<5x4xf32>, %y: tensor<5x4xf32>, %q: tensor<5x8xf32>, %k: tensor<5x8xf32>) -> tensor<5x4xf32> {
    %wq = nn.read @q : tensor<8x4xf32>
    %wk = nn.read @k : tensor<8x4xf32>
    %dq = nn.exp %q : tensor<5x8xf32>
    %dk = nn.exp %k : tensor<5x8xf32>
    %0 = nn.linear %dq, %wq {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %1 = nn.linear %dk, %wk {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %2 = nn.linear_dw %x, %dq : tensor<5x4xf32>, tensor<5x8xf32>
    nn.accumulate @q, %2 : tensor<8x4xf32>
    %3 = nn.linear_dw %y, %dk : tensor<5x4xf32>, tensor<5x8xf32>
    nn.accumulate @k, %3 : tensor<8x4xf32>
    %4 = nn.add %0, %1 : tensor<5x4xf32>, tensor<5x4xf32>
    return %4 : tensor<5x4xf32>
  }
}

// -----

// What stays apart: parameters that are tied, of other elements, of a size that
// leaves a gap, that are stored the other way round (@in_out), read twice by one
// sum, or whose gradients would have to be copied.
dist.module @apart {
  nn.parameter @tied : tensor<8x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @plain : tensor<8x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @copy : tensor<8x4xf32> working bf16 trainable from #nn.init<"zeros", "", "">
  nn.parameter @narrow : tensor<8x4xbf16> trainable from #nn.init<"zeros", "", "">
  nn.parameter @gap : tensor<9x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @last : tensor<8x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @in_out.a : tensor<4x8xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @in_out.b : tensor<4x8xf32> trainable from #nn.init<"zeros", "", "">
  // CHECK-LABEL: dist.module @apart
  // CHECK-NOT: beside
  // CHECK-NOT: nn.concat
  func.func @tied.bwd(%q: tensor<5x8xf32>, %k: tensor<5x8xf32>) -> tensor<5x4xf32> {
    %wq = nn.read @tied : tensor<8x4xf32>
    %wk = nn.read @plain : tensor<8x4xf32>
    %dq = nn.exp %q : tensor<5x8xf32>
    %dk = nn.exp %k : tensor<5x8xf32>
    %0 = nn.linear %dq, %wq {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %1 = nn.linear %dk, %wk {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %2 = nn.add %0, %1 : tensor<5x4xf32>, tensor<5x4xf32>
    return %2 : tensor<5x4xf32>
  }
  func.func @elements.bwd(%q: tensor<5x8xf32>, %k: tensor<5x8xf32>) -> tensor<5x4xbf16> {
    %wq = nn.read @copy : tensor<8x4xbf16>
    %wk = nn.read @narrow : tensor<8x4xbf16>
    %dq = nn.cast %q : tensor<5x8xf32> to tensor<5x8xbf16>
    %dk = nn.cast %k : tensor<5x8xf32> to tensor<5x8xbf16>
    %0 = nn.linear %dq, %wq {in_out} : tensor<5x8xbf16>, tensor<8x4xbf16>
    %1 = nn.linear %dk, %wk {in_out} : tensor<5x8xbf16>, tensor<8x4xbf16>
    %2 = nn.add %0, %1 : tensor<5x4xbf16>, tensor<5x4xbf16>
    return %2 : tensor<5x4xbf16>
  }
  func.func @gap.bwd(%q: tensor<5x9xf32>, %k: tensor<5x8xf32>) -> tensor<5x4xf32> {
    %wq = nn.read @gap : tensor<9x4xf32>
    %wk = nn.read @last : tensor<8x4xf32>
    %dq = nn.exp %q : tensor<5x9xf32>
    %dk = nn.exp %k : tensor<5x8xf32>
    %0 = nn.linear %dq, %wq {in_out} : tensor<5x9xf32>, tensor<9x4xf32>
    %1 = nn.linear %dk, %wk {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %2 = nn.add %0, %1 : tensor<5x4xf32>, tensor<5x4xf32>
    return %2 : tensor<5x4xf32>
  }
  func.func @in_out.bwd(%q: tensor<5x8xf32>, %k: tensor<5x8xf32>) -> tensor<5x4xf32> {
    %wq = nn.read @in_out.a : tensor<4x8xf32>
    %wk = nn.read @in_out.b : tensor<4x8xf32>
    %dq = nn.exp %q : tensor<5x8xf32>
    %dk = nn.exp %k : tensor<5x8xf32>
    %0 = nn.linear %dq, %wq : tensor<5x8xf32>, tensor<4x8xf32>
    %1 = nn.linear %dk, %wk : tensor<5x8xf32>, tensor<4x8xf32>
    %2 = nn.add %0, %1 : tensor<5x4xf32>, tensor<5x4xf32>
    return %2 : tensor<5x4xf32>
  }
  func.func @twice.bwd(%q: tensor<5x8xf32>, %k: tensor<5x8xf32>) -> tensor<5x4xf32> {
    %w = nn.read @last : tensor<8x4xf32>
    %dq = nn.exp %q : tensor<5x8xf32>
    %dk = nn.exp %k : tensor<5x8xf32>
    %0 = nn.linear %dq, %w {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %1 = nn.linear %dk, %w {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %2 = nn.add %0, %1 : tensor<5x4xf32>, tensor<5x4xf32>
    return %2 : tensor<5x4xf32>
  }
  func.func @copied.bwd(%dq: tensor<5x8xf32>, %dk: tensor<5x8xf32>) -> tensor<5x4xf32> {
    %wq = nn.read @plain : tensor<8x4xf32>
    %wk = nn.read @last : tensor<8x4xf32>
    %0 = nn.linear %dq, %wq {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %1 = nn.linear %dk, %wk {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %2 = nn.add %0, %1 : tensor<5x4xf32>, tensor<5x4xf32>
    return %2 : tensor<5x4xf32>
  }
}
dist.module @owner {
  nn.parameter @w : tensor<8x4xf32> trainable from #nn.init<"zeros", "", "">
}
dist.tie @apart::@tied = @owner::@w

// -----

// In one call the layer's weights are side by side already with others: it
// stays as it is.
dist.module @calls {
  nn.parameter @a : tensor<8x4xf32> from #nn.init<"zeros", "", "">
  nn.parameter @b : tensor<8x4xf32> from #nn.init<"zeros", "", "">
  // CHECK-LABEL: func.func private @layer(
  // CHECK-NOT: beside
  func.func private @layer(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>, %q: tensor<5x8xf32>, %k: tensor<5x8xf32>) -> tensor<5x4xf32> {
    %dq = nn.exp %q : tensor<5x8xf32>
    %dk = nn.exp %k : tensor<5x8xf32>
    %0 = nn.linear %dq, %a {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %1 = nn.linear %dk, %b {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %2 = nn.add %0, %1 : tensor<5x4xf32>, tensor<5x4xf32>
    return %2 : tensor<5x4xf32>
  }
  func.func @f(%q: tensor<5x8xf32>, %k: tensor<5x8xf32>) -> (tensor<5x4xf32>, tensor<5x4xf32>) {
    %a = nn.read @a : tensor<8x4xf32>
    %b = nn.read @b : tensor<8x4xf32>
    %0 = call @layer(%a, %b, %q, %k) : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x4xf32>
    %1 = call @layer(%b, %a, %q, %k) : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x4xf32>
    return %0, %1 : tensor<5x4xf32>, tensor<5x4xf32>
  }
}

// -----

// Functions that call themselves are for others to refuse.
dist.module @recursion {
  // CHECK-LABEL: func.func private @again(
  // CHECK-NOT: beside
  func.func private @again(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>, %q: tensor<5x8xf32>, %k: tensor<5x8xf32>) -> (tensor<5x4xf32>, tensor<8x4xf32> {nn.param_grad}, tensor<8x4xf32> {nn.param_grad}) {
    %dq = nn.exp %q : tensor<5x8xf32>
    %dk = nn.exp %k : tensor<5x8xf32>
    %0 = nn.linear %dq, %a {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %1 = nn.linear %dk, %b {in_out} : tensor<5x8xf32>, tensor<8x4xf32>
    %2 = nn.add %0, %1 : tensor<5x4xf32>, tensor<5x4xf32>
    %3:3 = call @again(%a, %b, %q, %k) : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<5x8xf32>, tensor<5x8xf32>) -> (tensor<5x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>)
    return %2, %3#1, %3#2 : tensor<5x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
  }
}

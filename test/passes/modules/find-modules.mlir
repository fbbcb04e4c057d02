// RUN: dt-opt %s --dist-find-modules --dist-verify-modules -split-input-file 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: sed 's/ attributes {split}//' %s | dt-opt --dist-find-modules -split-input-file | FileCheck %s --check-prefix=UNASKED
// RUN: sed 's/ attributes {split}//' %s | dt-opt --dist-find-modules=all -split-input-file | FileCheck %s

// Nothing is cut unless asked for.
// UNASKED-NOT: origin

// Two towers of products, their scores in a small head. The mask is nobody's: its cast is
// computed where it is needed. The bias that both read is tied.
// REMARK: 'm' is cut at 'nn.linear' 'tensor<?x8xf32, #nn.dims<batch>>': 32 bytes a sample cross; what depends on 'user' alone ({{.*}}FLOPs a sample) is apart from the {{.*}}FLOPs that are left
// REMARK: 'm' is cut at 'nn.linear' {{.*}} what depends on 'item' alone
// CHECK-LABEL: dist.module @m_tower of "sample" role tower origin "m"
// CHECK: nn.parameter @u0
// CHECK: nn.parameter @u1
// CHECK: nn.parameter @shared
// CHECK-NOT: nn.parameter @i0
// CHECK: func.func @forward(%{{.*}}: {{.*}} {nn.name = "user"}) -> (tensor<?x8xf32, #nn.dims<batch>> {nn.name = "cut.0"})
// CHECK-LABEL: dist.module @m_tower_2 of "sample" role tower origin "m"
// CHECK: func.func @forward({{.*}}nn.name = "mask"{{.*}}nn.name = "item"{{.*}}) -> (tensor<?x8xf32, #nn.dims<batch>> {nn.name = "cut.1"})
// CHECK: nn.cast
// CHECK-LABEL: dist.module @m_head of "sample" role head origin "m"
// CHECK: func.func @forward({{.*}}nn.name = "mask"{{.*}}nn.name = "cut.0"{{.*}}nn.name = "cut.1"{{.*}}) -> (tensor<?x1xf32, #nn.dims<batch>> {nn.name = "score"}, tensor<f32> {nn.name = "loss.l"})
// CHECK: nn.cast
// CHECK: func.func @d(
// CHECK-DAG: dist.tie @m_tower::@shared = @m_tower_2::@shared
// CHECK-DAG: dist.edge @m_tower "cut.0" to @m_head "cut.0"
// CHECK-DAG: dist.edge @m_tower_2 "cut.1" to @m_head "cut.1"
// CHECK: dist.loss "l" in @m_head numerator "loss.l" denominator @d
dist.module @m of "sample" role backbone attributes {split} {
  nn.dim @batch of "sample" max 2
  nn.parameter @u0 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "u0">
  nn.parameter @u1 : tensor<8x64xf32> trainable from #nn.onnx<"m.onnx", "u1">
  nn.parameter @i0 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "i0">
  nn.parameter @i1 : tensor<8x64xf32> trainable from #nn.onnx<"m.onnx", "i1">
  nn.parameter @shared : tensor<64xf32> trainable from #nn.onnx<"m.onnx", "shared">
  func.func @forward(%user: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "user"}, %mask: tensor<?x1xi64, #nn.dims<batch>> {nn.name = "mask"}, %item: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "item"})
      -> (tensor<?x1xf32, #nn.dims<batch>> {nn.name = "score"}, tensor<f32> {nn.name = "loss.l"}) {
    %u0 = nn.read @u0 : tensor<64x64xf32>
    %u1 = nn.read @u1 : tensor<8x64xf32>
    %i0 = nn.read @i0 : tensor<64x64xf32>
    %i1 = nn.read @i1 : tensor<8x64xf32>
    %shared = nn.read @shared : tensor<64xf32>
    %keep = nn.cast %mask : tensor<?x1xi64, #nn.dims<batch>> to tensor<?x1xf32, #nn.dims<batch>>
    %ua = nn.linear %user, %u0, %shared : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>, tensor<64xf32>
    %ub = nn.relu %ua : tensor<?x64xf32, #nn.dims<batch>>
    %ia = nn.linear %item, %i0, %shared : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>, tensor<64xf32>
    %uc = nn.linear %ub, %u1 : tensor<?x64xf32, #nn.dims<batch>>, tensor<8x64xf32>
    %ib = nn.mul %ia, %keep : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x1xf32, #nn.dims<batch>>
    %ic = nn.linear %ib, %i1 : tensor<?x64xf32, #nn.dims<batch>>, tensor<8x64xf32>
    %p = nn.mul %uc, %ic : tensor<?x8xf32, #nn.dims<batch>>, tensor<?x8xf32, #nn.dims<batch>>
    %s = nn.reduce sum %p {axes = array<i64: 1>, keepdims} : tensor<?x8xf32, #nn.dims<batch>>
    %w = nn.mul %s, %keep : tensor<?x1xf32, #nn.dims<batch>>, tensor<?x1xf32, #nn.dims<batch>>
    %l = nn.reduce sum %w {axes = array<i64: 0, 1>} : tensor<?x1xf32, #nn.dims<batch>>
    return %s, %l : tensor<?x1xf32, #nn.dims<batch>>, tensor<f32>
  }
  func.func @d(%mask: tensor<?x1xi64, #nn.dims<batch>> {nn.name = "mask"}) -> tensor<f32> {
    %keep = nn.cast %mask : tensor<?x1xi64, #nn.dims<batch>> to tensor<?x1xf32, #nn.dims<batch>>
    %l = nn.reduce sum %keep {axes = array<i64: 0, 1>} : tensor<?x1xf32, #nn.dims<batch>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @m numerator "loss.l" denominator @d weight 1.0
dist.batch global 4 micro 2

// -----

// Encoder and decoder: the cut is before the keys that the decoder makes of the encoder's output
// (one value each), and the decoder's beginning is none, for its residual stream goes on.
// REMARK: 'm' is cut at 'nn.relu' {{.*}} what depends on 'source' alone
// REMARK-NOT: is cut
// CHECK-LABEL: dist.module @m_enc of "sample" role encoder origin "m"
// CHECK: nn.parameter @net.enc.w0
// CHECK-NOT: nn.parameter @net.dec
// CHECK: nn.relu
// CHECK-NEXT: return
// CHECK-LABEL: dist.module @m_dec of "sample" role backbone origin "m"
// CHECK: nn.parameter @net.dec.w0
// CHECK: nn.parameter @net.dec.k0
// CHECK: dist.edge @m_enc "cut.0" to @m_dec "cut.0"
dist.module @m of "sample" attributes {split} {
  nn.dim @batch of "sample" max 2
  nn.parameter @net.enc.w0 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "net.enc.w0">
  nn.parameter @net.enc.w1 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "net.enc.w1">
  nn.parameter @net.dec.w0 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "net.dec.w0">
  nn.parameter @net.dec.w1 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "net.dec.w1">
  nn.parameter @net.dec.k0 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "net.dec.k0">
  nn.parameter @net.dec.k1 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "net.dec.k1">
  func.func @forward(%source: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "source"}, %target: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "target"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %e0 = nn.read @net.enc.w0 : tensor<64x64xf32>
    %e1 = nn.read @net.enc.w1 : tensor<64x64xf32>
    %d0 = nn.read @net.dec.w0 : tensor<64x64xf32>
    %d1 = nn.read @net.dec.w1 : tensor<64x64xf32>
    %k0 = nn.read @net.dec.k0 : tensor<64x64xf32>
    %k1 = nn.read @net.dec.k1 : tensor<64x64xf32>
    %a = nn.linear %source, %e0 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %b = nn.linear %a, %e1 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %memory = nn.relu %b : tensor<?x64xf32, #nn.dims<batch>>
    %key0 = nn.linear %memory, %k0 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %key1 = nn.linear %memory, %k1 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %g = nn.linear %target, %d0 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %h = nn.mul %g, %key0 : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    %w = nn.linear %h, %d1 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %x = nn.add %g, %w : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    %y = nn.mul %x, %key1 : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    %l = nn.reduce sum %y {axes = array<i64: 0, 1>} : tensor<?x64xf32, #nn.dims<batch>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @m numerator "loss.l" weight 1.0
dist.batch global 2 micro 2

// -----

// A head on the encoder has more numbers than all of its layers: the layers name it.
// REMARK: 'm' is cut at 'nn.relu' {{.*}} what depends on 'source' alone
// CHECK-LABEL: dist.module @m_enc of "sample" role encoder origin "m"
// CHECK: nn.parameter @decode.up
// CHECK-LABEL: dist.module @m_dec of "sample" role backbone origin "m"
dist.module @m of "sample" attributes {split} {
  nn.dim @batch of "sample" max 2
  nn.parameter @net.enc.w0 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "net.enc.w0">
  nn.parameter @net.enc.w1 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "net.enc.w1">
  nn.parameter @net.enc.w2 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "net.enc.w2">
  nn.parameter @decode.up : tensor<160x64xf32> trainable from #nn.onnx<"m.onnx", "decode.up">
  nn.parameter @decode.down : tensor<64x160xf32> trainable from #nn.onnx<"m.onnx", "decode.down">
  nn.parameter @net.dec.w0 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "net.dec.w0">
  nn.parameter @net.dec.w1 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "net.dec.w1">
  nn.parameter @net.dec.k0 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "net.dec.k0">
  nn.parameter @net.dec.k1 : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "net.dec.k1">
  func.func @forward(%source: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "source"}, %target: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "target"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %e0 = nn.read @net.enc.w0 : tensor<64x64xf32>
    %e1 = nn.read @net.enc.w1 : tensor<64x64xf32>
    %e2 = nn.read @net.enc.w2 : tensor<64x64xf32>
    %up = nn.read @decode.up : tensor<160x64xf32>
    %down = nn.read @decode.down : tensor<64x160xf32>
    %d0 = nn.read @net.dec.w0 : tensor<64x64xf32>
    %d1 = nn.read @net.dec.w1 : tensor<64x64xf32>
    %k0 = nn.read @net.dec.k0 : tensor<64x64xf32>
    %k1 = nn.read @net.dec.k1 : tensor<64x64xf32>
    %a = nn.linear %source, %e0 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %b = nn.linear %a, %e1 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %c = nn.linear %b, %e2 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %wide = nn.linear %c, %up : tensor<?x64xf32, #nn.dims<batch>>, tensor<160x64xf32>
    %out = nn.linear %wide, %down : tensor<?x160xf32, #nn.dims<batch>>, tensor<64x160xf32>
    %memory = nn.relu %out : tensor<?x64xf32, #nn.dims<batch>>
    %key0 = nn.linear %memory, %k0 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %key1 = nn.linear %memory, %k1 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %g = nn.linear %target, %d0 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %h = nn.mul %g, %key0 : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    %w = nn.linear %h, %d1 : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %x = nn.add %g, %w : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    %y = nn.mul %x, %key1 : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x64xf32, #nn.dims<batch>>
    %l = nn.reduce sum %y {axes = array<i64: 0, 1>} : tensor<?x64xf32, #nn.dims<batch>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @m numerator "loss.l" weight 1.0
dist.batch global 2 micro 2

// -----

// One input and labels: whole. The remark says what was looked at.
// REMARK: 'm' stays one module: what depends on 'x' alone is nearly all there is{{$}}
// CHECK-LABEL: dist.module @m of "sample" role backbone {
// CHECK-NOT: dist.edge
dist.module @m of "sample" role backbone attributes {split} {
  nn.dim @batch of "sample" max 2
  nn.parameter @a : tensor<64x64xf32> trainable from #nn.onnx<"m.onnx", "a">
  func.func @forward(%x: tensor<?x64xf32, #nn.dims<batch>> {nn.name = "x"}, %labels: tensor<?xi64, #nn.dims<batch>> {nn.name = "labels"}) -> (tensor<f32> {nn.name = "loss.l"}) {
    %a = nn.read @a : tensor<64x64xf32>
    %y = nn.linear %x, %a : tensor<?x64xf32, #nn.dims<batch>>, tensor<64x64xf32>
    %c = nn.cross_entropy %y, %labels : tensor<?x64xf32, #nn.dims<batch>>, tensor<?xi64, #nn.dims<batch>>
    %l = nn.reduce sum %c {axes = array<i64: 0>} : tensor<?xf32, #nn.dims<batch>>
    return %l : tensor<f32>
  }
}
dist.loss "l" in @m numerator "loss.l" weight 1.0
dist.batch global 2 micro 2

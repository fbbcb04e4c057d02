// Replicas that share out experts (docs/expert-parallelism.md): each has samples of its own, attention needs nothing of others; choices, tokens and shares are gathered in front of the experts, and sums scattered behind them, before those of tensor parallelism.
// RUN: dt-opt %source/test/models/extra/qwen3_moe/model.onnx --loss=cross_entropy:logits:labels --batch=4 --dims=batch=sample,seq=20 --pass-pipeline='builtin.module(dt-import,dist-apply-plan{plan=model:tp=2,dp=2,ep=4},dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard,dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null | FileCheck %s

// CHECK: dist.module @model {{.*}}attributes {ep = 4 : i64, joined = 2 : i64, ranks = array<i64: 0, 1, 2, 3>, tp = 2 : i64
// CHECK: nn.dim @batch of "sample" multiple 2 max 2
// CHECK: @net.model.layers.0.mlp.experts.gate_up_proj : tensor<2x48x32xf32> {{.*}}{dist.layout = #dist.layout<8x48x32, [#dist.cut<0, 4, 2, 1>, #dist.cut<0, 2, 2, 2>]>}
// CHECK: @net.model.layers.0.mlp.gate.weight : tensor<8x32xf32> {{.*}}dist.partial_gradient = [#dist.cut<1, 1, 2, 2>]
// CHECK-LABEL: func.func private @layers.fwd(%arg0: tensor<?x20x32xf32, #nn.dims<batch>>
// CHECK-NOT: dist.all_gather
// CHECK: nn.attention {{.*}} : tensor<?x20x2x8xf32, #nn.dims<batch>>
// CHECK: dist.all_gather {{.*}} over 2 stride 2 : tensor<?xi64, #nn.dims<40*batch>> to tensor<?xi64, #nn.dims<80*batch>>
// CHECK: nn.route %{{.*}} of 8 from %{{.*}} take 2
// CHECK: dist.all_gather {{.*}} over 2 stride 2 : tensor<?x32xf32, #nn.dims<20*batch>> to tensor<?x32xf32, #nn.dims<40*batch>>
// CHECK: dist.reduce_scatter {{.*}} over 2 stride 2 : tensor<?x32xf32, #nn.dims<40*batch>> to tensor<?x32xf32, #nn.dims<20*batch>>
// CHECK-NEXT: dist.all_reduce sum {{.*}} over 2 stride 1 : tensor<?x32xf32, #nn.dims<20*batch>>
// CHECK-LABEL: func.func private @layers.bwd
// CHECK-LABEL: func.func @forward.fwd(%arg0: tensor<?x20xi64, #nn.dims<2*batch>>
// The loss: over heads' ranks, then over samples'.
// CHECK: dist.all_reduce sum {{.*}} over 2 stride 2 : tensor<f32>

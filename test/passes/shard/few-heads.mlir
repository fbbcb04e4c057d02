// Four ranks, two key/value heads: 4 is taken as 2 x 2. Queries are cut by both axes, keys and values by the first only; their gradients are partial sums over the second. Everything that both
// axes cut has one collective of four.
// RUN: dt-opt %source/test/models/llama/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=4},dist-shard,dist-finish-shard))' 2>/dev/null | FileCheck %s

// CHECK: nn.parameter @model.layers.0.self_attn.q_proj.weight : tensor<16x64xf32> {{.*}}{dist.layout = #dist.layout<64x64, [#dist.cut<0, 32, 2, 2>, #dist.cut<0, 16, 2, 1>]>}
// CHECK: nn.parameter @model.layers.0.self_attn.k_proj.weight : tensor<16x64xf32> {{.*}}{dist.layout = #dist.layout<32x64, [#dist.cut<0, 16, 2, 2>]>, dist.partial_gradient = [#dist.cut<0, 1, 2, 1>]}
// CHECK: nn.parameter @model.layers.0.self_attn.o_proj.weight : tensor<64x16xf32>
// CHECK: nn.parameter @model.layers.0.mlp.down_proj.weight : tensor<64x32xf32>
// CHECK: @layers.fwd
// CHECK-COUNT-2: dist.all_reduce sum %{{.*}} over 4 stride 1 : tensor<?x32x64xf32, #nn.dims<batch>>
// CHECK-NOT: dist.all
// CHECK: @layers.bwd
// CHECK-COUNT-2: dist.all_reduce sum %{{.*}} over 4 stride 1 : tensor<?x32x64xf32, #nn.dims<batch>>
// CHECK-NOT: dist.all
// CHECK: @forward.fwd

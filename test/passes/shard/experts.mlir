// Experts of each rank. Rows are routed, dispatched, multiplied and combined as on one rank, of the rank's experts only; what is combined are partial sums, so that a layer has the collectives that tensor parallelism has without `ep`.
// RUN: dt-opt %source/test/models/extra/qwen3_moe/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2 ep=2},dist-shard,dist-finish-shard))' 2>/dev/null | FileCheck %s
// RUN: dt-opt %source/test/models/extra/qwen3_moe/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=4 ep=2},dist-shard,dist-finish-shard))' 2>/dev/null | FileCheck %s --check-prefix=BOTH
// RUN: dt-opt %source/test/models/extra/qwen3_moe/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=4 ep=4},dist-shard,dist-finish-shard))' 2>/dev/null | FileCheck %s --check-prefix=TWICE
// RUN: dt-opt %source/test/models/extra/gpt_oss/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2 ep=2 sequence-parallel},dist-shard,dist-finish-shard))' 2>/dev/null | FileCheck %s --check-prefix=SP

// CHECK: nn.parameter @net.model.layers.0.mlp.experts.gate_up_proj : tensor<4x48x32xf32> {{.*}}{dist.layout = #dist.layout<8x48x32, [#dist.cut<0, 4, 2, 1>]>}
// CHECK: nn.parameter @net.model.layers.0.mlp.experts.down_proj : tensor<4x32x24xf32> {{.*}}{dist.layout = #dist.layout<8x32x24, [#dist.cut<0, 4, 2, 1>]>}
// CHECK: nn.parameter @net.model.layers.0.mlp.gate.weight : tensor<8x32xf32>
// CHECK-LABEL: func.func private @layers.fwd
// CHECK: dist.all_reduce sum %{{.*}} : tensor<?x20x32xf32
// CHECK: %[[RANK:.*]] = dist.rank over 2 stride 1
// CHECK: %[[FIRST:.*]] = nn.mul %[[RANK]], %{{.*}} : tensor<i64>
// CHECK: %[[ORDER:.*]], %[[PLACE:.*]], %[[OFFSETS:.*]] = nn.route %{{.*}} of 8 from %[[FIRST]] take 4
// CHECK: nn.dispatch %{{.*}} by %[[ORDER]], %[[PLACE]] each 2 {parts = 2 : i64}
// CHECK: nn.grouped_linear %{{.*}} at %[[OFFSETS]] {parts = 2 : i64} : {{.*}}, tensor<4x48x32xf32>, tensor<5xi32>
// CHECK: nn.silu
// CHECK: %[[Y:.*]] = nn.combine %{{.*}} by %[[ORDER]], %[[PLACE]] each 2 {parts = 2 : i64}
// CHECK-NEXT: dist.all_reduce sum %[[Y]] over 2 stride 1 : tensor<?x32xf32, #nn.dims<20*batch>>
// CHECK-NOT: dist.all
// CHECK-LABEL: func.func private @layers.bwd
// CHECK: nn.grouped_linear_dw {{.*}} {parts = 2 : i64}
// CHECK: %[[SHARES:.*]] = nn.combine {{.*}} each 1 {parts = 2 : i64}
// CHECK-NEXT: dist.all_reduce sum %[[SHARES]] over 2 stride 1
// CHECK-COUNT-2: dist.all_reduce sum
// CHECK-NOT: dist.all
// CHECK-LABEL: func.func @forward.fwd

// What is left of the group cuts the inner axis. Sums over both axes are one.
// BOTH: @net.model.layers.0.mlp.experts.gate_up_proj : tensor<4x24x32xf32> {{.*}}[#dist.cut<0, 4, 2, 2>, #dist.cut<1, 12, 2, 1>]
// BOTH: @net.model.layers.0.mlp.experts.down_proj : tensor<4x32x12xf32> {{.*}}[#dist.cut<0, 4, 2, 2>, #dist.cut<2, 12, 2, 1>]
// BOTH-LABEL: func.func private @layers.fwd
// BOTH: dist.rank over 2 stride 2
// BOTH: nn.route %{{.*}} of 8 from %{{.*}} take 4
// BOTH: %[[Y:.*]] = nn.combine
// BOTH-NEXT: dist.all_reduce sum %[[Y]] over 4 stride 1

// Four ranks are 2 x 2 where heads ask for it: experts of an axis are counted from those of the other.
// TWICE: @net.model.layers.0.mlp.experts.gate_up_proj : tensor<2x48x32xf32> {{.*}}[#dist.cut<0, 4, 2, 2>, #dist.cut<0, 2, 2, 1>]
// TWICE-LABEL: func.func private @layers.fwd
// TWICE: dist.rank over 2 stride 2
// TWICE: %[[MAJOR:.*]] = nn.mul
// TWICE: dist.rank over 2 stride 1
// TWICE: %[[MINOR:.*]] = nn.mul
// TWICE: %[[FIRST:.*]] = nn.add %[[MAJOR]], %[[MINOR]]
// TWICE: nn.route %{{.*}} of 8 from %[[FIRST]] take 2
// TWICE: nn.grouped_linear %{{.*}} {parts = 4 : i64}
// TWICE: dist.all_reduce sum %{{.*}} over 4 stride 1

// Tokens are gathered before they are dispatched, and sums scattered behind. Biases go with their experts.
// SP: @net.model.layers.0.mlp.experts.gate_up_proj_bias : tensor<2x128xf32> {{.*}}[#dist.cut<0, 2, 2, 1>]
// SP-LABEL: func.func private @layers.fwd
// SP: %[[X:.*]] = dist.all_gather
// SP: nn.dispatch %[[X]]
// SP: nn.combine
// SP: dist.reduce_scatter
// SP-LABEL: func.func private @layers.bwd
// SP: nn.grouped_sum %{{.*}} {parts = 2 : i64}

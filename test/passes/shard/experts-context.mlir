// Layers of experts where ranks share tokens (docs/experts.md). Each rank routes its own tokens to all experts: nothing but keys and values is gathered, and gradients of experts are partial sums.
// RUN: dt-opt %source/test/models/extra/qwen3_moe/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{cp=2},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null | FileCheck %s --check-prefix=OWN
// The same where experts are shared out over the tensor-parallel axis: own tokens, own experts.
// RUN: dt-opt %source/test/models/extra/gpt_oss/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2 cp=2 ep=2 sequence-parallel},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null | FileCheck %s --check-prefix=INNER
// Experts shared out over the axis of the tokens: gathered in front of the layer, scattered behind it. Gradients of experts are whole.
// RUN: dt-opt %source/test/models/extra/qwen3_moe/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{cp=2 ep=2},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null | FileCheck %s
// Over both axes: experts of the outer one are counted from those of the inner one.
// RUN: dt-opt %source/test/models/extra/qwen3_moe/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2 cp=2 ep=4},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null | FileCheck %s --check-prefix=BOTH
// Over neighbours of the axis: they gather the tokens of their pair. Stripes of queries are those of all four.
// RUN: dt-opt %source/test/models/extra/qwen3_moe/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{cp=4 ep=2},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null | FileCheck %s --check-prefix=PAIRS
// With a capacity each rank counts the choices of all tokens: it gathers their numbers, and routes its own.
// RUN: sed 's|"model.onnx"|"%source/test/models/extra/qwen3_moe/model.onnx", "experts": {"capacity": 1.25}|' %source/test/models/extra/qwen3_moe/recipe.json > %t.json
// RUN: dt-opt %t.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{cp=2},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null | FileCheck %s --check-prefix=LIMIT
// Where ranks share out experts, a rank's have as many rows of a sample as the capacity leaves to 4 of 8 experts, 28 of 40; over both axes 14. Ranks that route tokens of their own have room for all rows, which may be of one of them.
// RUN: dt-opt %t.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2 ep=2},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null | FileCheck %s --check-prefix=ROOM
// RUN: dt-opt %t.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2 cp=2 ep=4},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null | FileCheck %s --check-prefix=LESS
// RUN: dt-opt %t.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2 cp=2 ep=2},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null | FileCheck %s --check-prefix=EACH

// OWN: @net.model.layers.0.mlp.experts.gate_up_proj : tensor<8x48x32xf32> {{.*}}dist.partial_gradient = [#dist.cut<1, 1, 2, 1>]
// OWN-LABEL: func.func private @layers.fwd
// OWN-COUNT-2: dist.all_gather {{.*}} to tensor<?x20x2x8xf32
// OWN-NOT: dist.all
// OWN: %[[ORDER:.*]], %[[PLACE:.*]], %[[OFFSETS:.*]] = nn.route %{{.*}} of 8 : tensor<?xi64, #nn.dims<20*batch>>
// OWN-NEXT: nn.dispatch %{{.*}} by %[[ORDER]], %[[PLACE]] each 2 : tensor<?x32xf32, #nn.dims<10*batch>>
// OWN: nn.grouped_linear %{{.*}} at %[[OFFSETS]] : tensor<?x32xf32, #nn.dims<20*batch>>, tensor<8x48x32xf32>, tensor<9xi32>
// OWN: nn.combine %{{.*}} by %[[ORDER]], %[[PLACE]] each 2 : tensor<?x32xf32, #nn.dims<20*batch>>
// OWN-NOT: dist.all
// OWN-LABEL: func.func private @layers.bwd
// OWN-NOT: dist.all
// OWN: nn.grouped_linear_dw
// OWN: nn.combine {{.*}} each 2 : tensor<?x32xf32, #nn.dims<20*batch>>
// OWN-COUNT-2: dist.all_gather {{.*}} to tensor<?x20x2x8xf32
// OWN-NOT: dist.all
// OWN-LABEL: func.func @forward.fwd

// INNER: @net.model.layers.0.mlp.experts.gate_up_proj : tensor<2x32x128xf32> {{.*}}dist.layout = #dist.layout<4x32x128, [#dist.cut<0, 2, 2, 1>]>, dist.partial_gradient = [#dist.cut<1, 1, 2, 2>]
// INNER-LABEL: func.func private @layers.fwd
// INNER: dist.all_gather {{.*}} over 2 stride 1
// INNER-NOT: over 2 stride 2
// INNER: dist.rank over 2 stride 1
// INNER: nn.route %{{.*}} of 4 from %{{.*}} take 2
// INNER-NOT: over 2 stride 2
// INNER: dist.reduce_scatter {{.*}} over 2 stride 1

// CHECK: @net.model.layers.0.mlp.experts.gate_up_proj : tensor<4x48x32xf32> {{.*}}{dist.layout = #dist.layout<8x48x32, [#dist.cut<0, 4, 2, 1>]>}
// CHECK: @net.model.layers.0.mlp.gate.weight : tensor<8x32xf32> {{.*}}dist.partial_gradient = [#dist.cut<1, 1, 2, 1>]
// CHECK-LABEL: func.func private @layers.fwd
// CHECK: dist.all_gather {{.*}} : tensor<?xi64, #nn.dims<20*batch>> to tensor<?xi64, #nn.dims<40*batch>>
// CHECK: dist.rank over 2 stride 1
// CHECK: nn.route %{{.*}} of 8 from %{{.*}} take 4
// CHECK: %[[X:.*]] = dist.all_gather {{.*}} : tensor<?x32xf32, #nn.dims<10*batch>> to tensor<?x32xf32, #nn.dims<20*batch>>
// CHECK: nn.dispatch %[[X]] by {{.*}} each 2 {parts = 2 : i64}
// CHECK: nn.grouped_linear {{.*}} {parts = 2 : i64} : {{.*}}, tensor<4x48x32xf32>, tensor<5xi32>
// CHECK: nn.combine {{.*}} each 2 {parts = 2 : i64}
// CHECK: dist.reduce_scatter {{.*}} over 2 stride 1 : {{.*}}20{{.*}} to {{.*}}10
// CHECK-NOT: dist.all
// CHECK-LABEL: func.func private @layers.bwd
// CHECK: dist.all_gather {{.*}} : tensor<?x32xf32, #nn.dims<10*batch>> to tensor<?x32xf32, #nn.dims<20*batch>>
// CHECK: nn.grouped_linear_dw {{.*}} {parts = 2 : i64}

// BOTH: @net.model.layers.0.mlp.experts.gate_up_proj : tensor<2x48x32xf32> {{.*}}{dist.layout = #dist.layout<8x48x32, [#dist.cut<0, 4, 2, 1>, #dist.cut<0, 2, 2, 2>]>}
// BOTH-LABEL: func.func private @layers.fwd
// BOTH: dist.rank over 2 stride 1
// BOTH: dist.rank over 2 stride 2
// BOTH: nn.route %{{.*}} of 8 from %{{.*}} take 2
// BOTH: nn.combine {{.*}} each 2 {parts = 4 : i64}

// PAIRS: @net.model.layers.0.mlp.experts.gate_up_proj : tensor<4x48x32xf32> {{.*}}dist.layout = #dist.layout<8x48x32, [#dist.cut<0, 4, 2, 1>]>, dist.partial_gradient = [#dist.cut<1, 1, 2, 2>]
// PAIRS: @net.model.layers.0.mlp.gate.weight : tensor<8x32xf32> {{.*}}dist.partial_gradient = [#dist.cut<1, 1, 2, 2>, #dist.cut<1, 1, 2, 1>]
// PAIRS-LABEL: func.func private @layers.fwd
// PAIRS: nn.attention {{.*}}stripes = #nn.stripes<chunk = 1, over = 4, stride = 1>
// PAIRS: %[[X:.*]] = dist.all_gather {{.*}} over 2 stride 1 : tensor<?x32xf32, #nn.dims<5*batch>> to tensor<?x32xf32, #nn.dims<10*batch>>
// PAIRS: nn.dispatch %[[X]] by {{.*}} {parts = 2 : i64}
// PAIRS: dist.reduce_scatter {{.*}} over 2 stride 1

// LIMIT-LABEL: func.func private @layers.fwd
// LIMIT-COUNT-2: dist.all_gather {{.*}} to tensor<?x20x2x8xf32
// LIMIT-NOT: dist.all
// LIMIT: %[[CHOICES:.*]] = dist.all_gather {{.*}} : tensor<?x20xi64, #nn.dims<batch>> to tensor<?x40xi64, #nn.dims<batch>>
// LIMIT-NEXT: nn.limit_choices %[[CHOICES]] of 8 within 1.250000e+00
// LIMIT-NOT: dist.all
// LIMIT: nn.route %{{.*}} of 9 from %{{.*}} take 8 {room = #nn.dim<56*batch>} : tensor<?xi64, #nn.dims<20*batch>>
// LIMIT-NOT: dist.all
// LIMIT-LABEL: func.func private @layers.bwd

// ROOM-LABEL: func.func private @layers.fwd
// ROOM: %[[ORDER:.*]], %[[PLACE:.*]], %[[OFFSETS:.*]] = nn.route %{{.*}} of 9 from %{{.*}} take 4 {room = #nn.dim<28*batch>} : tensor<?xi64, #nn.dims<40*batch>>
// ROOM: nn.dispatch %{{.*}} by %[[ORDER]], %[[PLACE]] each 2 {parts = 1 : i64, room = #nn.dim<28*batch>} : tensor<?x32xf32, #nn.dims<20*batch>>, tensor<?xi32, #nn.dims<28*batch>>, tensor<?xi32, #nn.dims<40*batch>>
// ROOM: nn.silu %{{.*}} : tensor<?x24xf32, #nn.dims<28*batch>>
// ROOM: nn.combine %{{.*}} by %[[ORDER]], %[[PLACE]] each 2 {{.*}} : tensor<?x32xf32, #nn.dims<28*batch>>
// ROOM-LABEL: func.func private @layers.bwd
// ROOM: nn.dispatch {{.*}} each 2 {{.*}} : tensor<?x32xf32, #nn.dims<20*batch>>, tensor<?xi32, #nn.dims<28*batch>>
// ROOM: nn.grouped_linear_dw {{.*}} : tensor<?x24xf32, #nn.dims<28*batch>>, tensor<?x32xf32, #nn.dims<28*batch>>
// ROOM-NOT: {{24|32|48}}xf32, #nn.dims<40*batch>

// LESS-LABEL: func.func private @layers.fwd
// LESS: nn.route %{{.*}} of 9 from %{{.*}} take 2 {room = #nn.dim<14*batch>} : tensor<?xi64, #nn.dims<40*batch>>
// LESS: nn.silu %{{.*}} : tensor<?x24xf32, #nn.dims<14*batch>>

// EACH-LABEL: func.func private @layers.fwd
// EACH: nn.route %{{.*}} of 9 from %{{.*}} take 4 : tensor<?xi64, #nn.dims<20*batch>>
// EACH: nn.silu %{{.*}} : tensor<?x24xf32, #nn.dims<20*batch>>

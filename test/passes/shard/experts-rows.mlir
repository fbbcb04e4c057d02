// Rows that travel to the ranks of their experts, where a capacity bounds them (docs/expert-parallelism.md).
// RUN: sed 's|"model.onnx"|"%source/test/models/extra/qwen3_moe/model.onnx", "experts": {"capacity": 1}|; s|"global": 3, "micro": 3|"global": 8, "micro": 4|' %source/test/models/extra/qwen3_moe/recipe.json > %t.json
// Replicas. Of a sample's 40 rows an expert takes 5, so a rank with 2 of 8 experts 10: fewer than the 20 tokens that would be gathered.
// RUN: dt-opt %t.json --plan=model:dp=4,ep=4 --emit=mlir --to=shard 2>/dev/null | FileCheck %s
// Behind tensor-parallel ranks, which have cut the experts already, on each rank's part.
// RUN: dt-opt %t.json --plan=model:tp=2,dp=2,ep=4,sequence_parallel=true --emit=mlir --to=shard 2>/dev/null | FileCheck %s --check-prefix=GROUP
// Ranks that share tokens: all 5 rows that an expert takes of a sample may come from one rank's tokens, so one list of rows is longer than what there is room for.
// RUN: dt-opt %t.json --plan=model:tp=4,cp=2,ep=8 --emit=mlir --to=shard 2>/dev/null | FileCheck %s --check-prefix=TOKENS
// What is sent to a rank, and what comes from one, lies together: nothing is packed.
// RUN: dt-opt %t.json --plan=model:dp=4,ep=4 --emit=mlir --to=lower 2>/dev/null | FileCheck %s --check-prefix=LOWER
// As many slots as tokens bring nothing; an axis behind would have to cut what travels; tokens are gathered.
// RUN: dt-opt %t.json --plan=model:dp=2,ep=2 --emit=mlir --to=shard 2>/dev/null | FileCheck %s --check-prefix=GATHER
// RUN: dt-opt %t.json --plan=model:cp=2,dp=2,ep=4 --emit=mlir --to=shard 2>/dev/null | FileCheck %s --check-prefix=GATHER

// CHECK-LABEL: func.func private @layers.fwd
// CHECK: %[[NONE:.*]] = nn.constant dense<8> : tensor<i64>
// CHECK: %[[SENT:.*]], %[[SLOT:.*]], %{{.*}} = nn.route %[[OWN:.*]] of 9 from %{{.*}} take 8 {ranks = 4 : i64, slots = #nn.dim<10*batch>} : tensor<?xi64, #nn.dims<40*batch>>, tensor<i64>
// CHECK: %[[CHOSEN:.*]] = nn.gather %[[OWN]] at %[[SENT]] {axis = 0 : i64, zero_out_of_range}
// CHECK: %[[EMPTY:.*]] = nn.cmp lt %[[SENT]]
// CHECK: nn.where %[[EMPTY]], %[[NONE]], %[[CHOSEN]]
// CHECK: dist.all_to_all %{{.*}} gather 0 chunk 1 scatter 1 chunk 1 over 4 stride 1 : tensor<1x4x?xi64, #nn.dims<10*batch>> to tensor<4x1x?xi64, #nn.dims<10*batch>>
// CHECK: %[[ORDER:.*]], %[[PLACE:.*]], %[[OFFSETS:.*]] = nn.route %{{.*}} of 9 from %{{.*}} take 2 {room = #nn.dim<40*batch>} : tensor<?xi64, #nn.dims<40*batch>>
// CHECK-NOT: dist.all_gather
// CHECK: nn.dispatch %{{.*}} each 2 {parts = 1 : i64} : tensor<?x32xf32, #nn.dims<20*batch>>
// CHECK: %[[CAME:.*]] = dist.all_to_all {{.*}} : tensor<1x4x?x32xf32, #nn.dims<10*batch>> to tensor<4x1x?x32xf32, #nn.dims<10*batch>>
// CHECK: nn.dispatch %{{.*}} each 1 {parts = 1 : i64} : tensor<?x32xf32, #nn.dims<40*batch>>
// CHECK: nn.grouped_linear %{{.*}} at %[[OFFSETS]] {{.*}} : tensor<?x32xf32, #nn.dims<40*batch>>, tensor<2x48x32xf32>, tensor<3xi32>
// CHECK: nn.combine %{{.*}} each 1 {parts = 1 : i64}
// CHECK: dist.all_to_all {{.*}} : tensor<1x4x?x32xf32, #nn.dims<10*batch>> to tensor<4x1x?x32xf32, #nn.dims<10*batch>>
// CHECK: nn.combine %{{.*}} each 2 {parts = 1 : i64} : tensor<?x32xf32, #nn.dims<40*batch>>
// No sum over ranks: those of a rank's tokens are whole.
// CHECK-NOT: dist.{{all|reduce}}
// CHECK-LABEL: func.func private @layers.bwd
// CHECK-NOT: dist.all_gather
// CHECK: nn.dispatch %{{.*}} each 2 {parts = 1 : i64}
// CHECK: dist.all_to_all {{.*}} tensor<1x4x?x32xf32
// CHECK: nn.grouped_linear_dw
// CHECK: dist.all_to_all {{.*}} tensor<1x4x?x1xf32
// CHECK: dist.all_to_all {{.*}} tensor<1x4x?x32xf32
// CHECK: nn.combine %{{.*}} each 2 {parts = 1 : i64}
// CHECK-NOT: dist.{{all|reduce}}
// CHECK-LABEL: func.func @forward.fwd

// GROUP-LABEL: func.func private @layers.fwd
// GROUP: dist.all_gather {{.*}} over 2 stride 1 : tensor<?x32xf32, #nn.dims<10*batch>> to tensor<?x32xf32, #nn.dims<20*batch>>
// GROUP: nn.route %{{.*}} of 9 from %{{.*}} take 4 {ranks = 2 : i64, slots = #nn.dim<10*batch>} : tensor<?xi64, #nn.dims<40*batch>>
// GROUP: dist.all_to_all {{.*}} over 2 stride 2 : tensor<1x2x?xi64
// GROUP: nn.route %{{.*}} of 9 from %{{.*}} take 2 {room = #nn.dim<20*batch>} : tensor<?xi64, #nn.dims<20*batch>>
// GROUP: dist.all_to_all {{.*}} over 2 stride 2 : tensor<1x2x?x32xf32
// GROUP: dist.all_to_all {{.*}} over 2 stride 2 : tensor<1x2x?x32xf32
// GROUP: nn.combine %{{.*}} each 2
// GROUP: dist.reduce_scatter {{.*}} over 2 stride 1
// GROUP-NOT: over 2 stride 2
// GROUP-LABEL: func.func private @layers.bwd

// TOKENS-LABEL: func.func private @layers.fwd
// TOKENS: nn.route %{{.*}} of 9 from %{{.*}} take 2 {ranks = 2 : i64, slots = #nn.dim<5*batch>} : tensor<?xi64, #nn.dims<20*batch>>
// TOKENS: nn.route %{{.*}} of 9 from %{{.*}} take 1 {room = #nn.dim<5*batch>} : tensor<?xi64, #nn.dims<10*batch>>
// TOKENS: nn.dispatch %{{.*}} each 2 {parts = 1 : i64} : tensor<?x32xf32, #nn.dims<10*batch>>, tensor<?xi32, #nn.dims<10*batch>>, tensor<?xi32, #nn.dims<20*batch>>
// TOKENS: nn.dispatch %{{.*}} each 1 {parts = 1 : i64} : tensor<?x32xf32, #nn.dims<10*batch>>, tensor<?xi32, #nn.dims<5*batch>>, tensor<?xi32, #nn.dims<10*batch>>
// TOKENS: nn.silu %{{.*}} : tensor<?x24xf32, #nn.dims<5*batch>>

// A graph without nn.attention has its samples cut as its inputs have them.
// RUN: sed 's|"model.onnx"|"%source/test/models/extra/gpt_oss/model.onnx", "experts": {"capacity": 1}|; s|"global": 3, "micro": 3|"global": 8, "micro": 4|' %source/test/models/extra/gpt_oss/recipe.json > %t.json
// RUN: dt-opt %t.json --plan=model:dp=4,ep=4 --emit=mlir --to=shard 2>/dev/null | FileCheck %s --check-prefix=INPUTS
// INPUTS-COUNT-2: nn.route %{{.*}} of 5 from %{{.*}} take 4 {ranks = 4 : i64, slots = #nn.dim<10*batch>} : tensor<?xi64, #nn.dims<40*batch>>

// LOWER-NOT: {{"packed"|"received"}}
// LOWER: rt.route %{{.*}} to %{{.*}} {count = 9 : i64, group = 2 : i64, op = "experts", placed = 4 : i64, room = #nn.dim<40*batch>, rows = #nn.dim<40*batch>, slots = #nn.dim<10*batch>}
// LOWER: rt.route %{{.*}} to %{{.*}} {count = 9 : i64, op = "experts 'mlp.experts.down_proj'", placed = 2 : i64,
// LOWER-NOT: {{"packed"|"received"}}
// LOWER: rt.collective all_to_all %{{.*}} over 4 stride 1{{.*}} : !rt.buffer<f32, [1, 4, 10*batch, 32]>, !rt.buffer<f32, [4, 1, 10*batch, 32]>
// LOWER-NOT: {{"packed"|"received"}}

// GATHER-LABEL: func.func private @layers.fwd
// GATHER-NOT: ranks =
// GATHER: dist.reduce_scatter
// GATHER-LABEL: func.func private @layers.bwd

// What saves nothing calls a layer twice: forward without residuals, and with them before its backward function. All are cut alike, and neither gathers what the other keeps cut.
// RUN: dt-opt %source/test/models/llama/recipe.json --plan="model:tp=2,save=none" --emit=mlir --to=shard -o - 2>/dev/null \
// RUN:   | grep -oE "func[.]func.*@[a-z_.]+[(]|dist[.](all|reduce)_[a-z_]*( sum| max)?|call @[a-z.]*" | FileCheck %s
// CHECK: @layers.fwd(
// CHECK-COUNT-2: dist.all_reduce sum
// CHECK-NEXT: @layers.bwd(
// CHECK-COUNT-2: dist.all_reduce sum
// CHECK-NEXT: @forward.fwd(
// CHECK-NEXT: dist.all_reduce sum
// CHECK-COUNT-4: {{call @layers$}}
// CHECK: @forward.bwd(
// CHECK-COUNT-4: call @layers.fwd
// CHECK-COUNT-4: call @layers.bwd
// CHECK: @layers(
// CHECK-NEXT: dist.all_reduce sum
// CHECK-NEXT: dist.all_reduce sum
// CHECK-NOT: dist
// RUN: dt-opt %source/test/models/mllm/recipe.json --plan="vision:tp=3,save=none;llm:;generator:" --emit=mlir --to=shard -o - 2>/dev/null | FileCheck %s --check-prefix=THREE
// THREE: dist.module @vision
// THREE: func.func @forward.bwd

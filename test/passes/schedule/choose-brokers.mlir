// RUN: dt-opt %s --dist-choose-brokers | FileCheck %s

// How rows find their replica: by where both ends run and what they count.
dist.module @vision of "image" attributes {dp = 2 : i64, ranks = array<i64: 0, 1>} {}
dist.module @llm.0 of "sample" attributes {unit = "llm", dp = 2 : i64, ranks = array<i64: 2, 3>} {}
dist.module @llm.1 of "sample" attributes {unit = "llm", stage = 1 : i64, dp = 2 : i64, ranks = array<i64: 4, 5>} {}
dist.module @probe of "sample" attributes {dp = 2 : i64, ranks = array<i64: 4, 5>} {}
dist.module @generator of "sample" attributes {ranks = array<i64: 6>} {}
dist.module @head whole_batch attributes {ranks = array<i64: 4, 5>} {}

// Images are not shared out as samples are.
// CHECK: dist.edge @vision "y" to @llm.0 "x" broker items
dist.edge @vision "y" to @llm.0 "x"
// CHECK: dist.edge @llm.0 "y" to @llm.1 "x" broker direct
dist.edge @llm.0 "y" to @llm.1 "x"
// CHECK: dist.edge @llm.1 "y" to @probe "x" broker copy
dist.edge @llm.1 "y" to @probe "x"
// CHECK: dist.edge @llm.1 "z" to @generator "x" broker items
dist.edge @llm.1 "z" to @generator "x"
// CHECK: dist.edge @probe "y" to @head "x" broker all
dist.edge @probe "y" to @head "x"

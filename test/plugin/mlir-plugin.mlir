// A plugin as MLIR has them is loaded by MLIR's own flags.
//
// RUN: dt-opt %s --load-pass-plugin=%plugins/Others.so --others-mark | FileCheck %s
// RUN: not dt-opt %s --load-pass-plugin=%t.so 2>&1 | FileCheck %s --check-prefix=PASS
// RUN: not dt-opt %s --load-dialect-plugin=%t.so 2>&1 | FileCheck %s --check-prefix=DIALECT

// PASS: error: --load-pass-plugin: {{.*}}.so
// DIALECT: error: --load-dialect-plugin: {{.*}}.so

// CHECK: module attributes {others.marked}

// IR names a plugin's optimizer and its settings, and checks them.
//
// RUN: dt-opt %s --load-plugin=%plugins/Example.so --split-input-file --verify-diagnostics | FileCheck %s
// RUN: not dt-opt %s --split-input-file 2>&1 | FileCheck %s --check-prefix=WITHOUT

// WITHOUT: error: custom op 'dist.optimizer' expected one of adamw, sgd

// CHECK: dist.optimizer signum {momentum = 8.000000e-01 : f64} lr 1.000000e-02
dist.optimizer signum {momentum = 0.8} lr 0.01

// -----

// expected-error @+1 {{'dist.optimizer' op momentum must be in [0, 1)}}
dist.optimizer signum {momentum = 1.0} lr 0.01

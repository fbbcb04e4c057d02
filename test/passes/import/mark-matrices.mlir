// Which parameters are matrices to the optimizer: to Adafactor what has two axes or more, to Muon weights of products.
// RUN: sed 's/optimizer kind/optimizer muon/' %s | dt-opt --dist-mark-matrices | FileCheck %s --check-prefix=MUON
// RUN: sed 's/optimizer kind/optimizer adafactor/' %s | dt-opt --dist-mark-matrices | FileCheck %s --check-prefix=ADAFACTOR
// RUN: sed 's/optimizer kind/optimizer adamw/' %s | dt-opt --dist-mark-matrices | FileCheck %s --check-prefix=ADAMW

// MUON-DAG: nn.parameter @table : tensor<7x4xf32> trainable from #nn.init<{{[^>]*}}>{{$}}
// MUON-DAG: nn.parameter @w : tensor<4x4xf32> trainable from #nn.init<{{[^>]*}}> {matrix}
// MUON-DAG: nn.parameter @experts : tensor<2x4x4xf32> trainable from #nn.init<{{[^>]*}}> {matrix}
// MUON-DAG: nn.parameter @router : tensor<4x4xf32> trainable from #nn.init<{{[^>]*}}> {by_element}
// MUON-DAG: nn.parameter @head : tensor<7x4xf32> trainable from #nn.init<{{[^>]*}}>{{$}}
// MUON-DAG: nn.parameter @added : tensor<4x4xf32> trainable from #nn.init<{{[^>]*}}>{{$}}
// MUON-DAG: nn.parameter @both : tensor<4x4xf32> trainable from #nn.init<{{[^>]*}}>{{$}}
// MUON-DAG: nn.parameter @bias : tensor<4xf32> trainable from #nn.init<{{[^>]*}}>{{$}}
// MUON-DAG: nn.parameter @frozen : tensor<4x4xf32> from #nn.init<{{[^>]*}}>{{$}}
// A copy is looked up in another module.
// MUON-DAG: nn.parameter @tied : tensor<7x4xf32> trainable from #nn.init<{{[^>]*}}>{{$}}

// ADAFACTOR-DAG: nn.parameter @table : {{.*}} {matrix}
// ADAFACTOR-DAG: nn.parameter @head : {{.*}} {matrix}
// ADAFACTOR-DAG: nn.parameter @experts : {{.*}} {matrix}
// ADAFACTOR-DAG: nn.parameter @router : {{.*}} {by_element, matrix}
// ADAFACTOR-DAG: nn.parameter @bias : tensor<4xf32> trainable from #nn.init<{{[^>]*}}>{{$}}
// ADAFACTOR-DAG: nn.parameter @frozen : tensor<4x4xf32> from #nn.init<{{[^>]*}}>{{$}}

// ADAMW-NOT: {matrix}

dist.optimizer kind lr 1.0e-2
dist.tie @n::@copy = @m::@tied
dist.module @m {
  nn.parameter @table : tensor<7x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @w : tensor<4x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @experts : tensor<2x4x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @router : tensor<4x4xf32> trainable from #nn.init<"zeros", "", ""> {by_element}
  nn.parameter @head : tensor<7x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @added : tensor<4x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @both : tensor<4x4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @bias : tensor<4xf32> trainable from #nn.init<"zeros", "", "">
  nn.parameter @frozen : tensor<4x4xf32> from #nn.init<"zeros", "", "">
  nn.parameter @tied : tensor<7x4xf32> trainable from #nn.init<"zeros", "", "">
  func.func @forward(%ids: tensor<4xi64> {nn.name = "ids"}, %labels: tensor<4xi64> {nn.name = "labels"}) -> (tensor<4xf32> {nn.name = "loss"}, tensor<4x7xf32> {nn.name = "other"}) {
    %table = nn.read @table : tensor<7x4xf32>
    %x = nn.gather %table at %ids {axis = 0 : i64} : tensor<7x4xf32>, tensor<4xi64>
    %w = nn.read @w : tensor<4x4xf32>
    %bias = nn.read @bias : tensor<4xf32>
    %y = nn.linear %x, %w, %bias : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>
    %router = nn.read @router : tensor<4x4xf32>
    %r = nn.linear %y, %router : tensor<4x4xf32>, tensor<4x4xf32>
    %frozen = nn.read @frozen : tensor<4x4xf32>
    %f = nn.linear %r, %frozen : tensor<4x4xf32>, tensor<4x4xf32>
    %both = nn.read @both : tensor<4x4xf32>
    %b = nn.linear %f, %both : tensor<4x4xf32>, tensor<4x4xf32>
    %s = nn.add %b, %both : tensor<4x4xf32>, tensor<4x4xf32>
    %added = nn.read @added : tensor<4x4xf32>
    %t = nn.add %s, %added : tensor<4x4xf32>, tensor<4x4xf32>
    %experts = nn.read @experts : tensor<2x4x4xf32>
    %e = nn.matmul %t, %experts : tensor<4x4xf32>, tensor<2x4x4xf32>
    %sum = nn.reduce sum %e {axes = array<i64: 0>} : tensor<2x4x4xf32>
    %tied = nn.read @tied : tensor<7x4xf32>
    %o = nn.linear %sum, %tied : tensor<4x4xf32>, tensor<7x4xf32>
    %head = nn.read @head : tensor<7x4xf32>
    %logits = nn.linear %sum, %head : tensor<4x4xf32>, tensor<7x4xf32>
    %scaled = nn.tanh %logits : tensor<4x7xf32>
    %loss = nn.cross_entropy %scaled, %labels : tensor<4x7xf32>, tensor<4xi64>
    return %loss, %o : tensor<4xf32>, tensor<4x7xf32>
  }
}
dist.module @n {
  nn.parameter @copy : tensor<7x4xf32> trainable from #nn.init<"zeros", "", "">
  func.func @forward(%ids: tensor<4xi64> {nn.name = "ids"}) -> (tensor<4x4xf32> {nn.name = "y"}) {
    %table = nn.read @copy : tensor<7x4xf32>
    %x = nn.gather %table at %ids {axis = 0 : i64} : tensor<7x4xf32>, tensor<4xi64>
    return %x : tensor<4x4xf32>
  }
}

// Indices that come from data are checked before they are used.
// RUN: dt-opt %s --lower-nn-to-rt --cse | FileCheck %s

nn.dim @batch of "sample" max 4

// The input that they are, and the symbol that counts the rows, through what only moves them.
// CHECK-LABEL: rt.func @embed(
// CHECK: rt.check_indices "rows of gather" %{{.*}} below <512> {input = "input_ids", item = "batch", row = #nn.dim<39>, wrap} : <i64, [39*batch]>
// CHECK-NEXT: rt.kernel @gather
func.func @embed(%t: tensor<512x64xf32>, %i: tensor<?x40xi64, #nn.dims<batch>> {nn.name = "input_ids"}) -> tensor<?x64xf32, #nn.dims<39*batch>> {
  %0 = nn.slice %i [0, 1] step [1, 1] {from_end = array<i1>} : tensor<?x40xi64, #nn.dims<batch>> to tensor<?x39xi64, #nn.dims<batch>>
  %1 = nn.reshape %0 : tensor<?x39xi64, #nn.dims<batch>> to tensor<?xi64, #nn.dims<39*batch>>
  %2 = nn.gather %t at %1 {axis = 0 : i64} : tensor<512x64xf32>, tensor<?xi64, #nn.dims<39*batch>>
  return %2 : tensor<?x64xf32, #nn.dims<39*batch>>
}

// A parameter is named.
nn.parameter @"embed.weight" : tensor<512x64xf32> trainable from #nn.init<"zeros", "", "">
// CHECK-LABEL: rt.func @parameter(
// CHECK: rt.check_indices "rows of 'embed.weight'" %{{.*}} below <512> {input = "input_ids", item = "batch", wrap} : <i64, [batch]>
func.func @parameter(%i: tensor<?xi64, #nn.dims<batch>> {nn.name = "input_ids"}) -> tensor<?x64xf32, #nn.dims<batch>> {
  %t = nn.read @"embed.weight" : tensor<512x64xf32>
  %0 = nn.gather %t at %i {axis = 0 : i64} : tensor<512x64xf32>, tensor<?xi64, #nn.dims<batch>>
  return %0 : tensor<?x64xf32, #nn.dims<batch>>
}

// Token ids and labels that are a raw input as it is do not count from the end.
// CHECK-LABEL: rt.func @from_start(
// CHECK: rt.check_indices "rows of 'embed.weight'" %{{.*}} below <512> {input = "input_ids", item = "batch"} : <i64, [batch]>
// CHECK: rt.check_indices "elements of gather_elements" %{{.*}} below <7> {input = "labels", item = "batch"} : <i64, [batch, 1]>
func.func @from_start(%i: tensor<?xi64, #nn.dims<batch>> {nn.name = "input_ids"}, %x: tensor<?x7xf32, #nn.dims<batch>>, %l: tensor<?x1xi64, #nn.dims<batch>> {nn.name = "labels"}) -> (tensor<?x64xf32, #nn.dims<batch>>, tensor<?x1xf32, #nn.dims<batch>>) {
  %t = nn.read @"embed.weight" : tensor<512x64xf32>
  %0 = nn.gather %t at %i {axis = 0 : i64, from_start} : tensor<512x64xf32>, tensor<?xi64, #nn.dims<batch>>
  %1 = nn.gather_elements %x at %l {axis = 1 : i64, from_start} : tensor<?x7xf32, #nn.dims<batch>>, tensor<?x1xi64, #nn.dims<batch>>
  return %0, %1 : tensor<?x64xf32, #nn.dims<batch>>, tensor<?x1xf32, #nn.dims<batch>>
}

// Labels do not count from the end, but one value is ignored.
// CHECK-LABEL: rt.func @loss(
// CHECK: rt.check_indices "classes of cross_entropy" %{{.*}} below <7> {ignored = -100 : i64, input = "labels", item = "batch", row = #nn.dim<40>} : <i32, [batch, 40]>
// CHECK: rt.kernel @cross_entropy
func.func @loss(%x: tensor<?x40x7xf32, #nn.dims<batch>>, %l: tensor<?x40xi32, #nn.dims<batch>> {nn.name = "labels"}) -> tensor<?x40xf32, #nn.dims<batch>> {
  %0 = nn.cross_entropy %x, %l {ignore_index = -100 : i64} : tensor<?x40x7xf32, #nn.dims<batch>>, tensor<?x40xi32, #nn.dims<batch>>
  return %0 : tensor<?x40xf32, #nn.dims<batch>>
}

// An axis for each element of a tuple; of what is computed the module is named.
// CHECK-LABEL: rt.func @tuples(
// CHECK: rt.check_indices "elements of gather_nd" %{{.*}} below <batch> {item = "batch", row = #nn.dim<2>, stride = 2 : i64, wrap} :
// CHECK-NEXT: rt.check_indices "elements of gather_nd" %{{.*}} below <40> {item = "batch", offset = 1 : i64, row = #nn.dim<2>, stride = 2 : i64, wrap} :
// CHECK: rt.check_indices "elements of scatter_nd" %{{.*}} below <batch>
// CHECK: rt.check_indices "elements of scatter_nd" %{{.*}} below <40>
func.func @tuples(%x: tensor<?x40xf32, #nn.dims<batch>>, %i: tensor<?x2xi64, #nn.dims<batch>> {nn.name = "pairs"}) -> (tensor<?xf32, #nn.dims<batch>>, tensor<?x40xf32, #nn.dims<batch>>) {
  %j = nn.add %i, %i : tensor<?x2xi64, #nn.dims<batch>>, tensor<?x2xi64, #nn.dims<batch>>
  %0 = nn.gather_nd %x at %j {batch_dims = 0 : i64} : tensor<?x40xf32, #nn.dims<batch>>, tensor<?x2xi64, #nn.dims<batch>>
  %1 = nn.scatter_nd add %x at %j, %0 : tensor<?x40xf32, #nn.dims<batch>>, tensor<?x2xi64, #nn.dims<batch>>, tensor<?xf32, #nn.dims<batch>>
  return %0, %1 : tensor<?xf32, #nn.dims<batch>>, tensor<?x40xf32, #nn.dims<batch>>
}

// What the graph itself says has been checked; where zeros are meant nothing is wrong.
// CHECK-LABEL: rt.func @known(
// CHECK-NOT: rt.check_indices
func.func @known(%t: tensor<5x4xf32>, %i: tensor<2xi64> {nn.name = "i"}) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %c = nn.constant dense<[3, -1]> : tensor<2xi64>
  %0 = nn.gather %t at %c {axis = 0 : i64} : tensor<5x4xf32>, tensor<2xi64>
  %1 = nn.gather %t at %i {axis = 0 : i64, zero_out_of_range} : tensor<5x4xf32>, tensor<2xi64>
  return %0, %1 : tensor<2x4xf32>, tensor<2x4xf32>
}

// An axis that counts items may have no row for what the graph asks for.
// CHECK-LABEL: rt.func @perhaps_none(
// CHECK: rt.check_indices "rows of gather" %{{.*}} below <batch> {wrap} : <i64, [2]>
func.func @perhaps_none(%x: tensor<?x4xf32, #nn.dims<batch>>) -> tensor<2x4xf32> {
  %c = nn.constant dense<[0, 1]> : tensor<2xi64>
  %0 = nn.gather %x at %c {axis = 0 : i64} : tensor<?x4xf32, #nn.dims<batch>>, tensor<2xi64>
  return %0 : tensor<2x4xf32>
}

// Of a block of a cut table the whole's rows are what counts.
// CHECK-LABEL: rt.func @block(
// CHECK: rt.check_indices "rows of gather" %{{.*}} below <10> {block = array<i64: 5, 2, 1>, input = "i", wrap} :
// CHECK: rt.check_indices "classes of cross_entropy" %{{.*}} below <10> {block = array<i64: 5, 2, 1>, ignored = -100 : i64, input = "i"} :
func.func @block(%t: tensor<5x4xf32>, %x: tensor<2x5xf32>, %i: tensor<2xi64> {nn.name = "i"}, %r: tensor<i64>) -> (tensor<2x4xf32>, tensor<2x1xf32>) {
  %0 = nn.gather %t at %i {axis = 0 : i64, zero_out_of_range, block = #nn.block<extent = 10, chunk = 5, over = 2, stride = 1, wrap = true>} : tensor<5x4xf32>, tensor<2xi64>
  %c = nn.reshape %i : tensor<2xi64> to tensor<2x1xi64>
  %1 = nn.gather_elements %x at %c {axis = 1 : i64, block = #nn.block<extent = 10, chunk = 5, over = 2, stride = 1, ignored = -100, what = "classes of cross_entropy">} : tensor<2x5xf32>, tensor<2x1xi64>
  return %0, %1 : tensor<2x4xf32>, tensor<2x1xf32>
}

// A block of a table that is cut twice.
// CHECK-LABEL: rt.func @twice(
// CHECK: rt.check_indices "rows of gather" %{{.*}} below <20> {block = array<i64: 10, 2, 2, 5, 2, 1>, input = "i"} :
func.func @twice(%t: tensor<5x4xf32>, %i: tensor<2xi64> {nn.name = "i"}) -> tensor<2x4xf32> {
  %0 = nn.gather %t at %i {axis = 0 : i64, zero_out_of_range, block = #nn.block<extent = 20, chunk = 10, over = 2, stride = 2, within = 5, 2, 1>} : tensor<5x4xf32>, tensor<2xi64>
  return %0 : tensor<2x4xf32>
}

// Classes that a cut vocabulary is padded with are none.
// CHECK-LABEL: rt.func @padded(
// CHECK: rt.check_indices "classes of cross_entropy" %{{.*}} below <9> {block = array<i64: 10, 1, 1>, ignored = -100 : i64, input = "labels"} :
func.func @padded(%x: tensor<2x10xf32>, %l: tensor<2xi64> {nn.name = "labels"}) -> tensor<2xf32> {
  %0 = nn.cross_entropy %x, %l {ignore_index = -100 : i64, block = #nn.block<extent = 9, chunk = 10, over = 1, stride = 1, ignored = -100, what = "classes of cross_entropy">} : tensor<2x10xf32>, tensor<2xi64>
  return %0 : tensor<2xf32>
}

// Places that rows fill in order: as many as rows, in each item where both follow the same one, else all together. Rows of a table may be more.
nn.dim @images of "image" max 8
// CHECK-LABEL: rt.func @places(
// CHECK: rt.check_indices "rows that fill them in order" %{{.*}} below <4> {item = "batch", per = #nn.dim<40>, row = #nn.dim<40>} : <i64, [40*batch]>
// CHECK: rt.check_indices "rows that fill them in order" %{{.*}} below <4*images> {item = "batch", per = #nn.dim<40*batch>, row = #nn.dim<40>} : <i64, [40*batch]>
// CHECK: rt.check_indices "rows of gather" %{{.*}} below <9> {ignored = -1 : i64, input = "i", item = "batch", row = #nn.dim<40>} : <i64, [40*batch]>
func.func @places(%x: tensor<?x7xf32, #nn.dims<4*batch>>, %y: tensor<?x7xf32, #nn.dims<4*images>>, %z: tensor<9x7xf32>, %i: tensor<?xi64, #nn.dims<40*batch>> {nn.name = "i"})
    -> (tensor<?x7xf32, #nn.dims<40*batch>>, tensor<?x7xf32, #nn.dims<40*batch>>, tensor<?x7xf32, #nn.dims<40*batch>>) {
  %0 = nn.gather %x at %i {axis = 0 : i64, zero_out_of_range, in_order} : tensor<?x7xf32, #nn.dims<4*batch>>, tensor<?xi64, #nn.dims<40*batch>>
  %1 = nn.gather %y at %i {axis = 0 : i64, zero_out_of_range, in_order} : tensor<?x7xf32, #nn.dims<4*images>>, tensor<?xi64, #nn.dims<40*batch>>
  %2 = nn.gather %z at %i {axis = 0 : i64, zero_out_of_range, in_order} : tensor<9x7xf32>, tensor<?xi64, #nn.dims<40*batch>>
  return %0, %1, %2 : tensor<?x7xf32, #nn.dims<40*batch>>, tensor<?x7xf32, #nn.dims<40*batch>>, tensor<?x7xf32, #nn.dims<40*batch>>
}

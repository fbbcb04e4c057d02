// Self-attention of TOKENS tokens whose mask is causal, inside segments that come with the data, and over the last 64 keys.
dist.module @m {
  nn.dim @rows of "sample" max 1
  nn.parameter @w : tensor<32x32xf32> trainable from #nn.init<"normal(0,0.1)", "", "">
  func.func @forward(%x: tensor<?xTOKENSx32xf32, #nn.dims<rows>> {nn.name = "x"}, %ids: tensor<?xTOKENSxi64, #nn.dims<rows>> {nn.name = "ids"}) -> (tensor<f32> {nn.name = "loss"}) {
    %w = nn.read @w : tensor<32x32xf32>
    %y = nn.linear %x, %w : tensor<?xTOKENSx32xf32, #nn.dims<rows>>, tensor<32x32xf32>
    %heads = nn.reshape %y : tensor<?xTOKENSx32xf32, #nn.dims<rows>> to tensor<?xTOKENSx2x16xf32, #nn.dims<rows>>
    %q = nn.transpose %heads [0, 2, 1, 3] : tensor<?xTOKENSx2x16xf32, #nn.dims<rows>>
    %last = nn.generate : tensor<TOKENSxTOKENSxi1> {
    ^bb0(%i: index, %j: index):
      %n = arith.constant 64 : index
      %first = arith.subi %i, %n : index
      %in = arith.cmpi sgt, %j, %first : index
      %past = arith.cmpi sle, %j, %i : index
      %c = arith.andi %in, %past : i1
      nn.yield %c : i1
    }
    %row = nn.reshape %ids : tensor<?xTOKENSxi64, #nn.dims<rows>> to tensor<?x1xTOKENSx1xi64, #nn.dims<rows>>
    %column = nn.reshape %ids : tensor<?xTOKENSxi64, #nn.dims<rows>> to tensor<?x1x1xTOKENSxi64, #nn.dims<rows>>
    %same = nn.cmp eq %row, %column : tensor<?x1xTOKENSx1xi64, #nn.dims<rows>>, tensor<?x1x1xTOKENSxi64, #nn.dims<rows>>
    %mask = nn.and %same, %last : tensor<?x1xTOKENSxTOKENSxi1, #nn.dims<rows>>, tensor<TOKENSxTOKENSxi1>
    %hidden = nn.constant dense<0xFF800000> : tensor<f32>
    %scores = nn.matmul %q, %q {trans_b} : tensor<?x2xTOKENSx16xf32, #nn.dims<rows>>, tensor<?x2xTOKENSx16xf32, #nn.dims<rows>>
    %masked = nn.where %mask, %scores, %hidden : tensor<?x1xTOKENSxTOKENSxi1, #nn.dims<rows>>, tensor<?x2xTOKENSxTOKENSxf32, #nn.dims<rows>>, tensor<f32>
    %p = nn.softmax %masked {axis = 3 : i64} : tensor<?x2xTOKENSxTOKENSxf32, #nn.dims<rows>>
    %o = nn.matmul %p, %q : tensor<?x2xTOKENSxTOKENSxf32, #nn.dims<rows>>, tensor<?x2xTOKENSx16xf32, #nn.dims<rows>>
    %squares = nn.mul %o, %o : tensor<?x2xTOKENSx16xf32, #nn.dims<rows>>, tensor<?x2xTOKENSx16xf32, #nn.dims<rows>>
    %loss = nn.reduce sum %squares {axes = array<i64: 0, 1, 2, 3>} : tensor<?x2xTOKENSx16xf32, #nn.dims<rows>>
    return %loss : tensor<f32>
  }
}
dist.loss "l" in @m numerator "loss" weight 1.0
dist.batch global 1 micro 1
dist.seed 7
dist.optimizer sgd lr 0.1

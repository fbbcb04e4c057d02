//===- CudnnAttentionGraph.cpp - attention as cuDNN knows it --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The graphs of single operations by which cuDNN's engines for fused attention
// know it: those that cudnn-frontend 1.32 builds (its CompositeSDPANode and
// CompositeSDPABackwardNode, deterministic), operation by operation. Only
// results, the log-sum-exp and one sum a row are ever in memory.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/CudnnGraph.h"

namespace dt::rt::cudnn {

namespace {

/// Of addresses, in bytes.
constexpr int64_t kAlignment = 16;

Tensor transpose(Tensor t) {
  std::swap(t.sizes[2], t.sizes[3]);
  std::swap(t.strides[2], t.strides[3]);
  return t;
}

/// Builds a graph for one shape. Tensors have four dims: batch, heads, rows,
/// columns.
class Attention {
public:
  Attention(Graph &graph, const AttentionShape &s)
      : graph(graph), s(s), square{s.b, s.h, s.t, s.s}, row{s.b, s.h, s.t, 1} {}

  void forward();
  void backward();

private:
  /// In memory: rows with these strides, turned round if it is so wanted.
  Tensor rows(int64_t heads, int64_t count, int64_t width,
              const HeadStrides &by, bool turned = false) {
    Tensor t{
        nullptr, {s.b, heads, count, width}, {by.batch, by.head, by.row, 1}};
    if (turned)
      t = transpose(t);
    return graph.tensor(Place::Memory, CUDNN_DATA_BFLOAT16, t.sizes, t.strides,
                        kAlignment);
  }
  Tensor queries(const HeadStrides &by) { return rows(s.h, s.t, s.d, by); }
  Tensor queries() { return queries({s.qb, s.qt, s.qh}); }
  Tensor keys(const HeadStrides &by, bool turned = false) {
    return rows(s.hk, s.s, s.d, by, turned);
  }
  Tensor keys() { return keys({s.kb, s.ks, s.kh}, true); }
  Tensor values(const HeadStrides &by, bool turned = false) {
    return rows(s.hk, s.s, s.dv, by, turned);
  }
  Tensor values(bool turned = false) {
    return values({s.vb, s.vs, s.vh}, turned);
  }
  Tensor outputs() { return rows(s.h, s.t, s.dv, {s.ob, s.ot, s.oh}); }
  /// What a mask adds to the scores.
  Tensor bias() {
    BiasShape shape = getBiasShape(s);
    Sizes sizes{shape.b, shape.h, s.t, s.s};
    return graph.tensor(
        Place::Memory, CUDNN_DATA_BFLOAT16, sizes,
        {shape.h * s.t * shape.row, s.t * shape.row, shape.row, 1}, kAlignment);
  }
  Tensor perRow() {
    return graph.tensor(Place::Memory, CUDNN_DATA_FLOAT, row, dense(row), 4);
  }
  Tensor value() {
    return graph.tensor(Place::Value, CUDNN_DATA_FLOAT, {1, 1, 1, 1},
                        {1, 1, 1, 1}, 4);
  }
  Tensor inside(const Sizes &sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return graph.tensor(Place::Inside, type, sizes, dense(sizes));
  }

  void pointwise(cudnnPointwiseMode_t mode, const Tensor &y,
                 std::initializer_list<Tensor> operands,
                 cudnnDataType_t precision = CUDNN_DATA_FLOAT,
                 int64_t axis = -1);
  /// Into a tensor inside of the first operand's sizes.
  Tensor pointwise(cudnnPointwiseMode_t mode,
                   std::initializer_list<Tensor> operands) {
    Tensor y = inside(operands.begin()->sizes);
    pointwise(mode, y, operands);
    return y;
  }
  void reduce(cudnnReduceTensorOp_t op, const Tensor &y, const Tensor &x);
  void multiply(const Tensor &y, const Tensor &a, const Tensor &b);
  /// The same elements in other places.
  Tensor reshape(const Tensor &x, const Sizes &sizes, const Sizes &strides);

  Tensor getScores(const Tensor &q, const Tensor &k, const Tensor &scale);
  Tensor hide(const Tensor &scores, const Tensor &hidden);
  void addHeads(const Tensor &y, const Tensor &weights, const Tensor &x);

  Graph &graph;
  const AttentionShape &s;
  Sizes square, row; ///< of scores, of what a row has one of
};

void Attention::pointwise(cudnnPointwiseMode_t mode, const Tensor &y,
                          std::initializer_list<Tensor> operands,
                          cudnnDataType_t precision, int64_t axis) {
  Descriptor how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(how, CUDNN_ATTR_POINTWISE_MODE, mode);
  set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, precision);
  if (axis >= 0)
    set(how, CUDNN_ATTR_POINTWISE_AXIS, axis);
  Descriptor d = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
      graph.part(std::move(how)));
  constexpr cudnnBackendAttributeName_t kNames[] = {
      CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  const cudnnBackendAttributeName_t *name = kNames;
  for (const Tensor &operand : operands)
    set(d, *name++, operand.descriptor);
  set(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
  graph.operation(std::move(d));
}

void Attention::reduce(cudnnReduceTensorOp_t op, const Tensor &y,
                       const Tensor &x) {
  Descriptor how = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set(how, CUDNN_ATTR_REDUCTION_OPERATOR, op);
  set(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  Descriptor d = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set(d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, graph.part(std::move(how)));
  set(d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor);
  set(d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor);
  graph.operation(std::move(d));
}

void Attention::multiply(const Tensor &y, const Tensor &a, const Tensor &b) {
  Descriptor how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  Descriptor d = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set(d, CUDNN_ATTR_OPERATION_MATMUL_DESC, graph.part(std::move(how)));
  set(d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor);
  set(d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor);
  set(d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y.descriptor);
  graph.operation(std::move(d));
}

Tensor Attention::reshape(const Tensor &x, const Sizes &sizes,
                          const Sizes &strides) {
  Tensor y = graph.tensor(Place::Inside, CUDNN_DATA_BFLOAT16, sizes, strides);
  Descriptor d = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set(d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor);
  set(d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
  graph.operation(std::move(d));
  return y;
}

/// Scaled products, and what a mask adds.
Tensor Attention::getScores(const Tensor &q, const Tensor &k,
                            const Tensor &scale) {
  Tensor products = inside(square);
  multiply(products, q, k);
  Tensor scores = pointwise(CUDNN_POINTWISE_MUL, {products, scale});
  return hasBias(s) ? pointwise(CUDNN_POINTWISE_ADD, {scores, bias()}) : scores;
}

/// Scores, and the value `hidden` of keys behind the query.
Tensor Attention::hide(const Tensor &scores, const Tensor &hidden) {
  Tensor query = inside(square, CUDNN_DATA_INT32),
         key = inside(square, CUDNN_DATA_INT32),
         visible = inside(square, CUDNN_DATA_BOOLEAN);
  pointwise(CUDNN_POINTWISE_GEN_INDEX, query, {scores}, CUDNN_DATA_FLOAT, 2);
  pointwise(CUDNN_POINTWISE_GEN_INDEX, key, {scores}, CUDNN_DATA_FLOAT, 3);
  pointwise(CUDNN_POINTWISE_CMP_GE, visible, {query, key}, CUDNN_DATA_BOOLEAN);
  return pointwise(CUDNN_POINTWISE_BINARY_SELECT, {scores, hidden, visible});
}

/// q, k, v, o, lse, scale, a bias if it has one and, where the graph has the
/// causal rule, what hidden keys score.
void Attention::forward() {
  Tensor q = queries(), k = keys(), v = values(), o = outputs(), lse = perRow(),
         scale = value();
  Tensor scores = getScores(q, k, scale);
  if (hidesInGraph(s))
    scores = hide(scores, value());
  Tensor top = inside(row), sum = inside(row);
  reduce(CUDNN_REDUCE_TENSOR_MAX, top, scores);
  Tensor weights = pointwise(CUDNN_POINTWISE_EXP,
                             {pointwise(CUDNN_POINTWISE_SUB, {scores, top})});
  reduce(CUDNN_REDUCE_TENSOR_ADD, sum, weights);
  pointwise(CUDNN_POINTWISE_ADD, lse,
            {top, pointwise(CUDNN_POINTWISE_LOG, {sum})});
  Tensor shares = inside(square, CUDNN_DATA_BFLOAT16);
  pointwise(CUDNN_POINTWISE_DIV, shares, {weights, sum});
  multiply(o, shares, v);
}

/// A gradient of keys or values: weights [b, h, t, s] turned round times x, and
/// of query heads that share one its sum.
void Attention::addHeads(const Tensor &y, const Tensor &weights,
                         const Tensor &x) {
  Tensor turned = reshape(weights, {s.b, s.h, s.s, s.t},
                          {s.h * s.t * s.s, s.t * s.s, 1, s.s});
  if (s.h == s.hk)
    return multiply(y, turned, x);
  Tensor all = inside({s.b, s.h, s.s, y.sizes[3]}, CUDNN_DATA_BFLOAT16);
  multiply(all, turned, x);
  reduce(CUDNN_REDUCE_TENSOR_ADD, y, all);
}

/// q, k, v, o, do, lse, dq, dk, dv, a sum a row, scale, 1, a bias if it has one
/// and, where the graph has the causal rule, what hidden keys score.
void Attention::backward() {
  Tensor q = queries(), k = keys(), v = values(true), o = outputs(),
         dout = outputs(), lse = perRow(), dq = queries(s.getDq()),
         dk = keys(s.getDk()), dv = values(s.getDv()), mean = perRow(),
         scale = value(), one = value();
  Tensor sum = inside(row);
  reduce(CUDNN_REDUCE_TENSOR_ADD, sum,
         pointwise(CUDNN_POINTWISE_MUL, {dout, o}));
  pointwise(CUDNN_POINTWISE_MUL, mean, {sum, one});
  Tensor scores = pointwise(CUDNN_POINTWISE_SUB, {getScores(q, k, scale), lse});
  if (hidesInGraph(s))
    scores = hide(scores, value());
  Tensor weights = pointwise(CUDNN_POINTWISE_EXP, {scores});
  addHeads(dv, weights, dout);
  Tensor dweights = inside(square);
  multiply(dweights, dout, v);
  Tensor dscores = pointwise(CUDNN_POINTWISE_SUB, {dweights, mean});
  dscores = pointwise(CUDNN_POINTWISE_MUL, {dscores, weights});
  dscores = pointwise(CUDNN_POINTWISE_MUL, {dscores, scale});
  addHeads(dk, dscores, q);
  Tensor back = transpose(k);
  multiply(dq, dscores, reshape(k, back.sizes, back.strides));
}

} // namespace

Plan findPlan(const AttentionProblem &p, const Gpu &gpu) {
  return findPlan(
      [&](Graph &graph) {
        Attention attention(graph, p.shape);
        p.backward ? attention.backward() : attention.forward();
      },
      true, gpu);
}

} // namespace dt::rt::cudnn

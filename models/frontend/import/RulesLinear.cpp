//===- RulesLinear.cpp - Matrix products ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A product with a matrix that is a parameter becomes nn.linear, in whichever
// orientation the file keeps it: no transpose stays between a parameter and its
// product.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/import/NodeImporter.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {
/// The parameter behind a rank-2 operand and whether it arrives transposed.
std::optional<std::pair<Value, bool>> parameterMatrix(Value v) {
  if (!v || nn::getShape(v).size() != 2)
    return std::nullopt;
  bool transposed = false;
  if (auto t = v.getDefiningOp<nn::TransposeOp>()) {
    v = t.getInput();
    transposed = true;
  }
  if (!v.getDefiningOp<nn::ReadOp>())
    return std::nullopt;
  return std::pair(v, transposed);
}

/// x [..., k] times w [k, n] ([n, k] with `transposed`), w a matrix.
Value linear(NodeImporter &n, Value x, Value w, bool transposed,
             Value bias = {}) {
  SmallVector<Value> operands{x, w};
  if (bias)
    operands.push_back(bias);
  SmallVector<NamedAttribute> attributes;
  if (!transposed)
    attributes.push_back(n.unit("in_out"));
  return n.make<nn::LinearOp>(operands, attributes);
}

/// MatMul of operands of rank 2 or more.
Value product(NodeImporter &n, Value l, Value r) {
  if (auto w = parameterMatrix(r))
    return linear(n, l, w->first, w->second);
  return n.make<nn::MatmulOp>({l, r});
}

LogicalResult matMul(NodeImporter &n) {
  Value l = n.value(0), r = n.value(1);
  if (!l || !r)
    return n.fail("needs two inputs");
  bool rowVector = n.rank(0) == 1, columnVector = n.rank(1) == 1;
  if (n.rank(0) == 0 || n.rank(1) == 0)
    return n.fail("multiplies a scalar");
  if (rowVector)
    l = n.unsqueeze(l, 0);
  if (columnVector)
    r = n.unsqueeze(r, 1);
  Value y = product(n, l, r);
  if (y && columnVector)
    y = n.squeeze(y, nn::getShape(y).size() - 1);
  if (y && rowVector)
    y = n.squeeze(y, nn::getShape(y).size() - (columnVector ? 1 : 2));
  return n.set(0, y);
}

LogicalResult gemm(NodeImporter &n) {
  bool transA = n.intAttr("transA", 0), transB = n.intAttr("transB", 0);
  double alpha = n.floatAttr("alpha", 1), beta = n.floatAttr("beta", 1);
  Value a = n.value(0), b = n.value(1);
  if (!a || !b || n.rank(0) != 2 || n.rank(1) != 2)
    return n.fail("needs two matrices");
  Value c = n.has(2) && beta != 0 ? n.value(2) : Value();
  Type element = n.element(0);
  Value y;
  if (auto w = parameterMatrix(b)) {
    if (transA)
      a = n.transpose(a, {1, 0});
    bool outIn = transB != w->second;
    DimExpr size = nn::getShape(w->first)[outIn ? 0 : 1];
    Shape cShape = c ? nn::getShape(c) : Shape();
    bool row =
        c && (cShape == Shape{size} || cShape == Shape{DimExpr(1), size});
    bool absorb = row && alpha == 1 && beta == 1;
    y = linear(n, a, w->first, outIn, absorb ? n.reshape(c, {size}) : Value());
    if (absorb)
      c = {};
  } else {
    SmallVector<NamedAttribute> attributes;
    if (transA)
      attributes.push_back(n.unit("trans_a"));
    if (transB)
      attributes.push_back(n.unit("trans_b"));
    y = n.make<nn::MatmulOp>({a, b}, attributes);
  }
  if (alpha != 1)
    y = n.make<nn::MulOp>({y, n.number(alpha, element)});
  if (c && beta != 1)
    c = n.make<nn::MulOp>({c, n.number(beta, element)});
  if (c)
    y = n.make<nn::AddOp>({y, c});
  return n.set(0, y);
}

//===----------------------------------------------------------------------===//
// Einsum
//===----------------------------------------------------------------------===//

/// A value whose axes are named.
struct Labelled {
  Value value;
  std::string labels;
};

class Einsum {
public:
  explicit Einsum(NodeImporter &n) : n(n) {}

  LogicalResult run() {
    if (failed(parse()) || failed(takeDiagonals()) || failed(dropOnes()))
      return failure();
    Labelled total = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) {
      std::string later = result;
      for (size_t k = i + 1; k < operands.size(); ++k)
        later += operands[k].labels;
      total = contract(total, operands[i], later);
    }
    total = reduceTo(total, result);
    return n.set(0, arrange(total, result).value);
  }

private:
  LogicalResult parse() {
    std::string equation = n.stringAttr("equation", "");
    llvm::erase(equation, ' ');
    auto [left, right] = StringRef(equation).split("->");
    SmallVector<StringRef> terms;
    left.split(terms, ',');
    if (terms.size() != n.numInputs() || terms.empty())
      return n.fail("equation '" + equation + "' does not fit " +
                    Twine(n.numInputs()) + " inputs");
    size_t hidden = 0; // the most axes that an ellipsis stands for
    for (auto [i, term] : llvm::enumerate(terms)) {
      size_t rank = n.rank(i);
      std::optional<std::string> labels = spell(term, rank);
      if (!labels)
        return n.fail("equation '" + equation + "': '" + term +
                      "' does not name the " + Twine(rank) + " axes of input " +
                      Twine(i) + " (a letter each; ... stands for up to " +
                      Twine(kMostHidden) + ")");
      hidden = std::max(hidden, size_t(llvm::count_if(*labels, llvm::isDigit)));
      operands.push_back({n.value(i), *labels});
    }
    std::string all;
    for (const Labelled &operand : operands)
      all += operand.labels;
    if (equation.find("->") == std::string::npos) {
      result = hiddenLabels(hidden);
      for (char c = 'A'; c <= 'z'; ++c) // letters that occur once, in order
        if (llvm::count(all, c) == 1 && llvm::isAlpha(c))
          result += c;
    } else {
      size_t letters = llvm::count_if(right, llvm::isAlpha);
      result = spell(right, letters + (right.contains("...") ? hidden : 0))
                   .value_or("?");
    }
    for (char c : result)
      if (!has(all, c) || llvm::count(result, c) != 1)
        return n.fail("equation '" + equation + "' has an impossible result");
    return success();
  }

  /// Labels of the axes that an ellipsis stands for: digits, 0 for the last.
  static std::string hiddenLabels(size_t count) {
    std::string labels;
    while (count > 0)
      labels += char('0' + --count);
    return labels;
  }

  /// A label for each of `rank` axes; nothing if the term does not fit.
  static std::optional<std::string> spell(StringRef term, size_t rank) {
    auto [before, after] = term.split("...");
    size_t letters = before.size() + after.size();
    bool open = term.contains("...");
    if (!llvm::all_of(before, llvm::isAlpha) ||
        !llvm::all_of(after, llvm::isAlpha) || letters > rank ||
        (!open && letters < rank) || rank - letters > kMostHidden)
      return std::nullopt;
    return before.str() + hiddenLabels(rank - letters) + after.str();
  }

  /// Operands without a label twice: the elements whose indices are equal.
  LogicalResult takeDiagonals() {
    for (Labelled &operand : operands)
      for (size_t i = 0; i < operand.labels.size();) {
        size_t twin = operand.labels.find(operand.labels[i], i + 1);
        if (twin == std::string::npos)
          ++i;
        else if (failed(takeDiagonal(operand, i, twin)))
          return failure();
      }
    return success();
  }

  LogicalResult takeDiagonal(Labelled &x, size_t i, size_t twin) {
    Shape shape = nn::getShape(x.value);
    std::optional<int64_t> size = shape[i].asConstant();
    if (!size || shape[i] != shape[twin])
      return n.fail("label '" + Twine(x.labels[i]) +
                    "' stands twice in an operand, for axes of sizes " +
                    shape[i].str() + " and " + shape[twin].str() +
                    ": expected one number");
    SmallVector<int64_t> permutation;
    std::string labels;
    Shape merged;
    for (size_t k = 0; k < shape.size(); ++k)
      if (k != i && k != twin) {
        permutation.push_back(k);
        labels += x.labels[k];
        merged.push_back(shape[k]);
      }
    int64_t last = merged.size();
    permutation.push_back(i);
    permutation.push_back(twin);
    merged.push_back(shape[i] * shape[twin]);
    symbolic::Result at =
        symbolic::fromFunction({shape[i]}, symbolic::Element::Int64,
                               symbolic::scale(symbolic::index(0), *size + 1));
    if (!at)
      return n.fail("the diagonal's places cannot be folded");
    Value flat = n.reshape(n.transpose(x.value, permutation), merged);
    x = {n.make<nn::GatherOp>({flat, n.emit(*at)}, n.i64("axis", last)),
         labels + x.labels[i]};
    return success();
  }

  /// An axis of one element goes with any size that its label has elsewhere:
  /// without the axis the product is the same.
  LogicalResult dropOnes() {
    llvm::DenseMap<char, DimExpr> sizes;
    for (const Labelled &operand : operands)
      for (auto [c, size] :
           llvm::zip(operand.labels, nn::getShape(operand.value)))
        if (auto [it, isNew] = sizes.try_emplace(c, size); !isNew) {
          if (it->second == DimExpr(1))
            it->second = size;
          else if (size != DimExpr(1) && size != it->second)
            return n.fail("label '" + Twine(c) + "' has the sizes " +
                          it->second.str() + " and " + size.str() +
                          ": expected equal ones, or 1");
        }
    for (Labelled &operand : operands)
      for (size_t k = operand.labels.size(); k-- > 0;)
        if (nn::getShape(operand.value)[k] == DimExpr(1) &&
            sizes[operand.labels[k]] != DimExpr(1)) {
          operand.value = n.squeeze(operand.value, k);
          operand.labels.erase(k, 1);
        }
    return success();
  }

  static bool has(StringRef labels, char c) {
    return labels.find(c) != StringRef::npos;
  }

  /// Sums over labels that nobody needs any more.
  Labelled reduceTo(Labelled x, StringRef needed) {
    SmallVector<int64_t> axes;
    std::string kept;
    for (auto [i, c] : llvm::enumerate(x.labels)) {
      if (has(needed, c))
        kept += c;
      else
        axes.push_back(i);
    }
    if (axes.empty())
      return x;
    return {n.reduce(nn::ReduceKind::sum, x.value, axes, false), kept};
  }

  Labelled arrange(Labelled x, StringRef labels) {
    SmallVector<int64_t> permutation;
    for (char c : labels)
      permutation.push_back(x.labels.find(c));
    return {n.transpose(x.value, permutation), labels.str()};
  }

  Labelled contract(Labelled a, Labelled b, const std::string &later) {
    a = reduceTo(a, later + b.labels);
    b = reduceTo(b, later + a.labels);
    std::string batch, sum, onlyA, onlyB;
    for (char c : a.labels)
      (!has(b.labels, c) ? onlyA : has(later, c) ? batch : sum) += c;
    for (char c : b.labels)
      if (!has(a.labels, c))
        onlyB += c;
    a = arrange(a, batch + onlyA + sum);
    b = arrange(b, batch + sum + onlyB);
    if (!a.value || !b.value)
      return {};
    // [batch..., rows, k] times [batch..., k, columns], groups merged.
    Shape sa = nn::getShape(a.value), sb = nn::getShape(b.value);
    auto merge = [](const Shape &s, size_t from, size_t count) {
      DimExpr d(1);
      for (size_t i = from; i < from + count; ++i)
        d = d * s[i];
      return d;
    };
    Shape lead(sa.begin(), sa.begin() + batch.size()), ma = lead, mb = lead;
    ma.push_back(merge(sa, batch.size(), onlyA.size()));
    ma.push_back(merge(sa, batch.size() + onlyA.size(), sum.size()));
    mb.push_back(merge(sb, batch.size(), sum.size()));
    mb.push_back(merge(sb, batch.size() + sum.size(), onlyB.size()));
    Value y = product(n, n.reshape(a.value, ma), n.reshape(b.value, mb));
    Shape out(sa.begin(), sa.begin() + batch.size() + onlyA.size());
    out.append(sb.end() - onlyB.size(), sb.end());
    return {n.reshape(y, out), batch + onlyA + onlyB};
  }

  static constexpr size_t kMostHidden = 10; ///< digits

  NodeImporter &n;
  SmallVector<Labelled> operands;
  std::string result;
};

LogicalResult einsum(NodeImporter &n) { return Einsum(n).run(); }
} // namespace

void models::addLinearRules(RuleTable &rules) {
  rules["MatMul"] = matMul;
  rules["Gemm"] = gemm;
  rules["Einsum"] = einsum;
}

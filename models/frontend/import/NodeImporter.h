//===- NodeImporter.h - What an import rule works with ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One ONNX node on its way into the IR: its operands (IR values or symbolic
// tensors), its attributes, and builders that never abort: after a failure they
// pass null along, so a rule is written straight through and `set` reports the
// first reason.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_IMPORT_NODEIMPORTER_H
#define MODELS_FRONTEND_IMPORT_NODEIMPORTER_H

#include "dialects/nn/NNOps.h"
#include "models/frontend/import/Materialize.h"
#include "models/frontend/onnx/Model.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace dt::models {

using mlir::failure;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;
using nn::DimExpr;
using nn::Shape;
using symbolic::SymbolicTensor;

/// A value of the ONNX graph: symbolic as long as possible, made IR when an
/// operator needs it.
struct GraphValue {
  std::optional<SymbolicTensor> symbolic;
  Value full, compact; ///< what it was made, if it was

  /// Positions that NonZero finds: their number is data, so they are no tensor.
  /// Only the form that masked_scatter is exported in takes them further.
  struct NonZero {
    Value mask;
    std::string count; ///< stands for their number in shapes
    std::string of;    ///< "NonZero 'x' finds in data", for messages
    bool transposed = false;
  };
  std::optional<NonZero> nonZero;
  /// The first `count` elements of a 1-D value, with `count` of a NonZero.
  struct Prefix {
    Value of;
    std::string count;
  };
  std::optional<Prefix> prefix;
};

class NodeImporter {
public:
  NodeImporter(const onnx::Node &node, mlir::OpBuilder &builder,
               mlir::Location loc, std::vector<GraphValue *> inputs,
               symbolic::Least least)
      : node(node), b(builder), loc(loc), least(std::move(least)),
        inputs(std::move(inputs)), outputs(node.outputs.size()) {}

  const onnx::Node &node;
  mlir::OpBuilder &b;
  mlir::Location loc;
  /// The smallest value of a symbol, for what depends on sizes alone.
  const symbolic::Least least;

  //===--------------------------------------------------------------------===//
  // Operands
  //===--------------------------------------------------------------------===//

  size_t numInputs() const { return inputs.size(); }
  bool has(size_t i) const { return i < inputs.size() && inputs[i]; }
  /// The operand as a function of its indices; null if it is data.
  const SymbolicTensor *symbolic(size_t i) const;
  /// The operand as IR; null and a recorded failure if it is left out.
  Value value(size_t i);
  /// The same, with size 1 along dims that a symbolic operand does not depend
  /// on: for operators that broadcast.
  Value compactValue(size_t i);
  Shape shape(size_t i);
  int64_t rank(size_t i) { return shape(i).size(); }
  mlir::Type element(size_t i);
  bool isFloat(size_t i) { return mlir::isa<mlir::FloatType>(element(i)); }
  /// Null for the IR element types that symbolic tensors do not have.
  GraphValue *input(size_t i) {
    return i < inputs.size() ? inputs[i] : nullptr;
  }

  /// Operands that must be known at compile time; fail naming `what`.
  FailureOr<Shape> dims(size_t i, llvm::StringRef what);
  FailureOr<llvm::SmallVector<int64_t>> ints(size_t i, llvm::StringRef what);
  FailureOr<int64_t> integer(size_t i, llvm::StringRef what);
  FailureOr<double> real(size_t i, llvm::StringRef what);
  FailureOr<llvm::SmallVector<double>> reals(size_t i, llvm::StringRef what);

  //===--------------------------------------------------------------------===//
  // Attributes
  //===--------------------------------------------------------------------===//

  const onnx::Attribute *attribute(llvm::StringRef name) const;
  /// Whether a rule has looked at it: what no rule looks at it would drop.
  bool wasRead(llvm::StringRef name) const { return read.contains(name); }
  int64_t intAttr(llvm::StringRef name, int64_t absent) const;
  double floatAttr(llvm::StringRef name, double absent) const;
  std::string stringAttr(llvm::StringRef name, llvm::StringRef absent) const;
  /// Empty if absent.
  llvm::SmallVector<int64_t> intsAttr(llvm::StringRef name) const;
  /// Axes from the attribute of older operator sets or from input `i`; nothing
  /// if there are none. Normalised to [0, rank).
  FailureOr<std::optional<llvm::SmallVector<int64_t>>> axes(size_t i,
                                                            int64_t rank);
  FailureOr<int64_t> axis(int64_t value, int64_t rank);

  //===--------------------------------------------------------------------===//
  // Results
  //===--------------------------------------------------------------------===//

  /// Records the reason (the first one stays) and fails.
  LogicalResult fail(const llvm::Twine &reason);
  const std::string &reason() const { return why; }
  /// Something the user should know; said once for all nodes it holds for.
  void remark(const llvm::Twine &text) { remarks.push_back(text.str()); }
  llvm::ArrayRef<std::string> remarksMade() const { return remarks; }

  /// Takes `size <= limit` for granted; false unless it limits one symbol.
  bool assumeAtMost(const DimExpr &size, int64_t limit);
  /// `symbol` is at most `most`, because `size` is at most `rows`.
  struct Limit {
    std::string symbol;
    int64_t most;
    DimExpr size;
    int64_t rows;
  };
  llvm::ArrayRef<Limit> limits() const { return assumed; }

  /// Sets result `i`; fails if the value is null.
  LogicalResult set(size_t i, Value value);
  LogicalResult set(size_t i, const SymbolicTensor &t);
  LogicalResult set(size_t i, const symbolic::Result &t);
  GraphValue &output(size_t i) { return outputs[i]; }
  bool wants(size_t i) const {
    return i < node.outputs.size() && !node.outputs[i].empty();
  }

  //===--------------------------------------------------------------------===//
  // Building
  //===--------------------------------------------------------------------===//

  mlir::NamedAttribute named(llvm::StringRef name, mlir::Attribute a) {
    return b.getNamedAttr(name, a);
  }
  mlir::NamedAttribute i64(llvm::StringRef name, int64_t v) {
    return named(name, b.getI64IntegerAttr(v));
  }
  mlir::NamedAttribute f64(llvm::StringRef name, double v) {
    return named(name, b.getF64FloatAttr(v));
  }
  mlir::NamedAttribute unit(llvm::StringRef name) {
    return named(name, b.getUnitAttr());
  }
  mlir::NamedAttribute array(llvm::StringRef name, llvm::ArrayRef<int64_t> v) {
    return named(name, b.getDenseI64ArrayAttr(v));
  }
  mlir::NamedAttribute segments(llvm::ArrayRef<int32_t> sizes) {
    return named("operandSegmentSizes", b.getDenseI32ArrayAttr(sizes));
  }

  /// An op with inferred result types, or `result`. Null operands, impossible
  /// operands and verifier errors give null.
  mlir::Operation *makeOp(llvm::StringRef name, mlir::ValueRange operands,
                          llvm::ArrayRef<mlir::NamedAttribute> attributes,
                          mlir::Type result = {});
  template <typename OpT>
  Value make(mlir::ValueRange operands,
             llvm::ArrayRef<mlir::NamedAttribute> attributes = {},
             mlir::Type result = {}) {
    mlir::Operation *op =
        makeOp(OpT::getOperationName(), operands, attributes, result);
    return op ? op->getResult(0) : Value();
  }

  /// The op with this name, which takes the node's inputs in order and its
  /// attributes by name (OnnxOpInterface); sets all results.
  LogicalResult importAs(mlir::OperationName op);

  Value reshape(Value v, const Shape &shape);
  Value broadcast(Value v, const Shape &shape);
  Value transpose(Value v, llvm::ArrayRef<int64_t> permutation);
  Value castTo(Value v, mlir::Type element);
  Value squeeze(Value v, int64_t axis);
  Value unsqueeze(Value v, int64_t axis);
  /// Elements start, start + 1, ... of one axis.
  Value sliceAxis(Value v, int64_t axis, int64_t start, const DimExpr &size);
  /// `first`: of a maximum's or minimum's equal elements, the first has the
  /// gradient.
  Value reduce(nn::ReduceKind kind, Value v, llvm::ArrayRef<int64_t> axes,
               bool keepdims, bool first = false);
  Value compare(nn::Compare predicate, Value l, Value r);
  /// A rank-0 constant of `like`'s element type.
  Value number(double v, mlir::Type element);
  /// A symbolic tensor as IR.
  Value emit(const SymbolicTensor &t) {
    return materialize(b, loc, t, /*compact=*/false);
  }

private:
  template <typename T>
  FailureOr<llvm::SmallVector<T>>
  known(size_t i, llvm::StringRef what,
        std::optional<llvm::SmallVector<T>> (*read)(const SymbolicTensor &));
  template <typename T>
  FailureOr<T> only(FailureOr<llvm::SmallVector<T>> list, llvm::StringRef what);

  std::vector<GraphValue *> inputs;
  std::vector<GraphValue> outputs;
  std::string why;
  mutable llvm::StringSet<> read; ///< attributes
  std::vector<std::string> remarks;
  llvm::SmallVector<Limit> assumed;
};

using Rule = LogicalResult (*)(NodeImporter &);
using RuleTable = llvm::StringMap<Rule>;

// One function a family of operators; all in models/frontend/import/Rules*.cpp.
void addElementwiseRules(RuleTable &rules);
void addActivationRules(RuleTable &rules);
void addLinearRules(RuleTable &rules);
void addAttentionRules(RuleTable &rules);
void addConvRules(RuleTable &rules);
void addNormRules(RuleTable &rules);
void addShapeRules(RuleTable &rules);
void addSliceRules(RuleTable &rules);
void addReduceRules(RuleTable &rules);
void addIndexRules(RuleTable &rules);
void addResizeRules(RuleTable &rules);
void addGridSampleRules(RuleTable &rules);
void addLossRules(RuleTable &rules);

} // namespace dt::models

#endif // MODELS_FRONTEND_IMPORT_NODEIMPORTER_H

//===- Parameters.h - Which initializers train ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An ONNX file does not say what a parameter is. Exporters mark initializers
// (PARAMETER, BUFFER); without marks every float initializer with a name of its
// own is one. What exporters for inference do to parameters is found here as
// well: merged equal values and folded weights would train something other
// than the user's model. docs/weights.md says what counts as folded, and why.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_IMPORT_PARAMETERS_H
#define MODELS_FRONTEND_IMPORT_PARAMETERS_H

#include "models/frontend/onnx/Model.h"
#include "models/frontend/symbolic/SymbolicTensor.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace dt::models {

/// What an element of a file is in the IR: narrow floats are float32.
std::optional<symbolic::Element> toSymbolic(onnx::ElementType type);

/// The tensor as a literal or a recognised pattern; nothing if it is too large
/// or of a type that symbolic tensors do not have. Fails if it cannot be read.
llvm::Expected<symbolic::Result> readLiteral(const onnx::Tensor &tensor);

class ParameterUses {
public:
  /// `trainable`: patterns over what trains; absent: what the exporter marked,
  /// or what has a name of its own.
  ParameterUses(const onnx::Graph &graph,
                std::optional<std::vector<std::string>> trainable);

  bool isTrainable(const onnx::Tensor &t) const;
  /// Stays a parameter of the module, also if it does not train.
  bool isParameter(const onnx::Tensor &t) const;

  /// A constant that looks like a weight which an exporter folded, and a node
  /// that reads it.
  struct Folded {
    const onnx::Tensor *tensor;
    const onnx::Node *user;
    std::string name; ///< of a Constant node: that of its output
  };
  /// In the order of the nodes; none if patterns say what trains.
  llvm::ArrayRef<Folded> folded() const { return constants; }

  /// Initializers without a value, those of subgraphs too.
  std::vector<const onnx::Tensor *> absent() const;

  /// Initializers that a pattern may choose, and patterns that choose none.
  std::vector<std::string> candidates() const;
  std::vector<std::string> unmatched() const;

  void record(const onnx::Tensor &t, const onnx::Node &node);

  struct Shared {
    const onnx::Tensor *tensor;
    const onnx::Node *first, *second;
    std::string firstScope, secondScope;
  };
  /// Trainable tensors used in two scopes, in the order of first use.
  std::vector<Shared> shared() const;

private:
  struct Uses {
    const onnx::Tensor *tensor;
    std::vector<const onnx::Node *> nodes;
  };
  /// What a name of the graph stands for, as far as that is a constant.
  struct Source {
    const onnx::Tensor *tensor;
    std::string name;
    bool node; ///< of a Constant node
  };
  using Sources = llvm::StringMap<Source>;

  void collect(const onnx::Graph &graph);
  void visit(const onnx::Graph &graph, Sources known, llvm::StringSet<> data);
  void visit(const onnx::Node &node, const Sources &known,
             const llvm::StringSet<> &data);
  void addFolded(const Source &source, const onnx::Node &user);
  bool trainsByDefault(const onnx::Tensor &t) const;
  bool isRewritten(const onnx::Tensor &t) const;

  std::optional<std::vector<std::string>> patterns;
  bool marked = false;
  std::vector<const onnx::Tensor *> initializers;
  llvm::StringSet<> settings; ///< initializers that are settings of an operator
  llvm::StringSet<> weights;  ///< those where operators take weights
  std::vector<Folded> constants;
  std::vector<Uses> uses;
  llvm::StringMap<size_t> position;
};

} // namespace dt::models

#endif // MODELS_FRONTEND_IMPORT_PARAMETERS_H

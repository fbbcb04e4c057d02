//===- Parameters.h - Which initializers train ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An ONNX file does not say what a parameter is. Exporters mark initializers
// (PARAMETER, BUFFER); without marks every float initializer with a name of its
// own is one. What exporters for inference do to parameters is found here as
// well: merged equal values and folded transposes would train something other
// than the user's model.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_IMPORT_PARAMETERS_H
#define MODELS_IMPORT_PARAMETERS_H

#include "models/onnx/Model.h"
#include "models/symbolic/SymbolicTensor.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace dt::models {

std::optional<symbolic::Element> toSymbolic(onnx::ElementType type);

/// The tensor as a literal or a recognised pattern; nothing if it is too large
/// or of a type that symbolic tensors do not have. Fails if it cannot be read.
llvm::Expected<symbolic::Result> readLiteral(const onnx::Tensor &tensor);

class ParameterUses {
public:
  explicit ParameterUses(const onnx::Graph &graph);

  bool isTrainable(const onnx::Tensor &t) const;
  /// The reason why `node` may not use this initializer, or "".
  std::string refuse(const onnx::Node &node, const onnx::Tensor &t) const;

  void record(const onnx::Tensor &t, const onnx::Node &node);

  struct Shared {
    const onnx::Tensor *tensor;
    const onnx::Node *first, *second;
  };
  /// Trainable tensors used in two scopes, in the order of first use.
  std::vector<Shared> shared() const;

private:
  struct Uses {
    const onnx::Tensor *tensor;
    std::vector<const onnx::Node *> nodes;
  };
  bool marked = false;
  llvm::StringSet<> settings; ///< initializers that are settings of an operator
  std::vector<Uses> uses;
  llvm::StringMap<size_t> position;
};

} // namespace dt::models

#endif // MODELS_IMPORT_PARAMETERS_H

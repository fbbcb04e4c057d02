//===- Importer.h - One graph on its way into IR --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Walks the nodes in order and applies each one's rule (Rules*.cpp). Values
// stay symbolic until an operator on data needs them.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_IMPORT_IMPORTER_H
#define MODELS_FRONTEND_IMPORT_IMPORTER_H

#include "dialects/dist/DistOps.h"
#include "models/frontend/import/Import.h"
#include "models/frontend/import/NodeImporter.h"
#include "models/frontend/import/Parameters.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace dt::models {

class Importer {
public:
  Importer(mlir::MLIRContext &context, llvm::StringRef path,
           const ImportOptions &options);

  mlir::OwningOpRef<mlir::ModuleOp> run();
  /// How far a run came that failed at a node; -1: at something else.
  int64_t nodesDone() const { return atNode ? done : -1; }
  const llvm::StringSet<> &getSymbols() const { return symbols; }
  bool countsRows(llvm::StringRef symbol) const {
    return ofRows.contains(symbol);
  }

private:
  using Scope = llvm::StringMap<GraphValue>;

  llvm::LogicalResult error(const llvm::Twine &text) {
    return mlir::emitError(mlir::UnknownLoc::get(&context))
           << path << ": " << text.str();
  }
  llvm::LogicalResult nodeError(const onnx::Node &node,
                                const llvm::Twine &reason) {
    atNode = true;
    return error("node '" + node.name + "' (" + node.op + "): " + reason);
  }
  mlir::Location locationOf(const onnx::Node &node);

  mlir::FailureOr<nn::DimExpr> dimOf(const onnx::ValueInfo &v, size_t axis);
  llvm::LogicalResult importInputs(mlir::func::FuncOp function);
  /// Whether a pattern of `kept` covers it.
  bool isKept(const onnx::Tensor &t) const;
  llvm::LogicalResult importInitializers(const onnx::Graph &graph);
  llvm::LogicalResult declareParameter(const onnx::Tensor &t);
  llvm::LogicalResult importNodes(const onnx::Graph &graph);
  llvm::LogicalResult importNode(const onnx::Node &node);
  void noteLimits(const onnx::Node &node, const NodeImporter &n);
  llvm::LogicalResult importIf(const onnx::Node &node);
  llvm::LogicalResult importOutputs(const onnx::Graph &graph,
                                    mlir::func::FuncOp function);
  llvm::LogicalResult checkAbsent();
  llvm::LogicalResult checkWeights();
  llvm::LogicalResult refuseFolded();
  llvm::LogicalResult reportShared();
  llvm::LogicalResult checkSizes(mlir::func::FuncOp function);
  void declareDims(dist::ModuleOp module);
  void eraseDead(mlir::Block &block);

  /// The value of that name where `node` uses it; reads a parameter at its
  /// first use. Null for a name that stands for nothing.
  GraphValue *find(const std::string &name);

  mlir::MLIRContext &context;
  const ImportOptions &options;
  std::string path;
  int64_t done = 0; ///< nodes that are imported
  bool atNode = false;
  mlir::OpBuilder b;
  RuleTable rules;
  /// Beside the rules: ops that say which operator they are, by its name
  /// ("Sigmoid", "domain::Name").
  llvm::StringMap<mlir::OperationName> namedOps;
  onnx::Model model;
  std::unique_ptr<ParameterUses> uses;
  Scope values;
  /// Initializers that are nn.parameters (others are symbolic values).
  llvm::StringMap<const onnx::Tensor *> parameters, initializers;
  llvm::StringSet<> symbols, ofRows; ///< all; those of an input's first axis
  /// Of symbols: the largest value, and which node says so.
  llvm::StringMap<std::pair<int64_t, std::string>> limits;
  struct Remark {
    const onnx::Node *first = nullptr;
    size_t nodes = 0;
  };
  std::map<std::string, Remark> remarks;
  mlir::OpBuilder parameterBuilder{&context};
};

} // namespace dt::models

#endif // MODELS_FRONTEND_IMPORT_IMPORTER_H

//===- FunctionVjp.h - A function and its gradient --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Differentiates functions one after another, callees before the call that
// needs them, each combination of callee and gradients once.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_DIFFERENTIATE_FUNCTIONVJP_H
#define PASSES_DIFFERENTIATE_FUNCTIONVJP_H

#include "dialects/dist/RuntimeEnums.h"
#include "passes/differentiate/Activity.h"

#include <map>
#include <memory>
#include <set>

namespace dt::differentiate {

/// What becomes of an argument's gradient. A parameter's is not summed: each
/// contribution is a result of its own, since whoever gets it adds it up: in
/// float32, or in the parameter's own type (`narrowParameter`).
enum class Want : uint8_t { nothing, value, parameter, narrowParameter };

inline bool isParameter(Want want) {
  return want == Want::parameter || want == Want::narrowParameter;
}

using rt::Save;
/// The saved set of a function (nn.save), else of its module. `insideLayer`: a
/// layer calls the function, not a module's function.
Save getSaveMode(mlir::func::FuncOp function, bool insideLayer);

/// What an operand of the backward function is, seen from the call. A
/// gradient's index is that of its result (a module function's: its number
/// among all gradients, of which a result may have several).
struct Source {
  enum Kind : uint8_t { argument, result, residual, gradient } kind;
  unsigned index;
};

struct FunctionVjp {
  mlir::func::FuncOp forward;
  mlir::func::FuncOp backward; ///< null if no wanted gradient is reached
  llvm::SmallVector<Source> inputs;
  /// Result i of backward is the gradient of this argument (a parameter may
  /// have several).
  llvm::SmallVector<unsigned> outputs;
};

/// Forward and backward ops in one block, before the cut.
struct Joint {
  mlir::func::FuncOp function; ///< returns forward results, then gradients
  llvm::DenseSet<mlir::Operation *> forwardOps;
  unsigned numArguments; ///< of the original; gradient arguments follow
  unsigned numResults;   ///< of the original; gradients follow
  /// Result index (of the original) of each gradient argument.
  llvm::SmallVector<unsigned> gradientOf;
  /// Argument of each gradient that is returned, and its kind.
  llvm::SmallVector<std::pair<unsigned, Want>> outputs;
  bool isModuleFunction;
  Save save;
};

/// Cuts the joint function in two (SplitFunction.cpp). The joint function
/// becomes the forward one.
FunctionVjp splitFunction(Joint joint, llvm::StringRef forwardName,
                          llvm::StringRef backwardName);

class Differentiator {
public:
  explicit Differentiator(mlir::Operation *module)
      : symbols(module), activity(tables) {}

  /// A function of the module with its marks (NNNames.h).
  mlir::LogicalResult differentiateModule(mlir::func::FuncOp function);
  /// A callee. `gradients`: which results have one.
  mlir::FailureOr<const FunctionVjp *>
  differentiateCallee(mlir::func::FuncOp function, Save save,
                      llvm::ArrayRef<Want> wanted,
                      llvm::ArrayRef<bool> gradients);

  /// After the module functions: calls of which only the results proper are
  /// used go back to the plain functions (a layer that runs again);
  /// functions that nobody calls any more are erased.
  void cleanUp();

  mlir::SymbolTableCollection tables;

private:
  friend class JointBuilder;
  std::string freeName(llvm::StringRef base, llvm::StringRef suffix);

  using Key =
      std::tuple<mlir::Operation *, Save, llvm::SmallVector<Want>, Flags>;
  mlir::SymbolTable symbols;
  Activity activity;
  std::map<Key, FunctionVjp> memo;
  std::set<mlir::Operation *> inProgress;
};

} // namespace dt::differentiate

#endif // PASSES_DIFFERENTIATE_FUNCTIONVJP_H

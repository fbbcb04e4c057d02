//===- Program.h - From recipe to IR ----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Imports the graphs that a recipe names and writes down in the dist dialect
// what the recipe says: the IR is then all that later phases need.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_RECIPE_PROGRAM_H
#define MODELS_FRONTEND_RECIPE_PROGRAM_H

#include "models/frontend/import/Import.h"
#include "models/frontend/recipe/Recipe.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/DimExpr.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace dt::models {

/// The program of a recipe: one dist.module a graph, edges, losses, optimizer,
/// batch and data. One error is emitted, that names the key, if the recipe does
/// not fit the graphs; null then.
mlir::OwningOpRef<mlir::ModuleOp> buildProgram(mlir::MLIRContext &context,
                                               const Recipe &recipe);

/// Freezes the parameters that match `freeze`, and gives rules for their values
/// to those that match `init`. Error if a pattern matches none, or a parameter
/// without a value in the file has no rule. A warning (a remark, where it is
/// meant) names each file of `absent`, whose weights rules draw.
llvm::LogicalResult
setWeights(dist::ModuleOp module, const ModuleEntry &entry,
           llvm::ArrayRef<AbsentFile> absent,
           llvm::function_ref<mlir::Location(const llvm::Twine &)> locate);

/// Adapters of the entry's `lora`: parameters that train beside products of
/// those that its patterns match. Of the others those train that `trainable`
/// names. Error if a pattern matches no matrix, or a matrix that is more or
/// less than the weight of products.
llvm::LogicalResult
addAdapters(dist::ModuleOp module, const ModuleEntry &entry,
            llvm::function_ref<mlir::Location(const llvm::Twine &)> locate);
/// A weight with an adapter is no copy of another one, nor has it copies: these
/// would not be trained alike. Else one error at `locate("tie")`.
llvm::LogicalResult
checkAdapters(mlir::ModuleOp program,
              llvm::function_ref<mlir::Location(const llvm::Twine &)> locate);

/// Writes the entry's precision and what it stores in bf16 on its module.
void setPrecision(dist::ModuleOp module, const ModuleEntry &entry);

/// Marks the parameters that weight decay leaves alone (`no_decay`) and those
/// that an optimizer of matrices updates by element (`adamw`). `at` gives the
/// location of a key. Error if a pattern matches none.
llvm::LogicalResult
applyPatterns(mlir::ModuleOp program, const OptimizerEntry &optimizer,
              llvm::function_ref<mlir::Location(const llvm::Twine &)> at);
/// Marks the parameters of the optimizer's groups; the first group whose
/// pattern matches a parameter has it. `at` gives the location of a key. Error
/// if a group has no parameter.
llvm::LogicalResult
applyGroups(mlir::ModuleOp program, const OptimizerEntry &optimizer,
            llvm::function_ref<mlir::Location(const llvm::Twine &)> at);
/// Makes biases of routers follow from choices (`routing_bias`), by which they
/// train. `at` gives the location of a key. Error if a pattern matches none.
llvm::LogicalResult
applyRouting(mlir::ModuleOp program, const OptimizerEntry &optimizer,
             llvm::function_ref<mlir::Location(const llvm::Twine &)> at);

/// Appends to @forward of `module` the numerator of a loss ("loss.<name>") and
/// adds @"<name>.denominator" and the dist.loss after the module. Labels and
/// targets become inputs of the module unless it has them. `location` names the
/// recipe's key in errors.
llvm::LogicalResult buildLoss(mlir::Location location, dist::ModuleOp module,
                              const LossEntry &loss);

/// Adds the dist.tie of two parameters, or of all that a name with one '*'
/// matches, each with the one that the other name says with what the '*' stands
/// for. Error if a parameter is missing or of another type.
llvm::LogicalResult buildTies(mlir::Location location, mlir::ModuleOp program,
                              const TensorName &alias,
                              const TensorName &parameter);

/// Some loss depends, over the edges, on every module with weights that train:
/// others would be reported as trained, and never change. Else one error at
/// `locate("modules.NAME")`. A program without losses holds.
llvm::LogicalResult
checkReached(mlir::ModuleOp program, const Recipe &recipe,
             llvm::function_ref<mlir::Location(const llvm::Twine &)> locate);

/// Marks the lookups whose indices are a raw input as it is, token ids in a
/// parameter or labels in what the graph computes (from_start): a number
/// below 0 is an error there, as in PyTorch, and does not count from the end.
void markLookups(mlir::ModuleOp program);

/// Makes the sender of an edge pick the rows that `index` names: output
/// [.., d] is flattened to rows, those at the index input's positions are the
/// new output, zeros where the index is out of range. `rows` are the dims of
/// the receiver's input without its last, in symbols of the sender. Returns the
/// new output's name.
llvm::FailureOr<std::string> buildGather(mlir::Location location,
                                         dist::ModuleOp sender,
                                         llvm::StringRef output,
                                         llvm::StringRef index,
                                         llvm::ArrayRef<nn::DimExpr> rows);

/// The module's symbol that adds up what `like`, of another module, does; one
/// is made, with its name as a wish, if there is none.
std::string getSymbolLike(dist::ModuleOp module, nn::DimOp like);

/// Input `name` of @forward; added with `type` if there is none. Null with an
/// error if it has another type.
mlir::Value getOrAddInput(mlir::Location location, dist::ModuleOp module,
                          llvm::StringRef name, mlir::RankedTensorType type);
/// "; its inputs are a, b; did you mean 'a'?": what follows an error about an
/// input `wanted` that @forward does not have. Likewise of outputs.
std::string describeInputs(mlir::func::FuncOp forward, llvm::StringRef wanted);
std::string describeOutputs(mlir::func::FuncOp forward, llvm::StringRef wanted);
/// Appends a result to @forward.
void addOutput(mlir::func::FuncOp forward, mlir::Value value,
               llvm::StringRef name);

} // namespace dt::models

#endif // MODELS_FRONTEND_RECIPE_PROGRAM_H

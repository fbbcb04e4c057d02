//===- Inputs.h - What "inputs" makes beside what graphs take ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Types, shapes and ranges of raw inputs are known when the graphs are: what
// cannot fit is said before anything is built. The runtime checks every batch
// again (runtime/data/ShardBatch.cpp), since only it knows the sizes of a part.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_RECIPE_INPUTS_H
#define MODELS_FRONTEND_RECIPE_INPUTS_H

#include "dialects/dist/DistOps.h"
#include "models/frontend/recipe/Recipe.h"

#include "mlir/IR/BuiltinOps.h"

namespace dt::rt::data {
struct InputEntry;
} // namespace dt::rt::data

namespace dt::models {

/// Every input that no edge feeds has an entry of `inputs` (of a recipe with
/// `data`), which makes its element type, its items along axis 0, its sizes,
/// and no index or label beyond the table or the classes it goes to; every
/// entry feeds an input, or is part of one that does. Else one error at
/// `locate("inputs.NAME")`.
llvm::LogicalResult
checkInputs(mlir::ModuleOp program, const Recipe &recipe,
            llvm::function_ref<mlir::Location(const llvm::Twine &)> locate);

/// How an argument differs from what an entry makes whose rows add up a
/// measure: tokens of packed texts, patches of pictures of any size. Empty: not
/// at all.
std::string describeWrongRows(const rt::data::InputEntry &entry,
                              const rt::data::Config &config,
                              dist::ModuleOp module,
                              mlir::BlockArgument argument);

/// Where a graph puts rows of pictures in order among tokens, each segment's
/// template makes as many of these tokens as its pictures have rows. Else one
/// error at `locate("data.segments.NAME.tokens")`. Places that the graph finds
/// in another way are compared when the program runs (rt.check_indices).
llvm::LogicalResult
checkPlaces(mlir::ModuleOp program, const rt::data::Config &config,
            llvm::function_ref<mlir::Location(const llvm::Twine &)> locate);

} // namespace dt::models

#endif // MODELS_FRONTEND_RECIPE_INPUTS_H

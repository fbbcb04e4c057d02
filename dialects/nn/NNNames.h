//===- NNNames.h - Names of attributes that phases hand on ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Discardable attributes on functions, their arguments and results. What they
// mean together is written in docs/architecture.md ("Differentiation").
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_NNNAMES_H
#define DIALECTS_NN_NNNAMES_H

#include "llvm/ADT/StringRef.h"

namespace dt::nn {

/// Name of a module function's argument or result.
inline constexpr llvm::StringLiteral kNameAttr = "nn.name";

/// @forward (unit), for the import phase: numbers in the graph's file are
/// rounded to a float of 16 bits.
inline constexpr llvm::StringLiteral kNarrowNumbersAttr = "nn.narrow_numbers";

/// Function (string): its saved set, "vjp", "all" or "none", in place of its
/// module's.
inline constexpr llvm::StringLiteral kSaveAttr = "nn.save";

// Marks for the differentiation of a module function.
/// Argument (unit): its gradient goes back over an edge.
inline constexpr llvm::StringLiteral kWantsGradAttr = "nn.wants_grad";
/// Result: where its gradients come from, an array of #nn.gradient without
/// `of`.
inline constexpr llvm::StringLiteral kGradientsAttr = "nn.gradients";

// On the differentiated pair.
/// Result of the forward function and argument of the backward one, in equal
/// order (unit). On an argument of a half its number (i64): k is the k-th
/// residual of the forward function; from their number on, those of the input
/// half, which are results of that (unit).
inline constexpr llvm::StringLiteral kResidualAttr = "nn.residual";
/// Argument or result of a backward function (#nn.gradient).
inline constexpr llvm::StringLiteral kGradientAttr = "nn.gradient";
/// Result of a layer's .bwd (unit): a parameter's gradient, to be added to.
inline constexpr llvm::StringLiteral kParamGradAttr = "nn.param_grad";

} // namespace dt::nn

#endif // DIALECTS_NN_NNNAMES_H

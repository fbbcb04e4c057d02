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
/// Result: where its gradients come from, an array of dictionaries with `edge`
/// ("module.input") or `loss` (name of a loss).
inline constexpr llvm::StringLiteral kGradientsAttr = "nn.gradients";

// On the differentiated pair.
/// Result of .fwd and argument of .bwd (unit), in equal order. Also: result of
/// .bwd.input that .bwd.weight takes.
inline constexpr llvm::StringLiteral kResidualAttr = "nn.residual";
/// Beside nn.residual on an argument of .bwd.input or .bwd.weight (i64): k is
/// the k-th residual of .fwd; from their number on, those of .bwd.input.
inline constexpr llvm::StringLiteral kResidualIndexAttr = "nn.residual_index";
/// Argument of .bwd: gradient of the output of that name; result of .bwd:
/// gradient of the input of that name.
inline constexpr llvm::StringLiteral kGradOfAttr = "nn.grad_of";
/// Beside nn.grad_of on an argument: the edge or the loss it comes from.
inline constexpr llvm::StringLiteral kEdgeAttr = "nn.edge";
inline constexpr llvm::StringLiteral kLossAttr = "nn.loss";
/// Result of a layer's .bwd (unit): a parameter's gradient, to be added to.
inline constexpr llvm::StringLiteral kParamGradAttr = "nn.param_grad";

} // namespace dt::nn

#endif // DIALECTS_NN_NNNAMES_H

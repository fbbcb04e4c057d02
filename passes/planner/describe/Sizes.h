//===- Sizes.h - One program described at several sizes ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// In a compiled program all items of a kind are alike, so what is read off it
// (--emit=plan-model) are figures of an item of one size. Data have items of
// many sizes. All figures of a graph are polynomials of its tokens, of degree
// two where tokens meet tokens (attention): described at three sizes or more it
// says what an item of any size costs.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_DESCRIBE_SIZES_H
#define PASSES_PLANNER_DESCRIBE_SIZES_H

#include "passes/planner/describe/Model.h"

#include "llvm/ADT/ArrayRef.h"

namespace dt::planner {

struct SizedModel {
  double tokens; ///< of every item
  Model model;
  std::string file; ///< for messages
};

/// One model whose figures are functions of tokens, through three of the sizes
/// (the least, the one nearest to their middle and the largest); at all others
/// it must say what was read there. What does not count items but grows with
/// tokens (positions that are added to embeddings) is counted for each item.
/// Layers are as the compiler cuts them over ranks at `cutAt` tokens (0, or no
/// such size: the largest), and parameters those of that size. A layout with a
/// layer that is cut otherwise at the sizes next to that one (it must agree
/// with three others) is left out, and `leftOut` says so. Error: fewer than
/// three sizes, not one program, or a figure that is no such polynomial.
llvm::Expected<Model> fitTokens(llvm::ArrayRef<SizedModel> sizes,
                                double cutAt = 0,
                                std::vector<std::string> *leftOut = nullptr);

/// Operations that are priced as one become one: all that only stream (and are
/// divided alike), and products of the same shape; FLOPs that no price rests on
/// are left out. Prices stay as they are.
void condense(Model &model);

/// A program that computes in 32 bits, as if in 16 with the usual state: 2
/// bytes a weight, 4 its gradient, 12 the optimizer's. Weight gradients are
/// still written in 32 bits. Error: it is not of 32 bits.
llvm::Error setMixedPrecision(Model &model, llvm::StringRef precision);

} // namespace dt::planner

#endif // PASSES_PLANNER_DESCRIBE_SIZES_H

//===- Architectures.h - Descriptions of known models -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Transformers and diffusion UNets by their usual sizes, where no graph is at
// hand: tests and published measurements.
//
//===----------------------------------------------------------------------===//

#ifndef TEST_PASSES_PLANNER_ARCHITECTURES_H
#define TEST_PASSES_PLANNER_ARCHITECTURES_H

#include "passes/planner/describe/Model.h"

namespace dt::planner {

struct TransformerShape {
  int layers = 12, hidden = 768, ffn = 3072, heads = 12, kvHeads = 0;
  int vocabulary = 0;   ///< embedding and logits where > 0
  int patch = 0;        ///< values of a patch: a patch embedding where > 0
  bool gated = false;   ///< SwiGLU: three products instead of two
  bool causal = false;  ///< fused attention skips the upper half
  bool fused = true;    ///< fused attention; else scores are in memory
  bool dropout = false; ///< masks are kept
  int projection = 0;   ///< width of a projector behind the last layer
};

/// `name` and the item kind are the caller's.
Module makeTransformer(llvm::StringRef name, ItemKind item,
                       const TransformerShape &shape);

/// A latent-diffusion UNet: levels of residual blocks and transformer blocks
/// with cross-attention. An item's tokens are its latent positions.
struct UNetShape {
  int channels = 320;
  std::vector<int> multipliers = {1, 2, 4, 4};
  std::vector<bool> attention = {true, true, true, false};
  int blocks = 2, context = 1024, contextTokens = 77;
};
Module makeUNet(llvm::StringRef name, ItemKind item, const UNetShape &shape);

/// DistTrain's models (section 7): ViT-Huge, a Llama-3-like backbone of 7, 13
/// or 70 billion parameters, Stable Diffusion 2.1.
Model makeMultimodal(int billions);

} // namespace dt::planner

#endif // TEST_PASSES_PLANNER_ARCHITECTURES_H

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
  int headDim = 0;      ///< of queries, keys and values; 0: hidden / heads
  /// Tokens that every second layer's attention looks back; 0: all.
  int window = 0;
  /// Experts of a layer, of which a token has `topK`, each `expertFfn` wide;
  /// beside them what all tokens go through. The first `denseLayers` have none,
  /// of the others every `every`-th has.
  int experts = 0, topK = 1, expertFfn = 0, sharedFfn = 0, denseLayers = 0,
      every = 1;
  /// How often a token travels: to each of its experts (0), or once to each of
  /// so many nodes, where it is handed on while others arrive.
  int copies = 0;
  /// Latent attention (DeepSeek-V2): ranks of queries and of keys and values
  /// (0: there is none), and of a head's keys what is rotated.
  int queryRank = 0, latentRank = 0, rotated = 0;
  /// Further layers and heads, of predictions of later tokens.
  int later = 0;
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

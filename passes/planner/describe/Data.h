//===- Data.h - What samples hold, jointly ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Images, tokens an image and text length of a sample are correlated, and that
// is what makes microbatches uneven. So a data description is a list of whole
// samples to draw from: measured (`dt-data stats` writes it) or made by one of
// two generators. Draws are counter-based: sample i of a seed is the same
// whatever else is drawn.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_DESCRIBE_DATA_H
#define PASSES_PLANNER_DESCRIBE_DATA_H

#include "passes/planner/describe/Model.h"

#include "llvm/ADT/ArrayRef.h"

#include <memory>

namespace dt::planner {

struct Sample {
  int32_t tokens = 0; ///< that the backbone works on, images included
  /// By kind, from ItemKind 1 on: tokens of each item (patches of an image,
  /// latent positions of a target). Kinds at the end may be missing.
  std::vector<std::vector<int32_t>> items;

  llvm::ArrayRef<int32_t> get(ItemKind kind) const {
    size_t index = size_t(kind) - 1;
    return index < items.size() ? llvm::ArrayRef(items[index])
                                : llvm::ArrayRef<int32_t>();
  }
  /// The same, where a sample itself is an item of its kind.
  llvm::ArrayRef<int32_t> getTokens(ItemKind kind) const {
    return kind == ItemKind::Sample ? llvm::ArrayRef(tokens) : get(kind);
  }
  std::vector<int32_t> &of(ItemKind kind) {
    if (items.size() < size_t(kind))
      items.resize(size_t(kind));
    return items[size_t(kind) - 1];
  }
};

class Data {
public:
  virtual ~Data();
  /// Sample `index` of seed `seed`.
  virtual Sample draw(uint64_t seed, uint64_t index) const = 0;
  /// What its samples' items are called, from ItemKind 1 on.
  virtual std::vector<std::string> getKinds() const {
    return {"image", "target"};
  }
  /// One line: what it is and with which figures.
  virtual std::string describe() const = 0;
};

/// Sequences packed to the full length with image-text pairs: the backbone's
/// work is constant, images and their sizes differ.
std::unique_ptr<Data> makePacked();
/// Every sample alike: for closed forms and for models without data.
std::unique_ptr<Data> makeUniform(const Sample &sample);
/// {"kinds": ["image", …], "samples": [{"tokens": n, "items": [[…], …],
/// "count": w}]}; items are tokens by kind.
struct DataFile {
  std::vector<std::string> kinds;
  std::vector<Sample> samples;
  std::vector<double> weights; ///< of each sample, some above 0
  bool inOrder = false;        ///< "order": "file"
};
llvm::Expected<DataFile> readDataFile(llvm::StringRef json,
                                      llvm::StringRef file);
/// Draws of such samples, each as often as its weight says; or in order, one
/// after another.
llvm::Expected<std::unique_ptr<Data>> parseData(llvm::StringRef json,
                                                llvm::StringRef file);
/// "packed", "documents", or a file.
llvm::Expected<std::unique_ptr<Data>> openData(llvm::StringRef nameOrFile);

/// The global batch of a step.
std::vector<Sample> drawBatch(const Data &data, uint64_t seed, int64_t step,
                              int64_t batch);

/// Work of a sample in a module that counts `kind`.
TokenSums momentsOf(const Sample &sample, ItemKind kind);
TokenSums momentsOf(const std::vector<Sample> &samples, ItemKind kind);
/// Tokens of every item of a kind, in the order of samples.
std::vector<int32_t> itemsOf(const std::vector<Sample> &samples, ItemKind kind);

} // namespace dt::planner

#endif // PASSES_PLANNER_DESCRIBE_DATA_H

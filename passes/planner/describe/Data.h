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

/// Its own size is that of what the backbone works on, images included.
struct Sample : ItemSize {
  /// By kind, from ItemKind 1 on: sizes of items (tokens are patches of an
  /// image, latent positions of a target). Kinds at the end may be missing.
  std::vector<std::vector<ItemSize>> items;

  /// Of its items of a kind; it is one itself.
  llvm::ArrayRef<ItemSize> getSizes(ItemKind kind) const {
    if (kind == ItemKind::Sample)
      return static_cast<const ItemSize &>(*this);
    if (items.size() < size_t(kind))
      return {};
    return items[size_t(kind) - 1];
  }
  std::vector<ItemSize> &of(ItemKind kind) {
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
  /// What it calls their measures, by kind from samples on: tokens, then the
  /// other; who has no names has tokens alone.
  using Measures = std::vector<std::vector<std::string>>;
  virtual Measures getMeasures() const { return {}; }
  /// One line: what it is and with which figures.
  virtual std::string describe() const = 0;
};

/// Sequences packed to the full length with image-text pairs: the backbone's
/// work is constant, images and their sizes differ.
std::unique_ptr<Data> makePacked();
/// Every sample alike: for closed forms and for models without data.
std::unique_ptr<Data> makeUniform(const Sample &sample);
/// {"kinds": ["image", …], "samples": [{"tokens": n, "items": [[…], …],
/// "count": w}]}; items are tokens by kind. With "measures": {"image":
/// ["merged", "patches"], "sample": […]} sizes of that kind are [n, m] where
/// two are named.
struct DataFile {
  std::vector<std::string> kinds;
  Data::Measures measures; ///< by kind, from samples on; empty: not named
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

/// The first global batch, of so many samples.
std::vector<Sample> drawBatch(const Data &data, uint64_t seed, int64_t count);

/// Work of a sample in a module that counts `kind`.
TokenSums momentsOf(const Sample &sample, ItemKind kind);
TokenSums momentsOf(const std::vector<Sample> &samples, ItemKind kind);
/// Sizes of all items of a kind, in the order of samples.
std::vector<ItemSize> itemsOf(const std::vector<Sample> &samples,
                              ItemKind kind);

} // namespace dt::planner

#endif // PASSES_PLANNER_DESCRIBE_DATA_H

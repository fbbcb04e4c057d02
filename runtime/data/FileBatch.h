//===- FileBatch.h - one batch from a safetensors file ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A batch is cut into parts by lists of items. Whose items
// (images, targets) are whose follows, in this order, from
//   - an index input that sections["inputs"] declares: {"index": ["sample",
//     "token"]}. Its values are positions in the flattened [sample, token];
//   - a tensor "item_of.<kind>": the sample of each item.
// If neither is there, more than one part is an error. Items keep the order
// that they have in the file. How many rows an item has is 1, or said by a
// tensor "offsets.<kind>.<measure>" (docs/sizes.md). Index values, samples
// (inputs declared {"item_of": kind}) and rows of items ({"rebase":
// "kind.measure"}) are rebased in every part.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_FILEBATCH_H
#define DT_RUNTIME_DATA_FILEBATCH_H

#include "runtime/base/Safetensors.h"
#include "runtime/data/BatchSource.h"
#include "runtime/data/References.h"

#include <map>
#include <set>
#include <unordered_map>

namespace dt::rt {

class FileBatch : public BatchSource {
public:
  FileBatch(const ProgramInfo &program, const nlohmann::json &sections,
            std::unique_ptr<SafetensorsFile> from, const RankView &view,
            Reorder reorder, uint64_t fingerprint)
      : program(program), sections(sections), content(std::move(from)),
        file(*content), view(view), fingerprint(fingerprint) {
    readMeasures();
    readInputs();
    bindSymbols();
    findOwners();
    checkParts();
    checkApart();
    cut(reorder);
  }

  const Batch &next(int64_t) override { return batch; }
  uint64_t hash() const override { return fingerprint; }
  std::string summary() const override {
    std::vector<std::string> unused;
    for (auto &[name, tensor] : file.tensors())
      if (!taken.count(name))
        unused.push_back(name);
    for (auto &[name, tensor] : file.otherTensors())
      unused.push_back(name);
    return "batch of " + std::to_string(samples()) + " samples from " +
           file.path() +
           (unused.empty() ? "" : "\nnot used of it: " + listed(unused));
  }

private:
  // Reading
  std::pair<std::string, const TensorView *>
  findTensor(const std::string &module, const std::string &input) const;
  const nlohmann::json *declaration(const std::string &module,
                                    const std::string &input) const;
  void readInputs();
  // Symbols
  void bind(size_t module, const TensorInfo &tensor,
            const std::vector<int64_t> &shape, const std::string &where);
  void bindEdge(size_t module, const InputInfo &input);
  void setSymbol(size_t module, int symbol, int64_t value,
                 const std::string &where);
  void bindSymbols();
  // Measures
  int64_t samples() const { return counts.at(kSample); }
  void countSamples();
  void readMeasures();
  Measure readOffsets(const SymbolInfo &symbol, const std::string &dim);
  std::vector<int64_t> beginsOf(const std::string &quantity, int64_t rows,
                                const std::string &where) const;
  // Ownership
  int64_t tokensFor(size_t module, const nlohmann::json &declared) const;
  std::vector<int64_t> positionsOf(size_t module, size_t input) const;
  void readReferences(size_t module, size_t input);
  void ownFromIndex(size_t module, size_t input);
  void findOwners();
  void setOwners(const std::string &kind, std::vector<int64_t> owners,
                 const std::string &where);
  // Parts
  void checkParts() const;
  /// An item, and the tensor that has a number for it.
  struct Numbered {
    const char *kind;
    size_t item;
    const std::string *tensor;
  };
  using Numbers = std::unordered_map<int64_t, Numbered>;
  bool together(const Numbered &a, const Numbered &b, bool bySample) const;
  void checkApart(size_t module, size_t input, Numbers &known) const;
  void checkApart() const;
  std::vector<int64_t> partBegins(const std::vector<int64_t> &tokens) const;
  StepItems stepItems() const;
  void cut(Reorder reorder);
  Part makePart(size_t module, const PartItems &items);
  std::vector<std::byte> cutInput(size_t module, size_t input, const Part &part,
                                  const Items &samples) const;
  void cutAxis(size_t module, size_t input, int32_t axis, const Part &part,
               std::vector<std::byte> &bytes,
               std::vector<int64_t> &shape) const;
  void rebaseInput(size_t module, size_t input, const Part &part,
                   const Items &samples, std::vector<std::byte> &bytes) const;

  const ProgramInfo &program;
  const nlohmann::json &sections;
  std::unique_ptr<SafetensorsFile> content;
  const SafetensorsFile &file;
  RankView view;
  std::vector<std::map<size_t, WholeInput>>
      inputs; ///< [module][input], raw ones
  std::vector<std::vector<int64_t>>
      symbols; ///< [module][symbol], of the global batch; -1 not known yet
  std::map<std::string, Measure> measures; ///< "image.patches"
  /// Items of a kind in the batch; rows of a measure.
  std::map<std::string, int64_t> counts;
  std::map<std::string, std::string>
      countedBy; ///< where a count comes from, for errors
  std::map<std::string, std::vector<int64_t>>
      owners; ///< kind -> sample of each item
  std::vector<std::vector<std::byte>> storage;
  Batch batch;
  std::set<std::string> taken; ///< names in the file
  uint64_t fingerprint;        ///< of the file
};

/// What a symbol adds up: "image", or "image.patches".
std::string quantityOf(const SymbolInfo &symbol);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_FILEBATCH_H

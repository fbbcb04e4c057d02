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
#include "runtime/data/Parcels.h"
#include "runtime/data/References.h"

#include <map>
#include <set>
#include <unordered_map>

namespace dt::rt {

/// A batch that is read and checked.
class FileBatch {
public:
  /// `view`: whose parcels are to be filled; null: all ranks'. Throws Error.
  FileBatch(const ProgramInfo &program, const nlohmann::json &sections,
            std::unique_ptr<SafetensorsFile> from, const RankView *view,
            uint64_t fingerprint)
      : program(program), sections(sections), content(std::move(from)),
        file(*content), view(view) {
    step.path = file.path();
    step.fingerprint = fingerprint;
    readMeasures();
    readInputs();
    bindSymbols();
    findOwners();
    checkParts();
    checkApart();
  }

  const StepFacts &facts() const { return step; }
  /// The bytes of a parcel. Throws Error.
  std::vector<std::byte> fill(const Batch &batch, const Parcel &parcel) const;
  std::string summary() const;

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
  const RankView *view;
  std::vector<std::map<size_t, WholeInput>>
      inputs; ///< [module][input], raw ones
  StepFacts step;
  std::map<std::string, std::string>
      countedBy;               ///< where a count comes from, for errors
  std::set<std::string> taken; ///< names in the file
};

/// What a symbol adds up: "image", or "image.patches".
std::string quantityOf(const SymbolInfo &symbol);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_FILEBATCH_H

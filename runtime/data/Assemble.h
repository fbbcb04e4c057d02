//===- Assemble.h - tensors of a part from its samples ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Builds what the recipe's "inputs" describe for a list of samples that are
// worked on together: token tensors, pictures, rebased indices, random draws.
// Pure: equal samples, places, seed and step give equal bytes, whatever the
// microbatches.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_ASSEMBLE_H
#define DT_RUNTIME_DATA_ASSEMBLE_H

#include "runtime/Program.h"
#include "runtime/data/Config.h"
#include "runtime/data/Sample.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace dt::rt::data {

/// A tensor on the host; `type` is I64 or F32 as assembled, anything after
/// `convert`.
struct HostTensor {
  DType type = DType::F32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

/// Samples of a part in order, and their places in the global batch (they key
/// the draws). A sample may be null where the part needs only draws.
struct PartSamples {
  std::vector<const DecodedSample *> samples;
  std::vector<int64_t> places;
  int64_t step = 0;
  /// An item by the number of its sample in `samples` and its own in there.
  struct Item {
    size_t sample, number;
  };
  /// Per picture kind: the part's items in order. Empty: all of its samples.
  std::vector<std::vector<Item>> items{};

  /// Items of a kind in the part; sampleItem: samples.
  int64_t count(int item) const;
  /// Squares of the part's pictures of a kind (PatchGrid).
  int64_t countSquares(int item) const;
};

/// The inputs of one part, each made when first asked for.
class PartAssembler {
public:
  PartAssembler(const Config &config, const PartSamples &part)
      : config(config), part(part), made(config.inputs.size()) {}
  /// Entry `entry` of config.inputs; lives as long as the assembler.
  const HostTensor &get(int entry);

private:
  HostTensor make(const InputEntry &entry);
  /// Where each sample's tokens begin in a token tensor's elements; then their
  /// end.
  std::vector<int64_t> firstTokens() const;
  void tokens(const InputEntry &entry, int64_t *out) const;
  void picturePositions(const InputEntry &entry, int64_t *out) const;
  void index(const InputEntry &entry, int64_t *out) const;
  void pixels(const InputEntry &entry, float *out) const;
  void patches(const InputEntry &entry, int64_t *out) const;
  void indexMask(const InputEntry &entry, float *out) const;
  void draws(const InputEntry &entry, HostTensor &out) const;
  void noised(const InputEntry &entry, float *out);

  const Config &config;
  const PartSamples &part;
  std::vector<std::unique_ptr<HostTensor>> made;
};

/// Elements as another type; throws Error with the name if there is no such
/// conversion (16-bit floats).
HostTensor convert(const HostTensor &tensor, DType type,
                   const std::string &name);

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_ASSEMBLE_H

//===- Padding.cpp - rows behind those of the last item -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Padding.h"

#include <algorithm>
#include <cstring>

namespace dt::rt {

namespace {

/// An element that is the number: an integer, or 0 of any type.
std::vector<std::byte> bitsOf(DType type, int64_t number) {
  std::vector<std::byte> bits(sizeOf(type));
  std::memcpy(bits.data(), &number, std::min(bits.size(), sizeof number));
  return bits;
}

/// Makes [outer][have][unit] of bytes [outer][want][unit].
std::vector<std::byte> widen(const std::vector<std::byte> &bytes, size_t outer,
                             size_t have, size_t want,
                             const std::vector<std::byte> &element) {
  std::vector<std::byte> wide(outer * want);
  for (size_t o = 0; o < outer; ++o) {
    std::byte *to = wide.data() + o * want;
    if (have)
      std::memcpy(to, bytes.data() + o * have, have);
    for (size_t at = have; at < want; at += element.size())
      std::memcpy(to + at, element.data(), element.size());
  }
  return wide;
}

} // namespace

int64_t paddingOf(const Part &part, size_t symbol) {
  return part.dims[symbol] - part.rows(symbol).total();
}

void padInput(const InputInfo &input, const Part &part,
              std::vector<std::byte> &bytes, std::vector<int64_t> &shape) {
  const TensorInfo &tensor = input.buffer.tensor;
  for (int32_t axis = 0; axis < tensor.rank; ++axis) {
    const Extent &e = tensor.shape[axis];
    bool measured = e.symbol >= 0 && size_t(e.symbol) < part.measures.size() &&
                    part.measures[size_t(e.symbol)];
    int64_t more =
        measured ? e.scale * paddingOf(part, size_t(e.symbol)) / e.per : 0;
    if (more == 0)
      continue;
    size_t outer = 1, unit = sizeOf(tensor.type);
    for (int32_t i = 0; i < tensor.rank; ++i)
      (i < axis ? outer : unit) *= i == axis ? 1 : size_t(shape[size_t(i)]);
    int64_t have = shape[size_t(axis)];
    shape[size_t(axis)] = have + more;
    bytes = widen(bytes, outer, size_t(have) * unit, size_t(have + more) * unit,
                  bitsOf(tensor.type, input.padding));
  }
}

} // namespace dt::rt

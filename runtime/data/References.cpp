//===- References.cpp - inputs that point into the batch ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/References.h"
#include "runtime/base/Error.h"
#include "runtime/base/Safetensors.h"
#include "runtime/data/Convert.h"

#include <algorithm>

namespace dt::rt {

namespace {

/// Where an element stands, as [row, column].
std::vector<int64_t> placeOf(int64_t element,
                             const std::vector<int64_t> &shape) {
  std::vector<int64_t> place(shape.size());
  for (size_t axis = shape.size(); axis--; element /= shape[axis])
    place[axis] = element % shape[axis];
  return place;
}

/// Positions, or samples, of the batch; an input's values are below that.
int64_t limitOf(const WholeInput &input, int64_t samples) {
  return samples * (input.index ? input.tokens : 1);
}

} // namespace

bool isPadding(const WholeInput &input, int64_t value, int64_t samples) {
  return value < 0 || value >= limitOf(input, samples);
}

void checkReferences(const WholeInput &input, DType type, int64_t samples,
                     const std::string &path) {
  int64_t limit = limitOf(input, samples);
  for (size_t i = 0; i < input.bytes.size() / sizeOf(type); ++i) {
    int64_t value = loadInteger(type, input.bytes.data() + i * sizeOf(type));
    if ((value >= 0 && value < limit) || (input.index && value == input.pad))
      continue;
    throw Error(
        path + ": tensor '" + input.name + "', element " +
        shapeText(placeOf(int64_t(i), input.shape)) + ": " +
        (input.index ? "position " : "sample ") + std::to_string(value) +
        " is none of the batch's " + std::to_string(limit) + " (from 0 on" +
        (input.index ? "; padding is " + std::to_string(input.pad) : "") + ")");
  }
}

void rebase(const WholeInput &input, DType type, std::vector<std::byte> &bytes,
            const std::vector<int64_t> &part, int64_t samples,
            const std::string &path) {
  int64_t tokens = input.index ? input.tokens : 1;
  for (size_t at = 0; at < bytes.size(); at += sizeOf(type)) {
    int64_t value = loadInteger(type, bytes.data() + at);
    if (isPadding(input, value, samples))
      continue;
    auto found = std::lower_bound(part.begin(), part.end(), value / tokens);
    if (found == part.end() || *found != value / tokens)
      throw Error(path + ": tensor '" + input.name +
                  "' points from an item to sample " +
                  std::to_string(value / tokens) +
                  ", but another tensor says that the item is not of it");
    storeInteger(type, bytes.data() + at,
                 (found - part.begin()) * tokens + value % tokens);
  }
}

} // namespace dt::rt

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

const char *nounOf(const WholeInput &input) {
  return input.index ? "position " : input.itemOf ? "sample " : "row ";
}

} // namespace

int64_t targetOf(const WholeInput &input, int64_t value) {
  if (value < 0 || value >= input.begins.back())
    return -1;
  return std::upper_bound(input.begins.begin(), input.begins.end(), value) -
         input.begins.begin() - 1;
}

void checkReferences(const WholeInput &input, DType type,
                     const std::string &path) {
  int64_t limit = input.begins.back();
  bool pads = !input.itemOf;
  for (size_t i = 0; i < input.bytes.size() / sizeOf(type); ++i) {
    int64_t value = loadInteger(type, input.bytes.data() + i * sizeOf(type));
    if ((value >= 0 && value < limit) || (pads && value == input.pad))
      continue;
    throw Error(
        path + ": tensor '" + input.name + "', element " +
        shapeText(placeOf(int64_t(i), input.shape)) + ": " + nounOf(input) +
        std::to_string(value) + " is none of the batch's " +
        std::to_string(limit) + " (from 0 on" +
        (pads ? "; padding is " + std::to_string(input.pad) : "") + ")");
  }
}

void rebase(const WholeInput &input, DType type, std::vector<std::byte> &bytes,
            const std::vector<int64_t> &part, const std::string &path) {
  std::vector<int64_t> begins; // in the part
  int64_t end = 0;
  for (int64_t target : part) {
    begins.push_back(end);
    end += input.begins[size_t(target) + 1] - input.begins[size_t(target)];
  }
  for (size_t at = 0; at < bytes.size(); at += sizeOf(type)) {
    int64_t value = loadInteger(type, bytes.data() + at),
            target = targetOf(input, value);
    if (target < 0)
      continue;
    auto found = std::lower_bound(part.begin(), part.end(), target);
    if (found == part.end() || *found != target)
      throw Error(path + ": tensor '" + input.name +
                  "' points from an item to " +
                  (input.rebase.empty() ? "sample " : "item ") +
                  std::to_string(target) +
                  ", but another tensor says that the item is not of it");
    storeInteger(type, bytes.data() + at,
                 begins[size_t(found - part.begin())] + value -
                     input.begins[size_t(target)]);
  }
}

} // namespace dt::rt

//===- Safetensors.cpp - fuzz target of weights and batches -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An accepted file has every tensor inside itself, and what is read of it can
// be written and read again.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Safetensors.h"
#include "test/fuzz/readers/Fuzz.h"

#include <cstring>

using namespace dt;
using namespace dt::rt;

static void roundTrip(const SafetensorsFile &file) {
  SafetensorsWriter writer;
  for (auto &[name, view] : file.tensors())
    writer.add(name, view.type, view.shape, view.data);
  for (auto &[key, text] : file.metadata())
    writer.note(key, text);
  static const std::string path = fuzz::folder() + "/again.safetensors";
  writer.write(path);
  SafetensorsFile again(path);
  fuzz::expect(again.tensors().size() == file.tensors().size() &&
                   again.metadata() == file.metadata(),
               "tensors or notes are lost in a round trip");
  for (auto &[name, view] : file.tensors()) {
    const TensorView &other = again.get(name, view.type, view.shape);
    fuzz::expect(other.size == view.size &&
                     std::memcmp(other.data, view.data, view.size) == 0,
                 "a tensor changes in a round trip");
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = fuzz::writeInput("input.safetensors", data, size);
  fuzz::accepts([&] {
    SafetensorsFile file(path);
    size_t bytes = 0;
    for (auto &[name, view] : file.tensors()) {
      fuzz::expect(elementCount(view.shape) >= 0 &&
                       size_t(elementCount(view.shape)) * sizeOf(view.type) ==
                           view.size,
                   "a tensor's size is not that of its shape");
      bytes += view.size;
    }
    fuzz::expect(bytes <= size, "tensors are larger than the file");
    SafetensorsReader(path).hash();
    roundTrip(file);
  });
  return 0;
}

/// A header's length must be right for anything behind it to be looked at.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, maxSize);
  if (size < 8 || seed % 8 == 0)
    return size;
  uint64_t header = 0;
  for (size_t i = size; i > 8 && !header; --i)
    if (data[i - 1] == '}')
      header = i - 8;
  std::memcpy(data, &header, 8);
  return size;
}

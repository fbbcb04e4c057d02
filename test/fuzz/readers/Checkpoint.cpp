//===- Checkpoint.cpp - fuzz target of checkpoints --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The input stands in the place of one file of a good checkpoint: of its
// index.json if it begins with '{', with @HASH@ for the hash of the part; else
// of the part of the one rank, whose hash is then put into the index, so that
// what is behind the hash is looked at too.
//
//===----------------------------------------------------------------------===//

#include "runtime/save/Checkpoint.h"
#include "test/fuzz/readers/Fuzz.h"
#include "test/runtime/SmallProgram.h"

#include <nlohmann/json.hpp>

using namespace dt;
using namespace dt::rt;

namespace {

struct Good {
  Good()
      : trainer(program.info, Trainer::defaults(program.info), solo()),
        directory(fuzz::folder() + "/checkpoints"),
        step(directory + "/step-3") {
    TemporaryFolder weights;
    small::writeFolder(weights);
    trainer.initializeParameters(weights / "weights.safetensors");
    saveCheckpoint(trainer, directory, 3, 7);
    index = nlohmann::json::parse(readFile(step + "/index.json"));
    part = readFile(step + "/rank-0.safetensors");
  }
  small::SmallProgram program{6};
  Trainer trainer;
  std::string directory, step;
  nlohmann::json index;
  std::string part;
};

std::string hashOf(const std::string &path) {
  char text[17] = "0000000000000000";
  fuzz::accepts([&] {
    std::snprintf(
        text, sizeof text, "%016llx",
        static_cast<unsigned long long>(SafetensorsReader(path).hash()));
  });
  return text;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Good good;
  std::string text(reinterpret_cast<const char *>(data), size);
  bool isIndex = !text.empty() && text[0] == '{';
  std::string part = good.step + "/rank-0.safetensors";
  writeFile(part, isIndex ? good.part : text);
  nlohmann::json index = good.index;
  index.erase("check"); // of the index itself: as who writes one by hand
  index["files"]["rank-0.safetensors"] = hashOf(part);
  if (isIndex)
    text = fuzz::replaced(text, "@HASH@", index["files"]["rank-0.safetensors"]);
  writeFile(good.step + "/index.json", isIndex ? text : index.dump());
  fuzz::accepts([&] {
    int64_t step = loadCheckpoint(good.trainer, good.directory, 7);
    fuzz::expect(step >= 0, "a checkpoint of a negative step");
  });
  return 0;
}

/// A part's header must have its length, as in the target of safetensors.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, maxSize);
  if (size < 16 || data[0] == '{' || seed % 8 == 0)
    return size;
  size_t brace = 8;
  while (brace < size && data[brace] != '{')
    ++brace;
  if (brace != 8)
    return size;
  // The header's end: the brace that closes the first one.
  int depth = 0;
  for (size_t i = 8; i < size; ++i) {
    depth += data[i] == '{' ? 1 : data[i] == '}' ? -1 : 0;
    if (depth == 0) {
      uint64_t header = i + 1 - 8;
      while (header + 8 < size && data[header + 8] == ' ')
        ++header;
      std::memcpy(data, &header, 8);
      break;
    }
  }
  return size;
}

//===- Tar.cpp - fuzz target of shards --------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Whatever a shard says, a member that counts as readable lies inside it.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Index.h"
#include "test/fuzz/readers/Fuzz.h"

#include <cstdio>
#include <cstring>

using namespace dt;
using namespace dt::rt::data;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = fuzz::writeInput("input.tar", data, size);
  fuzz::accepts([&] {
    TarListing listing = listTar(path);
    PositionedFile file(path);
    for (const TarMember &member : listing.members) {
      fuzz::expect(member.size >= 0, "a member has a negative size");
      if (member.problem.empty())
        file.read(member.offset, member.size);
    }
    if (!listing.problem.empty())
      fuzz::expectRefusal(listing.problem);
    ShardIndex index = listSamples(path);
    for (const IndexedSample &sample : index.samples) {
      fuzz::expect(!sample.key.empty() || !sample.members.empty() ||
                       !sample.ok(),
                   "a sample has neither name nor members");
      for (const Member &member : sample.members)
        if (sample.ok())
          file.read(member.offset, member.size);
    }
    for (const std::string &line : describeBroken(path, index, 20))
      fuzz::expectRefusal(line);
  });
  return 0;
}

/// Headers carry a sum of their bytes: without the right one nothing else in
/// them is looked at.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  constexpr size_t kBlock = 512, kSum = 148, kMagic = 257;
  size = LLVMFuzzerMutate(data, size, maxSize);
  if (seed % 8 == 0)
    return size;
  for (size_t at = 0; at + kBlock <= size; at += kBlock) {
    if (std::memcmp(data + at + kMagic, "usta", 4) != 0)
      continue;
    std::memset(data + at + kSum, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i)
      sum += data[at + i];
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum);
    std::memcpy(data + at + kSum, text, 7);
  }
  return size;
}

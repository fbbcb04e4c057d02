//===- Index.cpp - fuzz target of the index beside a shard ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// @KEY@ in the input becomes the key of the shard that the target has written.
// Whatever an accepted index says, samples are read inside the shard.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Index.h"
#include "test/fuzz/readers/Fuzz.h"
#include "test/runtime/data/Fixture.h"

using namespace dt;
using namespace dt::rt::data;

namespace {

struct Shard {
  Shard() : config(test::parseConfig(test::demoRecipe())) {
    path = fuzz::folder() + "/shard.tar";
    TarWriter out(path);
    for (const char *key : {"one", "two"})
      for (auto &[name, content] : test::documentFiles(key))
        out.add(name, content);
    out.close();
    saveIndex(config, path, buildIndex(config, path, 1));
    key = test::Json::parse(fuzz::readBack(indexPath(path)))["key"];
  }
  Config config;
  std::string path, key;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Shard shard;
  std::string text(reinterpret_cast<const char *>(data), size);
  text = fuzz::replaced(text, "@KEY@", shard.key);
  fuzz::writeInput("shard.tar.idx.json", text);
  ShardIndex index;
  if (!loadIndex(shard.config, shard.path, index))
    return 0; // it is built anew
  fuzz::expect(saveIndex(shard.config, shard.path, index),
               "an index cannot be written");
  ShardIndex again;
  fuzz::expect(loadIndex(shard.config, shard.path, again) &&
                   again.samples.size() == index.samples.size(),
               "an index changes in a round trip");
  for (const std::string &line : describeBroken(shard.path, index, 20))
    fuzz::expectRefusal(line);
  fuzz::accepts([&] {
    DataSet set(shard.config, shard.path, 1);
    for (int64_t i = 0; i < set.size() && i < 8; ++i)
      fuzz::accepts([&] { set.decode(shard.config, i); });
  });
  return 0;
}

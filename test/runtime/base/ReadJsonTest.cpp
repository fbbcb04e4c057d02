//===- ReadJsonTest.cpp - JSON that anybody may have written --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/ReadJson.h"

#include "test/runtime/TestSupport.h"

using namespace dt::rt;

namespace {

std::string nested(size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(ReadJson, Values) {
  EXPECT_EQ(readJson(R"({"a": [1, 2.5, "x"]})", "f")["a"][1], 2.5);
  // The compiler's keeps the order of names.
  EXPECT_EQ(readJson<nlohmann::ordered_json>(R"({"b": 1, "a": 2})", "f").dump(),
            R"({"b":1,"a":2})");
}

TEST(ReadJson, Refused) {
  EXPECT_ERROR(readJson("{\"a\":", "f"), "f: not JSON: ");
  EXPECT_ERROR(readJson("1e999", "f"), "f: not JSON: number overflow");
  EXPECT_ERROR(readJson("\xff", "f"), "f: not JSON: ");
  EXPECT_ERROR(readJson("", "f"), "f: not JSON: ");
  EXPECT_ERROR(readJson(R"({"a": 1, "b": {"a": 1}, "a": 2})", "f"),
               "f: the key 'a' stands twice in an object");
}

TEST(ReadJson, Depth) {
  EXPECT_NO_THROW(readJson(nested(kMostJsonDepth), "f"));
  for (size_t depth : {size_t(kMostJsonDepth) + 1, size_t(300000)}) {
    EXPECT_ERROR(readJson(nested(depth), "f"),
                 "f: nested more than 64 levels deep");
    EXPECT_ERROR(readJson(std::string(depth, '['), "f"),
                 "f: nested more than 64 levels deep");
    std::string objects;
    for (size_t i = 0; i < depth; ++i)
      objects += R"({"a":)";
    EXPECT_ERROR(readJson(objects, "f"), "f: nested more than 64 levels deep");
    EXPECT_TRUE(readJsonIfGood(nested(depth)).is_null());
  }
}

TEST(ReadJson, Files) {
  TemporaryFolder folder;
  writeFile(folder / "deep.json", nested(300000));
  EXPECT_ERROR(readJsonFile(folder / "deep.json"),
               "deep.json: nested more than 64 levels deep");
  EXPECT_ERROR(readJsonFile(folder / "none.json"), "none.json: cannot open");
  EXPECT_ERROR(readJsonFile(folder.path), "not a regular file");
}

} // namespace

//===- SafetensorsTest.cpp - round trips and hostile files ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Safetensors.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace dt::rt;

namespace {

std::string fileOf(const std::string &header, const std::string &data,
                   uint64_t claimed = ~0ull) {
  uint64_t size = claimed == ~0ull ? header.size() : claimed;
  return std::string(reinterpret_cast<const char *>(&size), 8) + header + data;
}

TEST(Safetensors, RoundTrip) {
  TemporaryFolder folder;
  float values[6] = {1, 2, 3, 4, 5, 6};
  int64_t numbers[2] = {-1, 7};
  SafetensorsWriter writer;
  writer.add("a.b", DType::F32, {2, 3}, values);
  writer.add("n", DType::I64, {2}, numbers);
  writer.add("empty", DType::F32, {0, 4}, values);
  writer.add("scalar", DType::Bool, {}, std::vector<std::byte>{std::byte(1)});
  writer.write(folder / "x");
  SafetensorsFile file(folder / "x");
  EXPECT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(std::memcmp(file.get("a.b", DType::F32, {2, 3}).data, values, 24),
            0);
  EXPECT_EQ(std::memcmp(file.get("n", DType::I64, {2}).data, numbers, 16), 0);
  EXPECT_EQ(file.get("scalar", DType::Bool, {}).size, 1u);
  EXPECT_ERROR(file.get("a.b", DType::F32, {3, 2}),
               "tensor 'a.b' is F32 [2, 3], expected F32 [3, 2]");
  EXPECT_ERROR(file.get("c", DType::F32, {}), "tensor 'c' is missing");
}

TEST(Safetensors, DamagedFiles) {
  TemporaryFolder folder;
  auto open = [&](const std::string &content, const char *part) {
    writeFile(folder / "x", content);
    EXPECT_ERROR(SafetensorsFile(folder / "x"), part);
  };
  const std::string
      good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
      data(8, '\1');
  writeFile(folder / "x", fileOf(good, data));
  EXPECT_NO_THROW(SafetensorsFile(folder / "x"));
  EXPECT_ERROR(SafetensorsFile(folder / "none"), "cannot open");
  open("abc", "shorter than 8 bytes");
  open(fileOf(good, data, 1ull << 62), "not a safetensors file");
  open(fileOf(good, data, 10000), "not a safetensors file");
  open(fileOf("{\"a\":", ""), "header: not JSON: ");
  open(fileOf("[1]", ""), "not a JSON object");
  open(fileOf(std::string(100000, '['), ""),
       "header: nested more than 64 levels deep");
  open(fileOf(good, data.substr(1)), "outside of the file");
  open(fileOf(good, data + "x"), "belong to no tensor");
  open(
      fileOf(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", data),
      "do not fit shape [3]");
  open(
      fileOf(
          R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
          data),
      "do not fit shape");
  open(fileOf(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
              data),
       "shape is not a list");
  open(
      fileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", data),
      "outside of the file");
  open(fileOf(R"({"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})", data),
       "dtype \"Q4\" is not supported");
  open(fileOf(R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", data),
       "dtype 7");
  open(fileOf(R"({"a":{"dtype":"F32","shape":[2]}})", data),
       "expected an object with");
  open(
      fileOf(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
          data),
      "the key 'a' stands twice");
  open(
      fileOf(
          R"({"a":{"dtype":"I32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
          data),
      "the key 'dtype' stands twice");
  // What a file says cannot end the line: EXPECT_ERROR looks for that.
  open(fileOf(R"({"a\n\u001b[2J":{"dtype":"F32","shape":[2]}})", data),
       "tensor 'a??[2J': expected an object with");
  open(
      fileOf(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
          data),
      "'b' overlaps another");
  open(
      fileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", data),
      "leaves a gap");
}

} // namespace

//===- SafetensorsTest.cpp - round trips and hostile files ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Safetensors.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

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

TEST(Safetensors, TypesThatAreNotRead) {
  TemporaryFolder folder;
  std::string data("\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20", 16);
  writeFile(
      folder / "x",
      fileOf(
          R"({"scale":{"dtype":"F8_E5M2","shape":[2],"data_offsets":[4,6]},"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},"c":{"dtype":"C64","shape":[1],"data_offsets":[6,14]},"b":{"dtype":"U8","shape":[2],"data_offsets":[14,16]}})",
          data));
  SafetensorsFile file(folder / "x");
  EXPECT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.otherTensors().size(), 2u);
  EXPECT_EQ(int(*file.get("b", DType::U8, {2}).data), 15);
  EXPECT_ERROR(file.find("scale"),
               "x: tensor 'scale' is F8_E5M2, a type that is not read");
  EXPECT_ERROR(file.get("c", DType::F32, {2}),
               "x: tensor 'c' is C64, a type that is not read");
  // Its bytes count among the file's.
  uint64_t before = SafetensorsReader(folder / "x").hash();
  data[5] = '\0';
  std::string all = readFile(folder / "x");
  writeFile(folder / "x", all.substr(0, all.size() - 16) + data);
  EXPECT_NE(SafetensorsReader(folder / "x").hash(), before);
}

TEST(Safetensors, AHeaderAboveTheLimit) {
  TemporaryFolder folder;
  uint64_t size = 100'000'001;
  writeFile(folder / "x",
            std::string(reinterpret_cast<const char *>(&size), 8) + "{");
  std::filesystem::resize_file(folder / "x", 8 + size);
  const char *line = "x: its header has 100000001 bytes; safetensors allows "
                     "100000000";
  EXPECT_ERROR(SafetensorsFile(folder / "x"), line);
  EXPECT_ERROR(SafetensorsReader(folder / "x"), line);
  EXPECT_TRUE(isSafetensors(folder / "x"));
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
  open(fileOf(R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", data),
       "dtype 7 is no name of a type");
  open(fileOf(R"({"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,9]}})", data),
       "outside of the file");
  open(
      fileOf(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"Q4","shape":[6],"data_offsets":[3,8]}})",
          data),
      "'b' overlaps another");
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

//===- ExportTest.cpp - weights inside ONNX files ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/Export.h"
#include "runtime/data/Convert.h"
#include "test/runtime/SmallProgram.h"

#include <gtest/gtest.h>

using namespace dt::rt;
using namespace small;

namespace {

// Protobuf by hand: lengths stay below 128, so a length is one byte.
std::string field(int number, const std::string &body) {
  return std::string{char(number << 3 | 2), char(body.size())} + body;
}
std::string number(int number, int value) {
  return {char(number << 3), char(value)};
}
std::string floats(std::vector<float> values) {
  return std::string(reinterpret_cast<char *>(values.data()),
                     values.size() * 4);
}

const std::string kNode = field(4, "Relu");

/// w [2, 3] as raw_data, u as float_data, v as external data, and something
/// that is no parameter.
std::string tower(const std::string &w) {
  std::string tensor =
      field(1, "\x02\x03") + number(2, 1) + field(8, "w") + field(9, w);
  return number(1, 8) +
         field(7, field(1, kNode) + field(5, tensor) +
                      field(5, field(8, "other") + field(9, "xyz")) +
                      field(2, "g")) +
         field(8, "opset");
}

std::string externalEntry(const std::string &location) {
  return field(13, field(1, "location") + field(2, location));
}

std::string head(const std::string &location) {
  std::string u =
      number(1, 2) + number(2, 1) + field(4, floats({5, 6})) + field(8, "u");
  std::string v = number(1, 2) + number(2, 1) + field(8, "v") +
                  externalEntry("weights.bin") + number(14, 1);
  std::string other = number(1, 2) + number(2, 1) + field(8, "table") +
                      externalEntry(location) + number(14, 1);
  return field(7, field(5, u) + field(5, v)) + field(7, field(5, other));
}

class ExportTest : public testing::Test {
protected:
  ExportTest()
      : trainer(program.info, Trainer::defaults(program.info), solo()),
        source(folder / "onnx"), target(folder / "out") {
    trainer.initializeParameters(folder / "weights.safetensors");
    std::filesystem::create_directories(source + "/sub");
    writeFile(source + "/sub/tower.onnx", tower(std::string(24, 'o')));
    writeFile(source + "/head.onnx", head("table.bin"));
    writeFile(source + "/table.bin", "12345678");
  }
  ProgramFolder folder;
  SmallProgram program{6};
  Trainer trainer;
  std::string source, target;
};

TEST_F(ExportTest, ReplacesValuesAndNothingElse) {
  exportOnnx(trainer, source, target);
  std::string w(
      reinterpret_cast<const char *>(trainer.regions().at(0).parameters), 24);
  EXPECT_EQ(readFile(target + "/sub/tower.onnx"), tower(w));
  std::string content = readFile(target + "/head.onnx");
  EXPECT_CONTAINS(content, number(1, 2) + number(2, 1) + field(8, "u") +
                               field(9, floats({1, 1})));
  EXPECT_CONTAINS(content, number(1, 2) + number(2, 1) + field(8, "v") +
                               field(9, floats({0.3f, -0.2f})));
  EXPECT_EQ(content.find("weights.bin"), std::string::npos);
  EXPECT_EQ(readFile(target + "/table.bin"), "12345678");
}

/// Constants of nodes, of their subgraphs and of functions.
TEST_F(ExportTest, CopiesWhatAttributesReferTo) {
  auto constant = [](const std::string &location) {
    return field(5, field(5, field(8, "c") + externalEntry(location)));
  };
  std::string branch =
      field(5, field(6, field(1, constant("deep.bin")) +
                            field(5, externalEntry("inner.bin"))));
  std::string graph = tower(std::string(24, 'o'));
  graph +=
      field(7, field(1, constant("node.bin"))) + field(7, field(1, branch));
  graph += std::string("\xca\x01", 2); // functions (25)
  std::string function = field(7, constant("function.bin"));
  graph += char(function.size()) + function;
  writeFile(source + "/sub/tower.onnx", graph);
  const char *const names[] = {"node.bin", "deep.bin", "inner.bin",
                               "function.bin"};
  for (const char *name : names)
    writeFile(source + "/sub/" + name, name);
  for (const char *name : names) {
    std::filesystem::remove(source + "/sub/" + name);
    EXPECT_ERROR(exportOnnx(trainer, source, target),
                 "external data '" + std::string(name) + "': no such file");
    writeFile(source + "/sub/" + name, name);
  }
  exportOnnx(trainer, source, target);
  for (const char *name : names)
    EXPECT_EQ(readFile(target + "/sub/" + name), name);
}

/// Initializers keep their types: 10 is F16, 16 BF16, 11 F64.
TEST_F(ExportTest, ConvertsToTheInitializersType) {
  auto tensor = [](int type, const std::string &value) {
    return field(7, field(5, field(1, "\x02\x03") + number(2, type) +
                                 field(8, "w") + field(9, value)));
  };
  auto *w = reinterpret_cast<float *>(trainer.regions().at(0).parameters);
  // The last ones lie between two of F16 and of BF16, and below all of F16.
  for (size_t i = 0; i < 6; ++i)
    w[i] = std::vector<float>{1,        -2.5f,          65504,
                              0x1p-20f, 1.0f + 0x1p-9f, 0x1p-30f}[i];
  const uint16_t half[] = {0x3c00, 0xc100, 0x7bff, 0x0010, 0x3c02, 0x0000},
                 brain[] = {0x3f80, 0xc020, 0x4780, 0x3580, 0x3f80, 0x3080};
  const double twice[] = {w[0], w[1], w[2], w[3], w[4], w[5]};
  auto bytes = [](const auto &list) {
    return std::string(reinterpret_cast<const char *>(list), sizeof list);
  };
  for (auto &[type, wanted] :
       {std::pair(10, bytes(half)), {16, bytes(brain)}, {11, bytes(twice)}}) {
    writeFile(source + "/sub/tower.onnx", tensor(type, std::string(12, 'o')));
    exportOnnx(trainer, source, target);
    EXPECT_EQ(readFile(target + "/sub/tower.onnx"), tensor(type, wanted));
  }
  w[2] = 70000;
  writeFile(source + "/sub/tower.onnx", tensor(10, std::string(12, 'o')));
  EXPECT_ERROR(exportOnnx(trainer, source, target),
               "tower.onnx: parameter 'tower.w' is F16 there, too small for "
               "70000");
}

/// A float32 initializer becomes a narrow one and a Cast in front of all nodes.
TEST_F(ExportTest, NarrowInitializersAreCastToWhatTheGraphReads) {
  exportOnnx(trainer, source, target, DType::BF16);
  auto *w = reinterpret_cast<const float *>(trainer.regions().at(0).parameters);
  std::string narrow(12, 0);
  for (size_t i = 0; i < 6; ++i)
    storeFloat(DType::BF16,
               reinterpret_cast<std::byte *>(narrow.data()) + 2 * i, w[i]);
  std::string cast =
      field(1, "w.bf16") + field(2, "w") + field(3, "w.bf16") +
      field(4, "Cast") +
      field(5, field(1, "to") + number(3, 1) +
                   std::string("\xa0\x01\x02", 3)); // type (20) INT (2)
  std::string tensor = field(1, "\x02\x03") + number(2, 16) +
                       field(8, "w.bf16") + field(9, narrow);
  EXPECT_EQ(readFile(target + "/sub/tower.onnx"),
            number(1, 8) +
                field(7, field(1, cast) + field(1, kNode) + field(5, tensor) +
                             field(5, field(8, "other") + field(9, "xyz")) +
                             field(2, "g")) +
                field(8, "opset"));
}

TEST_F(ExportTest, Errors) {
  EXPECT_ERROR(exportOnnx(trainer, source, source), "the program's own folder");
  writeFile(source + "/head.onnx", head("../../etc/passwd"));
  EXPECT_ERROR(exportOnnx(trainer, source, target),
               "external data '../../etc/passwd' lies outside");
  writeFile(source + "/head.onnx", field(7, ""));
  EXPECT_ERROR(exportOnnx(trainer, source, target),
               "initializer 'u' is not in the file");
  writeFile(source + "/head.onnx", head("table.bin"));
  writeFile(source + "/sub/tower.onnx",
            tower(std::string(24, 'o')).substr(0, 30));
  EXPECT_ERROR(exportOnnx(trainer, source, target),
               "tower.onnx: not a valid ONNX file");
  writeFile(source + "/sub/tower.onnx",
            field(7, field(5, field(1, "\x03\x03") + number(2, 1) +
                                  field(8, "w") + field(9, "x"))));
  EXPECT_ERROR(exportOnnx(trainer, source, target),
               "initializer 'w' has no floats [2, 3]");
  std::filesystem::remove(source + "/sub/tower.onnx");
  EXPECT_ERROR(exportOnnx(trainer, source, target), "tower.onnx: cannot open");
}

} // namespace

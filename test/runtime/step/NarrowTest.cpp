//===- NarrowTest.cpp - parameters of two bytes on one rank ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/Checkpoint.h"
#include "runtime/save/InitialWeights.h"
#include "test/runtime/NarrowProgram.h"

#include <limits>
#include <memory>

namespace masters {
namespace {

class Narrow : public testing::Test {
protected:
  Narrow()
      : program(DType::BF16, 1),
        trainer(program.info, Trainer::defaults(program.info), solo()) {
    writeFolder(folder);
    trainer.initializeParameters(folder / "weights.safetensors");
  }
  /// What files have.
  std::vector<float> value(size_t row) {
    const ParameterValues &values = trainer.values();
    std::vector<float> out;
    for (const OwnedPiece &piece : trainer.ownership().owned(row)) {
      auto *data = static_cast<const float *>(values.at(row, piece));
      out.insert(out.end(), data, data + (piece.end - piece.begin));
    }
    return out;
  }
  TemporaryFolder folder;
  NarrowProgram program;
  Trainer trainer;
};

TEST_F(Narrow, MastersAreUpdatedAndRounded) {
  auto source =
      openFileBatch(program.info, {{"inputs", nlohmann::json()}},
                    folder / "batch", viewOf(program.info, 0), Reorder::None);
  double first = 0, last = 0;
  for (int64_t step = 0; step < 20; ++step) {
    last = checkedStep(trainer, source->next(step), step);
    first = step ? first : last;
  }
  EXPECT_LT(last, 0.9 * first);
}

TEST_F(Narrow, BeginsWithMasters) {
  std::vector<float> b = randoms(kOut, 31), frozen = randoms(kOut, 32);
  EXPECT_EQ(trainer.values().type(1), DType::F32);
  EXPECT_EQ(value(1), b);
  EXPECT_EQ(storedOf(trainer, 1), rounded(b));
  EXPECT_EQ(trainer.values().type(3), DType::BF16);
  EXPECT_EQ(storedOf(trainer, 3), rounded(frozen));
  EXPECT_EQ(storedOf(trainer, 0), rounded(value(0)));
  EXPECT_NE(storedOf(trainer, 0), value(0));
}

/// A weights file of narrow values, as a graph's own are.
TEST_F(Narrow, FilesMayBeNarrow) {
  std::vector<bf16> b(kOut), frozen(kOut);
  std::vector<float> a = randoms(kIn * kOut, 41), wide = randoms(kOut, 42);
  device::narrow(b.data(), wide.data(), kOut);
  device::narrow(frozen.data(), randoms(kOut, 43).data(), kOut);
  SafetensorsWriter writer;
  writer.add("net.b", DType::BF16, {kOut}, b.data());
  writer.add("net.frozen", DType::BF16, {kOut}, frozen.data());
  writer.write(folder / "narrow.safetensors");
  trainer.initializeParameters(folder / "narrow.safetensors");
  EXPECT_EQ(value(1), rounded(wide));
  EXPECT_EQ(storedOf(trainer, 3), rounded(randoms(kOut, 43)));
  SafetensorsWriter other;
  other.add("net.a", DType::F32, {kIn, kOut}, a.data());
  other.add("net.frozen", DType::F32, {kOut}, wide.data());
  other.write(folder / "other.safetensors");
  std::vector<std::string> said = initializeFrom(
      trainer, {{{"", folder / "other.safetensors"}}, {}, {}, true});
  EXPECT_EQ(value(0), a);
  EXPECT_EQ(storedOf(trainer, 0), rounded(a));
  EXPECT_EQ(storedOf(trainer, 3), rounded(wide));
  EXPECT_CONTAINS(said[0], "; 1 of them F32");
}

/// A master that is no number is not saved, though what is stored would be.
TEST_F(Narrow, OnlyFiniteMastersAreSaved) {
  trainer.regions().at(0).masters[7] = std::numeric_limits<float>::infinity();
  EXPECT_ERROR(saveCheckpoint(trainer, folder / "c", 2, 0),
               "'net.a' is inf after step 2: the state is not saved");
  EXPECT_ERROR(expectFinite(trainer, 2), "'net.a' is inf");
}

TEST_F(Narrow, OtherTypesDoNotTrain) {
  NarrowProgram other(DType::BF16, 1);
  other.parameters[0].tensor.type = DType::F16;
  EXPECT_ERROR(Trainer(other.info, Trainer::defaults(other.info), solo()),
               "parameter 'net.a' trains as F16, expected F32 or BF16");
}

} // namespace
} // namespace masters

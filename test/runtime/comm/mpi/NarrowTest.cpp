//===- NarrowTest.cpp - parameters of two bytes on several ranks ----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/Checkpoint.h"
#include "runtime/state/Pieces.h"
#include "runtime/train/Train.h"
#include "test/runtime/NarrowProgram.h"
#include "test/runtime/comm/mpi/Ranks.h"

#include <memory>

namespace masters {
namespace {

/// A trainer of its own with the program's first state.
struct Running {
  Running(DType stored, const SharedFolder &folder, int32_t zero,
          bool tied = false)
      : program(stored, ranks().size(), zero, tied),
        trainer(program.info, Trainer::defaults(program.info), ranks()),
        source(openFileBatch(
            program.info, {{"inputs", nlohmann::json()}}, folder / "batch",
            viewOf(program.info, ranks().rank()), Reorder::None)) {
    trainer.initializeParameters(folder / "weights.safetensors");
  }
  double step(int64_t number) {
    return checkedStep(trainer, source->next(number), number);
  }
  NarrowProgram program;
  Trainer trainer;
  std::unique_ptr<BatchSource> source;
};

/// All ranks' values of this, one after another.
std::vector<float> gathered(const std::vector<float> &mine) {
  std::vector<float> all(mine.size() * size_t(ranks().size()));
  ranks().world().allGather(mine.data(), mine.size() * sizeof(float),
                            all.data(), "test");
  return all;
}

class Ranks : public testing::TestWithParam<std::tuple<int32_t, bool>> {
protected:
  int32_t zero = std::get<0>(GetParam());
  bool tied = std::get<1>(GetParam());
};

TEST_P(Ranks, MastersAreUpdatedAndRounded) {
  SharedFolder folder(writeFolder);
  Running low(DType::BF16, folder, zero, tied),
      full(DType::F32, folder, zero, tied);
  for (size_t row : {0, 1, 3})
    EXPECT_EQ(storedOf(low.trainer, row), rounded(storedOf(full.trainer, row)));
  EXPECT_EQ(storedOf(low.trainer, 2), storedOf(full.trainer, 2));
  for (int64_t step = 0; step < 8; ++step) {
    double loss = low.step(step), wanted = full.step(step);
    EXPECT_NEAR(loss, wanted, 0.01 * wanted) << step;
    EXPECT_NE(loss, wanted);
  }
  for (size_t row = 0; row < low.program.parameters.size(); ++row) {
    std::vector<float> mine = storedOf(low.trainer, row), all = gathered(mine);
    for (int r = 0; r < ranks().size(); ++r)
      EXPECT_TRUE(std::equal(mine.begin(), mine.end(),
                             all.begin() + ptrdiff_t(size_t(r) * mine.size())))
          << "rank " << r << " has another " << row;
  }
  if (tied) { // a copy in float32 is the original's master
    EXPECT_EQ(storedOf(low.trainer, 0), rounded(storedOf(low.trainer, 4)));
    for (const OwnedPiece &piece : low.trainer.ownership().updatedPieces(0)) {
      const float *masters = low.trainer.regions().at(0).masters + piece.moment;
      std::vector<float> copy = storedOf(low.trainer, 4);
      EXPECT_TRUE(std::equal(masters, masters + (piece.end - piece.begin),
                             copy.begin() + piece.begin));
    }
  }
}

std::vector<std::string> filesOf(const std::string &directory, int64_t step) {
  std::vector<std::string> list;
  for (int r = 0; r < ranks().size(); ++r)
    list.push_back(directory + "/step-" + std::to_string(step) + "/rank-" +
                   std::to_string(r) + ".safetensors");
  return list;
}

/// All that trains has the same bits in both.
void expectSameState(const std::string &a, const std::string &b) {
  PieceReader left(filesOf(a, 3)), right(filesOf(b, 3));
  EXPECT_EQ(left.names(), right.names());
  EXPECT_EQ(left.names().size(), 4u + 2 * 3);
  for (const std::string &name : left.names())
    if (name != "net.frozen") {
      std::vector<int64_t> shape = left.shapeOf(name);
      EXPECT_EQ(left.whole(name, DType::F32, shape),
                right.whole(name, DType::F32, shape))
          << name;
    }
}

/// Saved by either, loaded by either.
TEST_P(Ranks, CheckpointsKnowNoPrecision) {
  SharedFolder folder(writeFolder);
  Running low(DType::BF16, folder, zero, tied);
  for (int64_t step = 0; step < 3; ++step)
    low.step(step);
  saveCheckpoint(low.trainer, folder / "low", 3, 0);
  EXPECT_EQ(PieceReader(filesOf(folder / "low", 3)).typeOf("net.frozen"),
            DType::BF16);
  Running full(DType::F32, folder, 1 - zero, tied);
  EXPECT_EQ(loadCheckpoint(full.trainer, folder / "low", 0), 3);
  EXPECT_EQ(storedOf(full.trainer, 3), storedOf(low.trainer, 3));
  EXPECT_EQ(rounded(storedOf(full.trainer, 0)), storedOf(low.trainer, 0));
  saveCheckpoint(full.trainer, folder / "full", 3, 0);
  expectSameState(folder / "low", folder / "full");
  Running again(DType::BF16, folder, zero, tied);
  EXPECT_EQ(loadCheckpoint(again.trainer, folder / "full", 0), 3);
  saveCheckpoint(again.trainer, folder / "again", 3, 0);
  expectSameState(folder / "low", folder / "again");
  for (size_t row = 0; row < low.program.parameters.size(); ++row)
    EXPECT_EQ(storedOf(again.trainer, row), storedOf(low.trainer, row)) << row;
  EXPECT_EQ(again.step(3), low.step(3));
}

/// What is counted is what must be; working copies are half of the bytes.
TEST_P(Ranks, Traffic) {
  SharedFolder folder(writeFolder);
  uint64_t parameters[2];
  for (DType type : {DType::F32, DType::BF16}) {
    NarrowProgram program(type, ranks().size(), zero, tied);
    Options options;
    options.steps = 2, options.logEvery = 1e9;
    options.batch = {folder / "batch"};
    options.traffic = folder / textOf(type);
    runTraining(program.info, folder.path, options, ranks());
    ranks().world().barrier();
    nlohmann::json traffic = nlohmann::json::parse(readFile(options.traffic));
    uint64_t &bytes = parameters[type == DType::BF16] = 0;
    EXPECT_GT(traffic["collectives"].size(), 1u);
    for (auto &entry : traffic["collectives"]) {
      EXPECT_EQ(entry["bytes"], entry["expected"]) << entry;
      if (entry["name"] == "parameters net")
        bytes = entry["bytes"];
    }
  }
  if (zero && !tied && ranks().size() > 2) // of as many whole blocks
    EXPECT_EQ(parameters[0], 2 * 384 * sizeof(float));
  EXPECT_TRUE(zero || parameters[0] == 0);
  if (ranks().size() > 2 && !tied)
    EXPECT_EQ(2 * parameters[1], parameters[0]);
}

INSTANTIATE_TEST_SUITE_P(Narrow, Ranks,
                         testing::Combine(testing::Values(0, 1),
                                          testing::Bool()));

} // namespace
} // namespace masters

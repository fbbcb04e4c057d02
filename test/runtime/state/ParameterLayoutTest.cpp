//===- ParameterLayoutTest.cpp - parts of parameters ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/ParameterLayout.h"
#include "runtime/state/Pieces.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

using namespace dt::rt;

namespace {

int64_t product(const std::vector<int64_t> &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1),
                         std::multiplies<>());
}

/// The definition, element by element: index in the whole of an element of the
/// part, -1 for padding.
int64_t wholeIndex(const ParameterLayout &layout, int64_t flat) {
  std::vector<int64_t> index(layout.part().size());
  for (size_t d = index.size(); d-- > 0;) {
    index[d] = flat % layout.part()[d];
    flat /= layout.part()[d];
  }
  const std::vector<ParameterLayout::Cut> &cuts = layout.cuts();
  for (size_t c = cuts.size(); c-- > 0;) {
    int64_t &i = index[size_t(cuts[c].dim)];
    i = (i / cuts[c].chunk * cuts[c].over + cuts[c].place) * cuts[c].chunk +
        i % cuts[c].chunk;
  }
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    if (index[d] >= layout.whole()[d])
      return -1;
    at = at * layout.whole()[d] + index[d];
  }
  return at;
}

/// A tensor cut along random dims over axes of a group; a layout a place.
std::vector<ParameterLayout> randomCut(std::mt19937 &random) {
  auto draw = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  std::vector<int64_t> padded(size_t(draw(3) + 1));
  for (int64_t &extent : padded)
    extent = draw(4) + 1;
  struct Axis {
    int64_t dim, chunk, over;
  };
  std::vector<Axis> axes;
  for (int64_t a = draw(3); a > 0; --a) {
    Axis axis{draw(int64_t(padded.size())), draw(3) + 1, draw(3) + 1};
    axes.push_back(axis);
  }
  // From the last cut to the first, so that each finds a multiple.
  for (size_t a = axes.size(); a-- > 0;) {
    int64_t &extent = padded[size_t(axes[a].dim)];
    int64_t unit = axes[a].chunk * axes[a].over;
    for (size_t later = 0; later < axes.size(); ++later)
      if (axes[later].dim == axes[a].dim && later != a)
        unit *= axes[later].chunk * axes[later].over;
    extent = (extent + unit - 1) / unit * unit;
  }
  std::vector<int64_t> whole = padded;
  for (int64_t &extent : whole)
    extent -= draw(std::min<int64_t>(extent, 3));
  std::vector<ParameterLayout> layouts;
  int64_t places = 1;
  for (const Axis &axis : axes)
    places *= axis.over;
  for (int64_t p = 0; p < places; ++p) {
    std::vector<ParameterLayout::Cut> cuts;
    int64_t rest = p;
    for (const Axis &axis : axes) {
      cuts.push_back({axis.dim, axis.chunk, axis.over, rest % axis.over});
      rest /= axis.over;
    }
    layouts.emplace_back(whole, padded, cuts, "test");
  }
  return layouts;
}

TEST(ParameterLayout, RunsAreTheDefinition) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round)
    for (const ParameterLayout &layout : randomCut(random)) {
      int64_t n = layout.partElements(),
              begin = int64_t(random() % uint64_t(n + 1));
      int64_t end = begin + int64_t(random() % uint64_t(n - begin + 1));
      std::vector<int64_t> found(size_t(n), -1);
      for (const ParameterLayout::Run &run : layout.runs(begin, end))
        for (int64_t i = 0; i < run.count; ++i)
          found[size_t(run.part + i)] = run.whole + i;
      for (int64_t i = 0; i < n; ++i)
        ASSERT_EQ(found[size_t(i)],
                  i >= begin && i < end ? wholeIndex(layout, i) : -1);
    }
}

/// Pieces of all ranks give the whole again, whatever the ranges they are in.
TEST(ParameterLayout, PiecesGiveTheWhole) {
  std::mt19937 random(2);
  TemporaryFolder folder;
  for (int round = 0; round < 40; ++round) {
    std::vector<ParameterLayout> layouts = randomCut(random);
    const std::vector<int64_t> &shape = layouts[0].whole();
    std::vector<float> whole = randoms(size_t(product(shape)), 7);
    std::vector<std::string> paths;
    for (const ParameterLayout &layout : layouts) {
      std::vector<float> part(size_t(layout.partElements()), 9.f);
      layout.extract(whole.data(), part.data(), sizeof(float));
      int64_t n = int64_t(part.size()),
              middle = int64_t(random() % uint64_t(n + 1));
      paths.push_back(folder / std::to_string(paths.size()));
      PieceWriter writer;
      writer.add("t", DType::F32, layout, 0, middle, part.data());
      if (middle < n)
        writer.add("t", DType::F32, layout, middle, n, part.data() + middle);
      writer.write(paths.back());
    }
    std::vector<std::byte> bytes =
        PieceReader(paths).whole("t", DType::F32, shape);
    ASSERT_EQ(0, std::memcmp(bytes.data(), whole.data(), bytes.size()));
    if (layouts.size() == 1 || layouts[0].partElements() == 0)
      continue;
    paths.pop_back();
    if (!layouts.back().runs().empty()) {
      EXPECT_ERROR(PieceReader(paths).whole("t", DType::F32, shape),
                   "tensor 't' has ");
    }
  }
}

TEST(ParameterLayout, Errors) {
  EXPECT_ERROR(ParameterLayout({6}, {6}, {{0, 2, 2, 0}}, "t"),
               "cuts do not fit");
  EXPECT_ERROR(ParameterLayout({6}, {6}, {{1, 1, 2, 0}}, "t"),
               "cuts do not fit");
  EXPECT_ERROR(ParameterLayout({6}, {6}, {{0, 1, 2, 2}}, "t"),
               "cuts do not fit");
  EXPECT_ERROR(ParameterLayout({7}, {6}, {}, "t"), "cuts do not fit");
}

} // namespace

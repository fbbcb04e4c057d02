//===- WholeTest.cpp - updates of whole parameters --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Against the formulas in double; test/e2e/optimizers.py has PyTorch's.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Array.h"
#include "runtime/device/Factored.h"
#include "runtime/device/Orthogonal.h"
#include "test/runtime/TestSupport.h"

#include <gtest/gtest.h>

using namespace dt::rt;
using namespace dt::rt::device;

namespace {

constexpr double kAdafactor[] = {-0.8, 1e-7, 1e-3, 1};
constexpr double kMuon[] = {0.95, 1, 3.4445, -4.775, 2.0315, 5,
                            1e-7, 0, 1,      0.9,    0.999,  1e-8};

/// Parameters [2, 3, 5], or as many in a vector, in pieces.
struct Factors {
  static constexpr size_t matrices = 2, rows = 3, columns = 5, n = 30;
  explicit Factors(bool matrix) : matrix(matrix) {}

  void step(int64_t number, const std::vector<size_t> &ends,
            bool applies = true, size_t counted = SIZE_MAX) {
    pieces.clear();
    for (size_t i = 0, begin = 0; i < ends.size(); begin = ends[i++])
      pieces.push_back({{&p[begin],
                         &g[begin],
                         {&variance[begin]},
                         ends[i] - begin,
                         &working[begin],
                         &average[begin]},
                        begin,
                        i < counted});
    Array<WholePiece> table(pieces, "pieces");
    FactoredTensor t{n,
                     pieces.data(),
                     pieces.size(),
                     matrix ? matrices * rows : 1,
                     matrix ? rows : 1,
                     matrix ? columns : n,
                     matrix,
                     double(rows),
                     double(columns),
                     double(n),
                     row,
                     column,
                     sums,
                     sums + 6,
                     sums + 16,
                     sums + 22,
                     &totals[0],
                     &totals[1],
                     means};
    UpdateStep how{kAdafactor, 0.02, 0.1, number, 0.9};
    Array<Verdict> verdict({{0, 0, 0.5, applies}}, "verdict");
    RunTable<FactoredTensor> runs({t}, "tensors");
    factoredSums(how, runs, verdict.data());
    factoredMeans(how, runs, verdict.data());
    factoredSteps(how, runs, verdict.data());
    factoredUpdate(how, runs, verdict.data());
    synchronize();
  }

  bool matrix;
  std::vector<float> p = randoms(n, 1), g = randoms(n, 2),
                     variance = std::vector<float>(n),
                     average = std::vector<float>(n);
  std::vector<bf16> working = std::vector<bf16>(n);
  float row[6] = {}, column[10] = {}, sums[28] = {}, totals[2] = {},
        means[2] = {};
  std::vector<WholePiece> pieces;
};

/// The same in double.
struct Wanted {
  explicit Wanted(const Factors &f)
      : matrix(f.matrix), p(f.p.begin(), f.p.end()) {}

  void step(const std::vector<float> &gradients, int64_t number) {
    constexpr size_t n = Factors::n, R = Factors::rows, C = Factors::columns;
    double t = double(number + 1), w = std::pow(t, -0.8), size = 0, step = 0;
    std::vector<double> g(gradients.begin(), gradients.end()), u(n);
    for (size_t i = 0; i < n; ++i)
      g[i] *= 0.5, size += p[i] * p[i];
    for (size_t i = 0; i < n && !matrix; ++i)
      v[i] += (g[i] * g[i] - v[i]) * w;
    for (size_t m = 0; m < 2 && matrix; ++m) {
      double mean = 0;
      for (size_t r = 0; r < R; ++r) {
        double sum = 0;
        for (size_t c = 0; c < C; ++c)
          sum += std::pow(g[(m * R + r) * C + c], 2);
        row[m * R + r] += (sum / C - row[m * R + r]) * w;
        mean += row[m * R + r] / R;
      }
      for (size_t c = 0; c < C; ++c) {
        double sum = 0;
        for (size_t r = 0; r < R; ++r)
          sum += std::pow(g[(m * R + r) * C + c], 2);
        column[m * C + c] += (sum / R - column[m * C + c]) * w;
      }
      for (size_t i = 0; i < R * C; ++i)
        v[m * R * C + i] = row[m * R + i / C] * column[m * C + i % C] / mean;
    }
    for (size_t i = 0; i < n; ++i)
      u[i] = g[i] / std::sqrt(std::max(v[i], 1e-14)), step += u[i] * u[i];
    double rate = std::max(1e-3, std::sqrt(size / n)) *
                  std::min(0.02, 1 / std::sqrt(t)) /
                  std::max(1., std::sqrt(step / n));
    for (size_t i = 0; i < n; ++i)
      p[i] = p[i] * (1 - 0.02 * 0.1) - rate * u[i];
  }

  bool matrix;
  std::vector<double> p, v = std::vector<double>(Factors::n);
  double row[6] = {}, column[10] = {};
};

TEST(Adafactor, Formulas) {
  for (bool matrix : {false, true}) {
    Factors have(matrix);
    Wanted want(have);
    for (int64_t step = 0; step < 6; ++step) {
      have.g = randoms(Factors::n, uint64_t(step) + 7);
      if (step == 3)
        have.g.assign(Factors::n, 0); // estimates shrink, nothing else moves
      have.step(step, {Factors::n});
      want.step(have.g, step);
      for (size_t i = 0; i < Factors::n; ++i) {
        EXPECT_NEAR(have.p[i], want.p[i], 2e-6) << matrix << step << " " << i;
        EXPECT_EQ(float(have.working[i]), float(bf16(have.p[i])));
      }
    }
  }
}

/// Sums do not depend on where pieces end; what another rank counts is not in
/// them; a verdict may be that nothing applies.
TEST(Adafactor, Pieces) {
  for (bool matrix : {false, true}) {
    Factors whole(matrix), cut(matrix), less(matrix), idle(matrix);
    for (int64_t step = 0; step < 3; ++step) {
      whole.step(step, {30}), cut.step(step, {1, 7, 15, 29, 30});
      EXPECT_EQ(whole.p, cut.p);
      EXPECT_EQ(whole.average, cut.average);
    }
    less.step(0, {15, 30}, true, 1);
    cut = Factors(matrix);
    for (size_t i = 15; i < 30; ++i)
      cut.g[i] = 0;
    cut.step(0, {30});
    EXPECT_LT(less.totals[0], whole.totals[0]);
    EXPECT_EQ(less.totals[1], cut.totals[1]);
    std::vector<float> before = idle.p;
    idle.step(0, {30}, false);
    EXPECT_EQ(idle.p, before);
    EXPECT_EQ(idle.row[0], 0);
    EXPECT_EQ(idle.variance[0], 0);
  }
}

/// Newton-Schulz iterations in double, of rows <= columns. `rounds`: what they
/// keep is bf16.
std::vector<double> iterated(const std::vector<double> &from, size_t m,
                             size_t n, bool rounds) {
  auto keep = [&](std::vector<double> &values) {
    for (double &value : values)
      value = rounds ? double(float(bf16(float(value)))) : value;
  };
  auto times = [](const std::vector<double> &a, const std::vector<double> &b,
                  size_t m, size_t n, size_t k, bool transposed) {
    std::vector<double> c(m * n);
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < n; ++j)
        for (size_t l = 0; l < k; ++l)
          c[i * n + j] += a[i * k + l] * b[transposed ? j * k + l : l * n + j];
    return c;
  };
  std::vector<double> x = from;
  double norm = 0;
  for (double value : x)
    norm += value * value;
  for (double &value : x)
    value /= std::sqrt(norm);
  keep(x);
  for (int i = 0; i < 5; ++i) {
    std::vector<double> gram = times(x, x, m, m, n, true);
    keep(gram);
    std::vector<double> square = times(gram, gram, m, m, m, false);
    for (size_t k = 0; k < m * m; ++k)
      square[k] = -4.775 * gram[k] + 2.0315 * square[k];
    keep(square);
    std::vector<double> step = times(square, x, m, n, m, false);
    for (size_t k = 0; k < m * n; ++k)
      x[k] = 3.4445 * x[k] + step[k];
    keep(x);
  }
  return x;
}

/// Either side may be the shorter one; the limit is what bf16 rounds.
TEST(Muon, Orthogonalize) {
  for (auto [rows, columns] :
       {std::pair<size_t, size_t>{5, 12}, {12, 5}, {8, 8}, {1, 6}}) {
    std::vector<float> matrix = randoms(rows * columns, rows), before = matrix;
    Array<float> values(matrix, "matrix"), square(64, "square");
    Array<bf16> narrow(rows * columns, "narrow"), gram(64, "gram");
    Array<double> norm(1, "norm");
    RunTable<FloatRun> run({{values.data(), matrix.size()}}, "table");
    orthogonalize({kMuon, 0.1, 0, 0}, run, values.data(), rows, columns,
                  {narrow.data(), gram.data(), square.data(), norm.data()});
    copyToHost(matrix.data(), values.data(), matrix.size() * sizeof(float));
    bool tall = rows > columns;
    size_t m = std::min(rows, columns), n = std::max(rows, columns);
    std::vector<double> from(m * n);
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j)
        from[tall ? j * n + i : i * n + j] = double(before[i * columns + j]);
    std::vector<double> want = iterated(from, m, n, false),
                        rounded = iterated(from, m, n, true);
    double limit = 0, off = 0;
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j) {
        size_t at = tall ? j * n + i : i * n + j;
        limit = std::max(limit, std::abs(rounded[at] - want[at]));
        off =
            std::max(off, std::abs(double(matrix[i * columns + j]) - want[at]));
      }
    EXPECT_LE(off, 4 * limit) << rows << " " << columns;
    EXPECT_LT(limit, 0.05); // or it says nothing
  }
}

/// Means, and who counts; rates by shape.
TEST(Muon, MeansAndRates) {
  UpdateStep how{kMuon, 0.1, 0.5, 0};
  std::vector<float> p = {1, 2}, g = {2, 4}, m = {0, 0}, whole(4);
  Array<float> values(whole, "whole");
  Array<Verdict> verdict({{0, 0, 0.5, true}}, "verdict");
  std::vector<OrthogonalRun> list = {
      {{&p[0], &g[0], {&m[0]}, 1, nullptr}, 1, 3, true},
      {{&p[1], &g[1], {&m[1]}, 1, nullptr}, 1, 0, false}};
  RunTable<OrthogonalRun> runs(list, "table");
  orthogonalMeans(how, runs, values.data(), verdict.data());
  copyToHost(whole.data(), values.data(), 4 * sizeof(float));
  EXPECT_NEAR(m[0], 0.05, 1e-7);
  EXPECT_NEAR(m[1], 0.1, 1e-7);
  EXPECT_NEAR(whole[3], 1 + (0.05 - 1) * 0.95, 1e-6);
  EXPECT_EQ(whole[0], 0);
  whole = {1, 0, 0, 2};
  copyToDevice(values.data(), whole.data(), 4 * sizeof(float));
  orthogonalUpdate(how, runs, values.data(), 8, 2, verdict.data());
  synchronize();
  EXPECT_NEAR(p[0], 0.95 - 0.1 * 2 * 2, 1e-6); // sqrt(8 / 2)
  EXPECT_NEAR(p[1], 1.9 - 0.1 * 2, 1e-6);
  double settings[12];
  std::copy(std::begin(kMuon), std::end(kMuon), settings);
  how.settings = settings;
  EXPECT_NEAR(optimizers::Muon(how).rate(2, 8), 0.1, 1e-7);
  settings[7] = 1;
  EXPECT_NEAR(optimizers::Muon(how).rate(2, 16), 0.1 * 0.2 * 4, 1e-7);
  settings[7] = 2;
  EXPECT_NEAR(optimizers::Muon(how).rate(2, 8), 0.1 * 0.5, 1e-7);
}

/// What Muon does not take is AdamW's, with a rate of its own.
TEST(Muon, ElsewhereAdamW) {
  double settings[12];
  std::copy(std::begin(kMuon), std::end(kMuon), settings);
  settings[8] = 0.25;
  ASSERT_EQ(describe(OptimizerKind::Muon).countElementMoments(settings), 2u);
  float p = 1, q = 1, g = 0.5f, m[4] = {};
  RunTable<UpdateRun> run({{&p, &g, {&m[0], &m[1]}, 1, nullptr}}, "table"),
      other({{&q, &g, {&m[2], &m[3]}, 1, nullptr}}, "table");
  Array<Verdict> verdict({{0, 0, 1, true}}, "verdict");
  update(OptimizerKind::Muon, {settings, 0.4, 0.01, 0}, run, verdict.data());
  update(OptimizerKind::AdamW, {settings + 9, 0.1, 0.01, 0}, other,
         verdict.data());
  synchronize();
  EXPECT_EQ(p, q);
  EXPECT_NE(p, 1);
}

} // namespace

//===- TestSupport.h - what the runtime's tests share -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_RUNTIME_TESTSUPPORT_H
#define DT_TEST_RUNTIME_TESTSUPPORT_H

#include "runtime/base/Error.h"
#include "runtime/base/Log.h"
#include "runtime/base/Philox.h"
#include "runtime/comm/Comm.h"
#include "runtime/device/BFloat16.h"
#include "test/Contains.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

inline std::vector<float> randoms(size_t count, uint64_t seed) {
  dt::rt::Random random(seed, dt::rt::philoxPurpose("test"));
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = random.normal(i);
  return values;
}

/// |a - b| / |b| in the L2 norm; infinite on NaN.
inline double relativeError(const std::vector<float> &a,
                            const std::vector<float> &b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    size += double(b[i]) * b[i];
  }
  double error = std::sqrt(difference) / (std::sqrt(size) + 1e-30);
  return error == error ? error : 1e30;
}

// Limits follow from float32, not from what one machine gave: other vector
// widths and fused operations round differently (test/e2e/tolerance.py says
// more).
constexpr double kEps = 1.1920929e-7; ///< of float32 at 1

/// Of sums of n products in any order, in the L2 norm: n roundings of half an
/// epsilon that are independent, and a factor of 8 for those that are not.
inline double sumLimit(double n) { return 8 * kEps / 2 * std::sqrt(n + 1); }

/// One rounding to bfloat16, whose numbers are 1/128 apart at 1.
constexpr double kNarrowEps = 1. / 256;

inline std::vector<dt::rt::bf16> narrow(const std::vector<float> &values) {
  return {values.begin(), values.end()};
}
inline std::vector<float> widen(const std::vector<dt::rt::bf16> &values) {
  return {values.begin(), values.end()};
}

/// Of losses of a small program whose predictions are about as large as 1, at a
/// step (from 0): each step adds rounding to the parameters.
inline double lossLimit(double want, size_t step) {
  return double(step + 1) * kEps * (32 * want + 8);
}

/// Of the steps from `first` on; `what` is run.
inline void expectLosses(const std::vector<double> &losses,
                         const std::vector<double> &wanted,
                         const std::string &what = "", size_t first = 0) {
  ASSERT_EQ(first + losses.size(), wanted.size()) << what;
  for (size_t i = 0, step = first; i < losses.size(); ++i, ++step)
    EXPECT_NEAR(losses[i], wanted[step], lossLimit(wanted[step], step))
        << what << " step " << step;
}

/// This process alone.
inline dt::rt::Comm &solo() {
  static std::unique_ptr<dt::rt::Comm> comm = dt::rt::Comm::start();
  return *comm;
}

/// A folder that goes away with the test.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "dt-test-XXXXXX").string();
    if (!::mkdtemp(pattern.data()))
      throw dt::rt::Error("cannot make a temporary folder: " +
                          std::string(std::strerror(errno)));
    path = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string operator/(const std::string &name) const {
    return path + "/" + name;
  }
  std::string path;
};

inline std::string readFile(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void writeFile(const std::string &path, const std::string &content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// What is said on standard error from one to the other, also by the thread of
/// Log.h.
inline void captureErrors() {
  dt::rt::flushLog(60);
  testing::internal::CaptureStderr();
}
inline std::string capturedErrors() {
  dt::rt::flushLog(60);
  return testing::internal::GetCapturedStderr();
}

/// The message of the Error that `f` throws; empty if it throws none.
template <typename F> std::string errorOf(F f) {
  try {
    f();
  } catch (const dt::rt::Error &e) {
    return e.what();
  }
  return {};
}

#define EXPECT_ERROR(expression, part)                                         \
  do {                                                                         \
    std::string message = errorOf([&] { expression; });                        \
    EXPECT_CONTAINS(message, part);                                            \
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;               \
  } while (false)

#endif // DT_TEST_RUNTIME_TESTSUPPORT_H

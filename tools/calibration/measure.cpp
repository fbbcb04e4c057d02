//===- measure.cpp - How long the runtime's calls take here ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//   measure RANKS SHAPES.json OUT.json
//
// SHAPES is a list of {"kind", "type", sizes}; OUT has the seconds of each, in
// order. All ranks measure the same at once, as they work at once in a step; of
// a call counts the median, of ranks the mean. Operands are taken in turn from
// more memory than caches hold: a layer's weights and activations were last
// used a step, or a pass, ago.
//
//===----------------------------------------------------------------------===//

#ifdef DT_ON_CUDA
#include "runtime/device/cuda/Calls.h"
#else
#include "runtime/device/cpu/Attention.h"
#include "runtime/device/cpu/Conv.h"
#include "runtime/device/cpu/Experts.h"
#include "runtime/device/cpu/Matmul.h"
#endif
#include "runtime/base/ReadJson.h"
#include "runtime/comm/Comm.h"
#include "runtime/comm/Launch.h"
#include "runtime/device/Device.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <vector>

using namespace dt::rt;
using nlohmann::json;

namespace {

// The calls of all targets but CUDA's have no stream.
#ifdef DT_ON_CUDA
#define DT_CALL(function, ...) function(__VA_ARGS__, device::stream())
#else
#define DT_CALL(function, ...) function(__VA_ARGS__)
#endif

/// Seconds of this rank: its thread's on a host, where others may use the core.
double clockSeconds() { return device::isHost() ? threadSeconds() : now(); }

/// More than caches hold; on a GPU the largest operands of the grid, too.
size_t operandBytes() { return size_t(64) << (device::isHost() ? 20 : 26); }

/// Device memory that calls take their operands from, in turn. It is full of
/// numbers between -1 and 1, as float and as bf16: products of zeros are
/// faster.
class Arena {
public:
  explicit Arena(size_t bytes)
      : bytes(bytes),
        memory(static_cast<std::byte *>(device::allocate(bytes, "operands"))) {
    std::minstd_rand random;
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<bf16> values(size_t(1) << 22);
    for (bf16 &value : values)
      value = bf16(uniform(random));
    size_t block = values.size() * sizeof(bf16);
    for (size_t at = 0; at < bytes; at += block)
      device::copyToDevice(memory + at, values.data(),
                           std::min(block, bytes - at));
    device::synchronize();
  }
  ~Arena() { device::release(memory); }
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  template <typename T> T *take(int64_t count) {
    size_t wanted = (size_t(count) * sizeof(T) + 255) / 256 * 256;
    if (wanted > bytes)
      throw Error("a shape needs " + std::to_string(wanted) +
                  " bytes, more than there are for operands");
    if (next + wanted > bytes)
      next = 0;
    T *result = reinterpret_cast<T *>(memory + next);
    next += wanted;
    return result;
  }

private:
  size_t bytes, next = 0;
  std::byte *memory;
};

/// What the host knows, on the device.
template <typename T> struct Numbers {
  explicit Numbers(const std::vector<T> &values)
      : data(static_cast<T *>(
            device::allocate(values.size() * sizeof(T), "numbers"))) {
    device::copyToDevice(data, values.data(), values.size() * sizeof(T));
  }
  ~Numbers() { device::release(data); }
  Numbers(const Numbers &) = delete;

  T *data;
};

class Measurer {
public:
  Measurer(Comm &comm, Arena &arena) : comm(comm), arena(arena) {}

  double secondsOf(const json &shape) {
    std::string kind = shape.at("kind");
    if (kind == "message" || kind == "sum")
      return kind == "sum" ? sum(shape.at("bytes"))
                           : message(shape.at("bytes"));
    return shape.at("type") == "bf16" ? compute<bf16>(kind, shape)
                                      : compute<float>(kind, shape);
  }

private:
  template <typename T> double compute(const std::string &kind, const json &s) {
    if (kind == "product")
      return product<T>(s.at("rows"), s.at("columns"), s.at("depth"));
    if (kind == "weight")
      return weight<T>(s.at("rows"), s.at("columns"), s.at("depth"));
    if (kind == "attention" || kind == "attention_back")
      return attention<T>(s.at("tokens"), s.at("heads"), s.at("width"),
                          kind == "attention_back");
    if (kind == "packed" || kind == "packed_back")
      return packed<T>(s, kind == "packed_back");
    if (kind == "experts" || kind == "experts_weight")
      return experts<T>(s, kind == "experts_weight");
    if (kind == "convolution")
      return convolution<T>(s.at("size"), s.at("channels"));
    if (kind == "stream")
      return stream<T>(s.at("bytes"));
    throw Error("unknown kind '" + kind + "'");
  }

  template <typename T>
  double product(int64_t rows, int64_t columns, int64_t depth) {
    MatmulShape shape{1, rows, columns, depth, false, true, 0, 0, 0, 0, 0, 0};
    return median([&] {
      DT_CALL(matmul, arena.take<T>(rows * depth),
              arena.take<T>(columns * depth), nullptr,
              arena.take<T>(rows * columns), shape, 0);
    });
  }

  /// Added to a gradient in float32.
  template <typename T>
  double weight(int64_t rows, int64_t columns, int64_t depth) {
    MatmulShape shape{1, columns, depth, rows, true, false, 0, 0, 0, 0, 0, 0};
    return median([&] {
      DT_CALL(matmul, arena.take<T>(rows * columns),
              arena.take<T>(rows * depth), nullptr,
              arena.take<float>(columns * depth), shape, 1);
    });
  }

  template <typename T>
  double attention(int64_t tokens, int64_t heads, int64_t width, bool back) {
    AttentionShape s{};
    s.b = 1;
    s.t = s.s = tokens;
    s.h = s.hk = heads;
    s.d = s.dv = width;
    s.qt = s.ks = s.vs = s.ot = heads * width;
    s.qb = s.kb = s.vb = s.ob = tokens * s.qt;
    s.qh = s.kh = s.vh = s.oh = width;
    s.scale = 0.1f;
    s.causal = true;
    int64_t size = tokens * heads * width;
    return median([&] {
      T *q = arena.take<T>(size), *k = arena.take<T>(size),
        *v = arena.take<T>(size), *o = arena.take<T>(size);
      float *lse = arena.take<float>(heads * tokens);
      if (!back)
        return DT_CALL(attentionForward, q, k, v, nullptr, o, lse, s);
      DT_CALL(attentionBackward, q, k, v, nullptr, o, lse, arena.take<T>(size),
              arena.take<T>(size), arena.take<T>(size), arena.take<T>(size), s);
    });
  }

  /// Causal attention over `documents` of so many tokens, one behind another,
  /// with `keys` heads of keys and values.
  template <typename T> double packed(const json &shape, bool back) {
    AttentionShape s{};
    int64_t width = shape.at("width");
    std::vector<int64_t> segments;
    for (int64_t length : shape.at("documents"))
      segments.insert(segments.end(), size_t(length), int64_t(segments.size()));
    s.b = 1;
    s.t = s.s = int64_t(segments.size());
    s.h = shape.at("heads");
    s.hk = shape.at("keys");
    s.d = s.dv = s.qh = s.kh = s.vh = s.oh = width;
    s.qt = s.ot = s.h * width;
    s.ks = s.vs = s.hk * width;
    s.qb = s.ob = s.t * s.qt;
    s.kb = s.vb = s.s * s.ks;
    s.scale = 0.1f;
    s.causal = true;
    s.segments = SegmentKind::Int64;
    s.querySegmentT = 1;
    s.querySegmentB = s.keySegmentB = s.t;
    Numbers<int64_t> numbers(segments);
    AttentionMask mask{nullptr, numbers.data, numbers.data};
    return median([&] {
      T *q = arena.take<T>(s.qb), *k = arena.take<T>(s.kb),
        *v = arena.take<T>(s.vb), *o = arena.take<T>(s.ob);
      float *lse = arena.take<float>(s.h * s.t);
      if (!back)
        return DT_CALL(attentionForward, q, k, v, mask, o, lse, s);
      DT_CALL(attentionBackward, q, k, v, mask, o, lse, arena.take<T>(s.ob),
              arena.take<T>(s.qb), arena.take<T>(s.kb), arena.take<T>(s.vb), s);
    });
  }

  /// Products of `rows` (a number of each expert), `columns`, `depth`; or the
  /// gradients of their weights in float32.
  template <typename T> double experts(const json &shape, bool ofWeight) {
    std::vector<int32_t> offsets{0};
    for (int32_t rows : shape.at("rows"))
      offsets.push_back(offsets.back() + rows);
    GroupedShape s{};
    s.m = offsets.back();
    s.n = shape.at("columns");
    s.k = shape.at("depth");
    s.count = int64_t(offsets.size()) - 1;
    s.transB = true;
    Numbers<int32_t> numbers(offsets);
    int64_t weights = s.count * s.n * s.k;
    return median([&] {
      T *a = arena.take<T>(s.m * s.k);
      if (ofWeight)
        return DT_CALL(groupedMatmulDw, a, arena.take<T>(s.m * s.n),
                       numbers.data, arena.take<float>(weights), s, 0);
      DT_CALL(groupedMatmul, a, arena.take<T>(weights), numbers.data, nullptr,
              arena.take<T>(s.m * s.n), s);
    });
  }

  /// 3 x 3, of `size` x `size` pictures.
  template <typename T> double convolution(int64_t size, int64_t channels) {
    ConvShape s{};
    s.n = 1;
    s.c = s.o = channels;
    s.groups = 1;
    s.dims = 2;
    for (int i = 0; i < 2; ++i) {
      s.in[i] = size;
      s.kernel[i] = 3;
      s.stride[i] = s.dilation[i] = s.padBegin[i] = s.padEnd[i] = 1;
    }
    int64_t elements = size * size * channels;
    return median([&] {
      DT_CALL(convForward, arena.take<T>(elements),
              arena.take<T>(9 * channels * channels), nullptr,
              arena.take<T>(elements), s);
    });
  }

  /// Reads two numbers for each that it writes.
  template <typename T> double stream(int64_t bytes) {
    int64_t count = bytes / 3 / int64_t(sizeof(float));
    return median([&] {
      device::accumulate(arena.take<float>(count), arena.take<float>(count),
                         size_t(count));
    });
  }

  double message(int64_t bytes) {
    char *data = arena.take<char>(bytes);
    return medianOf([&] {
      if (comm.rank() > 1)
        return 0.0;
      double begin = now();
      for (int turn = 0; turn < 2; ++turn)
        if ((comm.rank() == 0) == (turn == 0))
          comm.isend(data, size_t(bytes), 1 - comm.rank(), 0, "measure").wait();
        else
          comm.irecv(data, size_t(bytes), 1 - comm.rank(), 0).wait();
      return (now() - begin) / 2;
    });
  }

  double sum(int64_t bytes) {
    float *data = arena.take<float>(bytes / int64_t(sizeof(float)));
    return medianOf([&] {
      double begin = now();
      comm.world().allReduce(Reduction::Sum, DType::F32, data, data,
                             bytes / int64_t(sizeof(float)), "measure");
      return now() - begin;
    });
  }

  /// Of a call: one that warms up, then a batch at a time that is long enough
  /// for the clock.
  template <typename Call> double median(const Call &call) {
    auto batch = [&](int calls) {
      device::synchronize();
      double begin = clockSeconds();
      for (int i = 0; i < calls; ++i)
        call();
      device::synchronize();
      return (clockSeconds() - begin) / calls;
    };
    batch(1);
    double once = std::max(1e-7, batch(1));
    int calls = int(std::clamp(kBatch / once, 1.0, 10000.0));
    return medianOf([&] { return batch(calls); });
  }

  /// Until time is up on the slowest rank, three times at least.
  template <typename Once> double medianOf(const Once &once) {
    std::vector<double> all;
    double begin = now();
    bool more = true;
    while (more) {
      comm.world().barrier();
      all.push_back(once());
      double enough = all.size() >= 3 && now() - begin > kSeconds;
      std::vector<double> votes = comm.allGather({enough}, "measure");
      more = std::count(votes.begin(), votes.end(), 0.0) > 0;
    }
    std::nth_element(all.begin(), all.begin() + all.size() / 2, all.end());
    return all[all.size() / 2];
  }

  static constexpr double kBatch = 2e-3, kSeconds = 0.03;
  Comm &comm;
  Arena &arena;
};

int measure(Comm &comm, const char *shapesFile, const char *outFile) {
  initializeDevice(comm, 1);
  Arena arena(operandBytes());
  Measurer measurer(comm, arena);
  std::vector<double> seconds;
  for (const json &shape : readJsonFile(shapesFile)) {
    std::vector<double> all =
        comm.allGather({measurer.secondsOf(shape)}, "measure");
    if (shape.at("kind") == "message")
      all.resize(std::min<size_t>(2, all.size()));
    double sum = 0;
    for (double one : all)
      sum += one;
    seconds.push_back(sum / double(all.size()));
  }
  if (comm.rank() != 0)
    return 0;
  std::ofstream out(outFile);
  out << json{{"device", device::describe()}, {"seconds", seconds}} << "\n";
  if (!out.flush())
    throw Error(std::string(outFile) + ": cannot be written");
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: measure RANKS SHAPES.json OUT.json\n");
    return 2;
  }
  try {
    if (auto code = launchRanks(argc, argv, std::atoi(argv[1]), 1))
      return *code;
    std::unique_ptr<Comm> comm = Comm::start();
    try {
      measure(*comm, argv[2], argv[3]);
    } catch (const std::exception &e) {
      std::fprintf(stderr, "error: %s\n", e.what());
      if (comm->size() > 1)
        comm->abort(1);
      return 1;
    }
    comm->finish();
    return 0;
  } catch (const std::exception &e) {
    std::fprintf(stderr, "error: %s\n", e.what());
  }
  return 1;
}

//===- NarrowProgram.h - parameters of two bytes, by hand -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A linear regression whose parameters are stored in bf16, but one; or all of
// them in float32, as the same program is without "precision":
//
//   y = x a + b * frozen + c;  loss = sum of (y - target)^2 / samples
//
// on replicas of one module. With `tied` a second module, which also has a loss
// of its own, multiplies with a copy of `a` that is stored in float32.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_RUNTIME_NARROWPROGRAM_H
#define DT_TEST_RUNTIME_NARROWPROGRAM_H

#include "runtime/base/Safetensors.h"
#include "runtime/data/BatchSource.h"
#include "runtime/device/Device.h"
#include "runtime/step/Trainer.h"
#include "test/runtime/TestSupport.h"

namespace masters {

using namespace dt::rt;

constexpr int64_t kSamples = 12, kIn = 8, kOut = 40;

enum : size_t { kX = 0, kTarget = 512, kY = 2560, kSum = 4608, kCount = 4672 };
constexpr size_t kSlot = 4736;

/// Where parameters and their gradients are, by their order a, b, c, frozen.
template <typename Stored> struct Places;
template <> struct Places<float> {
  static constexpr size_t offset[] = {0, 1280, 1472, 1664, 1856};
  static constexpr size_t gradient[] = {0, 1280, 1472, 1664};
};
template <> struct Places<bf16> {
  static constexpr size_t offset[] = {0, 640, 768, 1024, 1152};
  static constexpr size_t gradient[] = {0, 1280, 1536, 1792};
};

template <typename T> T *at(std::byte *base, size_t offset) {
  return reinterpret_cast<T *>(base + offset);
}
inline float *in(const TaskContext &c, size_t offset) {
  return at<float>(c.arena, offset + size_t(c.slot) * kSlot);
}

/// The sum over samples of squared errors.
inline void measure(const TaskContext &c) {
  float sum = 0;
  for (int64_t i = 0; i < c.dims[0] * kOut; ++i) {
    float error = in(c, kY)[i] - in(c, kTarget)[i];
    sum += error * error;
  }
  *in(c, kSum) = sum;
}

template <typename Stored> void multiply(const TaskContext &c) {
  const Stored *a = at<Stored>(c.parameters, Places<Stored>::offset[0]);
  for (int64_t s = 0; s < c.dims[0]; ++s)
    for (int64_t o = 0; o < kOut; ++o) {
      float sum = 0;
      for (int64_t k = 0; k < kIn; ++k)
        sum += in(c, kX)[s * kIn + k] * float(a[k * kOut + o]);
      in(c, kY)[s * kOut + o] = sum;
    }
}

template <typename Stored> void forward(const TaskContext &c) {
  using P = Places<Stored>;
  multiply<Stored>(c);
  const Stored *b = at<Stored>(c.parameters, P::offset[1]),
               *frozen = at<Stored>(c.parameters, P::offset[3]);
  const float *bias = at<float>(c.parameters, P::offset[2]);
  for (int64_t i = 0; i < c.dims[0] * kOut; ++i) {
    int64_t o = i % kOut;
    in(c, kY)[i] += float(b[o]) * float(frozen[o]) + bias[o];
  }
  measure(c);
}

inline float slope(const TaskContext &c, size_t loss, int64_t i) {
  return 2 * c.seeds[loss] * (in(c, kY)[i] - in(c, kTarget)[i]);
}

inline void addToA(const TaskContext &c, size_t loss) {
  for (int64_t i = 0; i < c.dims[0] * kOut; ++i)
    for (int64_t k = 0; k < kIn; ++k)
      at<float>(c.gradients, 0)[k * kOut + i % kOut] +=
          in(c, kX)[i / kOut * kIn + k] * slope(c, loss, i);
}

template <typename Stored> void backward(const TaskContext &c) {
  using P = Places<Stored>;
  addToA(c, 0);
  gradientsReady(c.listener, 0, P::gradient[1]);
  const Stored *frozen = at<Stored>(c.parameters, P::offset[3]);
  for (int64_t i = 0; i < c.dims[0] * kOut; ++i) {
    int64_t o = i % kOut;
    at<float>(c.gradients, P::gradient[1])[o] +=
        slope(c, 0, i) * float(frozen[o]);
    at<float>(c.gradients, P::gradient[2])[o] += slope(c, 0, i);
  }
  gradientsReady(c.listener, P::gradient[1], P::gradient[3]);
}

inline void twinForward(const TaskContext &c) {
  multiply<float>(c);
  measure(c);
}
inline void twinBackward(const TaskContext &c) {
  addToA(c, 1);
  gradientsReady(c.listener, 0, Places<float>::gradient[1]);
}

inline void denominator(const TaskContext &c) {
  *in(c, kCount) = float(c.dims[0]);
}

constexpr Extent kShapeA[] = {{0, -1, kIn}, {0, -1, kOut}},
                 kShapeOut[] = {{0, -1, kOut}};
constexpr Extent kSamplesxIn[] = {{1, 0, 0}, {0, -1, kIn}},
                 kSamplesxOut[] = {{1, 0, 0}, {0, -1, kOut}};
constexpr SymbolInfo kSymbols[] = {{"batch", "sample", kSamples}};
constexpr InputInfo kInputs[] = {
    {{{"x", DType::F32, 2, kSamplesxIn}, kX, kSlot}},
    {{{"target", DType::F32, 2, kSamplesxOut}, kTarget, kSlot}}};
constexpr BufferInfo kOutputs[] = {
    {{"y", DType::F32, 2, kSamplesxOut}, kY, kSlot}};
constexpr double kSettings[] = {0.9, 0.999, 1e-8};

/// `stored`: of a, b and frozen. The rows of a parameter: 0 to 3, and 4 of the
/// copy.
struct NarrowProgram {
  ProgramInfo info{};
  std::vector<ParameterInfo> parameters;
  std::vector<ModuleInfo> modules;
  std::vector<LossInfo> losses;
  std::vector<int32_t> ranks;
  std::vector<TaskRow> rows;
  std::vector<RankInfo> rankTable;

  NarrowProgram(DType stored, int world, int32_t zero = 0, bool tied = false) {
    bool isNarrow = stored == DType::BF16;
    for (int r = 0; r < world; ++r)
      ranks.push_back(r);
    makeParameters(stored, tied);
    makeModules(isNarrow, zero, tied);
    info.globalBatch = kSamples, info.microBatch = 2 * world;
    int n = int(microbatchCount(info)), count = tied ? 2 : 1;
    for (int m = 0; m < count; ++m)
      for (int k = 0; k < n; ++k)
        rows.push_back({TaskKind::Denominator, uint16_t(m), uint32_t(k), 0});
    for (TaskKind kind : {TaskKind::Forward, TaskKind::Backward})
      for (int m = 0; m < count; ++m)
        for (int k = 0; k < n; ++k)
          rows.push_back({kind, uint16_t(m), uint32_t(k), int16_t(k)});
    for (int m = 0; m < count; ++m)
      rows.push_back({TaskKind::Reduce, uint16_t(m), 0, 0});
    rankTable.assign(size_t(world), {{rows.data(), rows.size()}});
    info.name = "narrow";
    info.planHash = 0x77 + uint64_t(world) + (isNarrow ? 16 : 0);
    info.parameters = {parameters.data(), parameters.size()};
    info.modules = {modules.data(), modules.size()};
    info.losses = {losses.data(), losses.size()};
    info.ranks = {rankTable.data(), rankTable.size()};
    info.schedule = "narrow", info.seed = 5;
    info.optimizer = {OptimizerKind::AdamW, kSettings, 0.02, 0.01, 1.0};
    info.bucketBytes = 1536;
  }
  NarrowProgram(const NarrowProgram &) = delete;

private:
  void makeParameters(DType stored, bool tied) {
    using Full = Places<float>;
    using Half = Places<bf16>;
    const char *names[] = {"net.a", "net.b", "net.c", "net.frozen"};
    for (int i = 0; i < 4; ++i) {
      ParameterInfo p{};
      bool isNarrow = stored == DType::BF16;
      p.tensor = {names[i], i == 2 ? DType::F32 : stored, i ? 1 : 2,
                  i ? kShapeOut : kShapeA};
      p.offset = isNarrow ? Half::offset[i] : Full::offset[i];
      p.trainable = p.hasGradient = i < 3;
      if (p.trainable)
        p.gradient = isNarrow ? Half::gradient[i] : Full::gradient[i];
      p.decay = i == 0;
      p.init = i == 0 ? "normal(0,0.3)" : i == 2 ? "zeros" : nullptr;
      parameters.push_back(p);
    }
    if (!tied)
      return;
    ParameterInfo copy = parameters[0];
    copy.tensor.name = "twin.a", copy.tensor.type = DType::F32;
    copy.module = 1, copy.tied = 0;
    parameters.push_back(copy);
  }

  void makeModules(bool isNarrow, int32_t zero, bool tied) {
    ModuleInfo net{};
    net.name = net.origin = net.unit = "net", net.item = "sample";
    net.symbols = kSymbols, net.inputs = kInputs, net.outputs = kOutputs;
    net.forward = isNarrow ? forward<bf16> : forward<float>;
    net.backward = isNarrow ? backward<bf16> : backward<float>;
    net.arenaBytes = 6 * kSlot, net.scratchBytes = 64;
    net.parameterBytes =
        isNarrow ? Places<bf16>::offset[4] : Places<float>::offset[4];
    net.trainableBytes =
        isNarrow ? Places<bf16>::gradient[3] : Places<float>::gradient[3];
    net.tp = 1, net.dp = int32_t(ranks.size()), net.zero = zero;
    net.ranks = {ranks.data(), ranks.size()};
    modules.push_back(net);
    ModuleInfo twin = net;
    twin.name = twin.origin = twin.unit = "twin";
    twin.forward = twinForward, twin.backward = twinBackward;
    twin.parameterBytes = twin.trainableBytes = Places<float>::gradient[1];
    if (tied)
      modules.push_back(twin);
    for (int32_t m = 0; m < int32_t(modules.size()); ++m)
      losses.push_back({m ? "twins" : "square",
                        1,
                        m,
                        {{"sum", DType::F32, 0, nullptr}, kSum, kSlot},
                        denominator,
                        {{"count", DType::F32, 0, nullptr}, kCount, kSlot},
                        {}});
  }
};

/// The program's folder: weights, plan and a batch file "batch".
inline void writeFolder(const TemporaryFolder &folder) {
  std::vector<float> b = randoms(kOut, 31), frozen = randoms(kOut, 32),
                     x = randoms(kSamples * kIn, 33),
                     target = randoms(kSamples * kOut, 34);
  SafetensorsWriter weights;
  weights.add("net.b", DType::F32, {kOut}, b.data());
  weights.add("net.frozen", DType::F32, {kOut}, frozen.data());
  weights.write(folder / "weights.safetensors");
  writeFile(folder / "data.json", R"({"inputs": {}})");
  SafetensorsWriter batch;
  batch.add("x", DType::F32, {kSamples, kIn}, x.data());
  batch.add("target", DType::F32, {kSamples, kOut}, target.data());
  batch.write(folder / "batch");
}

/// What this rank updates of a module: values, as float32, and moments.
struct State {
  std::vector<float> values;
  dt::rt::Moments<std::vector<float>> moments{};

  State() = default;
  State(const Trainer &trainer, size_t module, const UpdateRange &u) {
    const Region &region = trainer.regions().at(module);
    const float *p = u.range.type == DType::BF16
                         ? region.masters + u.moment
                         : reinterpret_cast<const float *>(region.parameters +
                                                           u.range.stored);
    values.assign(p, p + u.range.count);
    for (size_t k = 0; k < trainer.optimizer().moments().size; ++k) {
      const float *m = region.moments.at[k] + u.moment;
      moments.at[k].assign(m, m + u.range.count);
    }
  }
};

/// A step, after which values are what the optimizer makes of the gradients in
/// float32, bit for bit, and what is stored is these rounded.
inline double checkedStep(Trainer &trainer, const Batch &batch, int64_t step) {
  const ProgramInfo &program = trainer.program();
  std::vector<std::pair<size_t, UpdateRange>> ranges;
  std::vector<State> states;
  for (size_t m = 0; m < program.modules.size; ++m)
    for (const UpdateRange &u : trainer.ownership().updates(m)) {
      ranges.push_back({m, u});
      states.emplace_back(trainer, m, u);
    }
  StepResult result = trainer.step(batch, step);
  for (size_t i = 0; i < ranges.size(); ++i) {
    auto &[m, u] = ranges[i];
    State &wanted = states[i], now(trainer, m, u);
    const Region &region = trainer.regions().at(m);
    device::UpdateRun run{wanted.values.data(),
                          reinterpret_cast<const float *>(region.gradients) +
                              u.range.begin,
                          {},
                          u.range.count,
                          nullptr};
    for (size_t k = 0; k < trainer.optimizer().moments().size; ++k)
      run.moments.at[k] = wanted.moments.at[k].data();
    Verdict verdict{result.loss, result.norm,
                    clipScale(trainer.optimizer().clipNorm(), result.norm),
                    true};
    trainer.optimizer().update({&run, 1, run.count}, u.rule, step, result.lr,
                               &verdict);
    EXPECT_EQ(now.values, wanted.values) << step << " range " << i;
    for (size_t k = 0; k < kMostMoments; ++k)
      EXPECT_EQ(now.moments.at[k], wanted.moments.at[k]);
    auto *stored =
        reinterpret_cast<const bf16 *>(region.parameters + u.range.stored);
    for (size_t e = 0; u.range.type == DType::BF16 && e < u.range.count; ++e)
      EXPECT_EQ(stored[e].bits, bf16(wanted.values[e]).bits) << e;
  }
  return result.loss;
}

/// What a module's region holds of a parameter, as float32.
inline std::vector<float> storedOf(const Trainer &trainer, size_t row) {
  const ParameterInfo &p = trainer.program().parameters[row];
  const std::byte *data = trainer.regions().parameter(p);
  std::vector<float> values;
  for (size_t i = 0; i < partElements(p); ++i)
    values.push_back(p.tensor.type == DType::BF16
                         ? float(reinterpret_cast<const bf16 *>(data)[i])
                         : reinterpret_cast<const float *>(data)[i]);
  return values;
}

inline std::vector<float> rounded(std::vector<float> values) {
  for (float &value : values)
    value = bf16(value);
  return values;
}

} // namespace masters

#endif // DT_TEST_RUNTIME_NARROWPROGRAM_H

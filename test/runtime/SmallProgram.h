//===- SmallProgram.h - a program written by hand ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What codegen would emit for a very small multimodal regression: a tower turns
// each image (3 numbers) into 2, a head predicts a number for each sample from
// its own features and its images. Six samples a batch, tokens of a sample: 4.
//
//   embeds = pixels w^T;  prediction = features v + sum over the sample's
//   images of embeds u loss = sum of (prediction - target)^2 / number of
//   samples
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_RUNTIME_SMALLPROGRAM_H
#define DT_TEST_RUNTIME_SMALLPROGRAM_H

#include "runtime/Program.h"
#include "runtime/Safetensors.h"
#include "test/runtime/TestSupport.h"

namespace small {

using namespace dt::rt;

constexpr int64_t kSamples = 6, kImages = 7, kTokens = 4;

// Parameter offsets and arena offsets, in bytes.
enum : size_t {
  kW = 0,
  kU = 64,
  kV = 128,
  kFrozen = 192,
  kParameterBytes = 256
};
enum : size_t {
  kPixels = 0,
  kEmbeds = 256,
  kEmbedsGrad = 512,
  kFeatures = 768,
  kIds = 1024,
  kPositions = 1536,
  kTarget = 1792,
  kPrediction = 1856,
  kNumerator = 1920,
  kDenominator = 1984,
  kArenaBytes = 2048
};

template <typename T> T *at(std::byte *base, size_t offset) {
  return reinterpret_cast<T *>(base + offset);
}

inline void towerForward(const TaskContext &c) {
  const float *x = at<float>(c.arena, kPixels),
              *w = at<float>(c.parameters, kW);
  for (int64_t i = 0; i < c.dims[0]; ++i)
    for (int64_t o = 0; o < 2; ++o)
      at<float>(c.arena, kEmbeds)[i * 2 + o] = x[i * 3] * w[o * 3] +
                                               x[i * 3 + 1] * w[o * 3 + 1] +
                                               x[i * 3 + 2] * w[o * 3 + 2];
}

inline void towerBackward(const TaskContext &c) {
  const float *x = at<float>(c.arena, kPixels),
              *d = at<float>(c.arena, kEmbedsGrad);
  for (int64_t i = 0; i < c.dims[0]; ++i)
    for (int64_t o = 0; o < 2; ++o)
      for (int64_t k = 0; k < 3; ++k)
        at<float>(c.gradients, kW)[o * 3 + k] += d[i * 2 + o] * x[i * 3 + k];
}

inline void headForward(const TaskContext &c) {
  const float *f = at<float>(c.arena, kFeatures),
              *u = at<float>(c.parameters, kU),
              *v = at<float>(c.parameters, kV);
  float *p = at<float>(c.arena, kPrediction), numerator = 0;
  for (int64_t s = 0; s < c.dims[0]; ++s)
    p[s] = f[s * 2] * v[0] + f[s * 2 + 1] * v[1];
  for (int64_t i = 0; i < c.dims[1]; ++i) {
    const float *e = at<float>(c.arena, kEmbeds) + i * 2;
    p[at<int64_t>(c.arena, kPositions)[i * 2] / kTokens] +=
        e[0] * u[0] + e[1] * u[1];
  }
  for (int64_t s = 0; s < c.dims[0]; ++s) {
    float d = p[s] - at<float>(c.arena, kTarget)[s];
    numerator += d * d;
  }
  *at<float>(c.arena, kNumerator) = numerator;
}

inline void headBackward(const TaskContext &c) {
  const float *u = at<float>(c.parameters, kU);
  auto gradient = [&](int64_t s) {
    return 2 * c.seeds[0] *
           (at<float>(c.arena, kPrediction)[s] -
            at<float>(c.arena, kTarget)[s]);
  };
  for (int64_t s = 0; s < c.dims[0]; ++s)
    for (int k = 0; k < 2; ++k)
      at<float>(c.gradients, kV)[k] +=
          gradient(s) * at<float>(c.arena, kFeatures)[s * 2 + k];
  for (int64_t i = 0; i < c.dims[1]; ++i)
    for (int k = 0; k < 2; ++k) {
      float d = gradient(at<int64_t>(c.arena, kPositions)[i * 2] / kTokens);
      at<float>(c.gradients, kU)[k] +=
          d * at<float>(c.arena, kEmbeds)[i * 2 + k];
      at<float>(c.arena, kEmbedsGrad)[i * 2 + k] = d * u[k];
    }
}

inline void denominator(const TaskContext &c) {
  *at<float>(c.arena, kDenominator) = float(c.dims[0]);
}

constexpr Extent kShape2x3[] = {{0, -1, 2}, {0, -1, 3}},
                 kShape2[] = {{0, -1, 2}};
constexpr OnnxRef kOnnxW[] = {{"sub/tower.onnx", "w"}},
                  kOnnxV[] = {{"head.onnx", "v"}},
                  kOnnxU[] = {{"head.onnx", "u"}};
constexpr ParameterInfo kParameters[] = {
    {{"tower.w", DType::F32, 2, kShape2x3},
     kW,
     true,
     true,
     true,
     "normal(0,0.5)",
     kOnnxW},
    {{"head.u", DType::F32, 1, kShape2}, kU, true, true, false, "ones", kOnnxU},
    {{"head.v", DType::F32, 1, kShape2}, kV, true, true, true, nullptr, kOnnxV},
    {{"head.frozen", DType::F32, 1, kShape2},
     kFrozen,
     false,
     false,
     false,
     nullptr,
     {}}};

constexpr Extent kImages0x3[] = {{1, 0, 0}, {0, -1, 3}},
                 kImages0x2[] = {{1, 0, 0}, {0, -1, 2}},
                 kImages1x2[] = {{1, 1, 0}, {0, -1, 2}};
constexpr Extent kBatchx2[] = {{1, 0, 0}, {0, -1, 2}},
                 kBatchxTokens[] = {{1, 0, 0}, {0, -1, kTokens}},
                 kBatch[] = {{1, 0, 0}};

constexpr SymbolInfo kTowerSymbols[] = {{"images", "image", kImages}};
constexpr InputInfo kTowerInputs[] = {
    {{{"pixels", DType::F32, 2, kImages0x3}, kPixels, 0}}};
constexpr BufferInfo kTowerOutputs[] = {
    {{"embeds", DType::F32, 2, kImages0x2}, kEmbeds, 0}};
constexpr SymbolInfo kHeadSymbols[] = {{"batch", "sample", kSamples},
                                       {"images", "image", kImages}};
constexpr InputInfo kHeadInputs[] = {
    {{{"features", DType::F32, 2, kBatchx2}, kFeatures, 0}},
    {{{"ids", DType::I64, 2, kBatchxTokens}, kIds, 0}},
    {{{"positions", DType::I64, 2, kImages1x2}, kPositions, 0}},
    {{{"target", DType::F32, 1, kBatch}, kTarget, 0}},
    {{{"embeds", DType::F32, 2, kImages1x2}, kEmbeds, 0}, 0, 0}};
constexpr BufferInfo kHeadOutputs[] = {
    {{"prediction", DType::F32, 1, kBatch}, kPrediction, 0}};
constexpr ModuleInfo kModules[] = {
    {"tower", "tower", kTowerSymbols, kTowerInputs, kTowerOutputs, towerForward,
     towerBackward, false},
    {"head", "head", kHeadSymbols, kHeadInputs, kHeadOutputs, headForward, headBackward,
     false}};
constexpr LossInfo kLosses[] = {
    {"square",
     1,
     1,
     {{"numerator", DType::F32, 0, nullptr}, kNumerator, 0},
     denominator,
     {{"denominator", DType::F32, 0, nullptr}, kDenominator, 0},
     {}}};
constexpr OptimizerInfo kOptimizer = {
    OptimizerKind::AdamW, 0.05, 0.9, 0.999, 1e-8, 0, 0.01, 1.0, 2,
    ScheduleKind::Cosine, 40,   0.5, 0.1};

/// The program for a microbatch size; the table of rows is the program's own.
struct SmallProgram {
  std::vector<TaskRow> rows;
  ProgramInfo info{};

  explicit SmallProgram(int64_t micro) {
    uint32_t n = uint32_t((kSamples + micro - 1) / micro);
    for (uint32_t k = 0; k < n; ++k)
      rows.push_back({TaskKind::Denominator, 0, k, 0});
    for (uint32_t k = 0; k < n; ++k)
      rows.insert(rows.end(), {{TaskKind::Forward, 0, k, 0},
                               {TaskKind::Forward, 1, k, 0},
                               {TaskKind::Backward, 1, k, 0},
                               {TaskKind::Backward, 0, k, 0}});
    info.name = "small", info.planHash = 0x5A + uint64_t(micro);
    info.parameters = kParameters, info.modules = kModules,
    info.losses = kLosses;
    info.rows = {rows.data(), rows.size()};
    info.optimizer = kOptimizer;
    info.arenaBytes = kArenaBytes, info.parameterBytes = kParameterBytes;
    info.globalBatch = kSamples, info.microBatch = micro, info.seed = 3;
  }
  SmallProgram(const SmallProgram &) = delete;
};

/// Sample of each image; not in order on purpose.
inline const std::vector<int64_t> kOwners = {0, 3, 0, 2, 5, 3, 5};

/// The program's folder: weights, plan and a batch file "batch".
inline void writeFolder(const TemporaryFolder &folder) {
  std::vector<float> v = {0.3f, -0.2f}, pixels = randoms(kImages * 3, 11),
                     features = randoms(kSamples * 2, 12),
                     target = randoms(kSamples, 13);
  SafetensorsWriter weights;
  weights.add("head.v", DType::F32, {2}, v.data());
  weights.add("head.frozen", DType::F32, {2}, v.data());
  weights.write(folder / "weights.safetensors");
  writeFile(
      folder / "plan.json",
      R"({"inputs": {"head.positions": {"index": ["sample", "token"]}}})");
  std::vector<int64_t> ids(kSamples * kTokens), positions;
  for (size_t i = 0; i < kOwners.size(); ++i)
    positions.insert(positions.end(), {kOwners[i] * kTokens + int64_t(i) % 2,
                                       i == 2 ? -1 : kOwners[i] * kTokens + 2});
  SafetensorsWriter batch;
  batch.add("in.tower.pixels", DType::F32, {kImages, 3}, pixels.data());
  batch.add("head.features", DType::F32, {kSamples, 2}, features.data());
  batch.add("ids", DType::I64, {kSamples, kTokens}, ids.data());
  batch.add("in.head.positions", DType::I64, {kImages, 2}, positions.data());
  batch.add("in.target", DType::F32, {kSamples}, target.data());
  batch.write(folder / "batch");
}

} // namespace small

#endif // DT_TEST_RUNTIME_SMALLPROGRAM_H

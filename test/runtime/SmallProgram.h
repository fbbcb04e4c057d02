//===- SmallProgram.h - a program written by hand ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What codegen would emit for a very small multimodal regression: a tower turns
// each image (3 numbers) into 2, a head predicts a number for each sample from
// its own features and its images. Six samples a batch, tokens of a sample: 4.
//
//   embeds = pixels w^T;  prediction = features v + sum over the sample's
//   images of embeds u; loss = sum of (prediction - target)^2 / number of
//   samples
//
// The two modules run on one rank, or each on ranks of its own with any number
// of replicas; the head's two features may be cut over two ranks. Both may work
// on microbatches in pieces. Embeddings, and their gradients, may be bf16.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_RUNTIME_SMALLPROGRAM_H
#define DT_TEST_RUNTIME_SMALLPROGRAM_H

#include "runtime/Program.h"
#include "runtime/base/Safetensors.h"
#include "runtime/comm/Collectives.h"
#include "runtime/device/BFloat16.h"
#include "test/runtime/TestSupport.h"
#include "test/runtime/Waits.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstring>
#include <thread>
#include <type_traits>

namespace small {

using namespace dt::rt;

constexpr int64_t kSamples = 6, kImages = 7, kTokens = 4;

// Offsets in the modules' regions and slots, in bytes.
enum : size_t { kW = 0, kTowerParameters = 64 };
enum : size_t { kU = 0, kV = 64, kFrozen = 128, kHeadParameters = 192 };
enum : size_t { kPixels = 0, kTowerEmbeds = 256, kTowerGrad = 512 };
enum : size_t {
  kEmbeds = 0,
  kEmbedsGrad = 256,
  kFeatures = 512,
  kIds = 768,
  kPositions = 1280,
  kTarget = 1536,
  kPrediction = 1600,
  kNumerator = 1664,
  kDenominator = 1728,
  kSlot = 1792
};

template <typename T> T *at(std::byte *base, size_t offset) {
  return reinterpret_cast<T *>(base + offset);
}
template <typename T> T *in(const TaskContext &c, size_t offset) {
  return at<T>(c.arena, offset + size_t(c.slot) * kSlot);
}
template <typename T> T *received(const TaskContext &c, size_t offset) {
  return at<T>(c.arena, offset + size_t(c.received) * kSlot);
}

/// E: of embeddings.
template <typename E> void towerForward(const TaskContext &c) {
  const float *x = in<float>(c, kPixels), *w = at<float>(c.parameters, kW);
  for (int64_t i = 0; i < c.dims[0]; ++i)
    for (int64_t o = 0; o < 2; ++o)
      in<E>(c, kTowerEmbeds)[i * 2 + o] = x[i * 3] * w[o * 3] +
                                          x[i * 3 + 1] * w[o * 3 + 1] +
                                          x[i * 3 + 2] * w[o * 3 + 2];
}

template <typename E> void towerBackward(const TaskContext &c) {
  const float *x = in<float>(c, kPixels);
  const E *d = in<E>(c, kTowerGrad);
  for (int64_t i = 0; i < c.dims[0]; ++i)
    for (int64_t o = 0; o < 2; ++o)
      for (int64_t k = 0; k < 3; ++k)
        at<float>(c.gradients, kW)[o * 3 + k] += d[i * 2 + o] * x[i * 3 + k];
  gradientsReady(c.listener, kW, kTowerParameters);
}

template <int TP, typename T>
void sumOverGroup(const TaskContext &c, T *values, int64_t count) {
  collective(c.group,
             {.kind = CollectiveKind::AllReduce,
              .type = std::is_same_v<T, bf16> ? DType::BF16 : DType::F32,
              .chunk = count,
              .over = TP,
              .stride = 1},
             values, values);
}

/// With TP = 2 each rank has one of the two features.
template <int TP, typename E = float> void headForward(const TaskContext &c) {
  const float *f = in<float>(c, kFeatures), *u = at<float>(c.parameters, kU),
              *v = at<float>(c.parameters, kV);
  float *p = in<float>(c, kPrediction), numerator = 0;
  int64_t place = placeOnAxis(c.group, TP, 1);
  for (int64_t s = 0; s < c.dims[0]; ++s) {
    p[s] = 0;
    for (int k = 0; k < 2 / TP; ++k)
      p[s] += f[s * 2 + place + k] * v[k];
  }
  for (int64_t i = 0; i < c.dims[1]; ++i)
    for (int k = 0; k < 2 / TP; ++k)
      p[in<int64_t>(c, kPositions)[i * 2] / kTokens] +=
          received<E>(c, kEmbeds)[i * 2 + place + k] * u[k];
  sumOverGroup<TP>(c, p, c.dims[0]);
  for (int64_t s = 0; s < c.dims[0]; ++s) {
    float d = p[s] - in<float>(c, kTarget)[s];
    numerator += d * d;
  }
  *in<float>(c, kNumerator) = numerator;
}

template <int TP, typename E = float> void headBackward(const TaskContext &c) {
  const float *u = at<float>(c.parameters, kU);
  int64_t place = placeOnAxis(c.group, TP, 1);
  auto gradient = [&](int64_t s) {
    return 2 * c.seeds[0] *
           (in<float>(c, kPrediction)[s] - in<float>(c, kTarget)[s]);
  };
  E *out = in<E>(c, kEmbedsGrad);
  for (int64_t i = 0; i < c.dims[1]; ++i) {
    out[i * 2] = out[i * 2 + 1] = 0;
    for (int k = 0; k < 2 / TP; ++k) {
      float d = gradient(in<int64_t>(c, kPositions)[i * 2] / kTokens);
      at<float>(c.gradients, kU)[k] +=
          d * received<E>(c, kEmbeds)[i * 2 + place + k];
      out[i * 2 + place + k] = d * u[k];
    }
  }
  gradientsReady(c.listener, kU, kV);
  for (int64_t s = 0; s < c.dims[0]; ++s)
    for (int k = 0; k < 2 / TP; ++k)
      at<float>(c.gradients, kV)[k] +=
          gradient(s) * in<float>(c, kFeatures)[s * 2 + place + k];
  gradientsReady(c.listener, kV, kFrozen);
  sumOverGroup<TP>(c, out, c.dims[1] * 2);
}

inline void denominator(const TaskContext &c) {
  *in<float>(c, kDenominator) = float(c.dims[0]);
}

/// A task that takes a millisecond: longer than any clock's tick.
template <void (*task)(const TaskContext &)> void slowly(const TaskContext &c) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  task(c);
}

constexpr Extent kShape2x3[] = {{0, -1, 2}, {0, -1, 3}},
                 kShape2[] = {{0, -1, 2}}, kShape1[] = {{0, -1, 1}};
constexpr OnnxRef kOnnxW[] = {{"sub/tower.onnx", "w"}},
                  kOnnxV[] = {{"head.onnx", "v"}},
                  kOnnxU[] = {{"head.onnx", "u"}};
constexpr int64_t kWhole2[] = {2};
constexpr CutInfo kCut[] = {{0, 1, 2, 1}};

constexpr ParameterInfo trained(TensorInfo tensor, int32_t module,
                                size_t offset, bool decay, const char *init,
                                Span<OnnxRef> onnx) {
  return {tensor, module, offset, offset, true, true, decay, init, onnx};
}
constexpr ParameterInfo frozen(TensorInfo tensor, int32_t module,
                               size_t offset) {
  return {tensor, module, offset, 0, false, false, false, nullptr, {}};
}
constexpr ParameterInfo kParameters[] = {
    trained({"tower.w", DType::F32, 2, kShape2x3}, 0, kW, true, "normal(0,0.5)",
            kOnnxW),
    trained({"head.u", DType::F32, 1, kShape2}, 1, kU, false, "ones", kOnnxU),
    trained({"head.v", DType::F32, 1, kShape2}, 1, kV, true, nullptr, kOnnxV),
    frozen({"head.frozen", DType::F32, 1, kShape2}, 1, kFrozen)};

constexpr Extent kImages0x3[] = {{1, 0, 0}, {0, -1, 3}},
                 kImages0x2[] = {{1, 0, 0}, {0, -1, 2}},
                 kImages1x2[] = {{1, 1, 0}, {0, -1, 2}};
constexpr Extent kBatchx2[] = {{1, 0, 0}, {0, -1, 2}},
                 kBatchxTokens[] = {{1, 0, 0}, {0, -1, kTokens}},
                 kBatch[] = {{1, 0, 0}};

constexpr SymbolInfo kTowerSymbols[] = {{"images", "image", kImages}};
constexpr InputInfo kTowerInputs[] = {
    {{{"pixels", DType::F32, 2, kImages0x3}, kPixels, kSlot}}};
constexpr BufferInfo kTowerOutputs[] = {
    {{"embeds", DType::F32, 2, kImages0x2}, kTowerEmbeds, kSlot}};
constexpr SymbolInfo kHeadSymbols[] = {{"batch", "sample", kSamples},
                                       {"images", "image", kImages}};
constexpr InputInfo kHeadInputs[] = {
    {{{"features", DType::F32, 2, kBatchx2}, kFeatures, kSlot}},
    {{{"ids", DType::I64, 2, kBatchxTokens}, kIds, kSlot}},
    {{{"positions", DType::I64, 2, kImages1x2}, kPositions, kSlot}},
    {{{"target", DType::F32, 1, kBatch}, kTarget, kSlot}},
    {{{"embeds", DType::F32, 2, kImages1x2},
      kEmbeds,
      kSlot,
      SlotKind::Received},
     0,
     0}};
constexpr BufferInfo kHeadOutputs[] = {
    {{"prediction", DType::F32, 1, kBatch}, kPrediction, kSlot}};
constexpr EdgeInfo kEdges[] = {
    {0,
     0,
     1,
     4,
     true,
     {{"embeds.grad", DType::F32, 2, kImages1x2}, kEmbedsGrad, kSlot},
     {{"embeds.grad", DType::F32, 2, kImages0x2}, kTowerGrad, kSlot}}};
constexpr LossInfo kLosses[] = {
    {"square",
     1,
     1,
     {{"numerator", DType::F32, 0, nullptr}, kNumerator, kSlot},
     denominator,
     {{"denominator", DType::F32, 0, nullptr}, kDenominator, kSlot},
     {}}};
constexpr int32_t kOf0[] = {0}, kOf1[] = {1};
constexpr SizeTerm kSampleCount[] = {{1, kOf0}}, kEmbedsCount[] = {{2, kOf1}};
constexpr double kSettings[] = {0.9, 0.999, 1e-8};
constexpr OptimizerInfo kOptimizer = {
    OptimizerKind::AdamW, kSettings, 0.05, 0.01, 1.0, 2,
    ScheduleKind::Cosine, 40,        0.5,  0.1};

/// Where the modules run. Without replicas of the head's own: all on rank 0.
struct SmallPlan {
  int32_t towers = 0, heads = 0, tp = 1;
  int32_t zero = 0;
  int32_t towerSub = 1, headSub = 1;
  DType embeds = DType::F32; ///< or BF16
  int32_t ranks() const { return heads ? towers + heads * tp : 1; }
};

/// The program for a microbatch size; tables that depend on the plan are its
/// own. On many ranks all forwards of the tower come first.
struct SmallProgram {
  std::vector<std::vector<TaskRow>> rows;
  dt::test::RowWaits waits;
  std::vector<RankInfo> rankTable;
  std::vector<ModuleInfo> modules;
  std::vector<ParameterInfo> parameters;
  std::vector<int32_t> towerRanks, headRanks;
  std::vector<BufferInfo> towerOutputs;
  std::vector<InputInfo> headInputs;
  std::vector<EdgeInfo> edges;
  std::vector<CollectiveInfo> collectives; ///< of heads that are cut
  ProgramInfo info{};

  explicit SmallProgram(int64_t micro, SmallPlan plan = {})
      : parameters(std::begin(kParameters), std::end(kParameters)),
        towerOutputs(std::begin(kTowerOutputs), std::end(kTowerOutputs)),
        headInputs(std::begin(kHeadInputs), std::end(kHeadInputs)),
        edges(std::begin(kEdges), std::end(kEdges)) {
    towerOutputs[0].tensor.type = headInputs[4].buffer.tensor.type =
        edges[0].produced.tensor.type = edges[0].consumed.tensor.type =
            plan.embeds;
    uint32_t n = uint32_t((kSamples + micro - 1) / micro);
    for (int32_t r = 0; r < plan.ranks(); ++r)
      (plan.heads && r >= plan.towers ? headRanks : towerRanks).push_back(r);
    if (!plan.heads)
      headRanks = {0};
    makeModules(plan, n);
    for (int32_t r = 0; r < plan.ranks(); ++r)
      rows.push_back(!plan.heads       ? together(n, plan)
                     : r < plan.towers ? towerRows(n, plan)
                                       : headRows(n, plan));
    for (auto &list : rows)
      rankTable.push_back({{list.data(), list.size()}});
    info.name = "small";
    info.planHash = 0x5A + uint64_t(micro) + 16 * uint64_t(plan.ranks()) +
                    1024 * uint64_t(plan.towerSub) +
                    8192 * uint64_t(plan.headSub);
    info.parameters = {parameters.data(), parameters.size()};
    info.modules = {modules.data(), modules.size()};
    info.edges = {edges.data(), edges.size()}, info.losses = kLosses;
    info.ranks = {rankTable.data(), rankTable.size()};
    info.pace = 1, info.schedule = "small", info.optimizer = kOptimizer;
    info.globalBatch = kSamples, info.microBatch = micro, info.seed = 3;
    info.collectives = {collectives.data(), collectives.size()};
    info.bucketBytes = 64;
    for (auto &list : rows)
      waits.add(info, list);
  }
  SmallProgram(const SmallProgram &) = delete;

private:
  void makeModules(const SmallPlan &plan, uint32_t n) {
    ModuleInfo tower{};
    tower.name = tower.origin = tower.unit = "tower", tower.item = "image";
    tower.symbols = kTowerSymbols, tower.inputs = kTowerInputs;
    tower.outputs = {towerOutputs.data(), towerOutputs.size()};
    bool narrow = plan.embeds == DType::BF16;
    tower.forward = narrow ? towerForward<bf16> : towerForward<float>;
    tower.backward = narrow ? towerBackward<bf16> : towerBackward<float>;
    tower.arenaBytes =
        (n + 1) * size_t(std::max(plan.towerSub, plan.headSub)) * kSlot;
    tower.scratchBytes = 64, tower.sub = plan.towerSub;
    tower.parameterBytes = tower.trainableBytes = kTowerParameters;
    tower.tp = 1, tower.dp = int32_t(towerRanks.size());
    tower.ranks = {towerRanks.data(), towerRanks.size()};
    ModuleInfo head = tower;
    head.name = head.origin = head.unit = "head", head.item = "sample";
    head.sub = plan.headSub;
    head.symbols = kHeadSymbols,
    head.inputs = {headInputs.data(), headInputs.size()};
    head.outputs = kHeadOutputs;
    bool cut = plan.tp == 2;
    head.forward = narrow ? (cut ? headForward<2, bf16> : headForward<1, bf16>)
                          : (cut ? headForward<2> : headForward<1>);
    head.backward = narrow
                        ? (cut ? headBackward<2, bf16> : headBackward<1, bf16>)
                        : (cut ? headBackward<2> : headBackward<1>);
    head.parameterBytes = kHeadParameters, head.trainableBytes = kFrozen;
    head.tp = plan.tp, head.dp = int32_t(headRanks.size()) / plan.tp;
    head.ranks = {headRanks.data(), headRanks.size()};
    tower.zero = head.zero = plan.zero;
    modules = {tower, head};
    if (cut)
      collectives = {{head.forward, CollectiveKind::AllReduce, DType::F32, 2, 1,
                      1, kSampleCount, kSamples},
                     {head.backward, CollectiveKind::AllReduce, plan.embeds, 2,
                      1, 1, kEmbedsCount, 2 * kImages}};
    for (int p = 1; cut && p < 3; ++p) {
      parameters[p].tensor.shape = kShape1;
      parameters[p].whole = kWhole2;
      parameters[p].cuts = kCut;
    }
  }

  static void run(std::vector<TaskRow> &rows, TaskKind kind, int index,
                  uint32_t k, int32_t pieces, int32_t slot,
                  int32_t received = 0) {
    for (int32_t p = 0; p < pieces; ++p)
      rows.push_back({kind, uint16_t(index), k, int16_t(slot + p),
                      int16_t(received + p), 0, 0, 0, false, int16_t(p)});
  }
  /// Messages between pieces here, in slots from `slot` on, and parts there.
  static void move(std::vector<TaskRow> &rows, TaskKind kind, uint32_t k,
                   int32_t pieces, int32_t parts, int32_t slot, bool gradient) {
    for (int32_t p = 0; p < pieces; ++p)
      for (int32_t q = 0; q < parts; ++q)
        rows.push_back(
            {kind, 0, k, int16_t(slot + p), 0, 0, 0, q, gradient, int16_t(p)});
  }

  static std::vector<TaskRow> together(uint32_t n, const SmallPlan &plan) {
    std::vector<TaskRow> rows;
    int32_t tower = plan.towerSub, head = plan.headSub;
    bool copies = tower == 1 && head == 1;
    for (uint32_t k = 0; k < n; ++k)
      run(rows, TaskKind::Denominator, 0, k, head, 0);
    for (uint32_t k = 0; k < n; ++k) {
      if (!copies)
        move(rows, TaskKind::Receive, k, head, tower, 0, false);
      run(rows, TaskKind::Forward, 0, k, tower, 0);
      if (copies)
        rows.push_back({TaskKind::Copy, 0, k, 0});
      else
        move(rows, TaskKind::Send, k, tower, head, 0, false);
      run(rows, TaskKind::Forward, 1, k, head, 0);
      run(rows, TaskKind::Backward, 1, k, head, 0);
      if (copies) {
        rows.push_back({TaskKind::Copy, 0, k, 0, 0, 0, 0, 0, true});
      } else { // asked for after it is sent
        move(rows, TaskKind::Send, k, head, tower, 0, true);
        move(rows, TaskKind::Receive, k, tower, head, 0, true);
      }
      run(rows, TaskKind::Backward, 0, k, tower, 0);
    }
    return rows;
  }

  static std::vector<TaskRow> towerRows(uint32_t n, const SmallPlan &plan) {
    std::vector<TaskRow> rows;
    int32_t own = plan.towerSub, parts = plan.heads * plan.headSub;
    for (uint32_t k = 0; k < n; ++k) {
      run(rows, TaskKind::Forward, 0, k, own, int32_t(k) * own);
      move(rows, TaskKind::Send, k, own, parts, int32_t(k) * own, false);
    }
    for (uint32_t k = 0; k < n; ++k) {
      move(rows, TaskKind::Receive, k, own, parts, int32_t(k) * own, true);
      run(rows, TaskKind::Backward, 0, k, own, int32_t(k) * own);
    }
    rows.push_back({TaskKind::Reduce, 0, 0, 0});
    return rows;
  }

  /// Receives one microbatch ahead.
  static std::vector<TaskRow> headRows(uint32_t n, const SmallPlan &plan) {
    std::vector<TaskRow> rows;
    int32_t own = plan.headSub, parts = plan.towers * plan.towerSub;
    for (uint32_t k = 0; k < n; ++k)
      run(rows, TaskKind::Denominator, 0, k, own, 0);
    auto received = [&](uint32_t k) { return int32_t(k % 2) * own; };
    auto receive = [&](uint32_t k) {
      if (k < n)
        move(rows, TaskKind::Receive, k, own, parts, received(k), false);
    };
    receive(0);
    for (uint32_t k = 0; k < n; ++k) {
      receive(k + 1);
      run(rows, TaskKind::Forward, 1, k, own, 0, received(k));
      run(rows, TaskKind::Backward, 1, k, own, 0, received(k));
      move(rows, TaskKind::Send, k, own, parts, 0, true);
    }
    rows.push_back({TaskKind::Reduce, 1, 0, 0});
    return rows;
  }
};

/// Sample of each image; not in order on purpose.
inline const std::vector<int64_t> kOwners = {0, 3, 0, 2, 5, 3, 5};

/// The program's folder: weights, data.json and a batch file "batch".
inline void writeFolder(const TemporaryFolder &folder) {
  std::vector<float> v = {0.3f, -0.2f}, pixels = randoms(kImages * 3, 11),
                     features = randoms(kSamples * 2, 12),
                     target = randoms(kSamples, 13);
  SafetensorsWriter weights;
  weights.add("head.v", DType::F32, {2}, v.data());
  weights.add("head.frozen", DType::F32, {2}, v.data());
  weights.write(folder / "weights.safetensors");
  writeFile(
      folder / "data.json",
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

struct ProgramFolder : TemporaryFolder {
  ProgramFolder() { writeFolder(*this); }
};

/// A JSON object a line.
inline std::vector<nlohmann::json> readRows(const std::string &path) {
  std::vector<nlohmann::json> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    rows.push_back(nlohmann::json::parse(line));
  return rows;
}

inline std::vector<float> floatsOf(const TensorView &view) {
  std::vector<float> values(view.size / sizeof(float));
  std::memcpy(values.data(), view.data, view.size);
  return values;
}

} // namespace small

#endif // DT_TEST_RUNTIME_SMALLPROGRAM_H

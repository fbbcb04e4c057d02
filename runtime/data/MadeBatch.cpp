//===- MadeBatch.cpp - batches without data ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/MadeBatch.h"
#include "runtime/base/Safetensors.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace dt::rt {

namespace {

bool namesMask(const std::string &name) {
  return name.find("mask") != std::string::npos;
}

template <typename T>
void fill(std::vector<std::byte> &bytes, size_t count, T value) {
  for (size_t i = 0; i < count; ++i)
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

} // namespace

BatchMaker::BatchMaker(const ProgramInfo &program, const RankView &view)
    : program(program), view(view) {
  for (const ModuleInfo &module : program.modules)
    for (const SymbolInfo &symbol : module.symbols) {
      if (!symbol.item || !std::strcmp(symbol.item, kSample))
        continue;
      auto known =
          std::find_if(kinds.begin(), kinds.end(), [&](const auto &entry) {
            return entry.first == symbol.item;
          });
      if (known == kinds.end())
        known = kinds.insert(known, {symbol.item, 0});
      // Bounds are of all of a task where there is one replica.
      known->second =
          std::max(known->second, symbol.max / symbol.largest /
                                      (program.microBatch * spanOf(module)));
    }
}

std::vector<std::byte> BatchMaker::contents(const TensorInfo &tensor,
                                            size_t count) {
  std::vector<std::byte> bytes(count * sizeOf(tensor.type));
  bool one = namesMask(tensor.name);
  std::minstd_rand random(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  switch (tensor.type) {
  case DType::F32:
    for (size_t i = 0; i < count; ++i) {
      float value = one ? 1.f : float(uniform(random));
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    }
    break;
  case DType::F64:
    for (size_t i = 0; i < count; ++i) {
      double value = one ? 1 : uniform(random);
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    }
    break;
  case DType::F16:
    fill<uint16_t>(bytes, count, 0x3c00); // 1
    break;
  case DType::BF16:
    fill<uint16_t>(bytes, count, 0x3f80); // 1
    break;
  case DType::I64:
    fill<int64_t>(bytes, count, one);
    break;
  case DType::I32:
    fill<int32_t>(bytes, count, one);
    break;
  default:
    fill<uint8_t>(bytes, count, one || tensor.type == DType::Bool);
  }
  return bytes;
}

Part BatchMaker::makePart(size_t m, const PartItems &items) {
  const ModuleInfo &module = program.modules[m];
  std::vector<int64_t> fixed;
  for (const SymbolInfo &symbol : module.symbols)
    fixed.push_back(symbol.max);
  Part part =
      beginPart(program, batch.assignment, m, items, fixed, "a made batch");
  for (size_t i = 0; i < module.inputs.size; ++i) {
    const TensorInfo &tensor = module.inputs[i].buffer.tensor;
    if (module.inputs[i].fromModule >= 0)
      continue;
    storage.push_back(contents(
        tensor, size_t(elementCount(shapeOf(tensor, part.dims.data())))));
    part.inputs[i] = {storage.back().data(), storage.back().size()};
  }
  return part;
}

/// As large as all items of a kind may be together, where they are alike.
Measures BatchMaker::measuresOf(const std::string &kind, int64_t count) const {
  std::map<std::string, int64_t> sizes;
  int64_t microbatches = microbatchCount(program);
  for (const ModuleInfo &module : program.modules)
    for (const SymbolInfo &symbol : module.symbols) {
      if (!symbol.measure || symbol.item != kind)
        continue;
      int64_t parts = microbatches * partsOf(module) / spanOf(module),
              own = (count + parts - 1) / std::max<int64_t>(1, parts),
              most = symbol.max / std::max<int64_t>(1, own);
      auto [size, fresh] =
          sizes.try_emplace(symbol.measure, std::min(most, symbol.largest));
      size->second = std::min(size->second, most);
    }
  Measures measures;
  for (auto &[name, size] : sizes)
    measures[name] =
        std::make_shared<const std::vector<int64_t>>(size_t(count), size);
  return measures;
}

const Batch &BatchMaker::make(int64_t most) {
  StepItems items;
  items.samples = program.globalBatch;
  items.where = "a made batch";
  items.measures = measuresOf(kSample, items.samples);
  for (auto &[name, max] : kinds) {
    StepItems::Kind kind;
    kind.name = name;
    int64_t own = std::min(most, max);
    kind.count = own * items.samples;
    for (int64_t i = 0; i < kind.count; ++i)
      kind.owner.push_back(i / own);
    kind.measures = measuresOf(name, kind.count);
    items.kinds.push_back(std::move(kind));
  }
  storage.clear();
  batch = {};
  batch.samples = items.samples;
  batch.assignment = Assigner(program, Reorder::None).assign(items);
  batch.hash = batch.assignment.hash();
  batch.modules.resize(program.modules.size);
  for (size_t m = 0; m < program.modules.size; ++m) {
    int32_t pieces = piecesOf(program.modules[m]);
    for (const auto &parts : batch.assignment.modules[m])
      for (int32_t p = 0; view.replica[m] >= 0 && p < pieces; ++p)
        batch.modules[m].push_back(
            makePart(m, parts[size_t(view.replica[m] * pieces + p)]));
  }
  return batch;
}

} // namespace dt::rt

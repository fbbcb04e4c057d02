//===- Checkpoint.cpp - saving and resuming
//--------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Checkpoint.h"
#include "runtime/Device.h"
#include "runtime/Error.h"
#include "runtime/Safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace dt::rt {

namespace {

namespace fs = std::filesystem;

constexpr const char *kWeights = "weights.safetensors";
constexpr const char *kOptimizer = "optimizer.safetensors";
constexpr const char *kIndex = "index.json";

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(value));
  return text;
}

/// Makes a new file, or the renaming inside a folder, durable.
void syncPath(const fs::path &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  bool bad = fd < 0 || ::fsync(fd) < 0;
  if (fd >= 0)
    ::close(fd);
  if (bad)
    throw Error(path.string() + ": cannot sync: " + std::strerror(errno));
}

const char *momentName(const OptimizerInfo &info, int moment) {
  if (info.kind == OptimizerKind::SGD)
    return "momentum.";
  return moment == 0 ? "exp_avg." : "exp_avg_sq.";
}

bool hasMoments(const ParameterInfo &p) { return p.trainable && p.hasGradient; }

/// Steps of the complete checkpoints in a directory, ascending.
std::vector<int64_t> stepsIn(const std::string &directory) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.rfind("step-", 0) != 0 || name.size() > 20 || name.size() == 5 ||
        name.find_first_not_of("0123456789", 5) != std::string::npos)
      continue;
    steps.push_back(std::stoll(name.substr(5)));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

fs::path folderOf(const std::string &directory, int64_t step) {
  return fs::path(directory) / ("step-" + std::to_string(step));
}

void removeOld(const std::string &directory, int keep) {
  std::vector<int64_t> steps = stepsIn(directory);
  std::error_code ignored;
  for (size_t i = 0; i + keep < steps.size(); ++i)
    fs::remove_all(folderOf(directory, steps[i]), ignored);
}

uint64_t writeWeights(const Trainer &trainer, const fs::path &path) {
  SafetensorsWriter writer;
  for (const ParameterInfo &p : trainer.program().parameters)
    writer.addDevice(p.tensor.name, p.tensor.type, shapeOf(p.tensor, nullptr),
                     trainer.parameterData() + p.offset);
  return writer.write(path.string());
}

uint64_t writeOptimizer(const Trainer &trainer, const fs::path &path) {
  SafetensorsWriter writer;
  for (int i = 0; i < trainer.optimizer().moments(); ++i)
    for (const ParameterInfo &p : trainer.program().parameters)
      if (hasMoments(p))
        writer.addDevice(momentName(trainer.settings().optimizer, i) +
                             std::string(p.tensor.name),
                         DType::F32, shapeOf(p.tensor, nullptr),
                         trainer.moment(i) + p.offset / sizeof(float));
  return writer.write(path.string());
}

/// Size and hash of a file as the index holds them; the hash is the writer's
/// (header and data).
uint64_t hashFile(const fs::path &path) {
  SafetensorsFile file(path.string());
  // Data begin where the first tensor does; the header precedes it.
  std::ifstream stream(path, std::ios::binary);
  uint64_t headerSize = 0;
  stream.read(reinterpret_cast<char *>(&headerSize), 8);
  std::string header(headerSize, '\0');
  stream.read(header.data(), headerSize);
  uint64_t hash = hashBytes(header.data(), header.size());
  std::vector<const TensorView *> order;
  for (const auto &entry : file.tensors())
    order.push_back(&entry.second);
  std::sort(order.begin(), order.end(),
            [](auto *a, auto *b) { return a->data < b->data; });
  for (const TensorView *view : order)
    if (view->size)
      hash = hashBytes(view->data, view->size, hash);
  return hash;
}

nlohmann::json readIndex(const fs::path &folder) {
  std::ifstream stream(folder / kIndex);
  nlohmann::json index = nlohmann::json::parse(stream, nullptr, false);
  auto isText = [&](const char *key) {
    return index.contains(key) && index[key].is_string();
  };
  if (!index.is_object() || !index.contains("step") ||
      !index["step"].is_number_unsigned() || !isText("seed") ||
      !isText("plan") || !isText("data") || !isText(kWeights) ||
      !isText(kOptimizer))
    throw Error((folder / kIndex).string() + ": not the index of a checkpoint");
  return index;
}

} // namespace

void saveCheckpoint(const Trainer &trainer, const std::string &directory,
                    int64_t step, uint64_t dataHash, int keep) {
  fs::path final = folderOf(directory, step), folder = final.string() + ".tmp";
  std::error_code error;
  fs::remove_all(folder, error);
  fs::create_directories(folder, error);
  if (error)
    throw Error(folder.string() + ": cannot create: " + error.message());
  nlohmann::json index = {
      {"step", step},
      {"seed", hex(trainer.settings().seed)},
      {"plan", hex(trainer.program().planHash)},
      {"data", hex(dataHash)},
      {kWeights, hex(writeWeights(trainer, folder / kWeights))},
      {kOptimizer, hex(writeOptimizer(trainer, folder / kOptimizer))}};
  {
    std::ofstream stream(folder / kIndex);
    stream << index.dump(2) << '\n';
    if (!stream.flush())
      throw Error((folder / kIndex).string() + ": cannot write");
  }
  syncPath(folder / kIndex);
  syncPath(folder);
  // Saving the same step again (a resumed run that was interrupted at once)
  // replaces the folder.
  fs::remove_all(final, error);
  fs::rename(folder, final, error);
  if (error)
    throw Error(final.string() + ": cannot rename: " + error.message());
  syncPath(directory);
  removeOld(directory, keep);
}

void expectNoCheckpoints(const std::string &directory) {
  std::vector<int64_t> steps = stepsIn(directory);
  if (!steps.empty())
    throw Error(folderOf(directory, steps.back()).string() +
                ": a checkpoint of an earlier run; continue it with --resume, "
                "or give another --checkpoint folder");
}

int64_t loadCheckpoint(Trainer &trainer, const std::string &directory,
                       uint64_t dataHash) {
  std::vector<int64_t> steps = stepsIn(directory);
  if (steps.empty())
    throw Error(directory + ": no checkpoint to resume from");
  fs::path folder = folderOf(directory, steps.back());
  nlohmann::json index = readIndex(folder);
  auto expect = [&](const char *key, uint64_t value, const char *what) {
    if (index[key].get<std::string>() != hex(value))
      throw Error(folder.string() + ": the checkpoint was made with another " +
                  what);
  };
  expect("plan", trainer.program().planHash, "program");
  expect("seed", trainer.settings().seed, "seed");
  if (dataHash)
    expect("data", dataHash, "data set");
  for (const char *name : {kWeights, kOptimizer})
    if (index[name].get<std::string>() != hex(hashFile(folder / name)))
      throw Error((folder / name).string() +
                  ": damaged (its hash is not the one in " + kIndex + ")");
  SafetensorsFile weights((folder / kWeights).string()),
      optimizer((folder / kOptimizer).string());
  for (const ParameterInfo &p : trainer.program().parameters) {
    std::vector<int64_t> shape = shapeOf(p.tensor, nullptr);
    const TensorView &value = weights.get(p.tensor.name, p.tensor.type, shape);
    device::copyToDevice(trainer.parameterData() + p.offset, value.data,
                         value.size);
    if (!hasMoments(p))
      continue;
    for (int i = 0; i < trainer.optimizer().moments(); ++i) {
      const TensorView &moment =
          optimizer.get(momentName(trainer.settings().optimizer, i) +
                            std::string(p.tensor.name),
                        DType::F32, shape);
      device::copyToDevice(trainer.moment(i) + p.offset / sizeof(float),
                           moment.data, moment.size);
    }
  }
  return index["step"].get<int64_t>();
}

} // namespace dt::rt

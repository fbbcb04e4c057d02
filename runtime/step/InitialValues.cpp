//===- InitialValues.cpp - what parameters are before the first step ------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Cores.h"
#include "runtime/base/Error.h"
#include "runtime/base/FileActivity.h"
#include "runtime/base/Parallel.h"
#include "runtime/base/Safetensors.h"
#include "runtime/comm/Launch.h"
#include "runtime/data/Convert.h"
#include "runtime/state/Init.h"
#include "runtime/step/Trainer.h"

#include <algorithm>

namespace dt::rt {

namespace {

/// Elements that a thread draws at a time.
constexpr int64_t kDraws = 1 << 16;

/// The part of a parameter that no file holds, as F32.
std::vector<std::byte> drawPart(const ParameterLayout &layout,
                                const ParameterInfo &original, uint64_t seed,
                                int threads) {
  std::vector<std::byte> part(size_t(layout.partElements()) * sizeof(float));
  auto *values = reinterpret_cast<float *>(part.data());
  Initializer initial(original.init, layout.whole(), original.tensor.name,
                      seed);
  int64_t count = layout.partElements();
  inParallel((count + kDraws - 1) / kDraws, threads, "initial values",
             [&](int64_t i) {
               for (const ParameterLayout::Run &run :
                    layout.runs(i * kDraws, std::min(count, (i + 1) * kDraws)))
                 initial.draw(values + run.part, run.whole, run.count);
               progressed();
             });
  return part;
}

/// The part of a tensor that a file holds, whose floats may be of another type.
std::vector<std::byte> readPart(const SafetensorsFile &file, const char *name,
                                DType type, const ParameterLayout &layout) {
  const TensorView *found = file.find(name);
  DType from =
      found && isFloat(found->type) && isFloat(type) ? found->type : type;
  const TensorView &view = file.get(name, from, layout.whole());
  std::vector<std::byte> part(size_t(layout.partElements()) * sizeOf(from));
  layout.extract(view.data, part.data(), sizeOf(from));
  return convert(std::move(part), from, type, name);
}

} // namespace

void Trainer::initializeParameters(const std::string &weightsFile) {
  std::unique_ptr<SafetensorsFile> file;
  int threads = options.threads ? options.threads : coresOfRank(launchedHere());
  for (size_t i = 0; i < info.parameters.size; ++i) {
    const ParameterInfo &original = info.parameters[owners.original(i)];
    if (!places.at(size_t(info.parameters[i].module)).runs())
      continue;
    ParameterLayout layout = parameterValues.layout(i);
    DType type = parameterValues.type(i);
    const char *name = original.tensor.name;
    std::vector<std::byte> part;
    if (original.init) {
      if (!isFloat(type))
        throw Error(std::string("parameter '") + name +
                    "': init rules make floats only");
      part = convert(drawPart(layout, original, options.seed, threads),
                     DType::F32, type, name);
    } else {
      if (!file)
        file = std::make_unique<SafetensorsFile>(weightsFile);
      part = readPart(*file, name, type, layout);
    }
    parameterValues.write(i, part.data());
    progressed();
  }
}

} // namespace dt::rt

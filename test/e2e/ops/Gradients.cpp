//===- Gradients.cpp - gradients against finite differences -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Runs ModuleCheck on every module of the program it is linked with, with
// several numbers of rows, and saves all values for check.py.
//
//===----------------------------------------------------------------------===//

#include "ModuleCheck.h"

#include "runtime/base/Error.h"
#include "runtime/state/Init.h"

#include <cstdio>
#include <cstring>
#include <omp.h>

using namespace dt::rt;
using namespace dt::test;

namespace {

/// Values of all parameters: by rule, or from the program's file.
void initializeParameters(Run &run, const std::string &directory) {
  SafetensorsFile weights(directory + "/weights.safetensors");
  for (const ParameterInfo &p : kProgram.parameters) {
    std::vector<int64_t> shape = shapeOf(p.tensor, nullptr);
    std::byte *value =
        run.modules[size_t(p.module)]->parameters.data + p.offset;
    std::vector<std::byte> bytes(elementCount(shape) * sizeOf(p.tensor.type));
    if (p.init)
      initialize(reinterpret_cast<float *>(value), shape, p.init, p.tensor.name,
                 kProgram.seed);
    else
      std::memcpy(value, weights.get(p.tensor.name, p.tensor.type, shape).data,
                  bytes.size());
    std::memcpy(bytes.data(), value, bytes.size());
    run.saved.add(std::string("|") + p.tensor.name, p.tensor.type, shape,
                  std::move(bytes));
  }
}

int run(const std::string &directory, const char *valuesFile, bool verbose) {
  device::initialize(1);
  omp_set_num_threads(1);
  Run run{kProgram};
  initializeParameters(run, directory);
  int wrong = 0;
  int64_t checked = 0;
  for (const ModuleInfo &module : kProgram.modules) {
    std::vector<int64_t> rows = {0};
    if (!module.symbols.empty())
      rows = {module.symbols[0].max, 1, 0};
    for (int64_t n : rows) {
      ModuleCheck check(run, module, n, verbose);
      wrong += check.check();
      checked += check.checked();
    }
  }
  run.saved.write(valuesFile);
  std::printf("%lld gradients of %zu modules: %d failures\n",
              (long long)checked, kProgram.modules.size, wrong);
  return wrong ? 1 : 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: gradients PROGRAM VALUES.safetensors [-v]\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2], argc > 3);
  } catch (const Error &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}

//===- ModuleCheck.h - one module's gradients, checked ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Linked with a program that check.py has generated: each module holds many
// independent cases "case", with trained parameters "case.*", an output
// "case.result" (y) and "case.weights" (c); its loss is the sum of all y * c.
// The program's gradients are compared, element by element, with central
// differences of sum(y * c), added here in double from the differences of y, so
// that only the rounding of y itself is left. Cases do not meet, so one run of
// the module moves an element in all of them. Parameters of cases "at_…" stand
// at a kink, where no difference says what PyTorch's gradient is: check.py
// compares all saved gradients it has formulas for.
//
// Memory holds not-a-number before each run: what is read must have been
// written.
//
//===----------------------------------------------------------------------===//

#ifndef TEST_E2E_OPS_MODULECHECK_H
#define TEST_E2E_OPS_MODULECHECK_H

#include "runtime/Program.h"
#include "runtime/base/Safetensors.h"
#include "runtime/comm/Comm.h"
#include "runtime/device/Device.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dt::test {

/// Elements of a parameter that are moved.
constexpr int64_t kProbes = 48;
/// What a loss's weight over its denominator is here: not 1, which hides a
/// factor forgotten or taken twice.
constexpr float kSeed = 0.75f;

/// Memory of the host, and its copy on the device where that has memory of its
/// own.
struct Block {
  explicit Block(size_t bytes)
      : size((bytes + 63) / 64 * 64 + 64),
        data(static_cast<std::byte *>(std::aligned_alloc(64, size))),
        device(data) {
    if (rt::device::stream())
      device = static_cast<std::byte *>(rt::device::allocate(size, "a check"));
  }
  void toDevice() {
    if (device != data)
      rt::device::copyToDevice(device, data, size);
  }
  void toHost() {
    if (device != data)
      rt::device::copyToHost(data, device, size);
  }
  ~Block() { std::free(data); }
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  size_t size;
  std::byte *data, *device;
};

/// A module's regions.
struct Memory {
  explicit Memory(const rt::ModuleInfo &module)
      : arena(module.arenaBytes), scratch(module.scratchBytes),
        parameters(module.parameterBytes), gradients(module.parameterBytes) {}
  Block arena, scratch, parameters, gradients;
};

struct Run {
  explicit Run(const rt::ProgramInfo &program)
      : program(program), comm(rt::Comm::start()),
        group(rt::makeTensorParallel(*comm, {0}, "check", {})) {
    for (const rt::ModuleInfo &module : program.modules)
      modules.push_back(std::make_unique<Memory>(module));
  }
  Memory &of(const rt::ModuleInfo &module) {
    return *modules[size_t(&module - program.modules.data)];
  }

  const rt::ProgramInfo &program;
  std::unique_ptr<rt::Comm> comm;
  std::shared_ptr<rt::TensorParallel> group;
  std::vector<std::unique_ptr<Memory>> modules;
  rt::SafetensorsWriter saved;
};

/// Sizes of a tensor with these values of its module's symbols.
std::vector<int64_t> shapeOf(const rt::TensorInfo &tensor, const int64_t *dims);

struct Parameter {
  std::string name;
  float *value;
  const float *gradient;
  int64_t size;
};

struct Case {
  std::vector<Parameter> parameters;
  const float *y = nullptr, *c = nullptr;
  int64_t size = 0; ///< of y

  /// The elements that are moved: all of a small parameter.
  void probe() {
    for (size_t k = 0; k < parameters.size(); ++k)
      for (int64_t i = 0, n = std::min(parameters[k].size, kProbes); i < n; ++i)
        probes.push_back({k, i * parameters[k].size / n});
  }
  float *element(size_t i) const {
    return i < probes.size()
               ? parameters[probes[i].first].value + probes[i].second
               : nullptr;
  }

  std::vector<std::pair<size_t, int64_t>> probes; ///< parameter and element
};

class ModuleCheck {
public:
  /// The first symbol is `rows`, the next ones go the other way.
  ModuleCheck(Run &run, const rt::ModuleInfo &module, int64_t rows,
              bool verbose)
      : run(run), module(module), memory(run.of(module)), rows(rows),
        verbose(verbose), seeds(run.program.losses.size * sizeof(float)) {
    for (const rt::SymbolInfo &symbol : module.symbols)
      dims.push_back(dims.empty() ? rows : symbol.max - rows);
    setSeeds(kSeed);
    collect();
  }

  /// Number of parameters whose gradient is wrong.
  int check();
  int64_t checked() const { return count; }

private:
  void collect();
  void fillInputs();
  void forward() { call(module.forward); }
  void backward() { call(module.backward); }
  template <typename Function> void call(Function function) {
    for (Block *block : {&memory.arena, &memory.parameters, &memory.gradients})
      block->toDevice();
    function(context());
    for (Block *block : {&memory.arena, &memory.parameters, &memory.gradients})
      block->toHost();
  }
  rt::TaskContext context() {
    rt::TaskContext context{};
    context.arena = memory.arena.device;
    context.scratch = memory.scratch.device;
    context.parameters = memory.parameters.device;
    context.gradients = memory.gradients.device;
    context.dims = dims.data();
    context.seeds = reinterpret_cast<const float *>(seeds.device);
    context.group = run.group.get();
    context.stream = context.tpStream = rt::device::stream();
    return context;
  }
  void setSeeds(float value) {
    std::fill_n(reinterpret_cast<float *>(seeds.data), run.program.losses.size,
                value);
    seeds.toDevice();
  }
  void fresh();
  void save();
  void saveGradients();
  using Differences = std::map<std::string, std::vector<double>>;
  std::map<std::string, double> slopes(size_t i, double from, double to);
  Differences differences(double step);
  Differences nearestSlopes(double step);
  size_t mostProbes() const;
  using Gradients = std::map<std::string, std::vector<std::vector<float>>>;
  Gradients snapshot();
  bool holds(const Case &c, size_t parameter,
             const std::vector<double> &expected, double noise);
  void report(const Case &c, size_t parameter,
              const std::vector<double> &expected);
  int compareDifferences();
  int compareTwice(Gradients &once);
  int checkZeroSeed();

  Run &run;
  const rt::ModuleInfo &module;
  Memory &memory;
  int64_t rows, count = 0;
  bool verbose;
  std::vector<int64_t> dims;
  Block seeds;
  std::map<std::string, Case> cases;
};
} // namespace dt::test

#endif // TEST_E2E_OPS_MODULECHECK_H

//===- Runner.h - a program's modules on samples made up here ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Evaluation and sampling call the forward functions of single modules. What
// they put in goes through the same code as the shards of training (documents,
// templates, index inputs), so that both cannot drift apart; single inputs may
// then be replaced, say the noised picture by the sampler's state.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_EXAMPLES_DEMO_RUNNER_H
#define MODELS_EXAMPLES_DEMO_RUNNER_H

#include "runtime/data/Assemble.h"
#include "runtime/step/Evaluation.h"

#include <map>
#include <string>
#include <vector>

namespace dt::demo {

/// One part: some samples, no more than the modules have room for, and the
/// state of every module that ran on them. Modules are named as in the recipe,
/// whatever stages the plan has cut them into.
class Runner {
public:
  Runner(rt::Evaluation &evaluation, const rt::data::Config &config,
         const std::vector<rt::data::DecodedSample> &samples);

  /// An entry of the recipe's `inputs` for these samples; throws Error if there
  /// is none of that name.
  const rt::data::HostTensor &entry(const std::string &name);
  /// Input "module.input" as the next `run` gives it to the module; may be
  /// changed. Throws Error.
  rt::data::HostTensor &input(const std::string &module,
                              const std::string &name);
  /// Runs the forward function. Edges come from modules that ran before, or are
  /// what the arena holds.
  void run(const std::string &module);
  /// Elements of a float output; throws Error.
  std::vector<float> output(const std::string &module,
                            const std::string &name) const;

  const rt::data::PartSamples &samples() const { return part; }

private:
  struct State {
    bool ran = false;
    rt::Part part;
    std::vector<std::vector<std::byte>> outputs;
  };
  /// Indices of a module's stages; throws Error if there are none.
  std::vector<size_t> stages(const std::string &module) const;
  rt::data::HostTensor &value(const rt::ModuleInfo &module,
                              const rt::TensorInfo &tensor);
  void runStage(size_t module);
  int64_t countOf(const rt::SymbolInfo &symbol) const;

  rt::Evaluation &evaluation;
  const rt::data::Config &config;
  rt::data::PartSamples part;
  rt::data::PartAssembler tensors;
  std::map<std::string, rt::data::HostTensor> values; ///< raw inputs
  std::vector<State> states;
};

} // namespace dt::demo

#endif // MODELS_EXAMPLES_DEMO_RUNNER_H

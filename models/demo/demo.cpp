//===- demo.cpp - train the emoji program and watch it learn ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The training program of recipe.json with evaluation: the same flags and the
// same steps as the emitted main(), and every 15 seconds of training a line
// with what the modules can do by then; at the end captions and a sheet of
// drawn pictures. It links the emitted program as a library and uses its
// runtime, as any program may.
//
//===----------------------------------------------------------------------===//

#include "Evaluate.h"
#include "Grid.h"

#include "runtime/Error.h"
#include "runtime/Train.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <unistd.h>

using namespace dt;
using namespace dt::demo;
using rt::Error;

namespace {
struct DemoOptions {
  std::string pairs, grid, captions;
  std::string font = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
  double every = 15; ///< seconds of training between evaluations
};

const char *demoHelp =
    "  --pairs F.tar           pictures with names (dt-data build --pairs): "
    "evaluate on these\n"
    "  --evaluate-every S      seconds of training between evaluations (15)\n"
    "  --grid F.png            at the end, true beside drawn pictures with "
    "captions\n"
    "  --captions F.json       at the end, the greedy captions of all "
    "pictures\n"
    "  --font F.ttf            of the grid (DejaVu Sans)\n";

/// Takes the demonstration's flags out of `arguments`; the rest are those of
/// every training program.
DemoOptions takeOptions(std::vector<char *> &arguments) {
  DemoOptions options;
  auto number = [&](const char *text) {
    char *end;
    options.every = std::strtod(text, &end);
    if (end == text || *end || !(options.every > 0))
      throw Error(std::string("--evaluate-every: '") + text +
                  "' is not a positive number");
  };
  std::vector<char *> rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string flag = arguments[i];
    std::string *text = flag == "--pairs"      ? &options.pairs
                        : flag == "--grid"     ? &options.grid
                        : flag == "--captions" ? &options.captions
                        : flag == "--font"     ? &options.font
                                               : nullptr;
    if (!text && flag != "--evaluate-every") {
      rest.push_back(arguments[i]);
      continue;
    }
    if (i + 1 == arguments.size())
      throw Error(flag + " needs a value");
    ++i;
    if (text)
      *text = arguments[i];
    else
      number(arguments[i]);
  }
  arguments = rest;
  return options;
}

/// Watches a run: adds up times and losses, evaluates.
class Watcher {
public:
  Watcher(const DemoOptions &options, const Evaluator &evaluator)
      : options(options), evaluator(evaluator) {}

  /// Says what is to be trained.
  void begin(const rt::Trainer &trainer) {
    const rt::ProgramInfo &program = trainer.program();
    moduleSeconds.assign(program.modules.size, 0);
    for (const rt::ModuleInfo &module : program.modules) {
      int64_t count = 0; // parameters are named "module.name"
      for (const rt::ParameterInfo &p : program.parameters)
        if (std::string(p.tensor.name)
                .rfind(module.name + std::string("."), 0) == 0)
          count += trainer.elements(p);
      std::printf("  %-10s %9lld parameters\n", module.name, (long long)count);
    }
    double floor = std::log(double(evaluator.emoji().size()));
    std::printf("%zu pictures; without seeing a picture %.2f nats a caption is "
                "the best one can do\n",
                evaluator.emoji().size(), floor);
    std::fflush(stdout);
  }

  void step(rt::Trainer &trainer, const rt::StepReport &report) {
    seconds += report.seconds;
    windowSeconds += report.seconds;
    ++windowSteps;
    for (size_t m = 0; m < moduleSeconds.size(); ++m)
      moduleSeconds[m] += (*report.moduleSeconds)[m];
    loss += report.result->loss;
    if (seconds < next && report.step < report.total)
      return;
    next = (std::floor(seconds / options.every) + 1) * options.every;
    evaluate(trainer, report);
  }

  void finish(rt::Trainer &trainer) const {
    std::vector<int> everyone = evaluator.everyone();
    std::vector<std::string> captions = evaluator.describe(trainer, everyone);
    std::vector<Pixels> drawn = evaluator.draw(trainer, everyone, drawSteps);
    endBar();
    std::printf("evaluation took %.1f s besides; picture -> caption:\n",
                evaluation);
    for (size_t k = 0; k < 8; ++k) {
      size_t i = (2 * k + 1) * everyone.size() / 16;
      std::printf("  %-22s -> %s\n", evaluator.emoji()[i].name.c_str(),
                  captions[i].c_str());
    }
    if (!options.captions.empty())
      writeCaptions(captions);
    if (!options.grid.empty())
      writeTiles(captions, drawn);
    std::fflush(stdout);
  }

private:
  static constexpr int drawSteps = 8, tiles = 40, columns = 8;

  static void endBar() {
    if (::isatty(STDOUT_FILENO))
      std::printf("\r\033[K");
  }

  void evaluate(rt::Trainer &trainer, const rt::StepReport &report) {
    double begin = rt::now();
    CaptionScore captions = evaluator.captions(trainer);
    DrawScore drawn = evaluator.score(
        evaluator.draw(trainer, evaluator.everyone(), drawSteps));
    evaluation += rt::now() - begin;
    endBar();
    std::printf("%4.0f s  step %lld/%lld  loss %.3f | nats/caption %.2f (floor "
                "%.2f)  exact %3.0f%% | "
                "drawn nearest own %3.0f%%  MSE %.3f | ms a step %.1f:",
                seconds, (long long)report.step, (long long)report.total,
                loss / double(windowSteps), captions.nats,
                std::log(double(evaluator.emoji().size())),
                100 * captions.exact, 100 * drawn.nearest, drawn.error,
                1e3 * windowSeconds / double(windowSteps));
    double rest = windowSeconds;
    for (size_t m = 0; m < moduleSeconds.size(); ++m) {
      std::printf(" %s %.1f", trainer.program().modules[m].name,
                  1e3 * moduleSeconds[m] / double(windowSteps));
      rest -= moduleSeconds[m];
    }
    std::printf(" optimizer and data %.1f\n", 1e3 * rest / double(windowSteps));
    std::fflush(stdout);
    std::fill(moduleSeconds.begin(), moduleSeconds.end(), 0);
    windowSeconds = loss = 0;
    windowSteps = 0;
  }

  void writeCaptions(const std::vector<std::string> &captions) const {
    nlohmann::json rows = nlohmann::json::array();
    for (size_t i = 0; i < captions.size(); ++i)
      rows.push_back(
          {{"name", evaluator.emoji()[i].name}, {"caption", captions[i]}});
    std::ofstream stream(options.captions);
    if (!(stream << rows.dump(1) << '\n').flush())
      throw Error(options.captions + ": cannot be written");
  }

  void writeTiles(const std::vector<std::string> &captions,
                  const std::vector<Pixels> &drawn) const {
    std::vector<Tile> sheet;
    size_t count = std::min<size_t>(tiles, drawn.size());
    for (size_t k = 0; k < count; ++k) {
      size_t i = k * drawn.size() / count;
      const Emoji &emoji = evaluator.emoji()[i];
      sheet.push_back({evaluator.picture(emoji.pixels),
                       evaluator.picture(drawn[i]), emoji.name, captions[i]});
    }
    writeGrid(options.grid, sheet, columns, options.font);
    std::printf("true beside drawn pictures: %s\n", options.grid.c_str());
  }

  const DemoOptions &options;
  const Evaluator &evaluator;
  std::vector<double> moduleSeconds;
  double seconds = 0, next = options.every, windowSeconds = 0, loss = 0,
         evaluation = 0;
  int64_t windowSteps = 0;
};

int run(int argc, char **argv) {
  std::vector<char *> arguments(argv, argv + argc);
  DemoOptions demo = takeOptions(arguments);
  rt::Options options =
      rt::parseOptions(int(arguments.size()), arguments.data());
  if (options.help) {
    std::printf("usage: %s [flags]\n%s%s", argv[0], rt::optionsHelp(),
                demoHelp);
    return 0;
  }
  if (demo.pairs.empty())
    throw Error("give --pairs");
  options.logEvery = 1e9; // the evaluation's lines are enough
  std::string directory =
      options.program.empty() ? DT_PROGRAM_DIRECTORY : options.program;
  Evaluator evaluator(kProgram, directory, demo.pairs);
  Watcher watcher(demo, evaluator);
  rt::TrainHooks hooks;
  hooks.beforeTraining = [&](rt::Trainer &trainer) { watcher.begin(trainer); };
  hooks.afterStep = [&](rt::Trainer &trainer, const rt::StepReport &report) {
    watcher.step(trainer, report);
  };
  hooks.afterTraining = [&](rt::Trainer &trainer, const rt::StepReport &) {
    watcher.finish(trainer);
  };
  // Evaluation looks at all modules, so this program has one rank.
  std::unique_ptr<rt::Comm> comm = rt::Comm::start();
  rt::runTraining(kProgram, directory, options, *comm, hooks);
  comm->finish();
  return 0;
}
} // namespace

int main(int argc, char **argv) {
  rt::restartWithWaitPolicy(argv);
  try {
    return run(argc, argv);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return 1;
}

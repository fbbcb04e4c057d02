//===- demo.cpp - train the emoji program and watch it learn ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The training program of recipe.json with evaluation: the same flags and the
// same steps as the emitted main(), and every 15 seconds of training a line
// with what the modules can do by then; at the end captions and a sheet of
// drawn pictures, whatever ranks the plan has. It links the emitted program as
// a library and uses its runtime, as any program may.
//
//===----------------------------------------------------------------------===//

#include "Evaluate.h"
#include "Grid.h"
#include "History.h"

#include "runtime/base/Error.h"
#include "runtime/comm/Launch.h"
#include "runtime/observe/Progress.h"
#include "runtime/train/Train.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

using namespace dt;
using namespace dt::demo;
using rt::Error;

namespace {
struct DemoOptions {
  std::string pairs, grid, captions, history;
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
    "  --history DIR           at every evaluation, its figures, some drawn "
    "pictures and captions\n"
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
                        : flag == "--history"  ? &options.history
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

/// Watches a run on all ranks. The first one adds up times and losses, decides
/// when to evaluate, and does it; the others give it their parameters.
class Watcher {
public:
  Watcher(const DemoOptions &options, const std::string &directory)
      : options(options), directory(directory) {}

  rt::TrainHooks hooks() {
    rt::TrainHooks hooks;
    hooks.wants = [&] { return evaluator && seconds >= next; };
    hooks.beforeTraining = [&](rt::Trainer &trainer) { begin(trainer); };
    hooks.afterStep = [&](rt::Trainer &, const rt::StepReport &report) {
      step(report);
    };
    hooks.afterTraining = [&](rt::Trainer &, const rt::StepReport &) {
      finish();
    };
    return hooks;
  }

private:
  static constexpr int drawSteps = 8, tiles = 40, columns = 8;

  /// Says what is to be trained.
  void begin(rt::Trainer &trainer) {
    modules = std::make_unique<rt::Evaluation>(trainer);
    ranks = trainer.comm().size();
    if (!modules->here())
      return;
    const rt::ProgramInfo &program = trainer.program();
    evaluator = std::make_unique<Evaluator>(program, directory, options.pairs);
    if (!options.history.empty())
      history = std::make_unique<History>(options.history, *evaluator);
    moduleSeconds.assign(program.modules.size, 0);
    std::vector<std::pair<std::string, int64_t>> counts;
    for (const rt::ModuleInfo &module : program.modules)
      if (counts.empty() || counts.back().first != module.unit)
        counts.emplace_back(module.unit, 0);
    for (const rt::ParameterInfo &p : program.parameters)
      for (auto &[unit, count] : counts)
        if (unit == program.modules[size_t(p.module)].unit && p.tied < 0)
          count += trainer.elements(p);
    for (const auto &[unit, count] : counts)
      std::printf("  %-10s %9lld parameters\n", unit.c_str(), (long long)count);
    std::printf("%zu pictures; without seeing a picture %.2f nats a caption is "
                "the best one can do\n",
                evaluator->emoji().size(), floor());
    std::fflush(stdout);
  }

  void step(const rt::StepReport &report) {
    bool due = report.result->pause || report.step >= report.total;
    if (evaluator) {
      seconds += report.seconds;
      windowSeconds += report.seconds;
      ++windowSteps;
      for (size_t m = 0; m < moduleSeconds.size(); ++m)
        moduleSeconds[m] += (*report.moduleSeconds)[m];
      loss += report.result->loss;
    }
    if (!due)
      return;
    modules->update();
    if (!evaluator)
      return;
    next = (std::floor(seconds / options.every) + 1) * options.every;
    evaluate(report);
  }

  void finish() {
    modules->update();
    if (!evaluator)
      return;
    std::vector<int> everyone = evaluator->everyone();
    std::vector<std::string> captions = evaluator->describe(*modules, everyone);
    std::vector<Pixels> drawn = evaluator->draw(*modules, everyone, drawSteps);
    endBar();
    std::printf("evaluation took %.1f s besides; picture -> caption:\n",
                evaluation);
    for (size_t k = 0; k < 8; ++k) {
      size_t i = (2 * k + 1) * everyone.size() / 16;
      std::printf("  %-22s -> %s\n", evaluator->emoji()[i].name.c_str(),
                  captions[i].c_str());
    }
    if (!options.captions.empty())
      writeCaptions(captions);
    if (!options.grid.empty())
      writeTiles(captions, drawn);
    std::fflush(stdout);
  }

  double floor() const { return std::log(double(evaluator->emoji().size())); }

  static void endBar() {
    if (rt::printsToTerminal())
      std::printf("\r\033[K");
  }

  void evaluate(const rt::StepReport &report) {
    double begin = rt::now();
    CaptionScore captions = evaluator->captions(*modules);
    std::vector<Pixels> pictures =
        evaluator->draw(*modules, evaluator->everyone(), drawSteps);
    DrawScore drawn = evaluator->score(pictures);
    if (history)
      history->add(report.step, seconds, captions, drawn,
                   evaluator->describe(*modules, history->shown()), pictures);
    evaluation += rt::now() - begin;
    endBar();
    std::printf("%4.0f s  step %lld/%lld  loss %.3f | nats/caption %.2f (floor "
                "%.2f)  exact %3.0f%% | "
                "drawn nearest own %3.0f%%  MSE %.3f | ms a step %.1f:",
                seconds, (long long)report.step, (long long)report.total,
                loss / double(windowSteps), captions.nats, floor(),
                100 * captions.exact, 100 * drawn.nearest, drawn.error,
                1e3 * windowSeconds / double(windowSteps));
    double rest = windowSeconds;
    for (size_t m = 0; m < moduleSeconds.size(); ++m) {
      std::printf(" %s %.1f", modules->program().modules[m].name,
                  1e3 * moduleSeconds[m] / double(windowSteps));
      rest -= moduleSeconds[m];
    }
    if (ranks == 1) // else modules work at the same time
      std::printf(" optimizer and data %.1f", 1e3 * rest / double(windowSteps));
    std::printf("\n");
    std::fflush(stdout);
    std::fill(moduleSeconds.begin(), moduleSeconds.end(), 0);
    windowSeconds = loss = 0;
    windowSteps = 0;
  }

  void writeCaptions(const std::vector<std::string> &captions) const {
    nlohmann::json rows = nlohmann::json::array();
    for (size_t i = 0; i < captions.size(); ++i)
      rows.push_back(
          {{"name", evaluator->emoji()[i].name}, {"caption", captions[i]}});
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
      const Emoji &emoji = evaluator->emoji()[i];
      sheet.push_back({evaluator->picture(emoji.pixels),
                       evaluator->picture(drawn[i]), emoji.name, captions[i]});
    }
    writeGrid(options.grid, sheet, columns, options.font);
    std::printf("true beside drawn pictures: %s\n", options.grid.c_str());
  }

  const DemoOptions &options;
  std::string directory;
  int ranks = 1;
  std::unique_ptr<rt::Evaluation> modules;
  std::unique_ptr<Evaluator> evaluator; ///< of the first rank
  std::unique_ptr<History> history;     ///< if it is asked for
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
  rt::expectPossible(kProgram, options);
  // Both start this program anew, which needs all of the flags.
  if (auto code = rt::launchRanks(argc, argv, options.ranks, options.threads))
    return *code;
  rt::restartWithWaitPolicy(argv);
  char quiet[] = "--log-every=1e9"; // the evaluation's lines are enough
  arguments.push_back(quiet);
  Watcher watcher(demo, options.program.empty() ? DT_PROGRAM_DIRECTORY
                                                : options.program);
  return rt::trainMain(kProgram, DT_PROGRAM_DIRECTORY, int(arguments.size()),
                       arguments.data(), watcher.hooks());
}
} // namespace

int main(int argc, char **argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception &error) {
    if (rt::launchedRank() == 0)
      std::fprintf(stderr, "error: %s\n", error.what());
  }
  return 1;
}

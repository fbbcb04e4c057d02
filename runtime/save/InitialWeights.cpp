//===- InitialWeights.cpp - beginning from other weights ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/InitialWeights.h"
#include "runtime/base/FileActivity.h"
#include "runtime/comm/Agreement.h"
#include "runtime/data/Convert.h"
#include "runtime/save/Checkpoint.h"
#include "runtime/save/WeightFiles.h"
#include "runtime/save/WeightMatcher.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>

namespace dt::rt {

namespace {

/// "n.running_mean" where "n.weight" was taken: of one layer.
std::vector<std::string> besideChosen(const std::vector<std::string> &unused,
                                      const Choice &choice) {
  auto layerOf = [](const std::string &name) {
    size_t dot = name.rfind('.');
    return dot == std::string::npos ? std::string() : name.substr(0, dot);
  };
  std::set<std::string> layers;
  for (const std::string &name : choice)
    if (!name.empty())
      layers.insert(layerOf(name));
  std::vector<std::string> beside;
  for (const std::string &name : unused)
    if (name.find('.') != std::string::npos && layers.count(layerOf(name)))
      beside.push_back(name);
  return beside;
}

/// This rank's part of a parameter, converted.
void load(Trainer &trainer, size_t row, const std::string &tensor,
          const PieceReader &reader) {
  const ParameterValues &values = trainer.values();
  ParameterLayout layout = values.layout(row);
  values.write(
      row,
      reader.floats(tensor, values.type(row), layout, 0, layout.partElements())
          .data());
  progressed();
}

bool isOptimizerState(const std::string &name) {
  if (name.rfind(std::string(kAverage) + ".", 0) == 0)
    return true;
  for (const OptimizerDescription &optimizer : kOptimizers)
    for (const char *moment : optimizer.moments)
      if (name.rfind(std::string(moment) + ".", 0) == 0)
        return true;
  return false;
}

/// A source with what is taken of it.
struct Opened {
  std::unique_ptr<PieceReader> reader;
  Choice choice;
  std::vector<std::string> unused; ///< of its tensors
};

Opened open(WeightMatcher &matcher, const WeightSource &source,
            std::vector<NameRule> &renames, const WeightFiles &files,
            std::vector<std::string> &lines) {
  Opened out{std::make_unique<PieceReader>(files.paths, files.name), {}, {}};
  for (const std::string &name : files.promised)
    if (!out.reader->has(name))
      throw Error(files.name + ": its index names tensor '" + printable(name) +
                  "', which is in none of its files");
  RenamedTensors tensors(out.reader->names(), renames, files.name);
  out.choice = matcher.choose(*out.reader, source, tensors, files.name);
  std::set<std::string> used(out.choice.begin(), out.choice.end());
  std::vector<std::string> &unused = out.unused;
  for (const std::string &name : out.reader->names())
    if (!used.count(name) && !(files.checkpoint && isOptimizerState(name)))
      unused.push_back(name);
  size_t wanted = 0, given = 0;
  for (size_t t = 0; t < out.choice.size(); ++t) {
    wanted += matcher.wanted(t, source);
    given += !out.choice[t].empty();
    matcher.targets[t].given |= !out.choice[t].empty();
  }
  lines.push_back("initial values of " + std::to_string(given) + " of " +
                  std::to_string(wanted) + " parameters" +
                  (source.module.empty() ? "" : " of " + source.module) +
                  " from " + files.name +
                  matcher.conversions(out.choice, *out.reader) +
                  matcher.otherNames(out.choice, tensors));
  if (!unused.empty())
    lines.push_back("not used of it: " + std::to_string(unused.size()) + " (" +
                    listed(unused) + ")");
  if (std::vector<std::string> beside = besideChosen(unused, out.choice);
      !beside.empty())
    lines.push_back(
        "warning: left out beside weights that were taken: " + listed(beside) +
        "; buffers stay as the ONNX file has them");
  return out;
}

void expectUsed(const std::vector<NameRule> &renames) {
  for (const NameRule &rule : renames)
    if (!rule.used)
      throw Error("--init-rename " + rule.from + "=" + rule.to +
                  ": no tensor's name begins with '" + rule.from +
                  "', or an earlier one has it");
}

/// Parameters that sources were to give values to, and that keep their own. An
/// adapter, which no graph has, may.
void expectAll(const WeightMatcher &matcher,
               const std::vector<WeightSource> &sources,
               const std::vector<Opened> &opened) {
  std::vector<std::string> left, unused;
  for (size_t t = 0; t < matcher.targets.size(); ++t)
    if (!matcher.targets[t].given && !matcher.isAdapter(t) &&
        std::any_of(sources.begin(), sources.end(),
                    [&](const WeightSource &source) {
                      return matcher.wanted(t, source);
                    }))
      left.push_back(matcher.nameOf(t));
  for (const Opened &source : opened)
    unused.insert(unused.end(), source.unused.begin(), source.unused.end());
  if (left.empty())
    return;
  throw Error("--init-from: " + std::to_string(left.size()) + " of " +
              std::to_string(matcher.targets.size()) +
              " parameters are in no source (" + listed(left) + "); " +
              (unused.empty()
                   ? "every tensor is used"
                   : std::to_string(unused.size()) +
                         (unused.size() == 1 ? " tensor is" : " tensors are") +
                         " no parameter's (" + listed(unused) + ")") +
              "; --init-rename FROM=TO maps names, --init-partial keeps the "
              "program's own values");
}

} // namespace

NameRule NameRule::parse(const std::string &text) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || text.size() == 1)
    throw Error("--init-rename: '" + text +
                "' is not FROM=TO, what tensors' names begin with and what "
                "stands there in the program's");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

WeightSource WeightSource::parse(const std::string &text) {
  size_t equals = text.find('=');
  bool named =
      equals != std::string::npos && equals > 0 &&
      std::all_of(text.begin(), text.begin() + ptrdiff_t(equals),
                  [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  return named ? WeightSource{text.substr(0, equals), text.substr(equals + 1)}
               : WeightSource{"", text};
}

std::vector<std::string> initializeFrom(Trainer &trainer,
                                        InitialValues request) {
  const ProgramInfo &program = trainer.program();
  Comm &comm = trainer.comm();
  std::vector<std::string> lines;
  std::unique_ptr<WeightMatcher> matcher;
  comm.agree(failureOf([&] {
    matcher = std::make_unique<WeightMatcher>(trainer, request.skip);
    for (const WeightSource &source : request.sources)
      matcher->expectModule(source.module);
  }));
  std::vector<Opened> opened; // all of them, before anything changes
  for (const WeightSource &source : request.sources) {
    WeightFiles files = findWeights(comm, source.path);
    for (const std::string &line : files.warnings)
      lines.push_back("warning: " + line);
    comm.agree(failureOf([&] {
      opened.push_back(open(*matcher, source, request.renames, files, lines));
    }));
  }
  comm.agree(failureOf([&] {
    expectUsed(request.renames);
    if (!request.partial)
      expectAll(*matcher, request.sources, opened);
  }));
  std::vector<std::string> kept;
  for (size_t t = 0; t < matcher->targets.size(); ++t)
    if (!matcher->targets[t].given)
      kept.push_back(matcher->nameOf(t));
  if (!kept.empty())
    lines.push_back("as the program begins: " + std::to_string(kept.size()) +
                    " (" + listed(kept) + ")");
  comm.agree(failureOf([&] {
    for (const Opened &source : opened)
      for (size_t i = 0; i < program.parameters.size; ++i) {
        size_t module = size_t(program.parameters[i].module);
        const std::string &tensor =
            source.choice[matcher->targetOf(trainer.ownership().original(i))];
        if (!tensor.empty() && trainer.placement().at(module).runs())
          load(trainer, i, tensor, *source.reader);
      }
  }));
  return lines;
}

} // namespace dt::rt

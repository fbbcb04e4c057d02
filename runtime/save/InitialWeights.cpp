//===- InitialWeights.cpp - beginning from other weights ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/InitialWeights.h"
#include "runtime/base/FileActivity.h"
#include "runtime/comm/Agreement.h"
#include "runtime/data/Convert.h"
#include "runtime/save/WeightFiles.h"
#include "runtime/state/Pieces.h"

#include <algorithm>
#include <cctype>
#include <fnmatch.h>
#include <map>
#include <memory>
#include <set>

namespace dt::rt {

namespace {

/// What follows the module in "module.parameter".
std::string plainName(const ProgramInfo &program, const ParameterInfo &p) {
  std::string name = p.tensor.name,
              prefix =
                  std::string(program.modules[size_t(p.module)].origin) + ".";
  return name.compare(0, prefix.size(), prefix) == 0
             ? name.substr(prefix.size())
             : name;
}

/// A parameter with all its copies, and what files may call it.
struct Target {
  size_t row; ///< the original's
  std::vector<std::string> names{};
  bool skipped = false, given = false;
};

/// Which tensor of a source each target takes; empty: none.
using Choice = std::vector<std::string>;

class Matcher {
public:
  Matcher(const Trainer &trainer, const std::vector<std::string> &skip)
      : program(trainer.program()), values(trainer.values()),
        numbers(program.parameters.size) {
    const Ownership &ownership = trainer.ownership();
    for (size_t i = 0; i < program.parameters.size; ++i)
      if (ownership.original(i) == i) {
        numbers[i] = targets.size();
        targets.push_back({i});
      }
    // The original's names come first, whatever the order of rows.
    for (bool copies : {false, true})
      for (size_t i = 0; i < program.parameters.size; ++i)
        if ((ownership.original(i) != i) == copies)
          addNames(targets[targetOf(ownership.original(i))],
                   program.parameters[i]);
    for (const std::string &pattern : skip)
      skipMatching(pattern);
  }

  /// Throws Error if the program has no such module.
  void expectModule(const std::string &name) const {
    std::set<std::string> known;
    for (const ModuleInfo &module : program.modules)
      known.insert(module.origin);
    if (!name.empty() && !known.count(name))
      throw Error("--init-from " + name +
                  "=...: the program has no such module, it has " +
                  listed({known.begin(), known.end()}));
  }

  /// Throws Error if the source has nothing, something of another shape or
  /// type, or a tensor that two parameters would take.
  Choice choose(const PieceReader &reader, const WeightSource &source,
                const std::string &where) const {
    Choice choice(targets.size());
    std::set<std::string> chosen;
    for (size_t t = 0; t < targets.size(); ++t) {
      if (!wanted(t, source))
        continue;
      for (const std::string &name : targets[t].names)
        if (reader.has(name)) {
          choice[t] = name;
          break;
        }
      if (!choice[t].empty() && !chosen.insert(choice[t]).second)
        failAmbiguous(choice, t, where);
    }
    if (chosen.empty())
      failNothing(reader, source, where);
    expectShapes(choice, reader, where);
    return choice;
  }

  bool wanted(size_t t, const WeightSource &source) const {
    const ParameterInfo &p = program.parameters[targets[t].row];
    return !targets[t].skipped &&
           (source.module.empty() ||
            source.module == program.modules[size_t(p.module)].origin);
  }
  const char *nameOf(size_t t) const {
    return program.parameters[targets[t].row].tensor.name;
  }
  /// The target of an original row.
  size_t targetOf(size_t original) const { return numbers[original]; }

  /// "; 5 of them BF16", if any are converted.
  std::string conversions(const Choice &choice,
                          const PieceReader &reader) const {
    std::map<std::string, size_t> counts;
    for (size_t t = 0; t < choice.size(); ++t) {
      if (choice[t].empty())
        continue;
      DType type = reader.typeOf(choice[t]);
      if (type != values.type(targets[t].row))
        ++counts[textOf(type)];
    }
    std::string text;
    for (auto &[type, count] : counts)
      text += "; " + std::to_string(count) + " of them " + type;
    return text;
  }
  std::vector<Target> targets;

private:
  void addNames(Target &target, const ParameterInfo &p) const {
    auto add = [&](const std::string &name) {
      if (std::find(target.names.begin(), target.names.end(), name) ==
          target.names.end())
        target.names.push_back(name);
    };
    add(p.tensor.name);
    for (const OnnxRef &ref : p.onnx)
      add(ref.initializer);
    add(plainName(program, p));
  }

  void skipMatching(const std::string &pattern) {
    bool any = false;
    for (size_t t = 0; t < targets.size(); ++t)
      if (fnmatch(pattern.c_str(), nameOf(t), 0) == 0)
        targets[t].skipped = any = true;
    if (!any)
      throw Error("--init-skip: no parameter \"module.name\" matches '" +
                  pattern + "'");
  }

  [[noreturn]] void failAmbiguous(const Choice &choice, size_t t,
                                  const std::string &where) const {
    size_t first = size_t(std::find(choice.begin(), choice.end(), choice[t]) -
                          choice.begin());
    throw Error(where + ": tensor '" + choice[t] + "' may be parameter '" +
                nameOf(first) + "' or '" + nameOf(t) +
                "'; say --init-from MODULE=" + where);
  }

  [[noreturn]] void failNothing(const PieceReader &reader,
                                const WeightSource &source,
                                const std::string &where) const {
    std::vector<std::string> have = reader.names(), want;
    for (size_t t = 0; t < targets.size(); ++t)
      if (wanted(t, source))
        want.push_back(nameOf(t));
    have.resize(std::min<size_t>(have.size(), 3));
    want.resize(std::min<size_t>(want.size(), 3));
    throw Error(where + ": none of its " +
                std::to_string(reader.names().size()) +
                " tensors has the name of a parameter: it has " +
                (have.empty() ? "none" : listed(have)) + "; the program has " +
                (want.empty() ? "none to be given" : listed(want)));
  }

  void expectShapes(const Choice &choice, const PieceReader &reader,
                    const std::string &where) const {
    std::string first;
    size_t count = 0;
    for (size_t t = 0; t < targets.size(); ++t) {
      if (choice[t].empty())
        continue;
      const ParameterInfo &p = program.parameters[targets[t].row];
      DType type = reader.typeOf(choice[t]), own = values.type(targets[t].row);
      std::vector<int64_t> shape = reader.shapeOf(choice[t]);
      if (shape == wholeShape(p) &&
          (type == own || (isFloat(own) && isFloat(type))))
        continue;
      if (++count == 1)
        first = where + ": tensor '" + choice[t] + "' is " + textOf(type) +
                " " + shapeText(shape) + ", parameter '" + nameOf(t) + "' " +
                textOf(own) + " " + shapeText(wholeShape(p)) +
                " (--init-skip '" + nameOf(t) +
                "' keeps the program's own value)";
    }
    if (count > 1)
      first += "; so are " + std::to_string(count - 1) + " more";
    if (count)
      throw Error(first);
  }

  const ProgramInfo &program;
  const ParameterValues &values;
  std::vector<size_t> numbers; ///< of targets, by original row
};

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
};

Opened open(Matcher &matcher, const WeightSource &source,
            const WeightFiles &files, std::vector<std::string> &lines) {
  Opened out{std::make_unique<PieceReader>(files.paths, files.name), {}};
  for (const std::string &name : files.promised)
    if (!out.reader->has(name))
      throw Error(files.name + ": its index names tensor '" + printable(name) +
                  "', which is in none of its files");
  out.choice = matcher.choose(*out.reader, source, files.name);
  std::set<std::string> used(out.choice.begin(), out.choice.end());
  std::vector<std::string> unused;
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
                  matcher.conversions(out.choice, *out.reader));
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

} // namespace

WeightSource WeightSource::parse(const std::string &text) {
  size_t equals = text.find('=');
  bool named =
      equals != std::string::npos && equals > 0 &&
      std::all_of(text.begin(), text.begin() + ptrdiff_t(equals),
                  [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  return named ? WeightSource{text.substr(0, equals), text.substr(equals + 1)}
               : WeightSource{"", text};
}

std::vector<std::string>
initializeFrom(Trainer &trainer, const std::vector<WeightSource> &sources,
               const std::vector<std::string> &skip) {
  const ProgramInfo &program = trainer.program();
  Comm &comm = trainer.comm();
  std::vector<std::string> lines;
  std::unique_ptr<Matcher> matcher;
  comm.agree(failureOf([&] {
    matcher = std::make_unique<Matcher>(trainer, skip);
    for (const WeightSource &source : sources)
      matcher->expectModule(source.module);
  }));
  std::vector<Opened> opened; // all of them, before anything changes
  for (const WeightSource &source : sources) {
    WeightFiles files = findWeights(comm, source.path);
    for (const std::string &line : files.warnings)
      lines.push_back("warning: " + line);
    comm.agree(failureOf(
        [&] { opened.push_back(open(*matcher, source, files, lines)); }));
  }
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

//===- WeightMatcher.cpp - which tensor a parameter takes -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/WeightMatcher.h"
#include "runtime/data/Convert.h"

#include <algorithm>
#include <fnmatch.h>
#include <set>

namespace dt::rt {

namespace {

/// What libraries, wrappers and compilers put in front of the names of a
/// module's parameters.
constexpr const char *kWrappers[] = {
    "model",          "net",        "module",   "transformer",
    "language_model", "base_model", "_orig_mod"};

/// What follows the module in "module.parameter".
std::string plainName(const ProgramInfo &program, const ParameterInfo &p) {
  std::string name = p.tensor.name,
              prefix =
                  std::string(program.modules[size_t(p.module)].origin) + ".";
  return name.compare(0, prefix.size(), prefix) == 0
             ? name.substr(prefix.size())
             : name;
}

bool startsWith(const std::string &text, const std::string &start) {
  return text.compare(0, start.size(), start) == 0;
}

} // namespace

std::string bareName(const std::string &name) {
  size_t at = 0;
  for (size_t dot; (dot = name.find('.', at)) != std::string::npos;
       at = dot + 1) {
    std::string first = name.substr(at, dot - at);
    if (std::find(std::begin(kWrappers), std::end(kWrappers), first) ==
        std::end(kWrappers))
      break;
  }
  return name.substr(at);
}

RenamedTensors::RenamedTensors(const std::vector<std::string> &names,
                               std::vector<NameRule> &rules,
                               const std::string &where) {
  for (const std::string &name : names) {
    auto rule = std::find_if(rules.begin(), rules.end(), [&](NameRule &r) {
      return startsWith(name, r.from);
    });
    std::string renamed = name;
    if (rule != rules.end()) {
      renamed = rule->to + name.substr(rule->from.size());
      rule->used = true;
    }
    auto [it, isNew] = files.emplace(renamed, name);
    if (!isNew)
      throw Error(where + ": --init-rename gives the tensors '" + it->second +
                  "' and '" + name + "' one name, '" + renamed + "'");
  }
}

std::string RenamedTensors::find(const std::string &name) const {
  auto found = files.find(name);
  return found == files.end() ? "" : found->second;
}

std::map<std::string, std::vector<std::string>>
RenamedTensors::byBareName(const std::vector<std::string> &taken) const {
  std::set<std::string> gone(taken.begin(), taken.end());
  std::map<std::string, std::vector<std::string>> bare;
  for (auto &[name, file] : files)
    if (!gone.count(file))
      bare[bareName(name)].push_back(file);
  return bare;
}

WeightMatcher::WeightMatcher(const Trainer &trainer,
                             const std::vector<std::string> &skip)
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

void WeightMatcher::expectModule(const std::string &name) const {
  std::set<std::string> known;
  for (const ModuleInfo &module : program.modules)
    known.insert(module.origin);
  if (!name.empty() && !known.count(name))
    throw Error("--init-from " + name +
                "=...: the program has no such module, it has " +
                listed({known.begin(), known.end()}));
}

Choice WeightMatcher::choose(const PieceReader &reader,
                             const WeightSource &source,
                             const RenamedTensors &tensors,
                             const std::string &where) const {
  Choice choice(targets.size());
  std::map<std::string, size_t> chosen;
  for (size_t t = 0; t < targets.size(); ++t) {
    if (!wanted(t, source))
      continue;
    choice[t] = exact(t, tensors);
    if (choice[t].empty())
      continue;
    auto [it, isNew] = chosen.emplace(choice[t], t);
    if (!isNew)
      failAmbiguous(it->second, t, choice[t], where);
  }
  chooseByBareName(choice, reader, source, tensors, where);
  if (std::all_of(choice.begin(), choice.end(),
                  [](const std::string &name) { return name.empty(); }))
    failNothing(reader, source, where);
  expectShapes(choice, reader, where);
  return choice;
}

std::string WeightMatcher::exact(size_t t,
                                 const RenamedTensors &tensors) const {
  for (const std::string &name : targets[t].names)
    if (std::string found = tensors.find(name); !found.empty())
      return found;
  return "";
}

/// One tensor for a parameter and one parameter for a tensor: by name, where
/// that leaves several by shape, too.
void WeightMatcher::chooseByBareName(Choice &choice, const PieceReader &reader,
                                     const WeightSource &source,
                                     const RenamedTensors &tensors,
                                     const std::string &where) const {
  auto bare = tensors.byBareName(choice);
  std::map<std::string, std::vector<size_t>> takers; // of tensors
  for (size_t t = 0; t < targets.size(); ++t) {
    if (!wanted(t, source) || !choice[t].empty())
      continue;
    std::set<std::string> names;
    for (const std::string &name : targets[t].names)
      if (auto found = bare.find(bareName(name)); found != bare.end())
        names.insert(found->second.begin(), found->second.end());
    std::vector<std::string> fitting;
    for (const std::string &name : names)
      if (names.size() == 1 || fits(t, name, reader))
        fitting.push_back(name);
    if (fitting.size() > 1)
      throw Error(where + ": parameter '" + nameOf(t) + "' may be tensor '" +
                  fitting[0] + "' or '" + fitting[1] +
                  "'; --init-rename FROM=TO says which");
    if (!fitting.empty())
      takers[fitting[0]].push_back(t);
  }
  for (auto &[tensor, all] : takers) {
    std::vector<size_t> fitting;
    for (size_t t : all)
      if (all.size() == 1 || fits(t, tensor, reader))
        fitting.push_back(t);
    if (fitting.size() > 1)
      failAmbiguous(fitting[0], fitting[1], tensor, where);
    if (!fitting.empty())
      choice[fitting[0]] = tensor;
  }
}

bool WeightMatcher::fits(size_t t, const std::string &tensor,
                         const PieceReader &reader) const {
  return reader.shapeOf(tensor) ==
         wholeShape(program.parameters[targets[t].row]);
}

bool WeightMatcher::wanted(size_t t, const WeightSource &source) const {
  const ParameterInfo &p = program.parameters[targets[t].row];
  return !targets[t].skipped &&
         (source.module.empty() ||
          source.module == program.modules[size_t(p.module)].origin);
}

std::string WeightMatcher::conversions(const Choice &choice,
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

std::string WeightMatcher::otherNames(const Choice &choice,
                                      const RenamedTensors &tensors) const {
  size_t count = 0, first = 0;
  for (size_t t = 0; t < choice.size(); ++t)
    if (!choice[t].empty() && exact(t, tensors) != choice[t] && ++count == 1)
      first = t;
  return count ? "; " + std::to_string(count) +
                     " of them under names that begin otherwise ('" +
                     choice[first] + "' for '" + nameOf(first) + "')"
               : "";
}

void WeightMatcher::addNames(WeightTarget &target,
                             const ParameterInfo &p) const {
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

void WeightMatcher::skipMatching(const std::string &pattern) {
  bool any = false;
  for (size_t t = 0; t < targets.size(); ++t)
    if (fnmatch(pattern.c_str(), nameOf(t), 0) == 0)
      targets[t].skipped = any = true;
  if (!any)
    throw Error("--init-skip: no parameter \"module.name\" matches '" +
                pattern + "'");
}

void WeightMatcher::failAmbiguous(size_t first, size_t second,
                                  const std::string &tensor,
                                  const std::string &where) const {
  throw Error(where + ": tensor '" + tensor + "' may be parameter '" +
              nameOf(first) + "' or '" + nameOf(second) +
              "'; say --init-from MODULE=" + where +
              " or --init-rename FROM=TO");
}

void WeightMatcher::failNothing(const PieceReader &reader,
                                const WeightSource &source,
                                const std::string &where) const {
  std::vector<std::string> have = reader.names(), want;
  for (size_t t = 0; t < targets.size(); ++t)
    if (wanted(t, source))
      want.push_back(nameOf(t));
  have.resize(std::min<size_t>(have.size(), 3));
  want.resize(std::min<size_t>(want.size(), 3));
  throw Error(where + ": none of its " + std::to_string(reader.names().size()) +
              " tensors has the name of a parameter: it has " +
              (have.empty() ? "none" : listed(have)) + "; the program has " +
              (want.empty() ? "none to be given" : listed(want)));
}

void WeightMatcher::expectShapes(const Choice &choice,
                                 const PieceReader &reader,
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
      first = where + ": tensor '" + choice[t] + "' is " + textOf(type) + " " +
              shapeText(shape) + ", parameter '" + nameOf(t) + "' " +
              textOf(own) + " " + shapeText(wholeShape(p)) + " (--init-skip '" +
              nameOf(t) + "' keeps the program's own value)";
  }
  if (count > 1)
    first += "; so are " + std::to_string(count - 1) + " more";
  if (count)
    throw Error(first);
}

} // namespace dt::rt

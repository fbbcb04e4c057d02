//===- Groups.cpp - Parameters with an optimizer of their own ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A group of a recipe's optimizer is a pattern over "module.parameter" and what
// is other than the optimizer's for those that match. In IR each parameter says
// it for itself (lr_factor, weight_decay), so that modules may be cut
// into stages afterwards.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/Program.h"

#include "dialects/nn/NNOps.h"
#include "models/frontend/import/Pattern.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dt::models {

namespace {

struct Candidate {
  std::string name;
  nn::ParameterOp op;
};

/// Edits that make `name` match `pattern`, in which '*' is anything and '?' one
/// character; what else globs know counts as it is written.
size_t editsToMatch(StringRef pattern, StringRef name) {
  std::vector<size_t> row(name.size() + 1), above;
  for (size_t j = 0; j <= name.size(); ++j)
    row[j] = j;
  for (char p : pattern) {
    above = row;
    row[0] = above[0] + (p != '*');
    for (size_t j = 1; j <= name.size(); ++j)
      row[j] = p == '*'
                   ? std::min(above[j], row[j - 1])
                   : std::min({above[j - 1] + (p != '?' && p != name[j - 1]),
                               above[j] + 1, row[j - 1] + 1});
  }
  return row.back();
}

/// What may be meant by a pattern that matches nothing: "; the nearest are 'a',
/// 'b'", or "" if there are no parameters.
std::string nearest(StringRef pattern, ArrayRef<Candidate> all) {
  std::vector<std::pair<size_t, StringRef>> order;
  for (const Candidate &c : all)
    order.push_back({editsToMatch(pattern, c.name), c.name});
  llvm::stable_sort(order, llvm::less_first());
  std::string text;
  for (auto &[edits, name] : ArrayRef(order).take_front(3))
    text += (text.empty() ? "; the nearest are '" : ", '") + name.str() + "'";
  return text;
}

/// A copy of a tied parameter is updated as its original is, so it has no group
/// of its own.
std::vector<Candidate> parametersOf(ModuleOp program) {
  llvm::StringSet<> copies;
  for (auto tie : program.getOps<dist::TieOp>())
    copies.insert((tie.getAlias().getRootReference().getValue() + "." +
                   tie.getAlias().getLeafReference().getValue())
                      .str());
  std::vector<Candidate> all;
  for (auto module : program.getOps<dist::ModuleOp>())
    for (auto parameter : module.getOps<nn::ParameterOp>()) {
      std::string name =
          (module.getSymName() + "." + parameter.getSymName()).str();
      if (!copies.contains(name))
        all.push_back({name, parameter});
    }
  return all;
}

} // namespace

LogicalResult
applyPatterns(ModuleOp program, const OptimizerEntry &optimizer,
              llvm::function_ref<Location(const llvm::Twine &)> at) {
  std::vector<Candidate> all = parametersOf(program);
  auto mark = [&](const std::vector<std::string> &patterns, StringRef key,
                  void (nn::ParameterOp::*set)(bool)) -> LogicalResult {
    for (auto [i, pattern] : llvm::enumerate(patterns)) {
      bool found = false;
      for (Candidate &candidate : all)
        if (matchesPattern(pattern, candidate.name)) {
          found = true;
          (candidate.op.*set)(true);
        }
      if (!found)
        return emitError(at("optimizer." + key + "[" + llvm::Twine(i) + "]"))
               << "no parameter \"module.name\" matches '" << pattern << "'"
               << nearest(pattern, all);
    }
    return success();
  };
  return failure(failed(mark(optimizer.noDecay, "no_decay",
                             &nn::ParameterOp::setNoDecay)) ||
                 failed(mark(optimizer.byElement, "adamw",
                             &nn::ParameterOp::setByElement)));
}

LogicalResult
applyGroups(ModuleOp program, const OptimizerEntry &optimizer,
            llvm::function_ref<Location(const llvm::Twine &)> at) {
  std::vector<Candidate> all = parametersOf(program);
  std::vector<bool> taken(all.size());
  Builder b(program.getContext());
  for (auto [i, group] : llvm::enumerate(optimizer.groups)) {
    bool matched = false, any = false;
    for (auto [p, candidate] : llvm::enumerate(all)) {
      if (!matchesPattern(group.match, candidate.name))
        continue;
      matched = true;
      if (taken[p])
        continue;
      taken[p] = any = true;
      if (group.lrFactor != 1)
        candidate.op.setLrFactor(llvm::APFloat(group.lrFactor));
      if (group.weightDecay)
        candidate.op.setWeightDecay(llvm::APFloat(*group.weightDecay));
    }
    auto key = [&, i = i] {
      return at("optimizer.groups[" + llvm::Twine(i) + "].match");
    };
    if (!matched)
      return emitError(key())
             << "no parameter \"module.name\" matches '" << group.match << "'"
             << nearest(group.match, all);
    if (!any)
      return emitError(key())
             << "an earlier group has all that '" << group.match << "' matches";
  }
  return success();
}

LogicalResult
applyRouting(ModuleOp program, const OptimizerEntry &optimizer,
             llvm::function_ref<Location(const llvm::Twine &)> at) {
  std::vector<Candidate> all = parametersOf(program);
  for (auto [i, entry] : llvm::enumerate(optimizer.routing)) {
    bool found = false;
    for (Candidate &candidate : all) {
      if (!matchesPattern(entry.match, candidate.name))
        continue;
      found = true;
      if (candidate.op.getRoutingRate())
        continue; // the first that matches counts
      candidate.op.setRoutingRate(llvm::APFloat(entry.rate));
      candidate.op.setTrainable(true);
      candidate.op.setBuffer(false);
    }
    if (!found)
      return emitError(
                 at("optimizer.routing_bias[" + llvm::Twine(i) + "].match"))
             << "no parameter \"module.name\" matches '" << entry.match << "'"
             << nearest(entry.match, all);
  }
  return success();
}

} // namespace dt::models

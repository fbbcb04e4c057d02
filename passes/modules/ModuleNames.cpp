//===- ModuleNames.cpp - What parts of a graph are called -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/modules/ModuleNames.h"

#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace mlir;

namespace dt::modules {

namespace {

/// Part of a module's parameters that a scope must hold, and the part of it
/// that may be another's.
constexpr double kOwn = 0.5, kOthers = 0.1;

/// How many parameters are below a scope. Not their elements: a table or a head
/// has more of these than all layers of a small network, and few parameters.
using Scopes = std::map<std::string, unsigned>;

bool isSeparator(char c) { return c == '.' || c == '/'; }

/// The longer scopes of "a.b.c": "a", "a.b".
void addScopes(nn::ParameterOp parameter, Scopes &scopes) {
  StringRef name = parameter.getSymName();
  for (size_t i = 1; i < name.size(); ++i)
    if (isSeparator(name[i]))
      ++scopes[name.take_front(i).str()];
  ++scopes[""];
}

Scopes getScopes(ArrayRef<dist::ModuleOp> modules) {
  Scopes scopes;
  for (dist::ModuleOp module : modules)
    for (auto parameter : module.getOps<nn::ParameterOp>())
      addScopes(parameter, scopes);
  return scopes;
}

} // namespace

std::string getScopeName(dist::ModuleOp module,
                         ArrayRef<dist::ModuleOp> others) {
  Scopes own = getScopes(module), rest = getScopes(others);
  double total = own[""];
  const std::pair<const std::string, unsigned> *best = nullptr;
  for (auto &scope : own) {
    if (scope.first.empty() || scope.second < 2 || scope.second < kOwn * total)
      continue;
    auto it = rest.find(scope.first);
    if (it != rest.end() && it->second > kOthers * scope.second)
      continue;
    // The outermost; scopes of one depth that both hold half are one.
    if (!best || scope.first.size() < best->first.size())
      best = &scope;
  }
  if (!best)
    return "";
  StringRef last(best->first);
  if (size_t at = last.find_last_of("./"); at != StringRef::npos)
    last = last.drop_front(at + 1);
  std::string name;
  for (char c : last)
    name += llvm::isAlnum(c) ? c : '_';
  return llvm::isDigit(name[0]) ? "" : name;
}

void renameModule(dist::ModuleOp module, StringRef name) {
  auto program = module->getParentOfType<mlir::ModuleOp>();
  Builder b(program.getContext());
  StringAttr origin = b.getStringAttr(module.getExternalName());
  (void)SymbolTable::replaceAllSymbolUses(module, b.getStringAttr(name),
                                          program);
  module.setSymName(name);
  module.setOriginAttr(origin);
}

} // namespace dt::modules

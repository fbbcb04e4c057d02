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

/// Elements, and parameters, below a scope.
struct Weight {
  double elements = 0;
  unsigned parameters = 0;
};
using Scopes = std::map<std::string, Weight>;

bool isSeparator(char c) { return c == '.' || c == '/'; }

/// The longer scopes of "a.b.c": "a", "a.b".
void addScopes(nn::ParameterOp parameter, Scopes &scopes) {
  auto type = cast<RankedTensorType>(parameter.getType());
  double elements = type.hasStaticShape() ? double(type.getNumElements()) : 0;
  StringRef name = parameter.getSymName();
  for (size_t i = 1; i < name.size(); ++i)
    if (isSeparator(name[i])) {
      Weight &weight = scopes[name.take_front(i).str()];
      weight.elements += elements;
      weight.parameters += 1;
    }
  scopes[""].elements += elements;
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
  double total = own[""].elements;
  const std::pair<const std::string, Weight> *best = nullptr;
  for (auto &scope : own) {
    if (scope.first.empty() || scope.second.parameters < 2 ||
        scope.second.elements < kOwn * total)
      continue;
    auto it = rest.find(scope.first);
    if (it != rest.end() &&
        it->second.elements > kOthers * scope.second.elements)
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

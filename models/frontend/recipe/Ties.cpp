//===- Ties.cpp - parameters of two modules that are one ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A name with one '*' stands for all parameters that it matches; what it
// matches there stands for the '*' of the other name.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/Program.h"

#include "dialects/nn/NNOps.h"
#include "models/frontend/json/JsonReader.h"

using namespace mlir;
using namespace dt;
using namespace dt::models;

namespace {

class TieBuilder {
public:
  TieBuilder(mlir::ModuleOp program, Location location)
      : program(program), location(location),
        builder(OpBuilder::atBlockEnd(program.getBody())) {}

  LogicalResult build(const TensorName &alias, const TensorName &parameter) {
    StringRef from = alias.tensor, to = parameter.tensor;
    if (from.count('*') > 1 || from.count('*') != to.count('*'))
      return emitError(location)
             << "'" << parameter.module << "." << to
             << "': expected one '*' in both names, or in none";
    if (!from.contains('*'))
      return tie(alias, parameter);
    auto [before, behind] = from.split('*');
    bool any = false;
    for (StringRef name : namesOf(alias.module)) {
      StringRef rest = name;
      if (!rest.consume_front(before) || !rest.consume_back(behind))
        continue;
      any = true;
      std::string other = to.str();
      other.replace(other.find('*'), 1, rest.str());
      if (failed(tie({alias.module, name.str()}, {parameter.module, other})))
        return failure();
    }
    if (!any)
      return emitError(location)
             << "module '" << alias.module << "' has no parameter that '"
             << from << "' matches" << didYouMean(from, namesOf(alias.module));
    return success();
  }

private:
  dist::ModuleOp get(StringRef module) {
    return program.lookupSymbol<dist::ModuleOp>(module);
  }
  nn::ParameterOp get(const TensorName &name) {
    return get(name.module).lookupSymbol<nn::ParameterOp>(name.tensor);
  }
  std::vector<StringRef> namesOf(StringRef module) {
    std::vector<StringRef> names;
    for (auto parameter : get(module).getOps<nn::ParameterOp>())
      names.push_back(parameter.getSymName());
    return names;
  }
  SymbolRefAttr symbol(const TensorName &name) {
    MLIRContext *context = program.getContext();
    return SymbolRefAttr::get(context, name.module,
                              FlatSymbolRefAttr::get(context, name.tensor));
  }

  LogicalResult tie(const TensorName &alias, const TensorName &parameter) {
    for (const TensorName &name : {alias, parameter})
      if (!get(name))
        return emitError(location)
               << "module '" << name.module << "' has no parameter '"
               << name.tensor << "'"
               << didYouMean(name.tensor, namesOf(name.module));
    Type own = get(alias).getType(), other = get(parameter).getType();
    if (own != other)
      return emitError(location)
             << "is a " << own << ", but '" << parameter.module << "."
             << parameter.tensor << "' a " << other
             << "; expected one shape and type";
    dist::TieOp::create(builder, location, symbol(alias), symbol(parameter));
    return success();
  }

  mlir::ModuleOp program;
  Location location;
  OpBuilder builder;
};

} // namespace

LogicalResult models::buildTies(Location location, mlir::ModuleOp program,
                                const TensorName &alias,
                                const TensorName &parameter) {
  return TieBuilder(program, location).build(alias, parameter);
}

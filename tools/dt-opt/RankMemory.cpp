//===- RankMemory.cpp - What every rank allocates ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// --report of a run says the same figures, as allocated.
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/RankState.h"
#include "tools/dt-opt/Report.h"

#include "dialects/rt/RTOps.h"

#include <map>

using namespace mlir;

namespace dt {

namespace {

void addModule(rt::ModuleOp module, StateTables &tables) {
  tables.modules.push_back({module.getSymName().str(), module.getWholeBatch(),
                            int64_t(module.getTrainable()),
                            int32_t(module.getTp()), int32_t(module.getDp()),
                            int32_t(module.getZero()),
                            std::vector<int32_t>(module.getRanks().begin(),
                                                 module.getRanks().end())});
}

double numberOf(std::optional<APFloat> value, double otherwise) {
  return value ? value->convertToDouble() : otherwise;
}

StateTables readTables(rt::ProgramOp program) {
  StateTables tables;
  tables.bucketBytes = program.getBucket();
  tables.ranks =
      int32_t(llvm::range_size(program.getBody().getOps<rt::RankOp>()));
  // A row has all names that a module has for a parameter.
  std::map<int64_t, StateTables::Parameter> rows;
  for (auto module : program.getBody().getOps<rt::ModuleOp>()) {
    addModule(module, tables);
    for (auto decl : module.getBody().getOps<rt::ParameterDeclOp>()) {
      auto type = cast<rt::BufferType>(decl.getType());
      StateTables::Parameter row{int32_t(tables.modules.size()) - 1,
                                 int64_t(decl.getOffset()),
                                 decl.getGradientPlace(),
                                 type.getNumElements().asConstant().value_or(0),
                                 type.getElementType().isBF16(),
                                 decl.getTrainable(),
                                 decl.getGradient(),
                                 decl.getDecay(),
                                 numberOf(decl.getLrFactor(), 1),
                                 numberOf(decl.getWeightDecay(), -1),
                                 -1};
      if (auto tied = decl.getTiedAttr())
        if (auto owner = dyn_cast_or_null<rt::ParameterDeclOp>(
                SymbolTable::lookupSymbolIn(program, tied)))
          row.tied = int32_t(owner.getIndex());
      rows.insert({int64_t(decl.getIndex()), row});
    }
  }
  for (auto &[index, row] : rows)
    tables.parameters.push_back(row);
  return tables;
}

/// How often the optimizer keeps a parameter's size.
int64_t getMoments(rt::ProgramOp program) {
  for (auto optimizer : program.getBody().getOps<rt::OptimizerOp>()) {
    DictionaryAttr fields = optimizer.getFields();
    auto kind = fields.getAs<StringAttr>("kind");
    if (auto known = kind ? rt::fromText<rt::OptimizerKind>(kind.getValue())
                          : std::nullopt)
      return int64_t(rt::describe(*known).countMoments(
          dist::getAllSettings(*known, fields.getAs<DictionaryAttr>("settings"))
              .data()));
  }
  return 0;
}

} // namespace

RankReport::Module RankReport::sum(StringRef separator) const {
  Module sum;
  for (const Module &m : modules) {
    sum.name += (sum.name.empty() ? "" : separator.str()) + m.name;
    sum.arena += m.arena;
    sum.parameters += m.parameters;
    sum.gradients += m.gradients;
    sum.moments += m.moments;
    sum.sums += m.sums;
  }
  return sum;
}

LogicalResult addRanks(rt::ProgramOp program, ProgramReport &report) {
  std::string error;
  auto states = getRankStates(readTables(program), error);
  if (!error.empty()) // of the location: the whole program says no more
    return emitError(program.getLoc(), error);
  int64_t moments = getMoments(program);
  for (const std::vector<RankState> &rank : states) {
    RankReport entry;
    for (auto [module, state] :
         llvm::zip(program.getBody().getOps<rt::ModuleOp>(), rank)) {
      if (!state.runs)
        continue;
      RankReport::Module part;
      part.name = module.getSymName().str();
      part.arena = module.getArena();
      part.parameters = module.getParameters();
      part.gradients = module.getTrainable();
      part.moments = moments * state.moment + state.masters;
      part.sums = state.sums;
      entry.scratch = std::max<int64_t>(entry.scratch, module.getScratch());
      entry.modules.push_back(part);
    }
    report.ranks.push_back(std::move(entry));
  }
  return success();
}

} // namespace dt

//===- RankTables.h - The runtime's tables of an rt.program -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What a rank keeps and allocates is said by the runtime (state/Ownership.h,
// step/MessagePlan.h), so that the rule is in one place only. This is what of
// the tables that needs: no names in files, no code.
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_OPT_RANKTABLES_H
#define TOOLS_DT_OPT_RANKTABLES_H

#include "codegen/common/Tables.h"
#include "dialects/rt/RTOps.h"
#include "runtime/Optimizers.h"
#include "runtime/Program.h"

#include "llvm/ADT/StringMap.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dt {

class RankTables {
public:
  explicit RankTables(rt::ProgramOp program);
  RankTables(const RankTables &) = delete;

  rt::ProgramInfo info{};

private:
  template <typename T> rt::Span<T> keep(std::vector<T> rows);
  const char *keep(llvm::StringRef text);
  rt::TaskFn makeFunction();
  rt::TensorInfo tensorOf(mlir::Type type,
                          const codegen::ModuleSymbols &symbols);
  rt::BufferInfo bufferOf(rt::ModuleOp module, mlir::FlatSymbolRefAttr name);
  rt::Span<rt::CutInfo> cutsOf(mlir::ArrayAttr cuts);
  rt::ModuleInfo moduleRow(rt::ModuleOp module);
  void addEntries(rt::ModuleOp module, rt::ModuleInfo &row);
  std::vector<rt::ParameterInfo> parameterRows();
  rt::ParameterInfo parameterRow(rt::ParameterDeclOp decl, int32_t module);
  rt::OptimizerInfo optimizerRow(rt::OptimizerOp optimizer);
  rt::EdgeInfo edgeRow(rt::EdgeOp edge);
  rt::LossInfo lossRow(rt::LossOp loss);
  rt::TaskRow taskRow(rt::TaskOp task);

  rt::ProgramOp program;
  std::deque<std::shared_ptr<void>> memory; ///< of the tables
  llvm::StringMap<int32_t> modules, losses;
  std::vector<rt::CollectiveInfo> collectives;
  /// Of denominators, by module and callee.
  std::map<std::pair<std::string, std::string>, rt::TaskFn> denominators;
  uintptr_t functions = 0; ///< made so far
};

} // namespace dt

#endif // TOOLS_DT_OPT_RANKTABLES_H

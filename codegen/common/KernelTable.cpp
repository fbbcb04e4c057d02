//===- KernelTable.cpp - the generated kernels of a program ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/ModuleEmitter.h"

using namespace mlir;

namespace dt::codegen {

namespace {

/// How often the kernels of a module start in a step of its first rank.
class LaunchCount {
public:
  explicit LaunchCount(rt::ModuleOp module) : module(module) {
    auto program = module->getParentOfType<rt::ProgramOp>();
    rt::RankOp first = program.getRanks()[module.getRanks().front()];
    for (auto task : first.getBody().getOps<rt::TaskOp>())
      addTask(task);
  }
  int64_t of(rt::KernelOp kernel) const { return launches.lookup(kernel); }

private:
  void addTask(rt::TaskOp task) {
    if (!task.getSubjectAttr())
      return;
    StringRef subject = *task.getSubject();
    for (auto entry : module.getBody().getOps<rt::EntryOp>())
      if (subject == module.getSymName() && entry.getKind() == task.getKind())
        addFunction(entry.getCalleeAttr());
    auto loss = SymbolTable::lookupNearestSymbolFrom<rt::LossOp>(
        task->getParentOp(), task.getSubjectAttr());
    if (loss && loss.getModule() == module.getSymName() &&
        loss.getDenominatorAttr())
      addFunction(loss.getDenominatorAttr());
  }
  void addFunction(FlatSymbolRefAttr name) {
    auto function = module.lookupSymbol<rt::FuncOp>(name.getAttr());
    if (!function)
      return;
    for (Operation &op : function.getBody().front()) {
      if (isa<rt::KernelOp>(op))
        ++launches[&op];
      if (auto call = dyn_cast<rt::CallOp>(op))
        addFunction(call.getCalleeAttr());
    }
  }

  rt::ModuleOp module;
  llvm::DenseMap<Operation *, int64_t> launches;
};

} // namespace

void ModuleEmitter::listKernels(std::vector<KernelRow> &rows) {
  LaunchCount launches(module);
  for (const EmittedKernel &kernel : emittedKernels) {
    KernelCost cost = target.cost(kernel.uses.front());
    int64_t calls = 0;
    for (rt::KernelOp use : kernel.uses)
      calls += launches.of(use);
    rows.push_back({kernel.name, module.getExternalName().str(),
                    calls * cost.phases, cost});
  }
}

} // namespace dt::codegen

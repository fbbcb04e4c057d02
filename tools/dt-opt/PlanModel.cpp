//===- PlanModel.cpp - --emit=plan-model: what the planner sees -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A planner that runs elsewhere (`dt-sim --model`) needs no IR: modules with
// their layers as they will run, for every TP degree of a node and every saved
// set.
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Diagnostics.h"
#include "tools/dt-opt/Output.h"

#include "passes/plan/LayerWork.h"

#include "mlir/Pass/Pass.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using dt::fail;

namespace {

struct DescribeModel
    : PassWrapper<DescribeModel, OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DescribeModel)
  DescribeModel(int64_t mostTP, std::string *json)
      : mostTP(mostTP), json(json) {}
  StringRef getArgument() const override { return "describe-model"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry
        .insert<dt::nn::NNDialect, dt::dist::DistDialect, func::FuncDialect>();
  }
  void runOnOperation() override {
    if (!dt::dist::getOnly<dt::dist::BatchOp>(getOperation()))
      return stop("expected a program that trains: a recipe, or an ONNX file "
                  "with --loss");
    auto program =
        dt::plan::describePartitioned(getOperation(), mostTP, mostTP);
    if (!program)
      return stop(toString(program.takeError()));
    *json = dt::planner::printModel(program->model);
    markAllAnalysesPreserved();
  }

private:
  void stop(const Twine &what) {
    emitError(UnknownLoc::get(&getContext())) << "--emit=plan-model: " << what;
    signalPassFailure();
  }

  int64_t mostTP;
  std::string *json;
};

} // namespace

void dt::addPlanModel(OpPassManager &pm, int64_t mostTP, std::string &json) {
  pm.addPass(std::make_unique<DescribeModel>(mostTP, &json));
}

LogicalResult dt::writePlanModel(StringRef json, const OutputOptions &options) {
  auto model = planner::parseModel(json, options.input);
  if (!model)
    return fail(toString(model.takeError()));
  // A recipe is called after its folder if it is only called a recipe.
  StringRef name = llvm::sys::path::stem(options.input),
            folder = llvm::sys::path::filename(
                llvm::sys::path::parent_path(options.input));
  model->name = (name == "recipe" && !folder.empty() ? folder : name).str();
  return writeText(options.output, [&](llvm::raw_ostream &os) {
    os << planner::printModel(*model) << "\n";
  });
}

//===- Output.cpp - What leaves the compiler --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Output.h"

#include "tools/common/Output.h"
#include "tools/dt-opt/Build.h"
#include "tools/dt-opt/Diagnostics.h"
#include "tools/dt-opt/Input.h"
#include "tools/dt-opt/Report.h"

#include "codegen/Emit.h"
#include "dialects/rt/RTOps.h"
#include "models/frontend/recipe/JsonAttr.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using dt::fail;

namespace {

/// Collects costs and memory from the IR as it is where the pass stands.
struct CollectReport
    : PassWrapper<CollectReport, OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CollectReport)
  explicit CollectReport(dt::ProgramReport *report) : report(report) {}
  StringRef getArgument() const override { return "collect-report"; }
  void runOnOperation() override {
    dt::addCosts(getOperation(), *report);
    dt::addPlan(getOperation(), *report);
    dt::addResiduals(getOperation(), *report);
    if (failed(dt::addMemory(getOperation(), *report)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
  dt::ProgramReport *report;
};

void printReport(const dt::ProgramReport &report,
                 const dt::OutputOptions &options, llvm::raw_ostream &os) {
  StringRef file = options.output;
  bool plan = options.emit == dt::Emit::Plan;
  if (file.ends_with(".json"))
    return plan ? dt::printPlanJson(report, os)
                : dt::printMemoryJson(report, os);
  if (file.ends_with(".html"))
    return plan ? dt::printPlanHtml(report, os)
                : dt::printMemoryHtml(report, os);
  if (plan)
    return dt::printPlan(report, os);
  return file.ends_with(".svg") ? dt::printMemorySvg(report, os)
                                : dt::printMemory(report, os);
}

/// Text of data.json. Batch and seed are rt.program's by now, the rest still
/// stands beside it.
std::string dataOf(mlir::ModuleOp program) {
  nlohmann::json data = dt::models::getDataSections(program);
  for (auto rt : program.getOps<dt::rt::ProgramOp>()) {
    data["batch"] = {{"global", rt.getGlobalBatch()},
                     {"micro", rt.getMicroBatch()}};
    if (auto parts = rt.getParts())
      data["batch"].update({{"parts", *parts},
                            {"tokens", *rt.getPartTokens()},
                            {"samples", rt.getGlobalBatch() / *parts}});
    data["seed"] = rt.getSeed();
  }
  return data.dump(1);
}

LogicalResult emitDirectory(mlir::ModuleOp program,
                            const dt::OutputOptions &options) {
  dt::codegen::EmitOptions emit;
  emit.target = options.target;
  emit.directory = options.output;
  StringRef parent = llvm::sys::path::parent_path(options.input);
  emit.modelDirectory = parent.empty() ? "." : parent.str();
  emit.data = dataOf(program);
  if (failed(dt::codegen::emitProgram(program, emit)))
    return failure();
  return options.emit == dt::Emit::Exe
             ? dt::buildProgram(options.output, options.target)
             : success();
}

LogicalResult emitEmitC(mlir::ModuleOp program,
                        const dt::OutputOptions &options) {
  auto emitted = dt::codegen::convertToEmitC(program, options.target);
  if (failed(emitted))
    return failure();
  return dt::writeText(options.output,
                       [&](llvm::raw_ostream &os) { os << **emitted << "\n"; });
}

} // namespace

bool dt::isReport(Emit emit) {
  return emit == Emit::Plan || emit == Emit::Memory;
}

LogicalResult dt::checkEnding(Emit emit, StringRef output) {
  auto check = [&](StringRef name, ArrayRef<StringRef> endings,
                   StringRef list) -> LogicalResult {
    static constexpr StringLiteral formats[] = {".json", ".svg", ".html",
                                                ".htm",  ".pdf", ".png",
                                                ".jpg",  ".csv", ".md"};
    StringRef ending = llvm::sys::path::extension(output);
    if (!llvm::is_contained(formats, ending) ||
        llvm::is_contained(endings, ending))
      return success();
    return fail(output + ": --emit=" + name + " cannot be written as '" +
                ending + "'; expected " + list + ", or text by another name");
  };
  switch (emit) {
  case Emit::Plan:
    return check("plan", {".json", ".html"}, ".json or .html");
  case Emit::Memory:
    return check("memory", {".json", ".svg", ".html"}, ".json, .svg or .html");
  case Emit::Timeline:
    return check("timeline", {".svg", ".html"}, ".svg or .html");
  case Emit::Kernels:
    return check("kernels", {".json"}, ".json");
  default:
    return success();
  }
}

LogicalResult
dt::writeText(StringRef file,
              llvm::function_ref<void(llvm::raw_ostream &)> write) {
  llvm::Error failure = writeOutput(file, [&](llvm::raw_ostream &os) {
    write(os);
    return llvm::Error::success();
  });
  return failure ? fail(toString(std::move(failure))) : success();
}

void dt::addReport(OpPassManager &pm, ProgramReport &report) {
  pm.addPass(std::make_unique<CollectReport>(&report));
}

LogicalResult dt::writeReport(const ProgramReport &report,
                              const OutputOptions &options) {
  if (options.emit == Emit::Memory && !report.hasMemory)
    return fail("--emit=memory: the passes given do not lower the program to "
                "rt; leave them out to run all phases");
  if (options.emit == Emit::Plan && report.modules.empty())
    return fail((options.input == "-" ? "standard input" : options.input) +
                ": holds no module to report on; --emit=plan takes a recipe, "
                "an ONNX file, or IR with a dist.module");
  return writeText(options.output, [&](llvm::raw_ostream &os) {
    printReport(report, options, os);
  });
}

LogicalResult dt::emitProgram(const std::string &bytecode,
                              const DialectRegistry &registry,
                              const OutputOptions &options,
                              Diagnostics &diagnostics) {
  MLIRContext context(registry);
  diagnostics.attach(context, isImported(options.input));
  auto program = parseSourceString<mlir::ModuleOp>(bytecode, &context);
  if (!program)
    return failure();
  if (options.emit == Emit::Timeline)
    return emitTimeline(*program, options);
  if (options.emit == Emit::EmitC)
    return emitEmitC(*program, options);
  return options.emit == Emit::Kernels ? emitKernels(*program, options)
                                       : emitDirectory(*program, options);
}

//===- Output.cpp - What leaves the compiler --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Output.h"

#include "dialects/dist/DistOps.h"
#include "dialects/nn/NNOps.h"
#ifdef DT_HAS_CODEGEN
#include "codegen/Emit.h"
#include "dialects/rt/RTOps.h"
#endif
#ifdef DT_HAS_ONNX
#include "models/recipe/JsonAttr.h"
#endif

#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

namespace {

LogicalResult fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return failure();
}

/// FLOPs of a function and all that it calls, as a polynomial of the module's
/// symbols.
dt::nn::DimExpr flopsOf(func::FuncOp function) {
  dt::nn::DimExpr total;
  function.walk([&](Operation *op) {
    if (auto cost = dyn_cast<dt::nn::CostOpInterface>(op))
      total = total + cost.getFlops();
    if (auto call = dyn_cast<func::CallOp>(op))
      if (auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
              op, call.getCalleeAttr()))
        total = total + flopsOf(callee);
  });
  return total;
}

void printPlan(mlir::ModuleOp program, llvm::raw_ostream &os) {
  os << llvm::formatv("{0,-16} {1,-10} {2,-10} {3,14} {4,14}  {5}\n", "module",
                      "role", "item", "trainable", "frozen",
                      "forward FLOPs a microbatch");
  for (auto module : program.getOps<dt::dist::ModuleOp>()) {
    int64_t trainable = 0, frozen = 0;
    for (auto parameter : module.getOps<dt::nn::ParameterOp>()) {
      int64_t size =
          cast<RankedTensorType>(parameter.getType()).getNumElements();
      if (parameter.getTrainable())
        trainable += size;
      else if (!parameter.getBuffer())
        frozen += size;
    }
    std::string flops = "-";
    if (auto forward = module.getForward()) {
      dt::nn::DimExpr cost = flopsOf(forward);
      auto value =
          cost.evaluate([&](StringRef symbol) -> std::optional<int64_t> {
            auto dim = module.lookupSymbol<dt::nn::DimOp>(symbol);
            return dim ? dim.getMax() : std::nullopt;
          });
      flops = value ? llvm::formatv("{0:N}", *value).str() : cost.str();
    }
    os << llvm::formatv(
        "{0,-16} {1,-10} {2,-10} {3,14:N} {4,14:N}  {5}\n", module.getSymName(),
        module.getRole() ? dt::dist::stringifyRole(*module.getRole()) : "-",
        module.getItem().value_or("-"), trainable, frozen, flops);
  }
}

#ifdef DT_HAS_CODEGEN
LogicalResult buildProgram(StringRef directory) {
  auto cmake = llvm::sys::findProgramByName("cmake");
  if (!cmake)
    return fail("--emit=exe needs cmake, which is not in PATH");
  std::string build = (directory + "/build").str();
  std::string message;
  SmallVector<StringRef> configure = {
      *cmake, "-S", directory, "-B", build, "-DCMAKE_BUILD_TYPE=Release"};
  SmallVector<StringRef> compile = {*cmake, "--build", build, "--parallel"};
  for (ArrayRef<StringRef> command : {configure, compile})
    if (llvm::sys::ExecuteAndWait(*cmake, command, std::nullopt, {}, 0, 0,
                                  &message))
      return fail("building the program in " + directory + " failed" +
                  (message.empty() ? "" : ": " + message));
  return success();
}
#endif

#if defined(DT_HAS_CODEGEN) && defined(DT_HAS_ONNX)
/// Text of plan.json. Batch and seed are rt.program's by now, the rest still
/// stands beside it.
std::string planOf(mlir::ModuleOp program) {
  nlohmann::json plan = dt::models::getPlanSections(program);
  for (auto rt : program.getOps<dt::rt::ProgramOp>()) {
    plan["batch"] = {{"global", rt.getGlobalBatch()},
                     {"micro", rt.getMicroBatch()}};
    plan["seed"] = rt.getSeed();
  }
  return plan.dump(1);
}
#endif

LogicalResult emitDirectory(mlir::ModuleOp program,
                            const dt::OutputOptions &options) {
#ifdef DT_HAS_CODEGEN
  dt::codegen::EmitOptions emit;
  emit.target = options.target;
  emit.directory = options.output;
  StringRef parent = llvm::sys::path::parent_path(options.input);
  emit.modelDirectory = parent.empty() ? "." : parent.str();
#ifdef DT_HAS_ONNX
  emit.plan = planOf(program);
#endif
  if (failed(dt::codegen::emitProgram(program, emit)))
    return failure();
  return options.emit == dt::Emit::Exe ? buildProgram(options.output)
                                       : success();
#else
  return fail("this build has no code generation");
#endif
}

} // namespace

StringRef dt::getLastPhase(Emit emit) {
  return emit == Emit::Plan ? "modules" : "";
}

LogicalResult dt::emitOutput(const std::string &bytecode,
                             const DialectRegistry &registry,
                             const OutputOptions &options) {
  MLIRContext context(registry);
  auto program = parseSourceString<mlir::ModuleOp>(bytecode, &context);
  if (!program)
    return failure();
  if (options.emit == Emit::Cpp || options.emit == Emit::Exe)
    return emitDirectory(*program, options);
  std::string message;
  auto file = openOutputFile(options.output, &message);
  if (!file)
    return fail(message);
  printPlan(*program, file->os());
  file->keep();
  return success();
}

//===- dt-opt.cpp - The compiler's command line -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// An mlir-opt whose inputs may also be ONNX models and recipes. Those are
// imported first and handed over as bytecode, so that every flag of mlir-opt
// (passes, timing, remarks, plugins) works on them. With --emit all phases run
// and their result leaves MLIR.
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Output.h"
#include "tools/dt-opt/Phases.h"
#ifdef DT_HAS_ONNX
#include "tools/dt-opt/Input.h"
#endif

#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

namespace {

using dt::Emit;

llvm::cl::OptionCategory emitOptions("Output options");
llvm::cl::opt<Emit> emitOption(
    "emit", llvm::cl::cat(emitOptions), llvm::cl::init(Emit::None),
    llvm::cl::desc("Run all phases (or the passes given instead) and emit:"),
    llvm::cl::values(
        clEnumValN(Emit::Mlir, "mlir", "the IR after the phases"),
        clEnumValN(Emit::Plan, "plan", "a table of modules: parameters, FLOPs, bytes"),
        clEnumValN(Emit::Memory, "memory", "a table of what memory is planned"),
        clEnumValN(Emit::Cpp, "cpp", "a directory (-o) with the program's sources"),
        clEnumValN(Emit::Exe, "exe", "the same, built with CMake")));
llvm::cl::opt<std::string>
    targetOption("target", llvm::cl::cat(emitOptions), llvm::cl::init("cpu"),
                 llvm::cl::value_desc("cpu|cuda"),
                 llvm::cl::desc("What the program runs on"));

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readFile(StringRef path, const DialectRegistry &registry) {
#ifdef DT_HAS_ONNX
  return dt::readInput(path, registry);
#else
  std::string message;
  if (auto file = openInputFile(path, &message))
    return file;
  return llvm::createStringError(message);
#endif
}

/// The passes that --emit runs: those of the command line, else all phases
/// that the output needs.
void setPipeline(MlirOptMainConfig &config, bool imported) {
  MlirOptMainConfig given = config;
  Emit emit = emitOption;
  config.setPassPipelineSetupFn([given, emit, imported](PassManager &pm) {
#ifdef DT_HAS_ONNX
    if (imported)
      dt::registerNamedDiagnostics(*pm.getContext());
#endif
    if (failed(given.setupPassPipeline(pm)))
      return failure();
    if (emit != Emit::None && pm.empty())
      dt::buildPhases(pm, dt::getLastPhase(emit));
    return success();
  });
}

LogicalResult compile(StringRef input, StringRef output,
                      DialectRegistry &registry) {
  auto fail = [](const llvm::Twine &message) {
    llvm::errs() << "error: " << message << "\n";
    return failure();
  };
  if (targetOption != "cpu" && targetOption != "cuda")
    return fail("--target: expected cpu or cuda, not '" + targetOption + "'");
  bool directory = emitOption == Emit::Cpp || emitOption == Emit::Exe;
  if (directory && output == "-")
    return fail("--emit=cpp and --emit=exe need -o DIRECTORY");
  auto buffer = readFile(input, registry);
  if (!buffer) {
    std::string message = toString(buffer.takeError());
    return message.empty() ? failure() : fail(message);
  }
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  setPipeline(config, StringRef(input).ends_with(".onnx") || StringRef(input).ends_with(".json"));
  if (emitOption == Emit::None || emitOption == Emit::Mlir) {
    std::string message;
    auto file = openOutputFile(output, &message);
    if (!file)
      return fail(message);
    if (failed(MlirOptMain(file->os(), std::move(*buffer), registry, config)))
      return failure();
    file->keep();
    return success();
  }
  config.emitBytecode(true);
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  if (failed(MlirOptMain(os, std::move(*buffer), registry, config)))
    return failure();
  return dt::emitOutput(bytes, registry, {emitOption, targetOption, input.str(), output.str()});
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM initialise(argc, argv);
  DialectRegistry registry;
  dt::registerDialects(registry);
  dt::registerPasses();
  auto [input, output] = registerAndParseCLIOptions(
      argc, argv, "The DistTrain compiler", registry);
  return failed(compile(input, output, registry));
}

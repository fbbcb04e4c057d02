//===- Emit.cpp - rt to sources -------------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/Emit.h"
#include "codegen/common/Directory.h"
#include "codegen/common/ProgramTable.h"
#include "codegen/common/SlowCalls.h"
#include "dialects/dist/PluginOptimizers.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Target/Cpp/CppEmitter.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace dt::codegen {

// Every folder of a target adds it.
#include "codegen/Targets.inc"

const Targets &getTargets() {
  static const Targets targets = [] {
    Targets all;
    addAll(all);
    return all;
  }();
  return targets;
}

std::string getTargetNames(StringRef separator) {
  return llvm::join(
      llvm::map_range(getTargets(), [](auto &target) { return target.name; }),
      separator);
}

bool computesOnHost(StringRef target) {
  return !createTarget(target)->launches();
}

std::unique_ptr<Target> createTarget(StringRef name) {
  for (const TargetEntry &target : getTargets())
    if (target.name == name)
      return target.create();
  return nullptr;
}

/// The only program of a module; an error if there is none or several.
static rt::ProgramOp findProgramOp(ModuleOp module) {
  auto programs = module.getOps<rt::ProgramOp>();
  if (programs.empty() || std::next(programs.begin()) != programs.end()) {
    module.emitError(
        "code generation needs one rt.program: has the module been lowered?");
    return {};
  }
  return *programs.begin();
}

static std::unique_ptr<Target> findTarget(ModuleOp module, StringRef name) {
  auto target = createTarget(name);
  if (!target)
    module.emitError() << "unknown target '" << name << "': expected "
                       << getTargetNames(" or ");
  return target;
}

/// Stems of generated files are added to `sources`, kernels to `rows`.
static FailureOr<OwningOpRef<ModuleOp>>
convert(rt::ProgramOp program, const Target &target,
        SmallVectorImpl<std::string> &sources,
        std::vector<KernelRow> *rows = nullptr) {
  MLIRContext *context = program.getContext();
  context->getOrLoadDialect<emitc::EmitCDialect>();
  OwningOpRef<ModuleOp> result(ModuleOp::create(program.getLoc()));
  OpBuilder b = OpBuilder::atBlockEnd(result->getBody());
  NameScope scope;
  std::vector<ModuleNames> names;
  for (StringRef name : {"program", "runtime", "train", "third_party"})
    scope.reserve(name);
  for (auto module : program.getBody().getOps<rt::ModuleOp>()) {
    b.setInsertionPointToEnd(result->getBody());
    ModuleEmitter emitter(module, target, b, scope);
    if (failed(emitter.emit()))
      return failure();
    if (rows)
      emitter.listKernels(*rows);
    names.push_back(emitter.getNames());
    llvm::append_range(sources, emitter.getSources());
  }
  b.setInsertionPointToEnd(result->getBody());
  if (failed(emitProgramTable(program, names, target, b)))
    return failure();
  sources.push_back("program.cpp");
  if (failed(mlir::verify(*result)))
    return failure();
  return result;
}

FailureOr<OwningOpRef<ModuleOp>> convertToEmitC(ModuleOp module,
                                                StringRef targetName) {
  rt::ProgramOp program = findProgramOp(module);
  auto target = findTarget(module, targetName);
  SmallVector<std::string> sources;
  if (!program || !target)
    return failure();
  return convert(program, *target, sources);
}

FailureOr<std::vector<KernelRow>> listKernels(ModuleOp module,
                                              StringRef targetName) {
  rt::ProgramOp program = findProgramOp(module);
  auto target = findTarget(module, targetName);
  SmallVector<std::string> sources;
  std::vector<KernelRow> rows;
  if (target && !target->launches())
    return module.emitError()
           << "target '" << targetName << "' does not launch kernels";
  if (!program || !target || failed(convert(program, *target, sources, &rows)))
    return failure();
  return rows;
}

static LogicalResult print(ModuleOp emitted,
                           std::vector<GeneratedFile> &files) {
  for (auto file : emitted.getOps<emitc::FileOp>()) {
    std::string text;
    llvm::raw_string_ostream os(text);
    if (failed(emitc::translateToCpp(
            emitted, os, /*declareVariablesAtTop=*/false, file.getId())))
      return failure();
    files.push_back({file.getId().str(), std::move(text)});
  }
  return success();
}

LogicalResult printProgram(ModuleOp module, StringRef targetName,
                           raw_ostream &os) {
  auto emitted = convertToEmitC(module, targetName);
  std::vector<GeneratedFile> files;
  if (failed(emitted) || failed(print(**emitted, files)))
    return failure();
  for (const GeneratedFile &file : files)
    os << "//===--- " << file.path << "\n" << file.text << "\n";
  return success();
}

/// In a file of its own, so that a program with a main() of its own links the
/// rest as a library.
static constexpr char mainFile[] = R"cpp(// The training program's entry.
// Generated by DistTrain; see README.md in this directory.
#include "runtime/Program.h"

#ifndef PROGRAM_DIRECTORY // where weights.safetensors and data.json lie
#define PROGRAM_DIRECTORY "."
#endif

int main(int argc, char **argv) { return dt::rt::trainMain(kProgram, PROGRAM_DIRECTORY, argc, argv); }
)cpp";

std::string optionOff(StringRef name, StringRef why) {
  return R"cmake(option()cmake" + name.str() +
         R"cmake( "See runtime/CMakeLists.txt" OFF) # )cmake" + why.str() +
         R"cmake(
)cmake";
}

std::string runtimeTarget() {
  return R"cmake(# Many programs can share one build of the runtime: cmake -C OTHER/build/runtime/prebuilt.cmake -S . -B build
if(DT_RUNTIME_LIBRARY AND NOT DT_OWN_RUNTIME)
  include(${DT_RUNTIME_LIBRARY})
else()
  add_subdirectory(runtime)
endif()
)cmake";
}

std::string programTargets(ArrayRef<std::string> sources) {
  return R"cmake(# All but main(), for programs that train and do something of their own besides.
add_library(program STATIC
  )cmake" +
         llvm::join(sources, "\n  ") + R"cmake()
target_include_directories(program PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(program PUBLIC dt_runtime)

add_executable(train main.cpp)
target_link_libraries(train PRIVATE program)
target_compile_definitions(train PRIVATE PROGRAM_DIRECTORY="${CMAKE_CURRENT_SOURCE_DIR}")
)cmake";
}

static bool hasManyRanks(rt::ProgramOp program) {
  return program.getRanks().size() > 1;
}

/// The optimizers that the program's runtime has beyond the compiler's own;
/// empty: it needs none.
static std::string writeOptimizers(rt::ProgramOp program) {
  for (auto optimizer : program.getBody().getOps<rt::OptimizerOp>())
    if (auto kind = optimizer.getFields().getAs<StringAttr>("kind"))
      if (auto known = rt::fromText<rt::OptimizerKind>(kind.getValue()))
        return dist::writePluginOptimizers(*known);
  return "";
}

LogicalResult emitProgram(ModuleOp module, const EmitOptions &options) {
  rt::ProgramOp program = findProgramOp(module);
  auto target = findTarget(module, options.target);
  if (!program || !target)
    return failure();
  if (options.directory.empty())
    return module.emitError("no directory to write the program to");
  SmallVector<std::string> sources;
  auto emitted = convert(program, *target, sources);
  std::vector<GeneratedFile> files;
  if (failed(emitted) || failed(print(**emitted, files)))
    return failure();
  remarkSlowCalls(program, *target);
  files.push_back({"main.cpp", mainFile});
  std::string cmake = target->cmakeLists(identifier(program.getSymName()),
                                         sources, hasManyRanks(program));
  if (std::string optimizers = writeOptimizers(program); !optimizers.empty()) {
    files.push_back({"runtime/PluginOptimizers.h", optimizers});
    cmake =
        R"cmake(set(DT_OWN_RUNTIME ON) # its optimizer is a plugin's, and in no other runtime
)cmake" +
        cmake;
  }
  files.push_back({"CMakeLists.txt", cmake});
  return writeDirectory(module, program, *target, files, options);
}

} // namespace dt::codegen

//===- Output.h - What leaves the compiler ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DT_OPT_OUTPUT_H
#define TOOLS_DT_OPT_OUTPUT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace dt {

class Diagnostics;
struct ProgramReport;

enum class Emit {
  None,
  Mlir,
  Plan,
  PlanModel,
  Memory,
  Timeline,
  Kernels,
  EmitC,
  Cpp,
  Exe
};

/// Whether an output tells about the program (tools/dt-opt/Report.h).
bool isReport(Emit emit);

struct OutputOptions {
  Emit emit;
  std::string target; ///< of codegen::getTargetNames()
  std::string input;  ///< ONNX files are relative to its folder
  std::string output; ///< "-", a file, or a directory
  /// Of a timeline: a run's report, whose times of tasks it shows; empty: it
  /// shows predicted ones.
  std::string times;
  std::string plan; ///< --plan, for errors
};

/// What an output can be written as follows from its file's ending. Another
/// kind of picture or table is an error, which is printed.
llvm::LogicalResult checkEnding(Emit emit, llvm::StringRef output);

/// Writes a file, or standard output ("-"). Errors are printed.
llvm::LogicalResult
writeText(llvm::StringRef file,
          llvm::function_ref<void(llvm::raw_ostream &)> write);

/// Fills `report`, which must outlive `pm`, from what stands there after the
/// passes in `pm`.
void addReport(mlir::OpPassManager &pm, ProgramReport &report);
/// Writes the report to options.output: text, or by the file's ending JSON
/// (.json), a page (.html) or for memory a picture (.svg). Errors are printed.
llvm::LogicalResult writeReport(const ProgramReport &report,
                                const OutputOptions &options);

/// Fills `json`, which must outlive `pm`, with the program as the planner sees
/// it behind the phase modules: TP degrees up to `mostTP`.
void addPlanModel(mlir::OpPassManager &pm, int64_t mostTP, std::string &json);
/// Writes it to options.output. Errors are printed.
llvm::LogicalResult writePlanModel(llvm::StringRef json,
                                   const OutputOptions &options);

/// Writes what the solutions of scheduling problems look like: text, or by the
/// file's ending a picture (.svg) or a page (.html). Errors are printed.
llvm::LogicalResult emitTimeline(mlir::ModuleOp program,
                                 const OutputOptions &options);

/// Writes what the generated kernels of options.target ask of a device: text,
/// or by the file's ending JSON (.json). Errors are printed.
llvm::LogicalResult emitKernels(mlir::ModuleOp program,
                                const OutputOptions &options);

/// Writes program sources, or builds them too, of the IR in `bytecode`; or the
/// ops that they are printed from, the timeline of its schedules, or its
/// kernels. Errors are printed.
llvm::LogicalResult emitProgram(const std::string &bytecode,
                                const mlir::DialectRegistry &registry,
                                const OutputOptions &options,
                                Diagnostics &diagnostics);

} // namespace dt

#endif // TOOLS_DT_OPT_OUTPUT_H

//===- Passes.td - code generation as passes --------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_PASSES
#define CODEGEN_PASSES

include "mlir/Pass/PassBase.td"

def RTToEmitC : Pass<"dt-rt-to-emitc", "::mlir::ModuleOp"> {
  let summary = "Replace an rt.program by the emitc ops that its sources are printed from";
  let description = [{
    Needs a module with one rt.program whose memory is planned. The result has one `emitc.file` for each source: for each module a header with structs of its sizes, parameters and arena tensors, a file of kernels
    and a file of functions; and `program.cpp` with the tables. An rt.func is an `emitc.class` with its buffers as fields and a method `run`. Equal kernels are one function.
  }];
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "a folder of runtime/device/: cpu, cuda, …">];
  let dependentDialects = ["::mlir::emitc::EmitCDialect"];
}

def PrintProgram : Pass<"dt-print-program", "::mlir::ModuleOp"> {
  let summary = "Print the C++ sources of an rt.program to standard output; the module stays";
  let options = [Option<"target", "target", "std::string", "\"cpu\"", "a folder of runtime/device/: cpu, cuda, …">];
}

def EmitProgramDirectory : Pass<"dt-emit-program", "::mlir::ModuleOp"> {
  let summary = "Write the directory of an rt.program: sources, runtime, weights, data sections, ONNX files";
  let description = [{
    See codegen/Emit.h. data.json is empty here; `dt-opt --emit` fills it from the dist ops.
  }];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"", "a folder of runtime/device/: cpu, cuda, …">,
    Option<"directory", "directory", "std::string", "\"\"", "where to write">,
    Option<"models", "models", "std::string", "\".\"", "folder that file names in #nn.onnx are relative to">,
    Option<"runtime", "runtime", "std::string", "\"\"", "folder with the runtime's sources; default: this build's">,
    Option<"weights", "weights", "bool", "true", "write weights.safetensors and onnx/">];
}

#endif // CODEGEN_PASSES

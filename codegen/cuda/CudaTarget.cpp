//===- CudaTarget.cpp - __global__ functions for kernels ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A thread a point: the flattened number of the thread gives the indices, the
// last bound fastest, so that neighbours read neighbouring memory.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/Target.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace dt::codegen {

namespace {

class CudaTarget final : public Target {
public:
  StringRef extension() const override { return "cu"; }
  ArrayRef<StringLiteral> includes() const override {
    static const StringLiteral paths[] = {
        "runtime/comm/Collectives.h",   "runtime/Program.h",
        "runtime/device/Scalar.h",      "runtime/device/cuda/Calls.h",
        "runtime/device/cuda/Launch.h", "runtime/device/cuda/vecmath.h"};
    return paths;
  }
  StringRef kernelSpecifier() const override { return "__global__"; }
  StringRef lastCallArgument() const override { return "context.stream"; }
  std::string constantAddress(StringRef name) const override {
    return ("dt::rt::cuda::constant(" + name + ", sizeof " + name + ")").str();
  }
  std::string launch(rt::KernelOp kernel, StringRef callee) const override {
    std::string points = dimText(numPoints(kernel), "size.");
    return ("dt::rt::cuda::launch(\"" + callee + "\", " + callee +
            ", dt::rt::cuda::gridFor(" + points + "), 256, 0, context.stream")
        .str();
  }
  /// Of the CPU's files the headers with shapes.
  bool wantsFileOf(StringRef path) const override {
    return path == "device/cpu/Attention.h" || path == "device/cpu/Conv.h" ||
           path == "device/cpu/Matmul.h";
  }
  std::string cmakeLists(StringRef program, ArrayRef<std::string> sources,
                         bool ranks) const override;

  LogicalResult emitPoints(rt::KernelOp kernel, OpBuilder &builder,
                           NameScope &names, KernelBody &body) const override {
    nn::Shape bounds = kernel.getBoundExprs();
    Location loc = kernel.getLoc();
    std::string point = names.unique("point");
    body.line(loc, "const int64_t " + point +
                       " = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;");
    body.line(loc, "if (" + point + " >= " + dimText(numPoints(kernel)) +
                       ") return;");
    std::string inner = "1";
    SmallVector<std::string> lines;
    for (unsigned i = bounds.size(); i-- > 0;) {
      std::string name = names.unique(std::string(1, "ijklmnop"[i % 8]));
      body.bind(kernel.getIndices()[i], name);
      std::string at = inner == "1" ? point : point + " / " + atom(inner);
      if (i > 0)
        at += " % " + atom(dimText(bounds[i]));
      lines.push_back("const int64_t " + name + " = " + at + ";");
      inner = inner == "1" ? dimText(bounds[i])
                           : atom(inner) + " * " + atom(dimText(bounds[i]));
    }
    for (const std::string &text : llvm::reverse(lines))
      body.line(loc, text);
    return body.emit(kernel.getBody().front());
  }
};

std::string CudaTarget::cmakeLists(StringRef program,
                                   ArrayRef<std::string> sources,
                                   bool ranks) const {
  return R"cmake(# Builds the training program: cmake -S . -B build && cmake --build build -j
cmake_minimum_required(VERSION 3.20)
project()cmake" +
         program.str() + R"cmake( LANGUAGES C CXX)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CUDA_STANDARD 20)
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# For tests, a double of CUDA: then the host's compiler takes all sources, and nothing of CUDA is needed.
set(DT_CUDA_DOUBLE "" CACHE PATH "A folder that stands in for CUDA")
if(NOT DT_CUDA_DOUBLE)
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "nvcc is missing: a CUDA program needs the CUDA toolkit (nvcc in PATH, or -DCMAKE_CUDA_COMPILER=...)")
  endif()
  enable_language(CUDA)
endif()

# Shards need picture and archive libraries; without them the program trains on --batch files.
find_package(PNG QUIET)
find_package(JPEG QUIET)
find_package(LibArchive QUIET)
if(PNG_FOUND AND JPEG_FOUND AND LibArchive_FOUND)
  set(DT_SHARDS ON CACHE BOOL "")
else()
  set(DT_SHARDS OFF CACHE BOOL "")
endif()
set(DT_RUNTIME_TARGET cuda CACHE STRING "")
)cmake" + runtimeTarget(ranks) +
         R"cmake(if(DT_CUDA_DOUBLE)
  set_source_files_properties(
  )cmake" +
         llvm::join(sources, "\n  ") +
         R"cmake( PROPERTIES LANGUAGE CXX)
endif()
)cmake" + programTargets(sources);
}

} // namespace

void addCudaTarget(Targets &targets) {
  targets.push_back({"cuda", []() -> std::unique_ptr<Target> {
                       return std::make_unique<CudaTarget>();
                     }});
}

} // namespace dt::codegen

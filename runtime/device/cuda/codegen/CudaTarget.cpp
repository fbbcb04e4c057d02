//===- CudaTarget.cpp - __global__ functions for kernels ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What threads do, CudaBody.h says: here is how many there are, and what the
// directory needs.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/Target.h"
#include "runtime/device/cuda/codegen/CudaBody.h"
#include "runtime/device/cuda/codegen/CudaCost.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

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
        "runtime/device/cuda/Launch.h", "runtime/device/cuda/Packs.h",
        "runtime/device/cuda/Reduce.h", "runtime/device/cuda/vecmath.h"};
    return paths;
  }
  /// More threads cannot have all registers that nvcc may take.
  std::string kernelSpecifier(rt::KernelOp kernel) const override {
    unsigned threads = planOf(kernel).threads();
    return threads > 256
               ? cpp::words(
                     {"__global__", cpp::call("__launch_bounds__", {threads})})
               : "__global__";
  }
  StringRef streamArgument(rt::Stream stream) const override {
    return stream == rt::Stream::tp ? "context.tpStream" : "context.stream";
  }
  std::string constantAddress(StringRef name) const override {
    return cpp::call("dt::rt::cuda::constant",
                     {name, cpp::words({"sizeof", name})});
  }
  Call launch(rt::KernelOp kernel, StringRef callee) const override;
  std::string writtenArgument(const cpp::Code &address,
                              const cpp::Code &count) const override {
    return cpp::call("dt::rt::cuda::out", {address, count});
  }
  /// Of the CPU's files the headers with shapes.
  bool wantsFileOf(StringRef path) const override {
    return path == "device/cpu/Attention.h" || path == "device/cpu/Conv.h" ||
           path == "device/cpu/Experts.h" || path == "device/cpu/Matmul.h";
  }
  std::string cmakeLists(StringRef program, ArrayRef<std::string> sources,
                         bool ranks) const override;

  bool isSame(rt::KernelOp a, rt::KernelOp b) const override {
    return planOf(a).isSame(a, planOf(b), b);
  }
  bool launches() const override { return true; }
  StringRef getSlowness(Operation *call) const override;
  KernelCost cost(rt::KernelOp kernel) const override {
    return getCost(kernel, planOf(kernel));
  }
  StringRef indexType(rt::KernelOp kernel) const override {
    return planOf(kernel).narrow ? "int" : "int64_t";
  }
  StringRef lastParameter(rt::KernelOp kernel) const override {
    return planOf(kernel).partial ? "dt::rt::cuda::Parts" : "";
  }
  LogicalResult emitPoints(rt::KernelOp kernel, OpBuilder &builder,
                           NameScope &names,
                           ArrayRef<std::string> buffers) const override {
    CudaBody body(builder, names, kernel, planOf(kernel));
    for (auto [argument, name] : llvm::zip(kernel.getBufferArgs(), buffers))
      body.bind(argument, name);
    return body.run();
  }

private:
  /// Made once a kernel; while it is printed the IR does not change.
  const CudaPlan &planOf(rt::KernelOp kernel) const {
    auto module = kernel->getParentOfType<rt::ModuleOp>();
    auto &aligned = alignments[module];
    if (!aligned)
      aligned = std::make_unique<rt::BufferAlignment>(module);
    auto &plan = plans[kernel];
    if (!plan)
      plan = std::make_unique<CudaPlan>(kernel, *aligned);
    return *plan;
  }
  mutable llvm::DenseMap<Operation *, std::unique_ptr<rt::BufferAlignment>>
      alignments;
  mutable llvm::DenseMap<Operation *, std::unique_ptr<CudaPlan>> plans;
};

/// A number of iterations as text of the host's code.
std::string tripsText(ArrayRef<scf::ForOp> loops) {
  std::string trips = "1";
  for (scf::ForOp loop : loops) {
    Value bound = loop.getUpperBound();
    APInt c;
    auto size = bound.getDefiningOp<rt::SizeOp>();
    std::string n = size ? dimText(size.getSize(), "size.")
                    : matchPattern(bound, m_ConstantInt(&c))
                        ? std::to_string(c.getSExtValue())
                        : std::string("1");
    trips = cpp::product(trips, n);
  }
  return trips;
}

/// As CudnnAttention.cpp asks cuDNN: heads that are no whole packs of 16 bytes.
static bool hasOddHeads(Operation *attention) {
  auto isOdd = [](const nn::DimExpr &size) {
    std::optional<int64_t> number = size.asConstant();
    return !number || *number % 8;
  };
  return llvm::TypeSwitch<Operation *, bool>(attention)
      .Case<rt::AttentionOp, rt::AttentionGradOp>(
          [&](auto op) { return isOdd(op.getD()) || isOdd(op.getDv()); })
      .Default(false);
}

StringRef CudaTarget::getSlowness(Operation *call) const {
  bool attends = isa<rt::AttentionOp, rt::AttentionGradOp>(call);
  auto first = cast<rt::BufferType>(call->getOperand(0).getType());
  if (!first.getElementType().isF32())
    return attends && hasOddHeads(call)
               ? "not on tensor cores, as heads are no multiple of 8"
               : "";
  if (!call->getParentOfType<rt::ModuleOp>().getTf32())
    return "in float32, without tensor cores (\"precision\": \"bf16\" or "
           "\"tf32\")";
  if (isa<rt::GroupedMatmulOp, rt::GroupedMatmulDwOp>(call))
    return "in float32, for which there are no products of experts on tensor "
           "cores (\"precision\": \"bf16\")";
  return attends ? "in float32, for which there is no attention on tensor "
                   "cores (\"precision\": \"bf16\")"
                 : "";
}

Call CudaTarget::launch(rt::KernelOp kernel, StringRef callee) const {
  const CudaPlan &plan = planOf(kernel);
  std::string points = dimText(kernel.getNumPoints(), "size.");
  Call call{"dt::rt::cuda::launch", {}, {quoted(callee), callee}};
  auto add = [&](cpp::Codes arguments) {
    llvm::append_range(call.arguments, arguments);
    return call;
  };
  if (plan.shape == rt::KernelShape::column) {
    call.callee = "dt::rt::cuda::launchColumns";
    call.templates = {cTypeName(plan.partial), plan.vector};
    return add({cpp::product(points, plan.width),
                tripsText(rt::getColumnSum(kernel)->rows), "context.stream"});
  }
  if (plan.shape == rt::KernelShape::all) {
    call.callee = "dt::rt::cuda::launchPoints";
    call.templates = {cTypeName(plan.partial)};
    return add(
        {points, tripsText(rt::getSplitNest(kernel).loops), "context.stream"});
  }
  if (plan.tile) {
    nn::Shape bounds = kernel.getBounds();
    std::string others = "1";
    for (auto [i, bound] : llvm::enumerate(bounds))
      if (i != *plan.tile && i + 1 != bounds.size())
        others = cpp::product(others, dimText(bound, "size."));
    return add({cpp::call("dt::rt::cuda::gridForSquares",
                          {others, dimText(bounds[*plan.tile], "size."),
                           dimText(bounds.back(), "size.")}),
                plan.threads(), 0, "context.stream"});
  }
  if (plan.scattered)
    points = cpp::product(points, tripsText(rt::getScatterSum(kernel)->rows));
  SmallVector<cpp::Code> grid{points};
  if (plan.points != 256)
    grid.push_back(plan.points);
  return add({cpp::call("dt::rt::cuda::gridFor", grid), plan.threads(),
              plan.shared, "context.stream"});
}

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
)cmake" + optionOff("DT_MPI", "ranks talk over TCP") +
         (ranks ? "" : optionOff("DT_NCCL", "the plan has one rank")) +
         runtimeTarget() +
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

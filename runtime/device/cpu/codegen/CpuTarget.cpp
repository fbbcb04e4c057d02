//===- CpuTarget.cpp - OpenMP loops for kernels ---------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The outer bounds of a kernel are shared among threads, the innermost is a
// simd loop unless the body has loops of its own (which say themselves that
// they are simd). A parallel region costs some microseconds, so small kernels
// run in one thread.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/Target.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dt::codegen {

namespace {

/// Elements below which one thread is faster.
constexpr int64_t kParallelWork = 16384;
/// Fewer outer points than this leave cores without work: then the innermost
/// bound is shared.
constexpr int64_t kFewPoints = 8;

/// Loop trips of a body of one point, as far as sizes say.
nn::DimExpr tripsOf(Block &block) {
  nn::DimExpr most(1);
  auto size = [](Value v) -> std::optional<nn::DimExpr> {
    if (auto s = v.getDefiningOp<rt::SizeOp>())
      return s.getSize();
    if (auto c = v.getDefiningOp<arith::ConstantIndexOp>())
      return nn::DimExpr(c.value());
    return std::nullopt;
  };
  for (auto loop : block.getOps<scf::ForOp>()) {
    nn::DimExpr inside = tripsOf(*loop.getBody());
    if (auto n = size(loop.getUpperBound()))
      inside = inside * *n;
    // Larger by the constant, or at all if symbols stand in it.
    if (!inside.isConstant() ||
        (most.isConstant() && inside.constant() > most.constant()))
      most = inside;
  }
  return most;
}

/// "if (parallel : n > 16384)", nothing when it is always so; null when it
/// never is. Without the word `if` would decide about vectors, too (OpenMP 5.0,
/// section 2.15).
std::optional<std::string> parallelClause(rt::KernelOp kernel) {
  nn::DimExpr work = kernel.getNumPoints() * tripsOf(kernel.getBody().front());
  if (std::optional<int64_t> n = work.asConstant())
    return *n > kParallelWork ? std::optional<std::string>("") : std::nullopt;
  return cpp::clause("if ", "parallel",
                     cpp::compare(dimText(work), ">", kParallelWork));
}

class CpuTarget final : public Target {
public:
  StringRef extension() const override { return "cpp"; }
  ArrayRef<StringLiteral> includes() const override {
    static const StringLiteral paths[] = {
        "runtime/comm/Collectives.h",   "runtime/Program.h",
        "runtime/device/Scalar.h",      "runtime/device/cpu/Attention.h",
        "runtime/device/cpu/Check.h",   "runtime/device/cpu/Conv.h",
        "runtime/device/cpu/Experts.h", "runtime/device/cpu/Matmul.h",
        "runtime/device/cpu/Memory.h",  "runtime/device/cpu/vecmath.h"};
    return paths;
  }
  std::string cmakeLists(StringRef program, ArrayRef<std::string> sources,
                         bool ranks) const override;

  LogicalResult emitPoints(rt::KernelOp kernel, OpBuilder &builder,
                           NameScope &names,
                           ArrayRef<std::string> buffers) const override {
    KernelBody body(builder, names, /*simd=*/true);
    for (auto [argument, name] : llvm::zip(kernel.getBufferArgs(), buffers))
      body.bind(argument, name);
    nn::Shape bounds = kernel.getBounds();
    unsigned rank = bounds.size();
    if (rank == 0)
      return body.emit(kernel.getBody().front());
    bool ownLoops = !kernel.getBody().front().getOps<scf::ForOp>().empty();
    std::optional<std::string> parallel = parallelClause(kernel);
    Location loc = kernel.getLoc();

    // Loops [0, shared) are one parallel loop, unless few points make the
    // innermost the parallel one.
    unsigned shared = ownLoops ? rank : std::max(1u, rank - 1);
    nn::DimExpr outer(1);
    for (unsigned i = 0; i + 1 < rank; ++i)
      outer = outer * bounds[i];
    bool shareInner =
        !ownLoops &&
        (rank == 1 || (outer.isConstant() && outer.constant() < kFewPoints));
    SmallVector<emitc::ForOp> loops;
    auto open = [&](unsigned i) {
      loops.push_back(body.openLoop(loc, "0", dimText(bounds[i]), "1"));
    };
    auto nameUpTo = [&](unsigned end, unsigned from) {
      for (unsigned i = from; i < end; ++i)
        body.bind(
            kernel.getIndices()[i],
            body.nameLoopVariable(loops[i], std::string(1, "ijklmnop"[i % 8])));
    };
    auto shareNext = [&](SmallVector<cpp::Code> words) {
      if (!parallel->empty())
        words.push_back(*parallel);
      body.line(loc, cpp::pragma(words));
    };
    if (shareInner) {
      shared = rank - 1;
    } else if (parallel) {
      SmallVector<cpp::Code> words{"omp parallel for", "schedule(static)"};
      if (shared > 1)
        words.push_back(cpp::call("collapse", {shared}));
      shareNext(words);
    }
    for (unsigned i = 0; i < shared; ++i)
      open(i);
    nameUpTo(shared, 0);
    if (shared < rank) {
      if (shareInner && parallel)
        shareNext({"omp parallel for simd", "schedule(static)"});
      else
        body.line(loc, cpp::pragma({"omp simd"}));
      open(rank - 1);
      nameUpTo(rank, rank - 1);
    }
    return body.emit(kernel.getBody().front());
  }
};

std::string CpuTarget::cmakeLists(StringRef program,
                                  ArrayRef<std::string> sources,
                                  bool ranks) const {
  return R"cmake(# Builds the training program: cmake -S . -B build && cmake --build build -j
cmake_minimum_required(VERSION 3.18)
project()cmake" +
         program.str() + R"cmake( LANGUAGES CXX)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

)cmake" + (ranks ? "" : optionOff("DT_MPI", "the plan has one rank")) +
         runtimeTarget() + programTargets(sources);
}

} // namespace

void addCpuTarget(Targets &targets) {
  targets.push_back({"cpu", []() -> std::unique_ptr<Target> {
                       return std::make_unique<CpuTarget>();
                     }});
}

} // namespace dt::codegen

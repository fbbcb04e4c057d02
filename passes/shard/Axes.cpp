//===- Axes.cpp - Axes of ranks that a module is cut over -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/shard/Axes.h"
#include "passes/shard/CutExperts.h"
#include "passes/shard/Cuts.h"
#include "passes/shard/Passes.h"

#include <map>

using namespace mlir;
using namespace dt;
using namespace dt::shard;

SmallVector<Pair> dt::shard::findPairs(dist::ModuleOp module) {
  SmallVector<Pair> pairs;
  for (auto f : module.getOps<func::FuncOp>()) {
    if (f.isPrivate() || f.isExternal())
      continue;
    Pair pair = findPair(f);
    bool reads = false;
    for (func::FuncOp part : {pair.forward, pair.backward})
      if (part)
        part.walk([&](nn::ReadOp) { reads = true; });
    if (reads && pair.forward == f)
      pairs.push_back(pair);
  }
  return pairs;
}

/// Whether some dim of a function asks for smaller axes than this one.
static bool anyWantsSmallerAxes(dist::ModuleOp module, const Axis &axis) {
  for (Pair pair : findPairs(module)) {
    ShardProblem whole(pair, nullptr);
    for (const Layer &layer : findLayers(whole)) {
      ShardProblem program(layer.pair, &layer.links);
      if (wantsSmallerAxes(program, axis))
        return true;
    }
    if (wantsSmallerAxes(whole, axis))
      return true;
  }
  return false;
}

/// Whether no axis cuts rows by tokens: a rank of an axis of experts then may
/// have all rows that a capacity leaves to its experts, and no more.
static bool areExperts(ArrayRef<Axis> axes) {
  return llvm::all_of(axes, [](const Axis &axis) { return axis.experts; });
}

SmallVector<Axis> dt::shard::splitAxis(dist::ModuleOp module,
                                       const Axis &whole) {
  bool isPrime = whole.over < 4;
  if (isPrime || !anyWantsSmallerAxes(module, whole))
    return {whole};
  SmallVector<Axis> axes;
  for (int64_t rest = whole.over, p = 2; rest > 1;) {
    if (rest % p) {
      ++p;
      continue;
    }
    rest /= p;
    axes.push_back({p, rest * whole.stride, whole.experts});
    axes.back().bounded = whole.bounded;
  }
  return axes;
}

SmallVector<Axis> dt::shard::getGroup(dist::ModuleOp module) {
  int64_t ranks = getTensorParallel(module);
  int64_t ep = sharesOverTokens(module) ? ranks : module.getEp();
  if (ep == 1)
    return {{ranks, 1}};
  Axis experts{ep, ranks / ep, /*experts=*/true};
  experts.bounded = areExperts(getContextAxes(module));
  if (ep == ranks)
    return {experts};
  return {experts, {ranks / ep, 1}};
}

/// Blocks so small that each rank has several of every stretch of tokens: what
/// a causal rule, a window or segments leave of attention is then about as much
/// on all ranks (striped attention, Brandon et al. 2023). 0: nothing is left
/// out.
static int64_t getTokenBlock(dist::ModuleOp module, int64_t over) {
  if (auto block = module.getTokenBlock())
    return *block;
  constexpr int64_t kMost = 128, kRounds = 8;
  int64_t apart = module.getSequenceParallel() ? getTensorParallel(module) : 1;
  bool bounded = false;
  // Of packed rows there are several times as many as they are a multiple of.
  SmallVector<std::pair<int64_t, int64_t>> tokens; // and rounds that they want
  module.walk([&](nn::AttentionOp op) {
    bounded |= op.getCausal() || op.getWindow() || op.getQuerySegments();
    nn::DimExpr size = nn::getShape(op.getQuery())[1];
    auto rows = getTokens(size);
    if (rows && *rows && *rows % (over * apart) == 0)
      tokens.emplace_back(*rows / apart, size.isConstant() ? kRounds : 1);
  });
  int64_t block = kMost;
  auto fits = [&](std::pair<int64_t, int64_t> entry) {
    auto [rows, rounds] = entry;
    return rows % (block * over) == 0 && rows / (block * over) >= rounds;
  };
  while (block > 1 && !llvm::all_of(tokens, fits))
    block /= 2;
  return bounded ? block : 0;
}

/// Whether the module's rows are packed, so that samples have no dim.
static bool hasPackedRows(dist::ModuleOp module) {
  return llvm::any_of(module.getOps<nn::DimOp>(), [&](nn::DimOp dim) {
    return dim.getMeasure() && dim.getItem() == module.getItem();
  });
}

static SmallVector<Axis> bound(SmallVector<Axis> axes) {
  bool all = areExperts(axes);
  for (Axis &axis : axes)
    axis.bounded = all;
  if (!axes.empty())
    axes.back().sends = all;
  return axes;
}

SmallVector<Axis> dt::shard::getContextAxes(dist::ModuleOp module) {
  int64_t group = getTensorParallel(module), ranks = module.getCp(),
          joined = module.getJoined();
  SmallVector<Axis> axes;
  if (hasPackedRows(module))
    ranks *= joined;
  else if (joined > 1)
    axes.push_back({joined, group * ranks, /*experts=*/true, /*context=*/true,
                    /*block=*/0, /*samples=*/true});
  if (ranks == 1)
    return bound(axes);
  int64_t share = sharesOverTokens(module)
                      ? std::min<int64_t>(module.getEp() / group, ranks)
                      : 1;
  int64_t block = getTokenBlock(module, ranks);
  if (ranks > share)
    axes.push_back({ranks / share, group * share, /*experts=*/false,
                    /*context=*/true, block * share});
  if (share > 1)
    axes.push_back({share, group, /*experts=*/true, /*context=*/true, block});
  bool isOne = ranks == share || share == 1;
  for (Axis &axis : axes)
    if (!axis.samples &&
        (isOne || module.getContextKeys() != rt::ContextKeys::Ring))
      axis.keys = module.getContextKeys();
  return bound(axes);
}

void dt::shard::shareTokenBlocks(mlir::ModuleOp program) {
  auto attends = [](dist::ModuleOp module) {
    return module.walk([](nn::AttentionOp) { return WalkResult::interrupt(); })
        .wasInterrupted();
  };
  std::map<StringRef, int64_t> blocks; // of units
  SmallVector<dist::ModuleOp> others;
  for (auto module : program.getOps<dist::ModuleOp>()) {
    SmallVector<Axis> axes = getContextAxes(module);
    if (axes.empty() || axes.back().samples)
      continue;
    if (!attends(module))
      others.push_back(module);
    else if (int64_t block = axes.back().block)
      blocks.try_emplace(dist::Placement(module).unit, block);
  }
  for (dist::ModuleOp module : others)
    if (int64_t block = blocks[dist::Placement(module).unit])
      module.setTokenBlock(block);
}

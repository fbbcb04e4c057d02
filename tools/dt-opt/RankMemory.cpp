//===- RankMemory.cpp - What every rank allocates ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// --report of a run says the same figures, as allocated.
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/RankTables.h"
#include "tools/dt-opt/Report.h"

#include "runtime/base/Error.h"
#include "runtime/device/LibraryMemory.h"
#include "runtime/state/Wholes.h"
#include "runtime/step/LinkPlan.h"
#include "runtime/step/MessagePlan.h"

#include "mlir/IR/Threading.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dt {

RankReport::Module RankReport::sum(StringRef separator) const {
  Module sum;
  for (const Module &m : modules) {
    sum.name += (sum.name.empty() ? "" : separator.str()) + m.name;
    sum.arena += m.arena;
    sum.parameters += m.parameters;
    sum.gradients += m.gradients;
    sum.moments += m.moments;
    sum.sums += m.sums;
  }
  return sum;
}

ArrayRef<rt::Carrier> listCarriers(bool onHost) {
  static constexpr rt::Carrier host[] = {rt::Carrier::Tcp, rt::Carrier::Mpi},
                               device[] = {rt::Carrier::Host,
                                           rt::Carrier::Nccl};
  return onHost ? ArrayRef(host) : ArrayRef(device);
}

RankReport::Messages RankReport::getMostMessages(bool onHost) const {
  Messages most;
  for (const Messages &m : messages) {
    if (!llvm::is_contained(listCarriers(onHost), m.over))
      continue;
    most.device = std::max(most.device, onHost ? m.device + m.host : m.device);
    most.host = std::max(most.host, onHost ? 0 : m.host);
  }
  return most;
}

planner::RankBytes RankReport::getBytes(bool onHost) const {
  Module all = sum("");
  return {all.arena,
          scratch,
          all.parameters,
          all.gradients,
          all.moments,
          all.sums,
          getMostMessages(onHost).device};
}

/// Names of modules that have one of these ops.
template <typename... Ops>
static StringSet<> modulesWith(rt::ProgramOp program) {
  StringSet<> names;
  for (auto module : program.getBody().getOps<rt::ModuleOp>()) {
    WalkResult found = module.walk([](Operation *op) {
      return isa<Ops...>(op) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (found.wasInterrupted())
      names.insert(module.getSymName());
  }
  return names;
}

/// Which modules have what libraries work for.
struct LibraryCalls {
  StringSet<> products, planned;
  explicit LibraryCalls(rt::ProgramOp program)
      : products(modulesWith<rt::MatmulOp>(program)),
        planned(modulesWith<rt::ConvOp, rt::ConvDxOp, rt::ConvDwOp,
                            rt::AttentionOp, rt::AttentionGradOp>(program)) {}
};

static RankReport::Libraries librariesOf(const rt::ProgramInfo &tables,
                                         const rt::LinkPlan &links,
                                         const rt::Placement &placement,
                                         const rt::Ownership &ownership,
                                         const LibraryCalls &calls) {
  RankReport::Libraries libraries;
  libraries.context = rt::kContextBytes;
  for (size_t m = 0; m < tables.modules.size; ++m) {
    if (!placement.at(m).runs())
      continue;
    if (calls.products.contains(tables.modules[m].name))
      libraries.cublaslt = rt::kProductWorkspace;
    if (calls.planned.contains(tables.modules[m].name))
      libraries.cudnn = rt::kMostPlanWorkspace;
  }
  rt::LinkShares shares = rt::sharesFor(links.needs, rt::kUsualMultiprocessors);
  int64_t groups =
      int64_t(rt::plannedGroups(links, tables, placement, ownership).size());
  libraries.communicators = groups;
  int64_t buffers = groups * shares.collectives;
  for (const std::set<std::pair<int, int>> &pairs : links.needs.messages) {
    if (pairs.empty())
      continue;
    ++libraries.communicators;
    // Its ring, too, in which it began.
    buffers += shares.messages *
               (1 + llvm::count_if(pairs, [&](const std::pair<int, int> &pair) {
                  return pair.second == placement.rank();
                }));
  }
  libraries.nccl = buffers * rt::kLinkBuffer;
  return libraries;
}

/// Floats of a module's moments, average and masters.
static size_t stateFloats(const rt::ProgramInfo &tables,
                          const rt::Ownership &ownership, size_t module) {
  const rt::OptimizerInfo &optimizer = tables.optimizer;
  size_t count =
      optimizer.settings.data
          ? rt::describe(optimizer.kind).countMoments(optimizer.settings.data)
          : 0;
  size_t floats = ownership.masterFloats(module);
  for (size_t k = 0; k < count; ++k)
    floats += ownership.keptFloats(module, k);
  return floats +
         (optimizer.averageDecay > 0 ? ownership.momentFloats(module) : 0);
}

static RankReport rankReport(const rt::ProgramInfo &tables, int rank,
                             const rt::LinkPlan &links,
                             const LibraryCalls &calls,
                             ArrayRef<rt::Carrier> carriers) {
  rt::Placement placement(tables, rank, int(tables.ranks.size));
  rt::Ownership ownership(tables, placement);
  RankReport entry;
  entry.scratch =
      int64_t(rt::planWholes(tables, placement, ownership).scratchBytes);
  for (size_t m = 0; m < tables.modules.size; ++m) {
    const rt::ModuleInfo &module = tables.modules[m];
    if (!placement.at(m).runs())
      continue;
    auto bytes = [](size_t floats) { return int64_t(floats * sizeof(float)); };
    RankReport::Module part;
    part.name = module.name;
    part.arena = int64_t(module.arenaBytes);
    part.parameters = int64_t(module.parameterBytes);
    part.gradients = int64_t(module.trainableBytes);
    part.moments = bytes(stateFloats(tables, ownership, m));
    part.sums = bytes(ownership.sumFloats(m));
    entry.scratch = std::max(entry.scratch, int64_t(module.scratchBytes));
    entry.modules.push_back(part);
  }
  for (rt::Carrier carrier : carriers) {
    rt::MessageBlocks blocks =
        rt::planMessages(tables, placement, ownership, carrier);
    entry.messages.push_back(
        {carrier, int64_t(blocks.deviceBytes()), int64_t(blocks.hostBytes())});
  }
  entry.libraries = librariesOf(tables, links, placement, ownership, calls);
  return entry;
}

LogicalResult addRanks(rt::ProgramOp program, ProgramReport &report,
                       ArrayRef<rt::Carrier> carriers) {
  RankTables tables(program);
  LibraryCalls calls(program);
  if (carriers.empty())
    carriers = rt::kAllCarriers;
  std::vector<RankReport> ranks(tables.info.ranks.size);
  std::vector<std::string> problems(ranks.size());
  try {
    rt::LinkPlan links = rt::planLinks(tables.info);
    parallelFor(program.getContext(), 0, ranks.size(), [&](size_t rank) {
      try {
        ranks[rank] =
            rankReport(tables.info, int(rank), links, calls, carriers);
      } catch (const rt::Error &e) {
        problems[rank] = e.what();
      }
    });
  } catch (const rt::Error &e) {
    problems = {e.what()};
  }
  // Of the location: the whole program says no more.
  for (const std::string &problem : problems)
    if (!problem.empty())
      return emitError(program.getLoc(), problem);
  llvm::append_range(report.ranks, ranks);
  return success();
}

} // namespace dt

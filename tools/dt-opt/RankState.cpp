//===- RankState.cpp - What a rank keeps of gradients -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/RankState.h"

#include "runtime/base/Error.h"
#include "runtime/state/Ownership.h"

using namespace dt;

namespace {

/// The runtime's tables; they refer to `given`.
struct RuntimeTables {
  explicit RuntimeTables(const StateTables &given)
      : extents(given.parameters.size()), ranks(size_t(given.ranks)) {
    for (const StateTables::Module &m : given.modules) {
      rt::ModuleInfo row{};
      row.name = m.name.c_str();
      row.wholeBatch = m.wholeBatch;
      row.trainableBytes = size_t(m.trainableBytes);
      row.tp = m.tp, row.dp = m.dp, row.zero = m.zero;
      row.ranks = {m.ranks.data(), m.ranks.size()};
      modules.push_back(row);
    }
    for (size_t i = 0; i < given.parameters.size(); ++i) {
      const StateTables::Parameter &p = given.parameters[i];
      extents[i] = {0, -1, p.elements};
      rt::ParameterInfo row{};
      row.tensor = {"", p.narrow ? rt::DType::BF16 : rt::DType::F32, 1,
                    &extents[i]};
      row.module = p.module, row.offset = size_t(p.offset);
      row.gradient = size_t(p.gradient);
      row.trainable = p.trainable, row.hasGradient = p.hasGradient;
      row.decay = p.decay, row.tied = p.tied;
      row.lrFactor = p.lrFactor, row.weightDecay = p.weightDecay;
      parameters.push_back(row);
    }
    info.parameters = {parameters.data(), parameters.size()};
    info.modules = {modules.data(), modules.size()};
    info.ranks = {ranks.data(), ranks.size()};
    info.bucketBytes = size_t(given.bucketBytes);
  }
  RuntimeTables(const RuntimeTables &) = delete;

  std::vector<rt::Extent> extents;
  std::vector<rt::ParameterInfo> parameters;
  std::vector<rt::ModuleInfo> modules;
  std::vector<rt::RankInfo> ranks;
  rt::ProgramInfo info{};
};

} // namespace

std::vector<std::vector<RankState>> dt::getRankStates(const StateTables &given,
                                                      std::string &error) {
  RuntimeTables tables(given);
  std::vector<std::vector<RankState>> states;
  try {
    for (int rank = 0; rank < given.ranks; ++rank) {
      rt::Placement placement(tables.info, rank, given.ranks);
      rt::Ownership ownership(tables.info, placement);
      states.emplace_back(given.modules.size());
      for (size_t m = 0; m < given.modules.size(); ++m)
        states.back()[m] = {placement.at(m).runs(),
                            int64_t(ownership.momentFloats(m) * sizeof(float)),
                            int64_t(ownership.masterFloats(m) * sizeof(float)),
                            int64_t(ownership.sumFloats(m) * sizeof(float))};
    }
  } catch (const rt::Error &e) {
    error = e.what();
    return {};
  }
  return states;
}

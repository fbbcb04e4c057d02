//===- ReorderReport.cpp - what reordering did in a run ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See ReorderReport.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/ReorderReport.h"

#include "runtime/data/Sequence.h"

#include <cmath>
#include <cstdio>

namespace dt::rt {

namespace {
constexpr size_t kSteps = 32; ///< whose loads are kept

Assignment::Loads scaled(Assignment::Loads loads,
                         const std::vector<double> &scale) {
  for (size_t m = 0; m < loads.size() && m < scale.size(); ++m)
    for (auto &replicas : loads[m])
      for (int64_t &load : replicas)
        load = std::llround(double(load) * scale[m]);
  return loads;
}
} // namespace

ReorderReport::ReorderReport(const ProgramInfo &program)
    : program(program), sequence(std::make_unique<Sequence>(program)),
      sums(program.modules.size, {0, 0}) {}
ReorderReport::~ReorderReport() = default;

void ReorderReport::add(const Assignment &assignment) {
  for (size_t m = 0; m < sums.size(); ++m) {
    sums[m].before += assignment.balance[m].before;
    sums[m].after += assignment.balance[m].after;
  }
  ++count;
  last.push_back({assignment.loadsBefore, assignment.loads});
  if (last.size() > kSteps)
    last.pop_front();
}

double ReorderReport::predicted(const Assignment &assignment, size_t module,
                                int32_t replica) {
  int64_t sum = 0;
  for (const auto &replicas : assignment.loads[module])
    sum += replicas[size_t(replica)];
  return double(sum) / kCostUnit;
}

std::vector<Assignment::Balance> ReorderReport::balance() const {
  std::vector<Assignment::Balance> means;
  for (const Assignment::Balance &sum : sums)
    means.push_back(count ? Assignment::Balance{sum.before / double(count),
                                                sum.after / double(count)}
                          : Assignment::Balance());
  return means;
}

ReorderReport::Lengths
ReorderReport::lengths(const std::vector<double> &scale) const {
  Lengths out;
  if (!sequence->valid() || last.empty())
    return out;
  for (const Step &step : last) {
    out.before += sequence->length(scaled(step.before, scale));
    out.after += sequence->length(scaled(step.after, scale));
  }
  out.before /= double(last.size());
  out.after /= double(last.size());
  return out;
}

std::string ReorderReport::text(const std::vector<double> &scale) const {
  std::string text;
  char buffer[96];
  std::vector<Assignment::Balance> means = balance();
  for (size_t m = 0; m < means.size(); ++m) {
    const ModuleInfo &module = program.modules[m];
    if (module.wholeBatch || replicasOf(module) < 2)
      continue;
    std::snprintf(buffer, sizeof buffer, " %.3f -> %.3f", means[m].before,
                  means[m].after);
    text += (text.empty() ? "" : ", ") + std::string(module.name) + buffer;
  }
  Lengths found = lengths(scale);
  if (found.before > 0) {
    std::snprintf(buffer, sizeof buffer, "step %.3f -> %.3f ms",
                  found.before / 1e6, found.after / 1e6);
    text += (text.empty() ? "" : "; ") + std::string(buffer);
  }
  return text;
}

} // namespace dt::rt

//===- ModelFlops.cpp - FLOPs of a step's model ---------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/ModelFlops.h"

namespace dt::rt {

namespace {

/// Pairs that see one another, of `rows` queries and `columns` keys. A window
/// and a causal rule are those of nn.attention where both are equally many.
double pairsOf(const PairTerm &term, double rows, double columns) {
  if (rows != columns || (!term.causal && !term.window))
    return rows * columns;
  double seen = term.window ? std::min(double(term.window), rows) : rows;
  double causal = seen * rows - seen * (seen - 1) / 2;
  return term.causal ? causal : 2 * causal - rows;
}

class PartFlops {
public:
  PartFlops(const ModuleInfo &module, const Assignment &assignment,
            size_t number, const std::vector<int64_t> &fixed)
      : module(module), assignment(assignment), number(number), fixed(fixed) {}

  double of(const PartItems &part) const {
    double sum = 0;
    for (const SizeTerm &term : module.work) {
      double product = double(term.factor);
      for (int32_t s : term.symbols)
        product *= double(module.symbols[s].item ? part.dims[size_t(s)]
                                                 : fixed[size_t(s)]);
      sum += product / double(term.per);
    }
    for (const PairTerm &term : module.pairs)
      sum += ofPairs(term, part);
    return sum;
  }

private:
  double ofPairs(const PairTerm &term, const PartItems &part) const {
    ItemRows rows = rowsOf(term.rows, part),
             columns = rowsOf(term.columns, part);
    double pairs = 0;
    for (size_t i = 0; i < std::min(rows.count(), columns.count()); ++i)
      pairs += pairsOf(term, double(term.rows.scale * rows.of(i)),
                       double(term.columns.scale * columns.of(i)));
    return double(term.flops) * pairs;
  }
  ItemRows rowsOf(const Extent &extent, const PartItems &part) const {
    size_t symbol = size_t(extent.symbol);
    return {&part.symbols[symbol], assignment.measureOf(number, symbol)};
  }

  const ModuleInfo &module;
  const Assignment &assignment;
  size_t number;
  const std::vector<int64_t> &fixed;
};

} // namespace

double modelFlops(const ProgramInfo &program, const Assignment &assignment,
                  const std::vector<std::vector<int64_t>> &fixed) {
  double sum = 0;
  for (size_t m = 0; m < program.modules.size; ++m) {
    const ModuleInfo &module = program.modules[m];
    PartFlops flops(module, assignment, m, fixed[m]);
    for (const std::vector<PartItems> &parts : assignment.modules[m])
      for (const PartItems &part : parts) {
        sum += flops.of(part);
        if (module.wholeBatch)
          break; // the others are the same
      }
  }
  return sum;
}

double peakFlops(const ProgramInfo &program) {
  double sum = 0;
  for (const RankInfo &rank : program.ranks) {
    if (rank.peak <= 0)
      return 0;
    sum += rank.peak;
  }
  return sum;
}

} // namespace dt::rt

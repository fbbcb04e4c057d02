//===- WholeUpdates.cpp - updates that see a whole parameter --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/WholeUpdates.h"
#include "runtime/step/Optimizer.h"

#include <algorithm>

namespace dt::rt {

struct WholeUpdates::Factored {
  UpdateRule rule;
  device::Array<device::WholePiece> pieces;
  device::RunTable<device::FactoredTensor> tensors;
};

struct WholeUpdates::Matrix {
  const WholeTensor &tensor;
  UpdateRule rule;
  double rows, columns; ///< without padding
  bool updates;         ///< this rank has some of it
  device::RunTable<device::OrthogonalRun> runs;
  device::Array<device::FloatRun> values; ///< each matrix of the whole
};

WholeUpdates::WholeUpdates(const Optimizer &optimizer,
                           const ProgramInfo &program,
                           const Placement &placement,
                           const Ownership &ownership, const Regions &regions,
                           const ParameterValues &values, WholeRanks ranks)
    : optimizer(optimizer), program(program), ownership(ownership),
      regions(regions), values(values), ranks(std::move(ranks)),
      plan(planWholes(program, placement, ownership)) {
  for (size_t m = 0; m < program.modules.size; ++m)
    labels.push_back(optimizerLabel(program.modules[m].name));
  if (!plan.wholeFloats)
    makeFactored();
  else
    makeMatrices();
}

WholeUpdates::~WholeUpdates() = default;

void WholeUpdates::makeMatrices() {
  auto *at = regions.scratch();
  auto take = [&](size_t bytes) {
    return std::exchange(at, at + (bytes + 63) / 64 * 64);
  };
  take(plan.wholeFloats * sizeof(float));
  scratch.narrow = reinterpret_cast<bf16 *>(take(plan.elements * sizeof(bf16)));
  scratch.gram =
      reinterpret_cast<bf16 *>(take(plan.side * plan.side * sizeof(bf16)));
  scratch.square =
      reinterpret_cast<float *>(take(plan.side * plan.side * sizeof(float)));
  scratch.norm = reinterpret_cast<double *>(take(sizeof(double)));
  for (const WholeTensor &tensor : plan.tensors)
    makeMatrix(tensor);
}

UpdateRule WholeUpdates::ruleOf(size_t p) const {
  const ParameterInfo &info = program.parameters[ownership.original(p)];
  return {info.decay, info.lrFactor, info.weightDecay, info.matrix,
          info.routingRate};
}

/// Of the moments the one that is of elements, if there is one.
device::UpdateRun WholeUpdates::runOf(size_t p, const OwnedPiece &piece) const {
  const ParameterInfo &info = program.parameters[p];
  const Region &region = regions.at(size_t(info.module));
  std::byte *stored =
      regions.parameter(info) + size_t(piece.begin) * sizeOf(info.tensor.type);
  bool narrow = ownership.hasMaster(p);
  device::UpdateRun run{narrow ? region.masters + piece.moment
                               : reinterpret_cast<float *>(stored),
                        regions.gradients(info, size_t(piece.begin)),
                        {},
                        size_t(piece.end - piece.begin),
                        narrow ? reinterpret_cast<bf16 *>(stored) : nullptr,
                        region.average ? region.average + piece.moment
                                       : nullptr};
  for (size_t k = 0; k < optimizer.moments().size; ++k)
    if (ownership.momentShape(p, k) == MomentShape::Elements)
      run.moments.at[0] = region.moments.at[k] + piece.kept.at[k];
  return run;
}

//===----------------------------------------------------------------------===//
// Means of rows and columns
//===----------------------------------------------------------------------===//

device::FactoredTensor WholeUpdates::tensorOf(const WholeTensor &tensor,
                                              const device::WholePiece *pieces,
                                              size_t count) const {
  size_t p = tensor.parameter;
  ParameterLayout layout = values.layout(p);
  const std::vector<int64_t> &whole = layout.whole();
  const PartMatrix &part = tensor.part;
  device::FactoredTensor t{};
  t.count = part.matrices * part.rows * part.columns;
  t.pieces = pieces, t.pieceCount = count;
  t.lines = part.matrices * part.rows;
  t.rows = part.rows, t.columns = part.columns, t.matrix = tensor.matrix;
  t.wholeElements = double(layout.wholeElements());
  if (t.matrix) {
    t.wholeRows = double(whole[whole.size() - 2]);
    t.wholeColumns = double(whole[whole.size() - 1]);
  }
  const Region &region = regions.at(size_t(program.parameters[p].module));
  for (size_t k = 0; k < optimizer.moments().size; ++k) {
    float *factors = region.moments.at[k] + ownership.factors(p, k);
    if (ownership.momentShape(p, k) == MomentShape::Rows)
      t.rowFactors = factors;
    else if (ownership.momentShape(p, k) == MomentShape::Columns)
      t.columnFactors = factors;
  }
  t.rowSums = floats(tensor.rowSums), t.columnSums = floats(tensor.columnSums);
  t.squares = floats(tensor.squares), t.steps = floats(tensor.steps);
  t.totalSquares = floats(tensor.totalSquares);
  t.totalSteps = floats(tensor.totalSteps), t.means = floats(tensor.means);
  return t;
}

void WholeUpdates::makeFactored() {
  std::vector<UpdateRule> rules;
  for (const WholeTensor &tensor : plan.tensors)
    if (UpdateRule rule = ruleOf(tensor.parameter);
        std::find(rules.begin(), rules.end(), rule) == rules.end())
      rules.push_back(rule);
  for (const UpdateRule &rule : rules) {
    std::vector<device::WholePiece> pieces;
    std::vector<size_t> begins;
    std::vector<const WholeTensor *> chosen;
    for (const WholeTensor &tensor : plan.tensors) {
      size_t p = tensor.parameter;
      if (!(ruleOf(p) == rule))
        continue;
      chosen.push_back(&tensor);
      begins.push_back(pieces.size());
      bool spread = ownership.spread(p);
      for (const OwnedPiece &piece : ownership.updatedPieces(p))
        pieces.push_back(
            {runOf(p, piece), size_t(piece.begin), piece.counts || !spread});
    }
    begins.push_back(pieces.size());
    device::Array<device::WholePiece> table(pieces, "the optimizer's table");
    std::vector<device::FactoredTensor> tensors;
    for (size_t i = 0; i < chosen.size(); ++i)
      tensors.push_back(tensorOf(*chosen[i], table.data() + begins[i],
                                 begins[i + 1] - begins[i]));
    factored.push_back(std::unique_ptr<Factored>(new Factored{
        rule, std::move(table), {tensors, "the optimizer's table"}}));
  }
}

/// In a rank's group nobody has anything else to add then.
void WholeUpdates::add(const SharedSum &sum) const {
  float *data = floats(sum.begin);
  if (sum.overGroup())
    ranks.groups[sum.module][sum.group]->allReduce(
        Reduction::Sum, DType::F32, data, data, int64_t(sum.count),
        labels[sum.module].c_str());
  for (auto [over, stride] : sum.axes)
    collective(ranks.axes[sum.module],
               {.kind = CollectiveKind::AllReduce,
                .type = DType::F32,
                .chunk = int64_t(sum.count),
                .over = over,
                .stride = stride},
               data, data);
}

void WholeUpdates::runFactored(int64_t step, double lr,
                               const Verdict *verdict) const {
  using Step = decltype(device::factoredSums);
  auto all = [&](Step *run, const std::vector<SharedSum> *sums) {
    for (const std::unique_ptr<Factored> &table : factored)
      run(optimizer.stepOf(table->rule, step, lr), table->tensors, verdict);
    for (size_t i = 0; sums && i < sums->size(); ++i)
      add((*sums)[i]);
  };
  all(device::factoredSums, &plan.sums[0]);
  all(device::factoredMeans, &plan.sums[1]);
  all(device::factoredSteps, &plan.sums[2]);
  all(device::factoredUpdate, nullptr);
}

//===----------------------------------------------------------------------===//
// Orthogonal matrices
//===----------------------------------------------------------------------===//

void WholeUpdates::makeMatrix(const WholeTensor &tensor) {
  size_t p = tensor.parameter;
  ParameterLayout layout = values.layout(p);
  ParameterLayout padded(layout.padded(), layout.padded(), layout.cuts(),
                         program.parameters[p].tensor.name);
  bool spread = ownership.spread(p);
  std::vector<device::OrthogonalRun> runs;
  for (const OwnedPiece &piece : ownership.updatedPieces(p))
    for (const ParameterLayout::Run &run :
         padded.runs(piece.begin, piece.end)) {
      OwnedPiece part = piece;
      part.begin = run.part, part.end = run.part + run.count;
      auto from = size_t(run.part - piece.begin);
      part.moment += from;
      for (size_t &place : part.kept.at)
        place += from;
      runs.push_back({runOf(p, part), size_t(run.count), size_t(run.whole),
                      piece.counts || !spread});
    }
  size_t elements = tensor.whole.rows * tensor.whole.columns;
  std::vector<device::FloatRun> each;
  for (size_t i = 0; i < tensor.whole.matrices; ++i)
    each.push_back({floats(i * elements), elements});
  const std::vector<int64_t> &whole = layout.whole();
  matrices.push_back(
      std::unique_ptr<Matrix>(new Matrix{tensor,
                                         ruleOf(p),
                                         double(whole[whole.size() - 2]),
                                         double(whole[whole.size() - 1]),
                                         !runs.empty(),
                                         {runs, "the optimizer's table"},
                                         {each, "the optimizer's table"}}));
}

void WholeUpdates::runMatrices(int64_t step, double lr,
                               const Verdict *verdict) const {
  for (const std::unique_ptr<Matrix> &matrix : matrices) {
    const PartMatrix &whole = matrix->tensor.whole;
    UpdateStep how = optimizer.stepOf(matrix->rule, step, lr);
    if (matrix->tensor.sum.isShared())
      device::zero(floats(0), matrix->tensor.sum.count * sizeof(float));
    device::orthogonalMeans(how, matrix->runs, floats(0), verdict);
    add(matrix->tensor.sum);
    size_t elements = whole.rows * whole.columns;
    for (size_t i = 0; matrix->updates && i < whole.matrices; ++i)
      device::orthogonalize(how, {matrix->values.data() + i, 1, elements},
                            floats(i * elements), whole.rows, whole.columns,
                            scratch);
    device::orthogonalUpdate(how, matrix->runs, floats(0), matrix->rows,
                             matrix->columns, verdict);
  }
}

void WholeUpdates::run(int64_t step, double lr, const Verdict *verdict) const {
  runFactored(step, lr, verdict);
  runMatrices(step, lr, verdict);
}

} // namespace dt::rt

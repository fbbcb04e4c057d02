//===- StepScalars.cpp - numbers that a step's ranks agree on -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/StepScalars.h"

#include <numeric>

namespace dt::rt {

namespace {

std::vector<size_t> findStarts(const ProgramInfo &program) {
  std::vector<size_t> starts = {0};
  for (const LossInfo &loss : program.losses) {
    const ModuleInfo &module = program.modules[size_t(loss.module)];
    starts.push_back(starts.back() +
                     size_t(tasksOf(program, module) * piecesOf(module)));
  }
  return starts;
}

std::vector<CellRange> findCounted(const ProgramInfo &program,
                                   const Placement &placement,
                                   const std::vector<size_t> &starts) {
  std::vector<CellRange> ranges;
  for (size_t l = 0; l < program.losses.size; ++l) {
    bool counts = placement.counts(size_t(program.losses[l].module));
    ranges.push_back({starts[l], counts ? starts[l + 1] : starts[l]});
  }
  return ranges;
}

std::vector<device::FloatRun> findGradients(const ProgramInfo &program,
                                            const Ownership &ownership,
                                            const Regions &regions) {
  std::vector<device::FloatRun> runs;
  for (size_t p = 0; p < program.parameters.size; ++p) {
    if (!ownership.updated(p) || ownership.isRouting(p))
      continue;
    for (const OwnedPiece &piece : ownership.owned(p))
      runs.push_back(
          {regions.gradients(program.parameters[p], size_t(piece.begin)),
           size_t(piece.end - piece.begin)});
  }
  return runs;
}

} // namespace

/// Of the ranks up to this one.
struct StepStart {
  enum Verdict : int32_t { Alike, Failed, OtherProgram, OtherData };
  uint64_t program, batch; ///< hashes that rank 0 has
  int32_t rank;            ///< the first that differs
  Verdict verdict;

  static void add(void *before, const void *next) {
    auto &all = *static_cast<StepStart *>(before);
    const auto &one = *static_cast<const StepStart *>(next);
    if (all.verdict == Failed || one.verdict == Failed)
      all.verdict = Failed;
    else if (all.verdict == Alike && one.program != all.program)
      all.verdict = OtherProgram, all.rank = one.rank;
    else if (all.verdict == Alike && one.batch != all.batch)
      all.verdict = OtherData, all.rank = one.rank;
  }
};
static_assert(sizeof(StepStart) == StepScalars::kStartBytes);

/// Null where there is one, or where device memory is the host's.
static FabricGroup *everybodyOn(Fabric &fabric) {
  if (fabric.size() == 1 || device::isHost())
    return nullptr;
  std::vector<int> all(size_t(fabric.size()));
  std::iota(all.begin(), all.end(), 0);
  return fabric.group(all, "scalars");
}

void LossSums::add(const LossSums &other) {
  numerators.resize(other.numerators.size());
  denominators.resize(other.denominators.size());
  for (size_t l = 0; l < numerators.size(); ++l) {
    numerators[l] += other.numerators[l];
    denominators[l] += other.denominators[l];
  }
  batches += other.batches;
}

double LossSums::terms(const ProgramInfo &program,
                       std::vector<double> &terms) const {
  double loss = 0;
  terms.assign(program.losses.size, 0);
  for (size_t l = 0; l < terms.size(); ++l) {
    const LossInfo &info = program.losses[l];
    // A term without a denominator is a sum over a batch.
    terms[l] =
        termOf(numerators[l], info.denominator ? guarded(info, denominators[l])
                                               : double(batches));
    loss += double(info.weight) * terms[l];
  }
  return loss;
}

std::vector<bool> LossSums::empty(const ProgramInfo &program) const {
  std::vector<bool> found;
  for (size_t l = 0; l < program.losses.size; ++l)
    found.push_back(program.losses[l].denominator &&
                    guarded(program.losses[l], denominators[l]) == 0);
  return found;
}

StepScalars::StepScalars(const ProgramInfo &program, const Placement &placement,
                         const Ownership &ownership, const Regions &regions,
                         Comm &comm, Fabric &fabric)
    : program(program), comm(comm), everybody(everybodyOn(fabric)),
      starts(findStarts(program)), cells(2 * starts.back(), "losses"),
      counted(findCounted(program, placement, starts), "losses"),
      losses({program.losses.begin(), program.losses.end()}, "losses"),
      gradients(findGradients(program, ownership, regions),
                "the table of gradients"),
      seedOfLoss(program.losses.size, "seeds of losses"),
      block(StepNumbers::bytes(program.losses.size), "a step's numbers"),
      numbers(block.data(), program.losses.size), readBack(block.size()) {}

void StepScalars::agree(uint64_t batchHash, const std::string &failure) const {
  if (comm.size() == 1) {
    if (!failure.empty())
      throw CommonError(failure);
    return;
  }
  StepStart start{program.planHash, batchHash, comm.rank(),
                  failure.empty() ? StepStart::Alike : StepStart::Failed};
  comm.world().fold(&start, sizeof start, &StepStart::add, "scalars");
  if (start.verdict == StepStart::Failed)
    comm.agree(failure); // throws on all ranks
  if (start.verdict != StepStart::Alike)
    throw CommonError("rank " + std::to_string(start.rank) +
                      (start.verdict == StepStart::OtherProgram
                           ? " runs another program than rank 0"
                           : " has other data than rank 0: the shards it "
                             "reads differ"));
}

/// Where a number of a part is kept until all are there.
float *StepScalars::cell(size_t loss, const TaskRow &row,
                         bool numerator) const {
  const ModuleInfo &module =
      program.modules[size_t(program.losses[loss].module)];
  size_t number =
      size_t(taskOf(module, row.microbatch) * piecesOf(module) + row.piece);
  return cells.data() + (numerator ? starts.back() : 0) + starts[loss] + number;
}

void StepScalars::denominator(size_t loss, const TaskRow &row,
                              const std::byte *value) {
  device::copy(cell(loss, row, false), value, sizeof(float));
}

void StepScalars::numerator(size_t loss, const TaskRow &row,
                            const std::byte *value) {
  device::copy(cell(loss, row, true), value, sizeof(float));
}

/// This rank's sums over its parts, where it counts.
void StepScalars::sumParts(double *sums, bool numerators) {
  device::sumCells(sums, cells.data() + (numerators ? starts.back() : 0),
                   counted.data(), counted.size());
}

/// Sums in device memory become those over all ranks: in host memory in the
/// order of ranks, else as the fabric adds.
void StepScalars::addRanks(double *sums, size_t count) const {
  if (everybody)
    return everybody->allReduce(Reduction::Sum, DType::F64, sums, sums,
                                int64_t(count), "scalars");
  if (comm.size() == 1)
    return;
  comm.world().fold(
      sums, count * sizeof(double),
      [count](void *all, const void *next) {
        for (size_t i = 0; i < count; ++i)
          static_cast<double *>(all)[i] += static_cast<const double *>(next)[i];
      },
      "scalars");
}

void StepScalars::makeSeeds() {
  if (!program.losses.size)
    return;
  sumParts(numbers.denominators, false);
  addRanks(numbers.denominators, program.losses.size);
  device::makeSeeds(seedOfLoss.data(), numbers, losses.data());
}

LossSums StepScalars::lossSums() {
  if (program.losses.size) {
    sumParts(numbers.numerators, true);
    addRanks(numbers.numerators, program.losses.size);
  }
  readBack.begin(block.data());
  StepNumbers host(readBack.end(), program.losses.size);
  return {{host.numerators, host.numerators + host.losses},
          {host.denominators, host.denominators + host.losses}};
}

void StepScalars::finish(const StepWishes &wishes, double clipNorm) {
  sumParts(numbers.numerators, true);
  device::sumOfSquares(numbers.squares, gradients);
  double wished[StepNumbers::kWishes] = {double(wishes.stop),
                                         double(wishes.pause)};
  device::copyToDevice(numbers.wishes, wished, sizeof wished);
  // Numerators, squares and wishes follow one another.
  addRanks(numbers.numerators, program.losses.size + 1 + StepNumbers::kWishes);
  device::judge(numbers, losses.data(), clipNorm);
  readBack.begin(block.data());
}

StepResult StepScalars::result() {
  StepNumbers host(readBack.end(), program.losses.size);
  StepResult result;
  result.loss = host.verdict->loss;
  result.norm = host.verdict->norm;
  result.terms.assign(host.terms, host.terms + host.losses);
  for (size_t l = 0; l < host.losses; ++l)
    result.empty.push_back(guarded(program.losses[l], host.denominators[l]) ==
                           0);
  result.stop = host.wishes[0] > 0;
  result.pause = host.wishes[1] > 0;
  return result;
}

} // namespace dt::rt

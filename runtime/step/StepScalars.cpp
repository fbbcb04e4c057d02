//===- StepScalars.cpp - numbers that a step's ranks agree on -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/step/StepScalars.h"
#include "runtime/device/Device.h"

#include <algorithm>
#include <cmath>

namespace dt::rt {

namespace {

std::vector<size_t> findStarts(const ProgramInfo &program) {
  std::vector<size_t> starts = {0};
  for (const LossInfo &loss : program.losses) {
    const ModuleInfo &module = program.modules[size_t(loss.module)];
    starts.push_back(starts.back() + size_t(microbatchesOf(program, module) *
                                            piecesOf(module)));
  }
  return starts;
}

/// What a numerator is divided by.
double guarded(const LossInfo &loss, double sum) {
  return loss.denominator ? std::max(sum, loss.atLeast) + loss.plus : 1;
}

/// A term, for its divisor.
double termOf(double numerator, double divisor) {
  return divisor == 0 ? 0 : numerator / divisor;
}

} // namespace

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

StepScalars::StepScalars(const ProgramInfo &program, const Placement &placement,
                         const Ownership &ownership, const Regions &regions,
                         Comm &comm)
    : program(program), placement(placement), ownership(ownership),
      regions(regions), comm(comm), starts(findStarts(program)),
      cells(static_cast<std::byte *>(
          device::allocate(2 * sizeof(float) * starts.back(), "losses"))),
      denominators(program.losses.size), seeds(program.losses.size) {}

StepScalars::~StepScalars() { device::release(cells); }

void StepScalars::agree(uint64_t batchHash, const std::string &failure) const {
  if (comm.size() == 1) {
    if (!failure.empty())
      throw CommonError(failure);
    return;
  }
  auto low = [](uint64_t v) { return double(uint32_t(v)); };
  auto high = [](uint64_t v) { return double(uint32_t(v >> 32)); };
  std::vector<double> mine = {failure.empty() ? 0.0 : 1.0,
                              low(program.planHash), high(program.planHash),
                              low(batchHash), high(batchHash)};
  std::vector<double> all = comm.allGather(mine, "scalars");
  size_t n = mine.size();
  for (size_t r = 0; r * n < all.size(); ++r)
    if (all[r * n] != 0)
      comm.agree(failure); // throws on all ranks
  for (size_t r = 1; r * n < all.size(); ++r)
    for (size_t i = 1; i < n; ++i)
      if (all[r * n + i] != all[i])
        throw CommonError("rank " + std::to_string(r) +
                          (i < 3 ? " runs another program than rank 0"
                                 : " has other data than rank 0: the shards it "
                                   "reads differ"));
}

/// Where a number of a part is kept until all are there.
std::byte *StepScalars::cell(size_t loss, const TaskRow &row,
                             bool numerator) const {
  int32_t pieces =
      piecesOf(program.modules[size_t(program.losses[loss].module)]);
  size_t number = size_t(row.microbatch) * size_t(pieces) + size_t(row.piece);
  return cells + sizeof(float) *
                     ((numerator ? starts.back() : 0) + starts[loss] + number);
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
std::vector<double> StepScalars::sums(bool numerators) const {
  std::vector<float> host(starts.back());
  device::copyToHost(host.data(),
                     cells + (numerators ? host.size() * sizeof(float) : 0),
                     host.size() * sizeof(float));
  std::vector<double> out(program.losses.size);
  for (size_t l = 0; l < out.size(); ++l) {
    const LossInfo &loss = program.losses[l];
    size_t module = size_t(loss.module);
    if (!placement.counts(module) || !(numerators || loss.denominator))
      continue;
    for (size_t i = starts[l]; i < starts[l + 1]; ++i)
      out[l] += double(host[i]);
  }
  return out;
}

std::vector<double>
StepScalars::addRanks(const std::vector<double> &mine) const {
  if (comm.size() == 1)
    return mine;
  std::vector<double> all = comm.allGather(mine, "scalars"), sum(mine.size());
  for (size_t i = 0; i < all.size(); ++i)
    sum[i % mine.size()] += all[i];
  return sum;
}

LossSums StepScalars::lossSums() const {
  LossSums out;
  if (!program.losses.size)
    return out;
  out.numerators = addRanks(sums(true));
  out.denominators = sumsBelow;
  return out;
}

const std::vector<float> &StepScalars::makeSeeds() {
  if (program.losses.size)
    sumsBelow = addRanks(sums(false));
  for (size_t l = 0; l < seeds.size(); ++l) {
    const LossInfo &loss = program.losses[l];
    denominators[l] = guarded(loss, sumsBelow[l]);
    seeds[l] = denominators[l] == 0
                   ? 0.f
                   : float(double(loss.weight) / denominators[l]);
  }
  return seeds;
}

double StepScalars::sumOfSquares() const {
  double sum = 0;
  for (size_t p = 0; p < program.parameters.size; ++p) {
    if (!ownership.updated(p))
      continue;
    for (const OwnedPiece &piece : ownership.owned(p))
      sum += device::sumOfSquares(regions.gradient(program.parameters[p]) +
                                      piece.begin,
                                  size_t(piece.end - piece.begin));
  }
  return sum;
}

void StepScalars::finish(StepResult &result, const StepWishes &wishes) const {
  std::vector<double> mine = sums(true);
  mine.push_back(sumOfSquares());
  mine.push_back(wishes.stop ? 1 : 0);
  mine.push_back(wishes.pause ? 1 : 0);
  std::vector<double> all = addRanks(mine);
  result.terms.assign(program.losses.size, 0);
  result.empty.assign(program.losses.size, false);
  result.loss = 0;
  for (size_t l = 0; l < program.losses.size; ++l) {
    result.terms[l] = termOf(all[l], denominators[l]);
    result.empty[l] = denominators[l] == 0;
    result.loss += double(program.losses[l].weight) * result.terms[l];
  }
  result.norm = std::sqrt(all[program.losses.size]);
  result.stop = all[program.losses.size + 1] > 0;
  result.pause = all[program.losses.size + 2] > 0;
}

} // namespace dt::rt

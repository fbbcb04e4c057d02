//===- Recorder.cpp - what is kept of a run -------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/observe/Recorder.h"
#include "runtime/comm/Agreement.h"

#include <algorithm>

namespace dt::rt {

Recorder::Recorder(const Trainer &trainer, const Options &options,
                   StatusBoard *board, bool times)
    : trainer(trainer), options(options), board(board),
      wanted(times || !options.metrics.empty()),
      reports(trainer.comm().size() > 1 || !options.report.empty()),
      trace(trainer, options.trace), traffic(trainer, options.traffic),
      report(trainer, trainer.comm().blocking().polls),
      moduleSeconds(trainer.program().modules.size) {}

bool Recorder::wantsTimes() const { return wanted || trace.enabled(); }

void Recorder::beginStep(const Batch &batch, int64_t number, bool dump) {
  step = number;
  std::fill(moduleSeconds.begin(), moduleSeconds.end(), 0);
  size_t rows =
      trainer.program().ranks[size_t(trainer.comm().rank())].rows.size;
  stepTimes = {};
  stepTimes.cpu.assign(rows, 0);
  stepTimes.sent.assign(rows, 0);
  stepTimes.collectives.assign(rows, {});
  before.seconds = trainer.comm().blocking().seconds;
  before.cpu = trainer.comm().blocking().cpu;
  outputs.reset();
  gradients = dump && !options.saveGradients.empty();
  if (dump && !options.saveOutputs.empty())
    outputs = std::make_unique<OutputCollector>(trainer, batch);
  traffic.addStep(batch);
}

void Recorder::endStep(const Batch &batch, const StepResult &result,
                       double begin, double end, double cpu) {
  trace.event("step", step, begin, end);
  if (reports) {
    const Blocking &blocked = trainer.comm().blocking();
    stepTimes.wall = end - begin;
    stepTimes.waited = blocked.seconds - before.seconds;
    stepTimes.tail = cpu - (blocked.cpu - before.cpu);
    for (double row : stepTimes.cpu)
      stepTimes.tail -= row;
    // What else is agreed on is work where nobody polls.
    if (!blocked.polls) {
      stepTimes.tail += blocked.cpu - before.cpu - stepTimes.exchange;
      for (const std::vector<float> &calls : stepTimes.collectives)
        for (float call : calls)
          stepTimes.tail -= double(call);
    }
    report.step(step, stepTimes, batch);
  }
  if (outputs)
    outputs->write(options.saveOutputs, result);
  if (wanted && trainer.comm().size() > 1)
    takeSlowest();
}

std::string Recorder::finish() {
  trace.finish();
  traffic.write();
  std::string text;
  trainer.comm().agree(failureOf([&] {
    if (reports)
      text = report.finish(trainer.comm(), options.report);
  }));
  return text;
}

void Recorder::enters(int32_t row, bool waiting) {
  if (board && waiting)
    board->begin(step, row);
}

void Recorder::rowDone(int32_t, const TaskRow &row, const Part *part) {
  if (outputs && part)
    outputs->add(row, *part);
}

void Recorder::rowTimed(int32_t number, const TaskRow &row, const Part *part,
                        const RowTime &time) {
  stepTimes.cpu[size_t(number)] = time.cpu;
  stepTimes.sent[size_t(number)] = time.sent;
  stepTimes.collectives[size_t(number)] = time.collectives;
  if (part) {
    bool loss = row.kind == TaskKind::Denominator;
    size_t module =
        loss ? size_t(trainer.program().losses[row.index].module) : row.index;
    moduleSeconds[module] += time.end - time.begin;
  }
  trace.row(row, step, time);
}

void Recorder::reduced(size_t module, size_t bytes, double begin, double end) {
  trace.sum(module, bytes, step, begin, end);
}

void Recorder::exchanged(double cpu) { stepTimes.exchange = cpu; }

void Recorder::gradientsDone(const StepResult &) {
  if (gradients)
    writeGradients(trainer, options.saveGradients);
}

void Recorder::takeSlowest() {
  std::vector<double> all = trainer.comm().allGather(moduleSeconds, "report");
  for (size_t i = 0; i < all.size(); ++i) {
    double &slowest = moduleSeconds[i % moduleSeconds.size()];
    slowest = std::max(slowest, all[i]);
  }
}

} // namespace dt::rt

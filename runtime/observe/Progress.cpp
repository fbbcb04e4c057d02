//===- Progress.cpp - what a running program shows and records --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/observe/Progress.h"
#include "runtime/base/Log.h"
#include "runtime/comm/Launch.h"
#include "runtime/data/ModelFlops.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <sys/ioctl.h>
#include <unistd.h>

namespace dt::rt {

namespace {

constexpr double kRedraw = 0.1; ///< seconds between two pictures of the bar
constexpr int kBar = 24;

std::string duration(double seconds) {
  int64_t s = int64_t(std::max(0.0, seconds) + 0.5);
  char text[32];
  if (s >= 3600)
    std::snprintf(text, sizeof text, "%lldh%02lldm", (long long)(s / 3600),
                  (long long)(s / 60 % 60));
  else if (s >= 60)
    std::snprintf(text, sizeof text, "%lldm%02llds", (long long)(s / 60),
                  (long long)(s % 60));
  else
    std::snprintf(text, sizeof text, "%llds", (long long)s);
  return text;
}

template <typename... Args>
std::string format(const char *pattern, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

/// "1.23 T", "456 G".
std::string scaled(double value) {
  const char *prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t i = 0;
  for (; value >= 999.5 && i + 1 < std::size(prefixes); ++i)
    value /= 1000;
  return format("%.3g %s", value, prefixes[i]);
}

size_t terminalWidth() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20
             ? size.ws_col
             : 80;
}

/// Of several losses.
std::string termsText(const ProgramInfo &program,
                      const std::vector<double> &terms,
                      const std::vector<bool> &empty) {
  std::string text;
  for (size_t l = 0; terms.size() > 1 && l < terms.size(); ++l)
    if (!saysNothing(program, l, empty))
      text += format("  %s %.4f", program.losses[l].name, terms[l]);
  return text;
}

} // namespace

bool printsToTerminal() {
  return ::isatty(STDOUT_FILENO) &&
         (!isLaunched() || std::getenv("DT_TERMINAL"));
}

Progress::Progress(const ProgramInfo &program, int64_t first, int64_t total,
                   double every)
    : program(program), peak(peakFlops(program)), first(first), total(total),
      every(every), start(now()), recent{start, first},
      terminal(printsToTerminal()) {}

/// Samples, tokens and FLOPs a second, as far as they are known.
std::string Progress::speeds(double seconds) const {
  double each = seconds > 0 ? 1 / seconds : 0;
  std::string text = format("  %.1f samples/s", recent.samples * each);
  if (recent.tokens > 0)
    text += format("  %.0f tokens/s", recent.tokens * each);
  if (recent.flops > 0)
    text += "  " + scaled(recent.flops * each) + "FLOP/s";
  if (recent.flops > 0 && peak > 0)
    text += format(" (MFU %.1f %%)", 100 * recent.flops * each / peak);
  return text;
}

std::string Progress::text(int64_t step, const StepResult &result,
                           double utilisation, double time) const {
  double seconds = time - recent.time,
         speed = seconds > 0 ? double(step - recent.step) / seconds : 0;
  std::string line = format("step %lld/%lld  loss %.4f", (long long)step,
                            (long long)total, result.loss);
  line += termsText(program, result.terms, result.empty);
  line += speeds(seconds);
  if (utilisation > 0)
    line += format("  parts %.0f %% full", 100 * utilisation);
  if (step < total && speed > 0)
    line += "  " + duration(double(total - step) / speed) + " left";
  return line;
}

void Progress::step(int64_t step, const StepResult &result,
                    const Batch &batch) {
  double time = now();
  recent.samples += double(batch.samples);
  recent.tokens += double(batch.tokens);
  recent.flops += batch.flops;
  bool ends = step == total;
  if (!ends && time - last < (terminal ? kRedraw : every))
    return;
  std::string line = text(step, result, batch.utilisation, time);
  if (terminal) {
    int filled =
        total > 0 ? int(double(kBar) * double(step) / double(total)) : kBar;
    line = "[" + std::string(filled, '#') + std::string(kBar - filled, '.') +
           "] " + line;
    size_t width = terminalWidth() - 1;
    line.resize(width, ' ');
    printLog("\r%s", line.c_str());
    open = true;
  } else {
    printLog("%s  (%s)\n", line.c_str(), duration(time - start).c_str());
  }
  last = time;
  // The first step plans primitives and touches memory: it is not part of the
  // speed.
  if (step == first + 1 || time - recent.time > 5)
    recent = {time, step};
}

void Progress::validation(int64_t step, const ValidationResult &result,
                          bool best) const {
  printLog("validation at step %lld  loss %.4f%s%s\n", (long long)step,
           result.loss, termsText(program, result.terms, result.empty).c_str(),
           best ? "  (best)" : "");
}

void Progress::goBack(int64_t step) {
  first = step;
  recent = {now(), step};
}

void Progress::finish() {
  if (open)
    printLog("\n");
  open = false;
}

} // namespace dt::rt

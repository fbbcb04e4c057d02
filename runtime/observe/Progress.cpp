//===- Progress.cpp - what a running program shows and records --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/observe/Progress.h"
#include "runtime/base/Log.h"
#include "runtime/comm/Launch.h"

#include <algorithm>
#include <cstdlib>
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

size_t terminalWidth() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20
             ? size.ws_col
             : 80;
}

/// Of several losses.
std::string termsText(const ProgramInfo &program,
                      const std::vector<double> &terms) {
  std::string text;
  for (size_t l = 0; terms.size() > 1 && l < terms.size(); ++l)
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
    : program(program), first(first), total(total), every(every), start(now()),
      recentTime(start), recentStep(first), terminal(printsToTerminal()) {}

std::string Progress::text(int64_t step, const StepResult &result,
                           double utilisation, double time) const {
  double seconds = time - recentTime,
         speed = seconds > 0 ? double(step - recentStep) / seconds : 0,
         samples = seconds > 0 ? double(recentSamples) / seconds : 0;
  std::string line = format("step %lld/%lld  loss %.4f", (long long)step,
                            (long long)total, result.loss);
  line += termsText(program, result.terms);
  line += format("  %.1f samples/s", samples);
  if (utilisation > 0)
    line += format("  parts %.0f %% full", 100 * utilisation);
  if (step < total && speed > 0)
    line += "  " + duration(double(total - step) / speed) + " left";
  return line;
}

void Progress::step(int64_t step, const StepResult &result, int64_t samples,
                    double utilisation) {
  double time = now();
  recentSamples += samples;
  bool ends = step == total;
  if (!ends && time - last < (terminal ? kRedraw : every))
    return;
  std::string line = text(step, result, utilisation, time);
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
  if (step == first + 1 || time - recentTime > 5)
    recentTime = time, recentStep = step, recentSamples = 0;
}

void Progress::validation(int64_t step, double loss,
                          const std::vector<double> &terms, bool best) const {
  printLog("validation at step %lld  loss %.4f%s%s\n", (long long)step, loss,
           termsText(program, terms).c_str(), best ? "  (best)" : "");
}

void Progress::goBack(int64_t step) {
  first = recentStep = step;
  recentSamples = 0;
  recentTime = now();
}

void Progress::finish() {
  if (open)
    printLog("\n");
  open = false;
}

} // namespace dt::rt

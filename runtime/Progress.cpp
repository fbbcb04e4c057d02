//===- Progress.cpp - what a running program shows and records --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Progress.h"
#include "runtime/Error.h"
#include "runtime/mpi/Launch.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
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

/// JSON has no NaN or infinity.
nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

/// The lines of steps up to `last`; half a line at the end is none.
std::string linesUpTo(const std::string &text, int64_t last) {
  std::string kept;
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos;
       at = end + 1) {
    std::string line = text.substr(at, end - at);
    nlohmann::json row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_object() && row.contains("step") &&
        row["step"].is_number_integer() && row["step"] <= last)
      kept += line + "\n";
  }
  return kept;
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
                           double time) const {
  double speed =
      time > recentTime ? double(step - recentStep) / (time - recentTime) : 0;
  std::string line = format("step %lld/%lld  loss %.4f", (long long)step,
                            (long long)total, result.loss);
  if (result.terms.size() > 1)
    for (size_t l = 0; l < result.terms.size(); ++l)
      line += format("  %s %.4f", program.losses[l].name, result.terms[l]);
  line += format("  %.1f samples/s", speed * double(program.globalBatch));
  if (step < total && speed > 0)
    line += "  " + duration(double(total - step) / speed) + " left";
  return line;
}

void Progress::step(int64_t step, const StepResult &result) {
  double time = now();
  bool ends = step == total;
  if (!ends && time - last < (terminal ? kRedraw : every))
    return;
  std::string line = text(step, result, time);
  if (terminal) {
    int filled =
        total > 0 ? int(double(kBar) * double(step) / double(total)) : kBar;
    line = "[" + std::string(filled, '#') + std::string(kBar - filled, '.') +
           "] " + line;
    size_t width = terminalWidth() - 1;
    line.resize(width, ' ');
    std::printf("\r%s", line.c_str());
    open = true;
  } else {
    std::printf("%s  (%s)\n", line.c_str(), duration(time - start).c_str());
  }
  std::fflush(stdout);
  last = time;
  // The first step plans primitives and touches memory: it is not part of the
  // speed.
  if (step == first + 1 || time - recentTime > 5)
    recentTime = time, recentStep = step;
}

void Progress::finish() {
  if (open)
    std::printf("\n");
  open = false;
  std::fflush(stdout);
}

Metrics::Metrics(const std::string &path, int64_t first) {
  if (path.empty())
    return;
  std::error_code error;
  bool history = first && std::filesystem::is_regular_file(path, error);
  if (history) {
    std::string text = readText(path, SIZE_MAX), kept = linesUpTo(text, first);
    if (kept != text)
      writeWhole(path, kept);
  }
  file.open(path, history);
}

void Metrics::step(const ProgramInfo &program, int64_t step,
                   const StepResult &result, double seconds,
                   const std::vector<double> &moduleSeconds) {
  if (!file.isOpen())
    return;
  nlohmann::ordered_json line = {{"step", step}, {"loss", number(result.loss)}};
  for (size_t l = 0; l < program.losses.size; ++l)
    line[std::string("loss.") + program.losses[l].name] =
        number(result.terms[l]);
  line["lr"] = result.lr;
  line["grad_norm"] = number(result.norm);
  line["seconds"] = seconds;
  line["samples_per_second"] = number(double(program.globalBatch) / seconds);
  for (size_t m = 0; m < program.modules.size; ++m)
    line["ms"][program.modules[m].name] = moduleSeconds[m] * 1e3;
  file.write(line.dump() + "\n");
  file.flush();
}

} // namespace dt::rt

//===- Metrics.cpp - numbers of a run, for other tools --------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/observe/Metrics.h"
#include "runtime/base/ReadJson.h"
#include "runtime/data/ModelFlops.h"

#include <cmath>
#include <filesystem>

namespace dt::rt {

namespace {

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
    nlohmann::json row = readJsonIfGood(line);
    if (row.is_object() && row.contains("step") &&
        row["step"].is_number_integer() && row["step"] <= last)
      kept += line + "\n";
  }
  return kept;
}

} // namespace

Metrics::Metrics(const ProgramInfo &program, const std::string &path,
                 const std::string &folder, int64_t first)
    : program(program), peak(peakFlops(program)), path(path) {
  if (!folder.empty())
    events.open(folder, first);
  if (!path.empty())
    openAt(first);
}

void Metrics::openAt(int64_t last) {
  std::error_code error;
  bool history = last && std::filesystem::is_regular_file(path, error);
  if (history) {
    std::string text = readText(path, SIZE_MAX), kept = linesUpTo(text, last);
    if (kept != text)
      writeWhole(path, kept);
  }
  file.open(path, history);
}

void Metrics::goBack(int64_t step) {
  if (events.isOpen())
    events.forgetAfter(step);
  if (!file.isOpen())
    return;
  file.close();
  openAt(step);
}

void Metrics::step(int64_t step, const StepResult &result,
                   const StepSeconds &times, const Batch &batch,
                   int64_t skipped, const std::vector<double> &moduleSeconds) {
  if (!file.isOpen() && !events.isOpen())
    return;
  double seconds = times.all;
  nlohmann::ordered_json line = {{"step", step}, {"loss", number(result.loss)}};
  addTerms(line, "loss.", result.terms, result.empty);
  line["lr"] = result.lr;
  line["grad_norm"] = number(result.norm);
  line["seconds"] = seconds;
  line["data_seconds"] = times.data;
  line["samples_per_second"] = number(double(batch.samples) / seconds);
  if (batch.tokens)
    line["tokens_per_second"] = number(double(batch.tokens) / seconds);
  if (batch.flops > 0)
    line["flops_per_second"] = number(batch.flops / seconds);
  if (batch.flops > 0 && peak > 0)
    line["mfu"] = number(batch.flops / (seconds * peak));
  if (batch.utilisation > 0)
    line["utilisation"] = batch.utilisation;
  if (skipped)
    line["skipped"] = skipped;
  for (size_t m = 0; m < program.modules.size; ++m)
    line["ms"][program.modules[m].name] = moduleSeconds[m] * 1e3;
  write(step, line);
}

void Metrics::validation(int64_t step, const ValidationResult &result) {
  nlohmann::ordered_json line = {{"step", step},
                                 {"validation_loss", number(result.loss)}};
  addTerms(line, "validation_loss.", result.terms, result.empty);
  line["validation_seconds"] = result.seconds;
  write(step, line);
}

void Metrics::addTerms(nlohmann::ordered_json &line, const std::string &prefix,
                       const std::vector<double> &terms,
                       const std::vector<bool> &empty) const {
  for (size_t l = 0; l < program.losses.size; ++l)
    if (!saysNothing(program, l, empty))
      line[prefix + program.losses[l].name] = number(terms[l]);
}

void Metrics::write(int64_t step, const nlohmann::ordered_json &line) {
  if (file.isOpen()) {
    file.write(line.dump() + "\n");
    file.flush();
  }
  std::vector<EventFile::Scalar> scalars;
  for (auto &[name, value] : line.items())
    if (name != "step" && name.find("seconds") == std::string::npos &&
        !value.is_object())
      scalars.push_back(
          {name, value.is_null() ? std::nanf("") : value.get<float>()});
  events.write(step, scalars);
}

} // namespace dt::rt

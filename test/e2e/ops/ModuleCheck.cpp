//===- ModuleCheck.cpp - one module's gradients, checked --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModuleCheck.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <omp.h>
#include <random>

using namespace dt::rt;
using namespace dt::test;

namespace {

/// Half the distance of central differences; the second where there is a kink
/// within the first.
constexpr double kStep = 0.02;
constexpr double kSmallStep = 0.002;
constexpr double kTolerance = 1e-3;
/// What rounding of y leaves on a gradient of zero, at the first step.
constexpr double kNoise = 3e-5;

/// Small tensors want one thread; once, several share the work.
constexpr int kThreads = 3;

/// "gelu" of "unary.gelu.x" or of "gelu.x".
std::string caseOf(const ModuleInfo &module, std::string name) {
  std::string prefix = std::string(module.name) + ".";
  if (name.compare(0, prefix.size(), prefix) == 0)
    name.erase(0, prefix.size());
  size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}
std::string lastOf(const std::string &name) {
  return name.substr(name.rfind('.') + 1);
}

} // namespace

/// All rows but the first: of no row, no row.
std::vector<int64_t> dt::test::shapeOf(const TensorInfo &tensor,
                                       const int64_t *dims) {
  std::vector<int64_t> shape;
  for (int i = 0; i < tensor.rank; ++i) {
    const Extent &extent = tensor.shape[i];
    int64_t rows = extent.symbol < 0 ? 0 : dims[extent.symbol];
    shape.push_back(std::max<int64_t>(extent.scale * rows + extent.offset, 0));
  }
  return shape;
}

void ModuleCheck::collect() {
  std::string prefix = std::string(module.name) + ".";
  for (const ParameterInfo &p : run.program.parameters) {
    std::string name = p.tensor.name;
    if (name.compare(0, prefix.size(), prefix) != 0)
      continue;
    auto *value = reinterpret_cast<float *>(memory.parameters.data + p.offset);
    Case &c = cases[caseOf(module, name)];
    if (p.trainable)
      c.parameters.push_back(
          {name, value,
           reinterpret_cast<float *>(memory.gradients.data + p.gradient),
           elementCount(shapeOf(p.tensor, nullptr))});
    else if (lastOf(name) == "weights")
      c.c = value;
  }
  for (const InputInfo &input : module.inputs)
    if (lastOf(input.buffer.tensor.name) == "weights")
      cases[caseOf(module, input.buffer.tensor.name)].c =
          reinterpret_cast<float *>(memory.arena.data + input.buffer.offset);
  for (const BufferInfo &output : module.outputs)
    if (lastOf(output.tensor.name) == "result") {
      Case &c = cases[caseOf(module, output.tensor.name)];
      c.y = reinterpret_cast<float *>(memory.arena.data + output.offset);
      c.size = elementCount(shapeOf(output.tensor, dims.data()));
    }
  for (auto it = cases.begin(); it != cases.end();)
    it = it->second.y && it->second.c ? std::next(it) : cases.erase(it);
  for (auto &[name, c] : cases)
    c.probe();
}

void ModuleCheck::fillInputs() {
  std::uniform_real_distribution<float> uniform(-1.5f, 1.5f);
  for (const InputInfo &input : module.inputs) {
    // By name, so that other cases do not change what this one gets.
    std::string name = input.buffer.tensor.name;
    std::mt19937 generator(hashBytes(name.data(), name.size()) + rows);
    std::byte *data = memory.arena.data + input.buffer.offset;
    int64_t n = elementCount(shapeOf(input.buffer.tensor, dims.data()));
    for (int64_t i = 0; i < n; ++i) {
      if (input.buffer.tensor.type == DType::F32)
        reinterpret_cast<float *>(data)[i] = uniform(generator);
      else if (input.buffer.tensor.type == DType::I64)
        reinterpret_cast<int64_t *>(data)[i] = generator() % 4;
      else
        data[i] = std::byte(i % 4 == 0 || generator() % 2);
    }
  }
}

/// Memory without meaning, but for inputs and parameters.
void ModuleCheck::fresh() {
  std::memset(memory.arena.data, 0xFF, memory.arena.size);
  fillInputs();
  forward();
}

void ModuleCheck::save() {
  std::string prefix = std::to_string(rows) + "|" + module.name + ".";
  auto add = [&](const BufferInfo &buffer) {
    std::vector<int64_t> shape = shapeOf(buffer.tensor, dims.data());
    std::vector<std::byte> bytes(elementCount(shape) *
                                 sizeOf(buffer.tensor.type));
    std::memcpy(bytes.data(), memory.arena.data + buffer.offset, bytes.size());
    run.saved.add(prefix + buffer.tensor.name, buffer.tensor.type, shape,
                  std::move(bytes));
  };
  for (const BufferInfo &output : module.outputs)
    add(output);
  for (const InputInfo &input : module.inputs)
    add(input.buffer);
}

/// With a loss's denominator 0 its seed is 0, and so is every gradient.
int ModuleCheck::checkZeroSeed() {
  std::memset(memory.gradients.data, 0, memory.gradients.size);
  setSeeds(0);
  fresh();
  backward();
  setSeeds(kSeed);
  int wrong = 0;
  for (auto &[name, c] : cases)
    for (const Parameter &p : c.parameters)
      if (name.compare(0, 3, "at_") != 0 &&
          !std::all_of(p.gradient, p.gradient + p.size,
                       [](float g) { return g == 0; })) {
        std::printf("%s rows %lld: not 0 when the loss's denominator is 0\n",
                    p.name.c_str(), (long long)rows);
        ++wrong;
      }
  return wrong;
}

void ModuleCheck::saveGradients() {
  for (auto &[name, c] : cases)
    for (const Parameter &p : c.parameters) {
      std::vector<std::byte> bytes(p.size * sizeof(float));
      std::memcpy(bytes.data(), p.gradient, bytes.size());
      run.saved.add(std::to_string(rows) + "|gradient|" + p.name, DType::F32,
                    {p.size}, std::move(bytes));
    }
}

ModuleCheck::Gradients ModuleCheck::snapshot() {
  Gradients result;
  for (auto &[name, c] : cases)
    for (const Parameter &p : c.parameters)
      result[name].emplace_back(p.gradient, p.gradient + p.size);
  return result;
}

/// kSeed * the slope of sum(y * c) between two places of probe i, by case.
std::map<std::string, double> ModuleCheck::slopes(size_t i, double from,
                                                  double to) {
  std::map<std::string, float> values;
  for (auto &[name, c] : cases)
    if (float *e = c.element(i))
      values[name] = *e;
  auto runAt = [&](double by) {
    for (auto &[name, value] : values)
      *cases[name].element(i) = float(value + by);
    forward();
  };
  runAt(to);
  std::map<std::string, std::vector<float>> last;
  for (auto &[name, value] : values)
    last[name].assign(cases[name].y, cases[name].y + cases[name].size);
  runAt(from);
  std::map<std::string, double> result;
  for (auto &[name, value] : values) {
    const Case &c = cases[name];
    double sum = 0, distance = double(float(value + to)) - float(value + from);
    for (int64_t k = 0; k < c.size; ++k)
      sum += (double(last[name][k]) - c.y[k]) * c.c[k];
    result[name] = kSeed * sum / distance;
    *c.element(i) = value;
  }
  return result;
}

/// Slopes at all probes of all cases. With half the step too, the error is of
/// fourth order.
ModuleCheck::Differences ModuleCheck::differences(double step) {
  Differences result;
  for (size_t i = 0, n = mostProbes(); i < n; ++i) {
    auto wide = slopes(i, -step, step), narrow = slopes(i, -step / 2, step / 2);
    for (auto &[name, slope] : wide)
      result[name].push_back((4 * narrow[name] - slope) / 3);
  }
  return result;
}

/// At a kink any slope between those on both sides is good, so of these the one
/// that is nearest to the gradient.
ModuleCheck::Differences ModuleCheck::nearestSlopes(double step) {
  Differences result;
  for (size_t i = 0, n = mostProbes(); i < n; ++i) {
    auto left = slopes(i, -step, 0), right = slopes(i, 0, step);
    for (auto &[name, slope] : left) {
      const auto &[parameter, element] = cases[name].probes[i];
      double gradient = cases[name].parameters[parameter].gradient[element];
      auto [low, high] = std::minmax(slope, right[name]);
      result[name].push_back(std::min(std::max(gradient, low), high));
    }
  }
  return result;
}

size_t ModuleCheck::mostProbes() const {
  size_t most = 0;
  for (auto &[name, c] : cases)
    most = std::max(most, c.probes.size());
  return most;
}

bool ModuleCheck::holds(const Case &c, size_t parameter,
                        const std::vector<double> &expected, double noise) {
  const Parameter &p = c.parameters[parameter];
  double difference = 0, size = 0, n = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    if (c.probes[i].first == parameter &&
        !std::isnan(expected[i])) { // a mean over no row
      double value = p.gradient[c.probes[i].second];
      difference += std::pow(value - expected[i], 2);
      size += std::max(std::pow(value, 2), std::pow(expected[i], 2));
      ++n;
    }
  difference = std::sqrt(difference), size = std::sqrt(size);
  bool good = difference <= kTolerance * size + noise * std::sqrt(n);
  if (!good || verbose)
    std::printf("%-60s rows %lld  |gradient| %9.3g  difference %9.3g\n",
                p.name.c_str(), (long long)rows, size, difference);
  return good;
}

void ModuleCheck::report(const Case &c, size_t parameter,
                         const std::vector<double> &expected) {
  const Parameter &p = c.parameters[parameter];
  std::printf("WRONG %s rows %lld\n", p.name.c_str(), (long long)rows);
  for (size_t i = 0; i < expected.size(); ++i)
    if (c.probes[i].first == parameter)
      std::printf("    [%lld] %.6g, by differences %.6g\n",
                  (long long)c.probes[i].second, p.gradient[c.probes[i].second],
                  expected[i]);
}

int ModuleCheck::compareDifferences() {
  std::vector<std::pair<std::string, size_t>> open;
  for (auto &[name, c] : cases)
    for (size_t k = 0;
         k < c.parameters.size() && name.compare(0, 3, "at_") != 0; ++k)
      open.push_back({name, k});
  count += open.size();
  Differences expected;
  auto settle = [&](Differences slopes, double noise) {
    expected = std::move(slopes);
    auto settled = [&](auto &which) {
      return holds(cases[which.first], which.second, expected[which.first],
                   noise);
    };
    open.erase(std::remove_if(open.begin(), open.end(), settled), open.end());
  };
  fresh();
  settle(differences(kStep), kNoise);
  if (!open.empty())
    settle(differences(kSmallStep), kNoise * kStep / kSmallStep);
  if (!open.empty())
    settle(nearestSlopes(kSmallStep), kNoise * kStep / kSmallStep);
  for (auto &[name, k] : open)
    report(cases[name], k, expected[name]);
  return open.size();
}

/// A second part adds to the first; sums do not depend on threads but for
/// rounding.
int ModuleCheck::compareTwice(Gradients &once) {
  omp_set_num_threads(kThreads);
  fresh();
  backward();
  omp_set_num_threads(1);
  int wrong = 0;
  for (auto &[name, c] : cases)
    for (size_t k = 0; k < c.parameters.size(); ++k) {
      const std::vector<float> &one = once[name][k];
      float largest = 0;
      for (float g : one)
        largest = std::max(largest, std::abs(g));
      for (size_t i = 0; i < one.size(); ++i) {
        float twice = c.parameters[k].gradient[i];
        if (std::abs(twice - 2 * one[i]) <= 2e-5f * largest + 1e-5f ||
            (std::isnan(one[i]) && std::isnan(twice)))
          continue;
        std::printf("%s rows %lld: [%zu] is %g after one part, %g after two\n",
                    c.parameters[k].name.c_str(), (long long)rows, i, one[i],
                    twice);
        ++wrong;
        break;
      }
    }
  return wrong;
}

int ModuleCheck::check() {
  if (!module.backward) {
    std::printf("%s: no backward function\n", module.name);
    return 1;
  }
  int wrong = checkZeroSeed();
  std::memset(memory.gradients.data, 0, memory.gradients.size);
  fresh();
  save();
  backward();
  saveGradients();
  Gradients once = snapshot();
  wrong += compareDifferences();
  wrong += compareTwice(once);
  return wrong;
}

//===- assign-bench.cpp - how long assignments take -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A step of 4,096 samples with some 9,500 pictures over 1,024 ranks in each
// mode: milliseconds on one thread, memory that it takes at once. And the hash
// of what is chosen for many smaller steps at random: what makes assignments
// faster must not change it.
//
//   assign-bench [STEPS]
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Assignment.h"
#include "test/runtime/data/TestProgram.h"

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

using namespace dt::rt;
using namespace dt::test;

namespace {

/// vision (patches of images) -> llm (tokens of samples, patches of images).
struct Towers : TestProgram {
  Towers(int64_t global, int64_t micro, int32_t vision, int32_t llm,
         int64_t patches, int64_t tokens, int32_t sub = 1)
      : TestProgram(global, micro) {
    Module &tower = add("vision", "image", vision, 0);
    tower.symbols[0] = {"patches", "image", patches, 60, "patches", 1024, 0.02};
    Module &text = add("llm", "sample", llm, 0, vision);
    text.info.sub = sub;
    text.symbols[0] = {"seq", "sample", tokens, 200, "tokens", 2048, 0.01};
    text.symbols.push_back(
        {"patches", "image", int64_t(1) << 40, 3, "patches", 1024});
    edge(0, 1);
    info.pace = 1;
    rows1F1B();
    finish();
  }
};

StepItems draw(std::mt19937 &random, int64_t samples, int most) {
  StepItems items;
  items.samples = samples;
  items.where = "a step";
  std::vector<int> pictures;
  std::vector<int64_t> tokens, patches;
  for (int64_t i = 0; i < samples; ++i) {
    pictures.push_back(random() % 3 ? int(random() % unsigned(most)) : 0);
    tokens.push_back(1 + int64_t(random() % 64) * int64_t(random() % 32));
  }
  items.kinds.push_back(kindOf("image", pictures));
  for (int64_t i = 0; i < items.kinds[0].count; ++i)
    patches.push_back(1 + int64_t(random() % 32) * int64_t(random() % 32));
  items.measures["tokens"] =
      std::make_shared<const std::vector<int64_t>>(std::move(tokens));
  items.kinds[0].measures["patches"] =
      std::make_shared<const std::vector<int64_t>>(std::move(patches));
  return items;
}

constexpr const char *kNames[] = {"none", "intra", "inter", "both"};
constexpr Reorder kModes[] = {Reorder::None, Reorder::Intra, Reorder::Inter,
                              Reorder::Both};

void time(int steps) {
  using Clock = std::chrono::steady_clock;
  for (bool tight : {false, true}) {
    Towers program(4096, 1024, 512, 512, 1 << 20, tight ? 2400 : 1 << 20);
    std::mt19937 random(7);
    StepItems items = draw(random, 4096, 8);
    for (int m = 0; m < 4; ++m) {
      Assigner assigner(program.info, kModes[m]);
      uint64_t hash = 0;
      double best = 1e9;
      for (int i = 0; i < steps; ++i) {
        auto begin = Clock::now();
        Assignment made = assigner.assign(items);
        best = std::min(best, std::chrono::duration<double, std::milli>(
                                  Clock::now() - begin)
                                  .count());
        hash = made.hash();
      }
      std::printf("%s, %lld pictures, %-5s  %6.2f ms  %016llx\n",
                  tight ? "tight bounds" : "wide bounds",
                  (long long)items.kinds[0].count, kNames[m], best,
                  (unsigned long long)hash);
    }
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%ld MB at most\n", usage.ru_maxrss / 1024);
}

/// Of steps that fit and of the errors of those that do not.
void hash(int programs) {
  std::mt19937 random(11);
  uint64_t all = 0;
  int fit = 0;
  auto mix = [&](uint64_t value) {
    all = (all ^ value) * 0x9E3779B97F4A7C15ull, all ^= all >> 29;
  };
  for (int i = 0; i < programs; ++i) {
    int64_t samples = 1 + int64_t(random() % 96),
            micro = 1 + int64_t(random()) % samples;
    Towers program(samples, micro, 1 + int32_t(random() % 6),
                   1 + int32_t(random() % 6), 2048 + int64_t(random() % 20000),
                   2048 + int64_t(random() % 20000), 1 + int32_t(random() % 3));
    StepItems items = draw(random, samples, 6);
    for (Reorder mode : kModes)
      try {
        Assignment made = Assigner(program.info, mode).assign(items);
        mix(made.hash());
        mix(uint64_t(made.lengthAfter));
        ++fit;
      } catch (const std::exception &error) {
        for (const char *c = error.what(); *c; ++c)
          mix(uint64_t(*c));
      }
  }
  std::printf("%d assignments of %d at random: %016llx\n", fit, 4 * programs,
              (unsigned long long)all);
}

} // namespace

int main(int argc, char **argv) {
  time(argc > 1 ? std::atoi(argv[1]) : 20);
  hash(400);
}

//===- SameStart.cpp - ranks that were started alike ----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/SameStart.h"
#include "runtime/base/Files.h"
#include "runtime/base/ReadJson.h"
#include "runtime/base/Safetensors.h"
#include "runtime/comm/Agreement.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <vector>

namespace dt::rt {

namespace {

/// By name, as text.
using Facts = std::map<std::string, std::string>;

constexpr const char *kProgram = "the program";
constexpr const char *kMachine = "machine"; ///< is not compared

/// Of the program's own file: ranks that were compiled apart round differently,
/// and replicas would part.
std::string ownFingerprint() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::vector<char> piece(1 << 20);
  uint64_t hash = hashBytes(nullptr, 0);
  while (file.read(piece.data(), std::streamsize(piece.size())) ||
         file.gcount())
    hash = hashBytes(piece.data(), size_t(file.gcount()), hash);
  return hexText(hash);
}

Facts ownFacts(const Options &options) {
  Facts facts;
  for (const auto &[flag, value] : options.given)
    switch (sameness(flag)) {
    case Sameness::Value:
      facts[flag] = value;
      break;
    case Sameness::Given:
      facts[flag] = "given";
      break;
    case Sameness::Free:
      break;
    }
  facts[kProgram] = ownFingerprint();
  facts[kMachine] = hostName();
  return facts;
}

/// "1e-3" and "0.001" are the same.
bool areEqual(const std::string &a, const std::string &b) {
  char *endA, *endB;
  double x = std::strtod(a.c_str(), &endA), y = std::strtod(b.c_str(), &endB);
  return a == b || (!a.empty() && !b.empty() && !*endA && !*endB && x == y);
}

const std::string *find(const Facts &facts, const std::string &name) {
  auto found = facts.find(name);
  return found == facts.end() ? nullptr : &found->second;
}

/// Empty: they are alike.
std::string difference(const Facts &first, const Facts &other, int rank) {
  Facts both = first;
  both.insert(other.begin(), other.end());
  std::string machine = first.at(kMachine) == other.at(kMachine)
                            ? ""
                            : " on " + other.at(kMachine);
  std::string who = "rank " + std::to_string(rank) + machine;
  auto text = [](const std::string *value) {
    return value ? *value : std::string("not given");
  };
  for (const auto &[name, ignored] : both) {
    const std::string *a = find(first, name), *b = find(other, name);
    if (name == kMachine || (a && b && areEqual(*a, *b)))
      continue;
    if (name == kProgram)
      return who + " runs another program than rank 0, " + *b + " and " + *a +
             ": all ranks need copies of one file";
    return name + ": " + text(b) + " on " + who + ", " + text(a) +
           " on rank 0; all ranks need the same";
  }
  return "";
}

} // namespace

void expectSameStart(Comm &comm, const Options &options) {
  if (comm.size() == 1)
    return;
  std::vector<std::string> all = comm.allGatherText(
      nlohmann::json(ownFacts(options))
          .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  Facts first = readJson(all[0], "rank 0's flags").get<Facts>();
  for (int rank = 1; rank < comm.size(); ++rank) {
    std::string wrong = difference(
        first, readJson(all[size_t(rank)], "a rank's flags").get<Facts>(),
        rank);
    if (!wrong.empty())
      throw CommonError(wrong);
  }
}

} // namespace dt::rt

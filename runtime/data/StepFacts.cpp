//===- StepFacts.cpp - what decides the parts of a batch ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/StepFacts.h"
#include "runtime/data/Manifest.h"
#include "runtime/data/ModelFlops.h"

#include <numeric>

namespace dt::rt {

std::vector<int64_t> ownersOfSamples(const StepFacts &facts) {
  std::vector<int64_t> own(size_t(facts.samples()));
  std::iota(own.begin(), own.end(), 0);
  return own;
}

std::string StepFacts::text() const {
  nlohmann::json sizes = nlohmann::json::object();
  for (auto &[quantity, measure] : measures)
    sizes[quantity] = *measure;
  nlohmann::json whose = nlohmann::json::object();
  for (auto &[kind, samples] : owners)
    if (kind != kSample)
      whose[kind] = samples;
  std::string text;
  nlohmann::json::to_cbor(
      nlohmann::json::array({path, fingerprint, symbols, sizes, counts, whose}),
      text);
  return text;
}

StepFacts StepFacts::read(const std::string &text) {
  nlohmann::json all = nlohmann::json::from_cbor(text);
  StepFacts facts;
  facts.path = all[0].get<std::string>();
  facts.fingerprint = all[1].get<uint64_t>();
  facts.symbols = all[2].get<std::vector<std::vector<int64_t>>>();
  for (auto &[quantity, sizes] : all[3].items())
    facts.measures[quantity] = std::make_shared<const std::vector<int64_t>>(
        sizes.get<std::vector<int64_t>>());
  facts.counts = all[4].get<std::map<std::string, int64_t>>();
  facts.owners = all[5].get<std::map<std::string, std::vector<int64_t>>>();
  facts.owners[kSample] = ownersOfSamples(facts);
  return facts;
}

namespace {

/// Into which the samples fit as they come; empty: they do not.
std::vector<int64_t> partBegins(const ProgramInfo &program,
                                const std::vector<int64_t> &tokens,
                                int64_t samples) {
  data::StepRule rule{program.parts, program.partTokens,
                      program.globalBatch / program.parts};
  std::vector<int64_t> parts = data::fillParts(rule, [&](int64_t i) {
    return i < int64_t(tokens.size()) ? tokens[size_t(i)] : -1;
  });
  return parts.back() == samples ? parts : std::vector<int64_t>();
}

StepItems stepItems(const ProgramInfo &program, const StepFacts &facts) {
  StepItems out;
  out.where = facts.path;
  out.samples = facts.samples();
  for (auto &[kind, count] : facts.counts) {
    if (kind == kSample || facts.measures.count(kind))
      continue;
    auto found = facts.owners.find(kind);
    out.kinds.push_back(
        {kind, count,
         found == facts.owners.end() ? std::vector<int64_t>() : found->second});
  }
  for (auto &[quantity, measure] : facts.measures) {
    size_t dot = quantity.find('.');
    std::string kind = quantity.substr(0, dot), name = quantity.substr(dot + 1);
    if (kind == kSample)
      out.measures[name] = measure;
    for (StepItems::Kind &other : out.kinds)
      if (other.name == kind)
        other.measures[name] = measure;
  }
  if (auto tokens = facts.measures.find(kSampleTokens);
      program.parts && tokens != facts.measures.end())
    out.parts = partBegins(program, *tokens->second, out.samples);
  return out;
}

} // namespace

Batch assignParts(const ProgramInfo &program, const StepFacts &facts,
                  Reorder reorder) {
  Batch batch;
  batch.samples = facts.samples();
  Assigner assigner(program, reorder);
  StepItems items = stepItems(program, facts);
  batch.assignment = assigner.assign(items);
  batch.utilisation = utilisation(program, batch.assignment);
  batch.flops = modelFlops(program, batch.assignment, facts.symbols);
  if (auto tokens = facts.counts.find(kSampleTokens);
      tokens != facts.counts.end())
    batch.tokens = tokens->second;
  if (reorder != Reorder::None)
    batch.plain = std::make_shared<const Assignment>(assigner.given(items));
  batch.hash = batch.assignment.hash() * 31 + facts.fingerprint;
  for (auto &entry : facts.owners)
    for (int64_t owner : entry.second)
      batch.hash = (batch.hash ^ uint64_t(owner)) * 0x100000001B3ull;
  batch.modules.resize(program.modules.size);
  return batch;
}

} // namespace dt::rt

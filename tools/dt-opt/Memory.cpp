//===- Memory.cpp - --emit=memory: what stands where in the arena ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Report.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace dt;

namespace {

/// The most bytes that live in one row, scratch included: no plan needs less.
std::pair<int64_t, size_t> findPeak(const ProgramReport &report) {
  std::vector<int64_t> change(report.rows.size() + 1);
  for (const BlockReport &block : report.blocks) {
    change[block.first] += block.bytes;
    change[block.last + 1] -= block.bytes;
  }
  std::pair<int64_t, size_t> peak = {0, 0};
  int64_t live = report.scratchBytes;
  for (size_t row = 0; row < report.rows.size(); ++row) {
    live += change[row];
    peak = std::max(peak, {live, row},
                    [](auto &a, auto &b) { return a.first < b.first; });
  }
  return peak;
}

/// "  (linear fc1 in layers.0)"
std::string describe(const ResidualReport &residual) {
  if (residual.made.empty())
    return "";
  return "  (" + residual.made +
         (residual.layer.empty() ? "" : " in " + residual.layer) + ")";
}

} // namespace

void dt::printMemory(const ProgramReport &report, llvm::raw_ostream &os) {
  auto [peak, at] = findPeak(report);
  os << llvm::formatv("arena {0:N} bytes; at least {1:N} live at once",
                      report.arenaBytes, peak);
  if (!report.rows.empty())
    os << llvm::formatv(", in task {0} ({1})", at, report.rows[at]);
  os << llvm::formatv(
      "; parameters {0:N} bytes, beside the arena\n\ntasks of a step\n",
      report.parameterBytes);
  for (auto [i, row] : llvm::enumerate(report.rows))
    os << llvm::formatv("{0,6}  {1}\n", i, row);
  os << llvm::formatv("\n{0,14} {1,14}  {2,-11}  {3}\n", "offset", "bytes",
                      "tasks", "buffer");
  for (const BlockReport &block : report.blocks)
    os << llvm::formatv(
        "{0,14:N} {1,14:N}  {2,-11}  {3}\n", block.offset, block.bytes,
        llvm::formatv("{0}..{1}", block.first, block.last).str(),
        block.name + describe(block.residual));
  os << llvm::formatv("{0,14:N} {1,14:N}  {2,-11}  {3}\n", report.scratchOffset,
                      report.scratchBytes, "all", "scratch");
  os << "\nscratch of functions, callees included\n";
  for (auto &[name, bytes] : report.scratch)
    os << llvm::formatv("{0,14:N}  {1}\n", bytes, name);
  os << "\nbytes of every rank\n";
  printRankMemory(report, os);
  if (report.onHost)
    return;
  os << "\nand beside them bytes of libraries; NCCL's, cuDNN's and the "
        "context's are estimates for an H100\n";
  printLibraryMemory(report, os);
}

void dt::printMemoryJson(const ProgramReport &report, llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 1);
  auto [peak, at] = findPeak(report);
  json.object([&, peak = peak] {
    json.attribute("arena_bytes", report.arenaBytes);
    json.attribute("live_bytes", peak);
    json.attribute("parameter_bytes", report.parameterBytes);
    json.attributeArray("tasks", [&] {
      for (const std::string &row : report.rows)
        json.value(row);
    });
    json.attributeObject("scratch", [&] {
      json.attribute("offset", report.scratchOffset);
      json.attribute("bytes", report.scratchBytes);
    });
    json.attributeArray("ranks", [&] {
      for (const RankReport &rank : report.ranks)
        json.object([&] {
          json.attribute("scratch", rank.scratch);
          json.attributeObject("messages", [&] {
            for (const RankReport::Messages &m : rank.messages)
              json.attribute(
                  rt::textOf(m.over),
                  llvm::json::Object{{"device", m.device}, {"host", m.host}});
          });
          const RankReport::Libraries &l = rank.libraries;
          json.attribute("libraries",
                         llvm::json::Object{{"communicators", l.communicators},
                                            {"nccl_estimate", l.nccl},
                                            {"cublaslt", l.cublaslt},
                                            {"cudnn_at_most", l.cudnn},
                                            {"context_estimate", l.context}});
          json.attributeObject("modules", [&] {
            for (const RankReport::Module &m : rank.modules)
              json.attribute(m.name,
                             llvm::json::Object{{"arena", m.arena},
                                                {"parameters", m.parameters},
                                                {"gradients", m.gradients},
                                                {"moments", m.moments},
                                                {"sums", m.sums}});
          });
        });
    });
    json.attributeArray("buffers", [&] {
      for (const BlockReport &block : report.blocks)
        json.value(llvm::json::Object{{"name", block.name},
                                      {"layer", block.residual.layer},
                                      {"made", block.residual.made},
                                      {"type", block.type},
                                      {"offset", block.offset},
                                      {"bytes", block.bytes},
                                      {"first", block.first},
                                      {"last", block.last}});
    });
  });
  os << "\n";
}

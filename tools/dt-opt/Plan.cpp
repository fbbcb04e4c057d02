//===- Plan.cpp - --emit=plan: what each module costs ------------*- C++
//-*-===//
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

std::string number(std::optional<int64_t> value) {
  return value ? llvm::formatv("{0:N}", *value).str() : "-";
}

/// Columns as wide as their widest cell; the first three are words.
void printTable(llvm::ArrayRef<std::vector<std::string>> rows,
                llvm::raw_ostream &os) {
  std::vector<size_t> width;
  for (auto &row : rows)
    for (auto [i, cell] : llvm::enumerate(row)) {
      width.resize(std::max(width.size(), i + 1));
      width[i] = std::max(width[i], cell.size());
    }
  for (auto &row : rows) {
    std::string line;
    for (auto [i, cell] : llvm::enumerate(row)) {
      std::string space(width[i] - cell.size(), ' ');
      line += (i ? "  " : "") + (i < 3 ? cell + space : space + cell);
    }
    os << llvm::StringRef(line).rtrim() << "\n";
  }
}

} // namespace

void dt::printPlan(const ProgramReport &report, llvm::raw_ostream &os) {
  std::vector<std::vector<std::string>> rows = {
      {"module", "role", "item", "trainable", "frozen", "forward FLOPs",
       "backward FLOPs", "buffer bytes", "scratch bytes"}};
  ModuleReport total;
  int64_t forward = 0, backward = 0;
  for (const ModuleReport &m : report.modules) {
    rows.push_back({m.name, m.role, m.item, number(m.trainable),
                    number(m.frozen), number(m.forwardFlops),
                    number(m.backwardFlops),
                    report.hasMemory ? number(m.bufferBytes) : "-",
                    report.hasMemory ? number(m.scratchBytes) : "-"});
    total.trainable += m.trainable;
    total.frozen += m.frozen;
    forward += m.forwardFlops.value_or(0);
    backward += m.backwardFlops.value_or(0);
  }
  rows.push_back({"total", "", "", number(total.trainable),
                  number(total.frozen), number(forward), number(backward)});
  printTable(rows, os);
  os << "\nFLOPs of a step: " << report.globalBatch << " samples in "
     << report.getMicrobatches()
     << (report.getMicrobatches() == 1 ? " microbatch" : " microbatches")
     << ", as many items as their bounds allow.\n";
  if (report.hasMemory)
    os << "Arena: " << number(report.arenaBytes)
       << " bytes (a region for each module; scratch "
       << number(report.scratchBytes)
       << "). Parameters: " << number(report.parameterBytes)
       << " bytes, and as many for gradients and each optimizer moment.\n";
}

void dt::printPlanJson(const ProgramReport &report, llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 2);
  auto known = [&](llvm::StringRef key, std::optional<int64_t> value) {
    if (value)
      json.attribute(key, *value);
  };
  json.object([&] {
    json.attribute("version", 1);
    json.attribute("ranks", 1);
    json.attribute("microbatches", report.getMicrobatches());
    json.attributeObject("units", [&] {
      for (const ModuleReport &m : report.modules)
        json.attributeObject(m.name, [&] {
          for (llvm::StringRef key : {"tp", "dp", "pp", "vpp"})
            json.attribute(key, 1);
          json.attribute("ranks", llvm::json::Array{0});
          json.attributeObject("rows_max", [&] {
            for (auto &[item, max] : m.rowsMax)
              json.attribute(item, max);
          });
          json.attribute("sub", 1);
          json.attribute("save", m.save);
          json.attribute("zero", 0);
          json.attributeObject("predicted", [&] {
            json.attribute("trainable", m.trainable);
            json.attribute("frozen", m.frozen);
            known("forward_flops", m.forwardFlops);
            known("backward_flops", m.backwardFlops);
            if (report.hasMemory) {
              json.attribute("buffer_bytes", m.bufferBytes);
              json.attribute("scratch_bytes", m.scratchBytes);
            }
          });
        });
    });
    json.attributeObject("predicted", [&] {
      json.attribute("global_batch", report.globalBatch);
      json.attribute("micro_batch", report.microBatch);
      if (report.hasMemory) {
        json.attribute("arena_bytes", report.arenaBytes);
        json.attribute("parameter_bytes", report.parameterBytes);
      }
    });
  });
  os << "\n";
}

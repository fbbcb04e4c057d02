//===- CollectiveTable.cpp - what functions give to collectives -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/CollectiveTable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>
#include <tuple>

using namespace mlir;

namespace dt::codegen {

namespace {

/// Kind, element type, over, stride.
using Exchange = std::tuple<std::string, std::string, int64_t, int64_t>;
struct Amount {
  nn::DimExpr elements;
  int64_t calls = 0;
};
using Amounts = std::map<Exchange, Amount>;

/// Of functions and what they call.
class Counter {
public:
  const Amounts &of(rt::FuncOp function) {
    auto [it, fresh] = counted.try_emplace(function.getSymName());
    if (!fresh)
      return it->second;
    Amounts sum;
    function.walk([&](Operation *op) { add(op, sum); });
    return counted[function.getSymName()] = std::move(sum);
  }

private:
  void add(Operation *op, Amounts &sum) {
    TypeSwitch<Operation *>(op)
        .Case<rt::AllReduceOp>([&](auto o) { add("AllReduce", o, sum); })
        .Case<rt::AllGatherOp>([&](auto o) { add("AllGather", o, sum); })
        .Case<rt::ReduceScatterOp>(
            [&](auto o) { add("ReduceScatter", o, sum); })
        .Case<rt::AllToAllOp>([&](auto o) { add("AllToAll", o, sum); })
        .Case<rt::CallOp>([&](rt::CallOp call) {
          auto callee = SymbolTable::lookupNearestSymbolFrom<rt::FuncOp>(
              call, call.getCalleeAttr());
          for (auto &[exchange, amount] :
               callee ? Amounts(of(callee)) : Amounts())
            add(exchange, amount, sum);
        });
  }
  template <typename OpTy> void add(StringRef kind, OpTy op, Amounts &sum) {
    auto in = cast<rt::BufferType>(op.getIn().getType());
    int64_t over = op.getOver(), stride = op.getStride();
    if (over > 1) // else a copy
      add({kind.str(), dtypeText(in.getElementType()), over, stride},
          {in.getNumElements(), 1}, sum);
  }
  static void add(const Exchange &exchange, const Amount &amount,
                  Amounts &sum) {
    Amount &total = sum[exchange];
    total.elements = total.elements + amount.elements;
    total.calls += amount.calls;
  }

  llvm::StringMap<Amounts> counted;
};

} // namespace

FailureOr<std::vector<std::string>> collectiveRows(
    rt::ProgramOp program, ArrayRef<ModuleNames> names,
    function_ref<std::string(StringRef, StringRef, ArrayRef<std::string>)>
        array) {
  std::vector<std::string> rows;
  std::map<std::string, std::string> factors, sizes; // contents -> array
  auto shared = [&](auto &known, StringRef type, StringRef name,
                    ArrayRef<std::string> content) {
    std::string &table = known[llvm::join(content, ",")];
    if (table.empty())
      table = array(type, name, content);
    return table;
  };
  for (auto [module, name] :
       llvm::zip(program.getBody().getOps<rt::ModuleOp>(), names)) {
    Counter counter;
    SmallVector<std::string> symbols;
    for (auto symbol : module.getBody().getOps<rt::SymbolOp>())
      symbols.push_back(symbol.getSymName().str());
    for (auto stage : module.getBody().getOps<rt::StageOp>()) {
      auto callee = SymbolTable::lookupNearestSymbolFrom<rt::FuncOp>(
          stage, stage.getCalleeAttr());
      std::string function = name.stages.lookup(
          (rt::stringifyStageKind(stage.getKind()) + "@" + stage.getCallee())
              .str());
      for (auto &[exchange, amount] : counter.of(callee)) {
        SmallVector<std::string> terms;
        for (const nn::DimExpr::Term &term : amount.elements.terms()) {
          SmallVector<std::string> indices;
          for (const std::string &symbol : term.symbols) {
            auto found = llvm::find(symbols, symbol);
            if (found == symbols.end())
              return stage.emitOpError()
                         << "calls a function that exchanges '" << symbol
                         << "' elements, which is no rt.symbol of the module",
                     failure();
            indices.push_back(std::to_string(found - symbols.begin()));
          }
          terms.push_back("{" + std::to_string(term.coefficient) + ", " +
                          shared(factors, "int32_t", "kFactors", indices) +
                          "}");
        }
        auto &[kind, type, over, stride] = exchange;
        rows.push_back(
            "{.function = " + function + ", .kind = dt::rt::CollectiveKind::" +
            kind + ", .type = " + type + ", .over = " + std::to_string(over) +
            ", .stride = " + std::to_string(stride) +
            ", .calls = " + std::to_string(amount.calls) + ", .elements = " +
            shared(sizes, "dt::rt::SizeTerm", "kElements", terms) + "}");
      }
    }
  }
  return rows;
}

} // namespace dt::codegen

//===- CollectiveTable.cpp - what functions give to collectives -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The bytes that a step's tensor-parallel collectives must move are a function
// of the dims of its parts. This is that function: CollectiveInfo.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/Tables.h"

#include "llvm/ADT/StringExtras.h"

#include <map>
#include <tuple>

using namespace mlir;

namespace dt::codegen {

namespace {

/// The kind's name (rows are in alphabetical order), element type, over,
/// stride.
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
    if (auto collective = dyn_cast<rt::CollectiveOp>(op)) {
      auto in = cast<rt::BufferType>(collective.getIn().getType());
      int64_t over = collective.getOver(), stride = collective.getStride();
      if (over > 1) // else a copy
        add({enumText(collective.getKind()),
             enumText(dtypeOf(in.getElementType())), over, stride},
            {collective.getForm().scatters
                 ? collective.getBlock() * nn::DimExpr(over)
                 : collective.getBlock(),
             1},
            sum);
    } else if (auto call = dyn_cast<rt::CallOp>(op)) {
      auto callee = SymbolTable::lookupNearestSymbolFrom<rt::FuncOp>(
          call, call.getCalleeAttr());
      for (auto &[exchange, amount] : callee ? Amounts(of(callee)) : Amounts())
        add(exchange, amount, sum);
    }
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

/// The sum of the terms: their array.
static FailureOr<std::string> elements(TableWriter &writer, rt::EntryOp entry,
                                       const nn::DimExpr &sum,
                                       ArrayRef<std::string> symbols) {
  SmallVector<std::string> terms;
  for (const nn::DimExpr::Term &term : sum.terms()) {
    SmallVector<int64_t> indices;
    for (const std::string &symbol : term.symbols) {
      auto found = llvm::find(symbols, symbol);
      if (found == symbols.end())
        return entry.emitOpError()
                   << "calls a function that exchanges '" << symbol
                   << "' elements, which is no rt.symbol of the module",
               failure();
      indices.push_back(found - symbols.begin());
    }
    rows::SizeTerm row;
    row.factor = term.coefficient;
    row.symbols = writer.shared("int32_t", "kNumbers", numberTexts(indices));
    terms.push_back(listText(row));
  }
  return writer.shared<rows::SizeTerm>("kElements", terms);
}

static LogicalResult addRows(TableWriter &writer, rt::ModuleOp module,
                             const ModuleNames &name,
                             SmallVectorImpl<std::string> &table) {
  Counter counter;
  SmallVector<std::string> symbols = symbolsOf(module);
  for (auto entry : module.getBody().getOps<rt::EntryOp>()) {
    auto callee = SymbolTable::lookupNearestSymbolFrom<rt::FuncOp>(
        entry, entry.getCalleeAttr());
    for (auto &[exchange, amount] : counter.of(callee)) {
      auto sum = elements(writer, entry, amount.elements, symbols);
      if (failed(sum))
        return failure();
      auto &[kind, type, over, stride] = exchange;
      rows::CollectiveInfo row;
      row.function = name.getFunction(entry.getKind(), entry.getCallee());
      row.kind = kind;
      row.type = type;
      row.over = over;
      row.stride = stride;
      row.calls = amount.calls;
      row.elements = *sum;
      table.push_back(fieldsText(row));
    }
  }
  return success();
}

FailureOr<std::string> writeCollectives(TableWriter &writer) {
  SmallVector<std::string> table;
  for (auto [module, name] :
       llvm::zip(writer.program.getBody().getOps<rt::ModuleOp>(), writer.names))
    if (failed(addRows(writer, module, name, table)))
      return failure();
  return writer.array<rows::CollectiveInfo>("kCollectives", table);
}

} // namespace dt::codegen

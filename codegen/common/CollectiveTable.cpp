//===- CollectiveTable.cpp - what functions give to collectives -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The bytes that a step's tensor-parallel collectives must move are a function
// of the dims of its parts. This is that function: CollectiveInfo.
//
//===----------------------------------------------------------------------===//

#include "codegen/common/CollectiveTable.h"
#include "codegen/common/KernelBody.h"
#include "codegen/common/Tables.h"
#include "runtime/comm/MessageBlocks.h"

#include <algorithm>

using namespace mlir;

namespace dt::codegen {

const CollectiveAmounts &CollectiveCounter::of(rt::FuncOp function) {
  auto [it, fresh] = counted.try_emplace(function.getSymName());
  if (!fresh)
    return it->second;
  CollectiveAmounts sum;
  rt::BufferBytes bytes(function);
  function.walk([&](Operation *op) {
    if (auto collective = dyn_cast<rt::CollectiveOp>(op)) {
      addCollective(collective, bytes, sum);
    } else if (auto call = dyn_cast<rt::CallOp>(op)) {
      auto callee = SymbolTable::lookupNearestSymbolFrom<rt::FuncOp>(
          call, call.getCalleeAttr());
      for (auto &[exchange, amount] :
           callee ? CollectiveAmounts(of(callee)) : CollectiveAmounts())
        sum[exchange].add(amount);
    }
  });
  return counted[function.getSymName()] = std::move(sum);
}

void CollectiveCounter::addCollective(rt::CollectiveOp op,
                                      const rt::BufferBytes &bytes,
                                      CollectiveAmounts &sum) {
  int64_t over = op.getOver();
  if (over == 1) // a copy
    return;
  rt::DType type =
      *dtypeOf(cast<rt::BufferType>(op.getIn().getType()).getElementType());
  nn::DimExpr block = op.getBlock();
  // A chunk of 0 has no elements in any row.
  nn::DimExpr rows(1);
  if (op.getChunk())
    rows = block.exactDiv(*op.getChunk()).value_or(rows);
  auto most = [&](const nn::DimExpr &size) {
    return bytes.getMax(size).value_or(0);
  };
  CollectiveAmount amount;
  amount.kind = op.getKind();
  amount.type = type;
  amount.calls = 1;
  amount.elements = op.getForm().scatters ? block * nn::DimExpr(over) : block;
  amount.most = most(amount.elements);
  (op.getStream() == rt::Stream::compute ? amount.packed : amount.beside) =
      rt::packedSides(op.getForm(), size_t(most(block)) * rt::sizeOf(type),
                      over, most(rows) > 1, bool(op.getPitchAttr()))
          .bytes();
  sum[{enumText(amount.kind), enumText(type), over, int64_t(op.getStride())}]
      .add(amount);
}

void CollectiveAmount::add(const CollectiveAmount &other) {
  kind = other.kind;
  type = other.type;
  elements = elements + other.elements;
  calls += other.calls;
  most = std::max(most, other.most);
  packed = std::max(packed, other.packed);
  beside = std::max(beside, other.beside);
}

static LogicalResult addRows(TableWriter &writer, rt::ModuleOp module,
                             const ModuleNames &name,
                             SmallVectorImpl<std::string> &table) {
  CollectiveCounter counter;
  ModuleSymbols symbols = symbolsOf(module);
  for (auto entry : module.getBody().getOps<rt::EntryOp>()) {
    auto callee = SymbolTable::lookupNearestSymbolFrom<rt::FuncOp>(
        entry, entry.getCalleeAttr());
    for (auto &[exchange, amount] : counter.of(callee)) {
      auto sum = writer.terms("kElements", amount.elements, symbols);
      if (!sum)
        return entry.emitOpError(
            "calls a function that exchanges elements of a symbol which is no "
            "rt.symbol of the module");
      auto &[kind, type, over, stride] = exchange;
      rows::CollectiveInfo row;
      row.function = name.getFunction(entry.getKind(), entry.getCallee());
      row.kind = kind;
      row.type = type;
      row.over = over;
      row.stride = stride;
      row.calls = amount.calls;
      row.elements = *sum;
      row.most = amount.most;
      if (amount.packed)
        row.packed = amount.packed;
      if (amount.beside)
        row.beside = amount.beside;
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

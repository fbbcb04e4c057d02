//===- Tables.cpp - what the program's tables are written with --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/Tables.h"

#include "llvm/ADT/StringExtras.h"

#include <numeric>

using namespace mlir;

namespace dt::codegen {

TableWriter::TableWriter(rt::ProgramOp program, ArrayRef<ModuleNames> names,
                         const Target &target, OpBuilder &builder)
    : program(program), names(names), target(target), builder(builder) {
  scope.reserve("kProgram");
  for (auto module : program.getBody().getOps<rt::ModuleOp>())
    modules.insert({module.getSymName(), int64_t(modules.size())});
  for (auto loss : program.getBody().getOps<rt::LossOp>())
    losses.insert({loss.getSymName(), int64_t(losses.size())});
}

std::string TableWriter::array(StringRef type, StringRef name,
                               ArrayRef<std::string> rows) {
  if (rows.empty())
    return "{}";
  std::string unique = scope.unique(name);
  std::string value = cpp::table(SmallVector<cpp::Code>(rows));
  written += unique + value;
  auto element = emitc::OpaqueType::get(builder.getContext(), type);
  emitc::GlobalOp::create(
      builder, program.getLoc(), builder.getStringAttr(unique),
      TypeAttr::get(emitc::ArrayType::get({int64_t(rows.size())}, element)),
      emitc::OpaqueAttr::get(builder.getContext(), value), UnitAttr(),
      builder.getUnitAttr(), builder.getUnitAttr());
  return unique;
}

std::string TableWriter::shared(StringRef type, StringRef name,
                                ArrayRef<std::string> rows) {
  std::string &table = known[(type + llvm::join(rows, ",")).str()];
  if (table.empty())
    table = array(type, name, rows);
  return table;
}

std::string extentText(const nn::DimExpr &dim, const ModuleSymbols &symbols) {
  auto extent = symbols.extentOf(dim);
  rows::Extent row;
  row.scale = extent.scale;
  row.symbol = extent.symbol;
  row.offset = extent.offset;
  if (extent.per > 1)
    row.per = extent.per;
  return listText(row);
}

std::optional<std::string> TableWriter::terms(StringRef label,
                                              const nn::DimExpr &sum,
                                              const ModuleSymbols &symbols) {
  SmallVector<std::string> terms;
  for (const nn::DimExpr::Term &term : sum.terms()) {
    SmallVector<int64_t> indices;
    int64_t per = 1;
    for (const std::string &symbol : term.symbols) {
      indices.push_back(symbols.find(symbol));
      if (indices.back() < 0)
        return std::nullopt;
      per *= symbols.multiples[size_t(indices.back())];
    }
    rows::SizeTerm row;
    row.factor = term.coefficient;
    if (per > 1)
      row.per = per;
    row.symbols = shared("int32_t", "kNumbers", numberTexts(indices));
    terms.push_back(listText(row));
  }
  return shared<rows::SizeTerm>(label, terms);
}

std::string TableWriter::tensor(StringRef label, Type type,
                                const ModuleSymbols &symbols) {
  auto buffer = cast<rt::BufferType>(type);
  nn::Shape shape = buffer.getShape();
  SmallVector<std::string> extents;
  for (const nn::DimExpr &dim : shape)
    extents.push_back(extentText(dim, symbols));
  rows::TensorInfo row;
  row.name = quoted(label);
  row.type = enumText(dtypeOf(buffer.getElementType()));
  row.rank = extents.size();
  row.shape =
      extents.empty()
          ? "nullptr"
          : shared<rows::Extent>(snake("kShape", shapeText(shape)), extents);
  return listText(row);
}

std::string TableWriter::buffer(StringRef label, rt::BufferDeclOp decl,
                                const ModuleSymbols &symbols) {
  rows::BufferInfo row;
  row.tensor = tensor(label, decl.getType(), symbols);
  row.offset = decl.getOffset();
  row.slotStride = decl.getStride();
  if (decl.getSlots() != rt::SlotKind::Whole)
    row.slots = decl.getSlots();
  if (decl.getUnjoined())
    row.unjoined = true;
  if (auto layout = decl.getLayout()) {
    SmallVector<int64_t> numbers(layout->getUnpadded());
    llvm::replace(numbers, ShapedType::kDynamic, int64_t(-1));
    if (!numbers.empty())
      row.unpadded =
          shared("int64_t", snake("kUnpadded", label), numberTexts(numbers));
    if (!layout->getCuts().empty())
      row.cuts = cuts(snake("kCuts", label), layout->getCuts());
  }
  return listText(row);
}

std::string TableWriter::cuts(StringRef name, ArrayRef<dist::CutAttr> values) {
  SmallVector<std::string> list;
  for (dist::CutAttr cut : values) {
    rows::CutInfo row;
    row.dim = cut.getDim();
    row.chunk = cut.getChunk();
    row.over = cut.getOver();
    row.stride = cut.getStride();
    list.push_back(listText(row));
  }
  return shared<rows::CutInfo>(name, list);
}

int64_t TableWriter::moduleIndex(StringRef name) const {
  auto it = modules.find(name);
  return it == modules.end() ? -1 : it->second;
}

ModuleSymbols symbolsOf(rt::ModuleOp module) {
  ModuleSymbols result;
  for (auto symbol : module.getBody().getOps<rt::SymbolOp>()) {
    result.names.push_back(symbol.getSymName().str());
    result.multiples.push_back(int64_t(symbol.getMultiple()));
  }
  return result;
}

ModuleSymbols::Extent ModuleSymbols::extentOf(const nn::DimExpr &size) const {
  auto affine = size.asAffine().value_or(nn::DimExpr::Affine{0, "", -1});
  if (affine.symbol.empty())
    return {0, -1, affine.offset, 1};
  int64_t symbol = find(affine.symbol),
          multiple = symbol < 0 ? 1 : multiples[size_t(symbol)],
          common = std::gcd(affine.scale, multiple);
  return {affine.scale / common, symbol, affine.offset, multiple / common};
}

int64_t ModuleSymbols::find(StringRef name) const {
  const auto *found = llvm::find(names, name);
  return found == names.end() ? -1 : found - names.begin();
}

SmallVector<std::string> numberTexts(ArrayRef<int64_t> values) {
  return llvm::map_to_vector(values,
                             [](int64_t v) { return std::to_string(v); });
}

} // namespace dt::codegen

//===- Tables.cpp - what the program's tables are written with --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/Tables.h"

#include "llvm/ADT/StringExtras.h"

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

std::string extentText(const nn::DimExpr &dim, ArrayRef<std::string> symbols) {
  auto affine = dim.asAffine().value_or(nn::DimExpr::Affine{0, "", -1});
  bool isNumber = affine.symbol.empty();
  rows::Extent row;
  row.scale = isNumber ? 0 : affine.scale;
  row.symbol =
      isNumber ? -1 : llvm::find(symbols, affine.symbol) - symbols.begin();
  row.offset = affine.offset;
  return listText(row);
}

std::optional<std::string> TableWriter::terms(StringRef label,
                                              const nn::DimExpr &sum,
                                              ArrayRef<std::string> symbols) {
  SmallVector<std::string> terms;
  for (const nn::DimExpr::Term &term : sum.terms()) {
    SmallVector<int64_t> indices;
    for (const std::string &symbol : term.symbols) {
      auto found = llvm::find(symbols, symbol);
      if (found == symbols.end())
        return std::nullopt;
      indices.push_back(found - symbols.begin());
    }
    rows::SizeTerm row;
    row.factor = term.coefficient;
    row.symbols = shared("int32_t", "kNumbers", numberTexts(indices));
    terms.push_back(listText(row));
  }
  return shared<rows::SizeTerm>(label, terms);
}

std::string TableWriter::tensor(StringRef label, Type type,
                                ArrayRef<std::string> symbols) {
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
                                ArrayRef<std::string> symbols) {
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

SmallVector<std::string> symbolsOf(rt::ModuleOp module) {
  SmallVector<std::string> result;
  for (auto symbol : module.getBody().getOps<rt::SymbolOp>())
    result.push_back(symbol.getSymName().str());
  return result;
}

SmallVector<std::string> numberTexts(ArrayRef<int64_t> values) {
  return llvm::map_to_vector(values,
                             [](int64_t v) { return std::to_string(v); });
}

} // namespace dt::codegen

//===- Tables.h - the emitted program's tables ------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Tables are aggregates of runtime/Program.h, made as text by Rows.h, as opaque
// initial values of emitc.global: EmitC has no attribute for structs.
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_COMMON_TABLES_H
#define CODEGEN_COMMON_TABLES_H

#include "codegen/common/ModuleEmitter.h"
#include "codegen/common/Rows.h"

namespace dt::codegen {

/// The symbols of a module in the order of its table, and what the sum that
/// each of them counts is a multiple of (nn.dim).
struct ModuleSymbols {
  llvm::SmallVector<std::string> names;
  llvm::SmallVector<int64_t> multiples;
  int64_t find(llvm::StringRef name) const; ///< -1: there is none
  /// The numbers of an Extent, of a size that is affine in one of the symbols.
  struct Extent {
    int64_t scale, symbol, offset, per;
  };
  Extent extentOf(const nn::DimExpr &size) const;
};

/// What all tables are written with: constant arrays, and the index of each
/// thing in its table.
class TableWriter {
public:
  TableWriter(rt::ProgramOp program, llvm::ArrayRef<ModuleNames> names,
              const Target &target, mlir::OpBuilder &builder);

  /// `static const type name[] = {rows}`; gives what refers to it in a Span.
  std::string array(llvm::StringRef type, llvm::StringRef name,
                    llvm::ArrayRef<std::string> rows);
  template <typename Row>
  std::string array(llvm::StringRef name, llvm::ArrayRef<std::string> rows) {
    return array(Row::kType, name, rows);
  }
  /// The same, but equal arrays of a type are one; `name` is the first one's.
  std::string shared(llvm::StringRef type, llvm::StringRef name,
                     llvm::ArrayRef<std::string> rows);
  template <typename Row>
  std::string shared(llvm::StringRef name, llvm::ArrayRef<std::string> rows) {
    return shared(Row::kType, name, rows);
  }

  /// An array of SizeTerm; nothing if a symbol is none of `symbols`.
  std::optional<std::string> terms(llvm::StringRef label,
                                   const nn::DimExpr &sum,
                                   const ModuleSymbols &symbols);
  /// A TensorInfo and a BufferInfo; `symbols` are those of the module.
  std::string tensor(llvm::StringRef label, mlir::Type type,
                     const ModuleSymbols &symbols);
  std::string buffer(llvm::StringRef label, rt::BufferDeclOp decl,
                     const ModuleSymbols &symbols);
  /// An array of CutInfo.
  std::string cuts(llvm::StringRef name, llvm::ArrayRef<dist::CutAttr> values);

  /// Index of a module, -1: there is none; of a loss.
  int64_t moduleIndex(llvm::StringRef name) const;
  int64_t lossIndex(llvm::StringRef name) const { return losses.lookup(name); }

  rt::ProgramOp program;
  llvm::ArrayRef<ModuleNames> names; ///< by module
  const Target &target;
  mlir::OpBuilder &builder;
  std::string written; ///< text of all arrays: what the plan hash is over

private:
  NameScope scope;
  llvm::StringMap<std::string> known; ///< type and contents -> array
  llvm::StringMap<int64_t> modules, losses;
};

/// The column of a row of modules (rows:: or rt::ModuleInfo) with the function
/// that rows of the kind run; null: there is none.
template <typename ModuleRow>
auto functionOf(ModuleRow &row, rt::TaskKind kind) -> decltype(&row.forward) {
  switch (kind) {
  case rt::TaskKind::Forward:
    return &row.forward;
  case rt::TaskKind::Backward:
    return &row.backward;
  case rt::TaskKind::BackwardInput:
    return &row.backwardInput;
  case rt::TaskKind::BackwardWeight:
    return &row.backwardWeight;
  default: // denominators are the losses'
    return nullptr;
  }
}

std::string extentText(const nn::DimExpr &dim, const ModuleSymbols &symbols);
ModuleSymbols symbolsOf(rt::ModuleOp module);
llvm::SmallVector<std::string> numberTexts(llvm::ArrayRef<int64_t> values);

// Each writes a table and gives what refers to it.
mlir::FailureOr<std::string> writeParameters(TableWriter &writer);
mlir::FailureOr<std::string> writeModules(TableWriter &writer);
std::string writeEdges(TableWriter &writer);
mlir::FailureOr<std::string> writeLosses(TableWriter &writer);
std::string writeRanks(TableWriter &writer);
mlir::FailureOr<std::string> writeCollectives(TableWriter &writer);

} // namespace dt::codegen

#endif // CODEGEN_COMMON_TABLES_H

//===- Names.h - from names in models to names in C++ -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Emitted programs are read by people, so names of modules, layers and
// parameters survive into the source. The rules are in docs/names.md.
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_COMMON_NAMES_H
#define CODEGEN_COMMON_NAMES_H

#include "dialects/nn/DimExpr.h"
#include "runtime/Enums.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include <optional>
#include <string>

namespace dt::codegen {

/// "layers.0.mlp" -> "layers_0_mlp"; never a keyword, never reserved.
std::string identifier(llvm::StringRef name);
/// "llm.layer.fwd" -> "LlmLayerFwd".
std::string typeIdentifier(llvm::StringRef name);

/// Text of a size as C++: the symbol `s` reads as `prefix` followed by its
/// identifier.
std::string dimText(const nn::DimExpr &dim, llvm::StringRef prefix = "");
/// For comments: "2*40, 64".
std::string shapeText(llvm::ArrayRef<nn::DimExpr> shape);
/// The text in parentheses unless it is one token.
std::string atom(llvm::StringRef text);
/// A case of an enum of runtime/Enums.h: "dt::rt::Reduction::Sum".
template <typename E> std::string enumText(E value) {
  using Table = rt::EnumTable<E>;
  return std::string("dt::rt::") + Table::name +
         "::" + Table::cases[size_t(value)].name;
}
/// Empty if there is none.
template <typename E> std::string enumText(std::optional<E> value) {
  return value ? enumText(*value) : "";
}
/// A C++ string literal with quotes.
std::string quoted(llvm::StringRef text);
/// Anybody's text as it may stand behind `//` or `#`: what could end the line,
/// join the next one or change the order in which it is read becomes '?'.
std::string commentText(llvm::StringRef text);
/// The same for a cell of a Markdown table.
std::string markdownText(llvm::StringRef text);

/// Identifiers of one scope: the first of equal ones keeps its name, later ones
/// get a number.
class NameScope {
public:
  std::string unique(llvm::StringRef wanted);
  /// Takes a name out of circulation.
  void reserve(llvm::StringRef name) { taken.insert(name); }

private:
  llvm::StringSet<> taken;
};

} // namespace dt::codegen

#endif // CODEGEN_COMMON_NAMES_H

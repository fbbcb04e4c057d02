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

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include <string>

namespace dt::codegen {

/// "layers.0.mlp" -> "layers_0_mlp"; never a keyword, never reserved.
std::string identifier(llvm::StringRef name);
/// "llm.layer.fwd" -> "LlmLayerFwd".
std::string typeIdentifier(llvm::StringRef name);

/// "llm", "kernels" -> "llm_kernels"; "Llm", "Sizes" -> "LlmSizes".
std::string snake(llvm::StringRef a, llvm::StringRef b);
std::string camel(llvm::StringRef a, llvm::StringRef b);
/// "llm", "h" -> "llm.h".
std::string dotted(llvm::StringRef a, llvm::StringRef b);
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

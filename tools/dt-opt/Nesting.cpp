//===- Nesting.cpp - A bound on how deep IR text may nest -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Nesting.h"

using namespace llvm;

namespace {
constexpr int64_t kMostDepth = 256;
constexpr StringLiteral kBytecode = "ML\xEFR";
/// Brackets that are open. A `<` that compares has no partner: it goes with the
/// bracket around it.
class Brackets {
public:
  size_t depth() const { return open.size(); }
  void see(char c) {
    if (StringRef("([{<").contains(c)) {
      open.push_back(c);
    } else if (c == '>') {
      if (!open.empty() && open.back() == '<')
        open.pop_back();
    } else if (StringRef(")]}").contains(c)) {
      char partner = c == ')' ? '(' : c == ']' ? '[' : '{';
      while (!open.empty() && open.back() == '<')
        open.pop_back();
      if (!open.empty() && open.back() == partner)
        open.pop_back();
    }
  }

private:
  SmallVector<char> open;
};
} // namespace

Error dt::checkNesting(StringRef text, StringRef path) {
  if (text.starts_with(kBytecode))
    return Error::success();
  Brackets brackets;
  int64_t line = 1, signs = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    // Each sign before an operand is a level too.
    signs = c == '-' ? signs + 1 : c == ' ' || c == '\n' ? signs : 0;
    line += c == '\n';
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        i += text[i] == '\\';
    } else if (c == '/' && text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '-' && text.substr(i, 2) == "->") {
      ++i;
    } else {
      brackets.see(c);
    }
    if (brackets.depth() > size_t(kMostDepth) || signs > kMostDepth)
      return createStringError(path + ":" + Twine(line) +
                               ": nested more than " + Twine(kMostDepth) +
                               " levels deep");
  }
  return Error::success();
}
